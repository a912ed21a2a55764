//! The server's status: what it is doing, for operators, programs and Prometheus.
//!
//! Everything starts with a [`Snapshot`](results::status::Snapshot), taken from a server's [`Sources`].
//! It has the workers' counters, the listeners' accept queues, and the kernel's values for this process
//! and for all listening sockets. `rates` adds how fast the values of the sockets grow. [`text`],
//! [`json`] and [`prometheus`] render a snapshot.
//!
//! Crate `results` names the values, for JSON and its readers. Tables say what the values mean, and what
//! the other formats call them: [`METRICS`](crate::counters::METRICS) for workers,
//! [`POOL_METRICS`](crate::counters::POOL_METRICS) for pools of applications and
//! [`SYSTEM`](system::SYSTEM) for the rest. A thread of [`Endpoint`] serves all three formats over HTTP.
//! [`client`] fetches them for `sluice status`. The schema is documented in `docs/status.md`.

pub mod client;
mod endpoint;
mod exposition;
mod hosts;
mod html;
pub mod json;
pub mod prometheus;
mod rates;
mod snapshot;
mod stream;
pub mod system;
pub mod text;

pub use endpoint::{BindError, Endpoint, Serving};
pub use exposition::Exposition;
pub use hosts::Hosts;
pub(crate) use snapshot::sum;
pub use snapshot::{ListenerSource, Sources, WorkerSource};

#[cfg(test)]
pub(crate) mod tests;
