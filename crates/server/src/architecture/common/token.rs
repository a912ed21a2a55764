//! What an event is about: the number that the kernel keeps for a descriptor and tells with its events.
//!
//! A place is given to another client when its client is gone. So the number holds the generation as well: an
//! event that was told before the place changed hands must not reach the stranger who has it now.

/// Whom an event is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::architecture) struct Token {
    pub(in crate::architecture) kind: Kind,
    /// Tells apart those who have had the place; 0 where nobody follows.
    pub(in crate::architecture) generation: u16,
    pub(in crate::architecture) index: u32,
}

/// What kind of descriptor it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::architecture) enum Kind {
    Client,
    Listener,
    Supervisor,
    Helpers,
    /// The application's server that a client's request is with, told by the client's place.
    Application,
    /// A request goes that had to wait in a pool's queue.
    Bell,
}

const KINDS: [Kind; 6] =
    [Kind::Client, Kind::Listener, Kind::Supervisor, Kind::Helpers, Kind::Application, Kind::Bell];

impl Token {
    /// The only one of its kind.
    pub(in crate::architecture) const fn of(kind: Kind) -> Self {
        Self { kind, generation: 0, index: 0 }
    }

    /// For the kernel: 16 bits each for kind and generation, then 32 for the index.
    #[inline]
    pub(in crate::architecture) const fn number(self) -> u64 {
        (self.kind as u64) << 48 | (self.generation as u64) << 32 | self.index as u64
    }

    /// From the kernel. `None`: it is no number that was given to it.
    #[inline]
    pub(in crate::architecture) fn from_number(number: u64) -> Option<Self> {
        let kind = *KINDS.get((number >> 48) as usize)?;
        Some(Self { kind, generation: (number >> 32) as u16, index: number as u32 })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn comes_back_as_it_went(
            kind in prop::sample::select(&KINDS[..]),
            generation in any::<u16>(),
            index in any::<u32>(),
        ) {
            let token = Token { kind, generation, index };
            prop_assert_eq!(Token::from_number(token.number()), Some(token));
        }
    }

    #[test]
    fn other_numbers_are_nobody() {
        assert_eq!(Token::from_number((KINDS.len() as u64) << 48), None);
        assert_eq!(Token::from_number(u64::MAX), None);
    }
}
