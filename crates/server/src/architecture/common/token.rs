//! The source of an event: the number that the kernel stores for a descriptor and returns with its events.
//!
//! When a client is gone, another client gets its slot. So the number also holds a generation. An event
//! from before the slot changed hands must not reach the new client.

/// What an event is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::architecture) struct Token {
    pub(in crate::architecture) kind: Kind,
    /// Distinguishes the users of a slot over time; 0 if a slot has only one user.
    pub(in crate::architecture) generation: u16,
    pub(in crate::architecture) index: u32,
}

/// The kind of the descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::architecture) enum Kind {
    Client,
    Listener,
    Supervisor,
    Helpers,
    /// The application's server that handles a client's request. The index is the client's slot.
    Application,
    /// A request that had to wait in a pool's queue may proceed.
    Wakeup,
}

const KINDS: [Kind; 6] =
    [Kind::Client, Kind::Listener, Kind::Supervisor, Kind::Helpers, Kind::Application, Kind::Wakeup];

const KIND_AT: u32 = 48;
const KIND_BITS: u32 = 3;
/// How many successive descriptors with the same token have different names. A ring's names have 56 bits.
const SUCCESSIONS: u64 = 1 << (56 - KIND_AT - KIND_BITS);

impl Token {
    /// For kinds that have only one descriptor.
    pub(in crate::architecture) const fn of(kind: Kind) -> Self {
        Self { kind, generation: 0, index: 0 }
    }

    /// For the kernel: 3 bits for the kind, 16 for the generation, then 32 for the index.
    #[inline]
    pub(in crate::architecture) const fn number(self) -> u64 {
        (self.kind as u64) << KIND_AT | (self.generation as u64) << 32 | self.index as u64
    }

    /// For the kernel, where several descriptors have the same token one after another. `succession`, modulo
    /// 32, tells them apart.
    #[inline]
    pub(in crate::architecture) const fn number_in(self, succession: u8) -> u64 {
        self.number() | (succession as u64 % SUCCESSIONS) << (KIND_AT + KIND_BITS)
    }

    /// From the kernel. `None`: the kernel was never given this number.
    #[inline]
    pub(in crate::architecture) fn from_number(number: u64) -> Option<Self> {
        if number >> (KIND_AT + KIND_BITS) >= SUCCESSIONS {
            return None;
        }
        let kind = *KINDS.get((number >> KIND_AT) as usize % (1 << KIND_BITS))?;
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
            succession in any::<u8>(),
        ) {
            let token = Token { kind, generation, index };
            prop_assert_eq!(Token::from_number(token.number()), Some(token));
            prop_assert_eq!(Token::from_number(token.number_in(succession)), Some(token));
            prop_assert!(token.number_in(succession) < 1 << 56);
        }
    }

    #[test]
    fn other_numbers_are_nobody() {
        assert_eq!(Token::from_number((KINDS.len() as u64) << 48), None);
        assert_eq!(Token::from_number(u64::MAX), None);
    }
}
