//! What five papers have found about web servers, and whether it is so here: `sluicelab papers`.
//!
//! The [`catalogue`] has a row for each table and figure, and names the experiment that checks it. What an
//! experiment's [`kept`] journal says of the rows is [`measured`]. A row's [`verdict`] follows from that. It
//! is told on a terminal, as a list ([`text`]) or alone ([`show`]) with a `picture`; in a browser ([`page`]),
//! and as a [`document`]. A [`quick`] run shows a row's shape without any of that.

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
