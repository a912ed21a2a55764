//! What every architecture needs, however it runs connections: listeners in use, an end in good order, and
//! names for what events are about.

pub(super) mod doors;
pub(super) mod ending;
pub(super) mod token;
