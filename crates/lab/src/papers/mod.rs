//! Checks the findings of five papers about web servers: `sluicelab papers`.
//!
//! The [`catalogue`] has a row for each table and figure, and names the experiment that checks it. An
//! experiment's [`kept`] journal gives the results for its rows, [`measured`]. They determine a row's
//! [`verdict`]. There are several outputs: a list ([`text`]) or a single row ([`show`]) with a `picture` on
//! a terminal, a [`page`] in a browser, and a [`document`]. A [`quick`] run shows a row's shape without all
//! that.

pub mod catalogue;
pub mod document;
pub mod kept;
pub mod measured;
pub mod page;
mod picture;
pub mod quick;
pub mod show;
#[cfg(test)]
mod tests;
pub mod text;
pub mod verdict;
