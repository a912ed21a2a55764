//! Shows the progress of long work: a bar with the remaining time on a terminal, plain lines elsewhere.

use std::cell::Cell;
use std::io::{Write as _, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// How often a line reports progress where there is no terminal.
const EVERY: Duration = Duration::from_secs(5);

/// Shows progress on standard error: as a bar on a terminal, and as lines elsewhere.
#[derive(Debug)]
pub struct Display {
    /// Hidden where there is no terminal.
    bar: ProgressBar,
    /// When the last line was printed.
    said: Instant,
}

impl Display {
    /// For this total amount of work, if it is known. The template is in the syntax of [`indicatif`].
    pub fn new(all: Option<u64>, template: &str) -> Self {
        let bar = all.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        Self { bar: bar.with_style(style), said: Instant::now() }
    }

    /// Whether an update is due: a bar always takes one, lines only every few seconds.
    pub fn is_due(&self) -> bool {
        self.has_bar() || self.said.elapsed() >= EVERY
    }

    /// Reports that this much is done. A bar moves and shows the message; without a bar, the line is
    /// printed.
    pub fn show(&mut self, done: u64, message: String, line: &str) {
        self.said = Instant::now();
        if self.has_bar() {
            self.bar.set_position(done);
            self.bar.set_message(message);
        } else {
            self.remark(line);
        }
    }

    /// Prints a line, above the bar if there is one.
    pub(crate) fn remark(&self, line: &str) {
        if self.has_bar() {
            self.bar.println(line);
        } else {
            // Standard error may be closed.
            drop(stderr().lock().write_all(format!("{line}\n").as_bytes()));
        }
    }

    /// Removes the bar.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }

    fn has_bar(&self) -> bool {
        !self.bar.is_hidden()
    }
}

/// The progress of an experiment.
#[derive(Debug)]
pub struct Progress {
    display: Display,
    /// When the first step that counts began, as far as is known.
    begun: Cell<Instant>,
    /// Steps that were done before this run, or too fast to count.
    skipped: Cell<u64>,
}

impl Progress {
    /// Shows progress on standard error.
    pub fn new() -> Self {
        let display = Display::new(Some(0), "{bar:24} {pos}/{len}, {prefix}  {msg}");
        Self { display, begun: Cell::new(Instant::now()), skipped: Cell::new(0) }
    }

    /// The number of steps done, and the total as far as it is known.
    pub fn counts(&self) -> (u64, u64) {
        let bar = &self.display.bar;
        (bar.position(), bar.length().unwrap_or(0))
    }

    /// Adds this many steps to the total.
    pub(crate) fn expect(&self, steps: usize) {
        if self.counted() == 0 {
            // The preparation before this point does not recur, so it must not count in the estimate.
            self.begun.set(Instant::now());
        }
        self.display.bar.inc_length(steps as u64);
        if self.display.has_bar() {
            self.display.bar.enable_steady_tick(Duration::from_millis(200));
        }
    }

    /// Shows what is being done now.
    pub(crate) fn begin(&self, what: &str) {
        self.display.bar.set_prefix(self.left());
        self.display.bar.set_message(what.to_owned());
    }

    /// Counts this many steps as done before this run.
    pub(crate) fn skip(&self, steps: u64) {
        self.skipped.set(self.skipped.get() + steps);
        self.display.bar.inc(steps);
    }

    /// Counts this many steps as done, with this result.
    pub(crate) fn step(&self, steps: u64, what: &str) {
        let bar = &self.display.bar;
        bar.inc(steps);
        bar.set_prefix(self.left());
        if !self.display.has_bar() {
            let (done, all) = self.counts();
            self.remark(&format!("[{done}/{all}, {}] {what}", self.left()));
        }
    }

    /// Prints a line above the bar.
    pub(crate) fn remark(&self, line: &str) {
        self.display.remark(line);
    }

    /// Removes the bar.
    pub fn end(&self) {
        self.display.end();
    }

    fn counted(&self) -> u64 {
        self.display.bar.position() - self.skipped.get()
    }

    fn left(&self) -> String {
        let steps = self.counted();
        if steps == 0 {
            return "some time left".to_owned();
        }
        let (done, all) = self.counts();
        let to_come = all.saturating_sub(done);
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
    fn a_line_is_said_every_few_seconds() {
        let mut display = Display::new(Some(10), "{pos}");
        assert_eq!(display.is_due(), display.has_bar());
        display.said = Instant::now().checked_sub(EVERY).unwrap();
        assert!(display.is_due());
        display.show(1, String::new(), "1 of 10");
        assert_eq!(display.is_due(), display.has_bar());
    }

    #[test]
    fn time_left_is_told_from_what_was_not_skipped() {
        let progress = Progress::new();
        let a_while_ago = Instant::now().checked_sub(Duration::from_secs(100)).unwrap();
        progress.begun.set(a_while_ago);
        progress.expect(4);
        progress.skip(1);
        assert_eq!(progress.left(), "some time left");
        assert!(progress.begun.get() > a_while_ago, "the clock is set by what is prepared");
        progress.begun.set(a_while_ago);
        progress.step(1, "one");
        assert_eq!(progress.left(), "3:20 left");
        assert_eq!(progress.counts(), (2, 4));
        progress.expect(1);
        assert_eq!(progress.left(), "5:00 left");
    }
}
