//! Looks for settings: experiments after each other, each of what was best in the one before ([`tune`]).

pub mod tune;
