//! The locks of the stages. `tests/models.rs` has others in their place, with which it goes through the
//! orders in which threads can come.

pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
