//! The locks of the stages, and what is told under them. `tests/models.rs` has other locks in their place,
//! with which it goes through the orders in which threads can come.

pub(super) use crate::counters::Counter;
pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
