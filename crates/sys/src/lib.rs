//! System calls: every `unsafe` block and raw call of the project, behind safe and thin types.
//!
//! Descriptors are [`OwnedFd`](std::os::fd::OwnedFd) and [`BorrowedFd`](std::os::fd::BorrowedFd), errors are
//! [`std::io::Error`] with the number that the kernel gave. There is one call per function where that is
//! possible, no policy (what to do about an error is the caller's decision) and nothing that knows HTTP. Each
//! public item names the manual page that describes it.
//!
//! | what for | modules |
//! |---|---|
//! | waiting for events | [`event`], and its three mechanisms [`epoll`], [`poll`], [`select`]; [`wake`] |
//! | sockets | [`socket`], [`client`], [`inherited`], [`interfaces`] |
//! | what the kernel knows of sockets | [`tcp_info`], [`sock_diag`] |
//! | files | [`mod@file`], [`residency`], [`output`] |
//! | process | [`process`], [`signal`], [`alarm`] |
//! | processes together | [`shared`], [`lock`], [`descriptors`], [`memory_file`] |
//! | time | [`clock`] |

pub mod alarm;
pub mod allocator;
pub mod client;
pub mod clock;
pub mod descriptors;
pub mod epoll;
pub mod event;
pub mod features;
pub mod file;
pub mod inherited;
pub mod interfaces;
pub mod lock;
pub mod memory_file;
pub mod output;
#[cfg(test)]
mod own_process;
pub mod pages;
pub mod poll;
pub mod process;
pub mod residency;
pub mod select;
pub mod shared;
pub mod signal;
pub mod sock_diag;
pub mod socket;
pub mod tcp_info;
pub mod wake;
