//! Workloads: the file sets that servers serve, and the sessions that clients play against them.
//!
//! Everything is made from a seed and comes out the same on every machine. Nothing here opens a socket:
//! the load generator plays what this crate writes, and so does httperf.
//!
//! A [`FileSet`](fileset::FileSet) says which files there are, each a [file](mod@file); [`writer`] puts them
//! on a disk, with a [`manifest`] that says what they are. Sessions are drawn for a set ([`specweb99`],
//! [`support`], [`dynamic`], [`simple`]) or taken from an access log ([`replay`], [`access_log`]), checked
//! against what was asked for ([`check`]), and written as httperf's session files ([`wsesslog`]). Single
//! requests may be for a list of paths ([`urls`]). What may be sent of them is said by [`target`], [`fields`]
//! and [`session::Method`]. What the pages of Support ask a back end is answered by [`besim`].

pub mod access_log;
pub mod besim;
pub mod check;
pub mod dynamic;
pub mod fields;
pub mod file;
pub mod fileset;
pub mod manifest;
pub mod offtimes;
pub mod replay;
pub mod session;
pub mod simple;
pub mod specweb99;
pub mod support;
pub mod target;
pub mod urls;
pub mod writer;
pub mod wsesslog;
