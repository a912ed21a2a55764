//! What trials say: [`series`] of them, [`verdict`]s, whether what others have found is [`holding`] here, and
//! whether servers were [`steady`].

pub mod holding;
pub mod series;
pub mod steady;
pub mod verdict;
