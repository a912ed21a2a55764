//! The load generator: plays sessions, a closed loop or an open loop against web servers, and measures what
//! they do.
//!
//! Its load is *partially open*, as httperf's is: sessions arrive at a set rate whatever the server does,
//! requests inside a session follow replies and thinking, and every request has a timeout after which the
//! client gives up.
//!
//! A [`Run`](run::Run) says what is asked; [`start`](engine::start) has [threads](worker) play it, each with
//! sessions of its own over connections of their own, and [measures] make something of what each call,
//! connection and session came to ([`record`]). [Reports](report) are functions of the measures and of the
//! facts of the run.

mod arrivals;
mod connection;
pub mod doctor;
pub mod engine;
mod kit;
pub mod measures;
pub mod output;
pub mod preflight;
mod queue;
mod received;
pub mod record;
pub mod report;
mod request;
pub mod run;
pub mod schedule;
mod session;
mod timers;
pub mod tls;
mod verify;
mod worker;

pub use verify::NoFile;
