//! What trials say: [`series`] of them, [`verdict`]s, and whether servers were [`steady`].

pub mod series;
pub mod steady;
pub mod verdict;
