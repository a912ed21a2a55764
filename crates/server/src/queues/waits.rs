//! What one worker has waiting in queues, and when it looks whether some of that may go.

use http1::Tick;

/// How often to check whether something that waits may go without a wake-up, because a slot became free
/// with time, or because a worker of another generation left it.
const LOOK_TICKS: u32 = 250 / Tick::MS;

/// How much of a worker waits, and whether some may go.
#[derive(Debug)]
pub struct Waits {
    count: usize,
    look_at: Tick,
    some_may_go: bool,
}

impl Default for Waits {
    fn default() -> Self {
        Self { count: 0, look_at: Tick(0), some_may_go: false }
    }
}

impl Waits {
    /// One more waits.
    pub fn begin(&mut self, now: Tick) {
        if self.count == 0 {
            self.look_at = now.after(LOOK_TICKS);
        }
        self.count += 1;
    }

    /// One that has waited waits no more.
    pub fn end(&mut self) {
        self.count -= 1;
    }

    /// Whether any wait.
    #[inline]
    pub fn has_some(&self) -> bool {
        self.count > 0
    }

    /// How many wait.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether the next regular look is due. If so, plans the one after it.
    pub fn look_is_due(&mut self, now: Tick) -> bool {
        let is_due = self.count > 0 && self.look_at.reached(now);
        if is_due {
            self.look_at = now.after(LOOK_TICKS);
        }
        is_due
    }

    /// When the next regular look is due, if any wait.
    pub fn deadline(&self) -> Option<Tick> {
        (self.count > 0).then_some(self.look_at)
    }

    /// Notes that some may go without a wake-up, if `may_go`.
    pub fn some_may_go(&mut self, may_go: bool) {
        self.some_may_go |= may_go;
    }

    /// Whether some may go without a wake-up. Resets that.
    pub fn take_some_may_go(&mut self) -> bool {
        std::mem::take(&mut self.some_may_go)
    }
}
