//! The locks of the stages, and the gauge that is written under them. `tests/models.rs` replaces the locks
//! with others, which try the orders in which threads can run.

pub(super) use crate::counters::Counter;
pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
