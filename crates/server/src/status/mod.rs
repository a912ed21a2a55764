//! What the server is doing, for people, programs and Prometheus.
//!
//! Everything starts with a [`Snapshot`], taken from a server's [`Sources`]: the workers' counters, the
//! listeners' accept queues, and what the kernel tells of this process and of all listening sockets; `rates`
//! adds how fast the latter grows. [`text`], [`json`] and [`prometheus`] render a snapshot; what they call
//! the values is in tables, [`METRICS`](crate::counters::METRICS) for workers,
//! [`POOL_METRICS`](crate::counters::POOL_METRICS) for pools of applications and [`SYSTEM`](system::SYSTEM)
//! for the rest, and nowhere else. [`Endpoint`] serves all three over HTTP from a
//! thread of its own, [`client`] fetches them for `sluice status`. The schema is documented in
//! `docs/status.md`.

pub mod client;
mod endpoint;
mod exposition;
mod hosts;
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
pub use rates::Rates;
pub use snapshot::{
    ListenerSnapshot, ListenerSource, Numbers, PoolSnapshot, Snapshot, Sources, WorkerSnapshot, WorkerSource,
};

#[cfg(test)]
pub(crate) mod tests;
