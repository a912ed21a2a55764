//! The load generator: plays sessions, a closed loop or an open loop against web servers, and measures what they do.
//!
//! Its load is *partially open*, as httperf's is: sessions arrive at a set rate whatever the server does, requests
//! inside a session follow replies and thinking, and every request has a timeout after which the client gives up.

pub mod doctor;
pub mod machine;
pub mod record;
