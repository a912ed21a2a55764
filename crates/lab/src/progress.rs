//! How far long work has come: a bar with the time that is left on a terminal, plain lines elsewhere.

use std::cell::Cell;
use std::io::{IsTerminal as _, Write as _, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Who watches an experiment.
#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
    is_quiet: bool,
    begun: Cell<Instant>,
    all: Cell<usize>,
    done: Cell<usize>,
    /// Done before, or too fast to count.
    skipped: Cell<usize>,
}

impl Progress {
    /// On standard error.
    pub fn new() -> Self {
        let bar = stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{bar:24} {pos}/{len}, {prefix}  {msg}");
            ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Self { bar, ..Self::quiet_about(false) }
    }

    /// One that says nothing.
    #[cfg(test)]
    pub(crate) fn quiet() -> Self {
        Self::quiet_about(true)
    }

    fn quiet_about(is_quiet: bool) -> Self {
        let zero = || Cell::new(0);
        Self {
            bar: None,
            is_quiet,
            begun: Cell::new(Instant::now()),
            all: zero(),
            done: zero(),
            skipped: zero(),
        }
    }

    /// So many more steps are to come.
    pub(crate) fn expect(&self, steps: usize) {
        self.all.set(self.all.get() + steps);
        if let Some(bar) = &self.bar {
            bar.set_length(self.all.get() as u64);
            bar.enable_steady_tick(Duration::from_millis(200));
        }
    }

    /// What is done now.
    pub(crate) fn begin(&self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_prefix(self.left());
            bar.set_message(what.to_owned());
        }
    }

    /// A step was done before.
    pub(crate) fn skip(&self) {
        self.skipped.set(self.skipped.get() + 1);
        self.done.set(self.done.get() + 1);
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    /// A step is done, with this result.
    pub(crate) fn step(&self, what: &str) {
        self.done.set(self.done.get() + 1);
        let line = format!("[{}/{}, {}] {what}", self.done.get(), self.all.get(), self.left());
        match &self.bar {
            Some(bar) => {
                bar.inc(1);
                bar.set_prefix(self.left());
            }
            None => self.remark(&line),
        }
    }

    /// A line beside the bar.
    pub(crate) fn remark(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            // Nobody may hear it.
            None if !self.is_quiet => drop(stderr().lock().write_all(format!("{line}\n").as_bytes())),
            None => {}
        }
    }

    /// Takes the bar away.
    pub(crate) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn left(&self) -> String {
        let steps = self.done.get() - self.skipped.get();
        if steps == 0 {
            return "some time left".to_owned();
        }
        let each = self.begun.get().elapsed() / steps as u32;
        let seconds = (each * self.all.get().saturating_sub(self.done.get()) as u32).as_secs();
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
        let progress = Progress::quiet();
        progress.expect(4);
        progress.skip();
        assert_eq!(progress.left(), "some time left");
        progress.begun.set(Instant::now().checked_sub(Duration::from_secs(100)).unwrap());
        progress.step("one");
        assert_eq!(progress.left(), "3:20 left");
    }
}
