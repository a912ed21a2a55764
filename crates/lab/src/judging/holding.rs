//! Whether what others have found holds here.

use serde::Serialize;

/// What is said of a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Holding {
    /// It is so here.
    Holds,
    /// The direction is the same, and the size is another.
    OtherSize,
    /// It is not so here.
    Contradicted,
    /// Neither can be said; why.
    CannotTell(String),
}

impl Holding {
    /// The same in a word or two.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::OtherSize => "other size",
            Self::Contradicted => "contradicted",
            Self::CannotTell(_) => "cannot tell",
        }
    }
}
