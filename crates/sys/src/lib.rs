//! System calls: all `unsafe` blocks and raw calls of the project, behind safe and thin types.
//!
//! Descriptors are [`OwnedFd`](std::os::fd::OwnedFd) and [`BorrowedFd`](std::os::fd::BorrowedFd). Errors
//! are [`std::io::Error`] with the kernel's number. Each function makes one call where possible. It
//! contains no policy (the caller decides what to do about an error), and nothing here knows HTTP. Each
//! public item names the manual page that describes it.
//!
//! | what for | modules |
//! |---|---|
//! | waiting for events | [`event`], and its three mechanisms [`epoll`], [`poll`], [`select`]; [`wake`] |
//! | operations that the kernel completes | [`ring`] |
//! | sockets | [`socket`], [`client`], [`inherited`], [`interfaces`] |
//! | what the kernel knows of sockets | [`tcp_info`], [`sock_diag`] |
//! | files | [`mod@file`], [`residency`], [`output`] |
//! | process | [`process`], [`signal`], [`alarm`] |
//! | processes together | [`shared`], [`lock`], [`descriptors`], [`memory_file`] |
//! | user-level threads | [`coroutine`], [`stacks`] |
//! | time | [`clock`] |

pub mod alarm;
pub mod allocator;
pub mod client;
pub mod clock;
pub mod confinement;
pub mod coroutine;
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
mod overrun;
#[cfg(test)]
mod own_process;
pub mod pages;
pub mod poll;
pub mod process;
pub mod residency;
pub mod ring;
pub mod select;
pub mod shared;
pub mod signal;
pub mod sock_diag;
pub mod socket;
pub mod stacks;
pub mod tcp_info;
pub mod wake;
