//! How far long work has come: a bar with the time that is left on a terminal, plain lines elsewhere.

use std::cell::Cell;
use std::io::{Write as _, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Who watches an experiment.
#[derive(Debug)]
pub struct Progress {
    /// Nobody sees it where there is no terminal.
    bar: ProgressBar,
    /// When the first step that counts began, as far as is known.
    begun: Cell<Instant>,
    /// Steps that were done before, or too fast to count.
    skipped: Cell<u64>,
}

impl Progress {
    /// On standard error.
    pub fn new() -> Self {
        let style = ProgressStyle::with_template("{bar:24} {pos}/{len}, {prefix}  {msg}");
        let bar = ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { bar, begun: Cell::new(Instant::now()), skipped: Cell::new(0) }
    }

    /// So many more steps are to come.
    pub(crate) fn expect(&self, steps: usize) {
        if self.counted() == 0 {
            // What was prepared until now takes no time again.
            self.begun.set(Instant::now());
        }
        self.bar.inc_length(steps as u64);
        if !self.bar.is_hidden() {
            self.bar.enable_steady_tick(Duration::from_millis(200));
        }
    }

    /// What is done now.
    pub(crate) fn begin(&self, what: &str) {
        self.bar.set_prefix(self.left());
        self.bar.set_message(what.to_owned());
    }

    /// A step was done before.
    pub(crate) fn skip(&self) {
        self.skipped.set(self.skipped.get() + 1);
        self.bar.inc(1);
    }

    /// A step is done, with this result.
    pub(crate) fn step(&self, what: &str) {
        self.bar.inc(1);
        self.bar.set_prefix(self.left());
        if self.bar.is_hidden() {
            let (done, all) = (self.bar.position(), self.bar.length().unwrap_or(0));
            self.remark(&format!("[{done}/{all}, {}] {what}", self.left()));
        }
    }

    /// A line beside the bar.
    pub(crate) fn remark(&self, line: &str) {
        if self.bar.is_hidden() {
            // Nobody may hear it.
            drop(stderr().lock().write_all(format!("{line}\n").as_bytes()));
        } else {
            self.bar.println(line);
        }
    }

    /// Takes the bar away.
    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }

    fn counted(&self) -> u64 {
        self.bar.position() - self.skipped.get()
    }

    fn left(&self) -> String {
        let steps = self.counted();
        if steps == 0 {
            return "some time left".to_owned();
        }
        let to_come = self.bar.length().unwrap_or(0).saturating_sub(self.bar.position());
        let seconds = (self.begun.get().elapsed() / steps as u32 * to_come as u32).as_secs();
        format!("{}:{:02} left", seconds / 60, seconds % 60)
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_is_told_from_what_was_not_skipped() {
        let progress = Progress::new();
        let a_while_ago = Instant::now().checked_sub(Duration::from_secs(100)).unwrap();
        progress.begun.set(a_while_ago);
        progress.expect(4);
        progress.skip();
        assert_eq!(progress.left(), "some time left");
        assert!(progress.begun.get() > a_while_ago, "the clock is set by what is prepared");
        progress.begun.set(a_while_ago);
        progress.step("one");
        assert_eq!(progress.left(), "3:20 left");
        progress.expect(1);
        assert_eq!(progress.left(), "5:00 left");
    }
}
