//! Evaluates trials: [`series`] of them, [`verdict`]s, whether the findings of others hold here
//! ([`holding`]), and whether servers were [`steady`].

pub mod holding;
pub mod series;
pub mod steady;
pub mod verdict;
