//! The connection's time: a small number that the driver reads from its clock once per batch of events.

/// A moment, counted in steps of [`Tick::MS`] milliseconds from an epoch that the driver chooses.
///
/// Ticks wrap after 497 days, so they are compared by distance. Two compared ticks must be less than 248
/// days apart; all timeouts are shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Tick(pub u32);

impl Tick {
    /// Milliseconds per tick. That is fine enough for timeouts, and coarse enough that a timer wheel of a
    /// few hundred slots covers seconds.
    pub const MS: u32 = 10;

    /// The tick that contains a moment `ms` milliseconds after the epoch.
    pub fn from_ms(ms: u64) -> Self {
        Self((ms / u64::from(Self::MS)) as u32)
    }

    /// The tick `ticks` later.
    pub fn after(self, ticks: u32) -> Self {
        Self(self.0.wrapping_add(ticks))
    }

    /// The tick `ticks` earlier.
    pub fn before(self, ticks: u32) -> Self {
        Self(self.0.wrapping_sub(ticks))
    }

    /// Whether `now` is at or after this moment.
    pub fn reached(self, now: Self) -> bool {
        now.0.wrapping_sub(self.0).cast_signed() >= 0
    }

    /// Ticks from `now` until this moment, 0 if it has passed.
    pub fn remaining(self, now: Self) -> u32 {
        self.0.wrapping_sub(now.0).cast_signed().max(0).cast_unsigned()
    }

    /// The earlier of two moments.
    pub fn earlier(self, other: Self) -> Self {
        if self.reached(other) { self } else { other }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparison_survives_the_wrap() {
        let before = Tick(u32::MAX - 5);
        let later = before.after(10);
        assert!(before.reached(later));
        assert!(!later.reached(before));
        assert_eq!(later.remaining(before), 10);
        assert_eq!(later.before(10), before);
        assert_eq!(before.remaining(later), 0);
        assert_eq!(before.earlier(later), before);
        assert_eq!(later.earlier(before), before);
    }
}
