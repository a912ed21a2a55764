//! A run as it goes on: a line that changes on a terminal, a line every few seconds elsewhere.

use std::io::{IsTerminal as _, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use load::engine::Progress;
use load::schedule::Schedule;

use super::tell;

/// Who watches a run.
pub(super) struct Watcher {
    bar: Option<ProgressBar>,
    /// Of the run, if it is known.
    duration: Option<Duration>,
    /// With the most sessions that there are, if not endless.
    schedules: Vec<(Schedule, Option<u64>)>,
    before: Option<Progress>,
    said: Instant,
}

/// How often a line is said where there is no terminal.
const EVERY: Duration = Duration::from_secs(5);

impl Watcher {
    /// Of a run that takes so long, with those schedules of so many sessions at most.
    pub(super) fn new(duration: Option<Duration>, schedules: Vec<(Schedule, Option<u64>)>) -> Self {
        let bar = stderr().is_terminal().then(|| match duration {
            Some(duration) => {
                ProgressBar::new(duration.as_millis() as u64).with_style(style("{bar:20} {msg}, {eta} left"))
            }
            None => ProgressBar::new_spinner().with_style(style("{spinner} {msg}")),
        });
        Self { bar, duration, schedules, before: None, said: Instant::now() }
    }

    /// Shows how far it is.
    pub(super) fn show(&mut self, now: Progress) {
        if self.bar.is_none() && self.said.elapsed() < EVERY {
            return;
        }
        let before = self.before.clone().unwrap_or_default();
        let seconds = now.elapsed.saturating_sub(before.elapsed).as_secs_f64().max(1e-3);
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        let time = |percent| now.reply_times.percentile_ms_since(&before.reply_times, percent).unwrap_or(0.0);
        let due_by = |time: Duration| -> f64 {
            let most = |count: Option<u64>| count.map_or(f64::MAX, |count| count as f64);
            self.schedules.iter().map(|(schedule, count)| schedule.due_by(time).min(most(*count))).sum()
        };
        let asked = if self.schedules.is_empty() {
            String::new()
        } else {
            format!(" of {} asked", short((due_by(now.elapsed) - due_by(before.elapsed)) / seconds))
        };
        let bad = match now.shown.bad_statuses {
            0 => String::new(),
            bad => format!(" and {bad} replies of 4xx or 5xx"),
        };
        let message = format!(
            "{} sessions/s{asked}, {} replies/s, {:.1} Mbps of bodies, p50 {:.2} ms, p99 {:.2} ms, {} \
             open, so far {} errors{bad}",
            short(rate(now.arrived, before.arrived)),
            short(rate(now.shown.replies, before.shown.replies)),
            rate(now.shown.body_bytes, before.shown.body_bytes) * 8.0 / 1e6,
            time(50.0),
            time(99.0),
            now.open,
            now.shown.errors
        );
        let over = self.duration.is_some_and(|duration| now.elapsed >= duration);
        let awaited = if over {
            format!(", waiting for {} requests of the measured time", now.under_way)
        } else {
            String::new()
        };
        if let Some(bar) = &self.bar {
            bar.set_position(now.elapsed.as_millis() as u64);
            bar.set_message(message + &awaited);
        } else {
            let left = match self.duration {
                Some(duration) if !over => {
                    format!(", {:.0} s left", duration.saturating_sub(now.elapsed).as_secs_f64())
                }
                _ => awaited,
            };
            tell(&format!("{:.0} s: {message}{left}", now.elapsed.as_secs_f64()));
        }
        // On a terminal rates are over the last seconds as well, not over a blink.
        if self.said.elapsed() >= EVERY / 5 {
            self.said = Instant::now();
            self.before = Some(now);
        }
    }

    /// Clears the line.
    pub(super) fn end(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A rate without a digit too many, and without a small one being none.
fn short(rate: f64) -> String {
    match rate {
        0.0 => "0".to_owned(),
        _ if rate < 0.005 => format!("{rate:.1e}"),
        _ if rate < 0.995 => format!("{rate:.2}"),
        _ if rate < 9.95 => format!("{rate:.1}"),
        _ => format!("{rate:.0}"),
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Long work with a known end, counted in bytes.
pub(super) struct Bar {
    shown: Option<ProgressBar>,
    all: u64,
    began: Instant,
    said: Instant,
}

impl Bar {
    pub(super) fn bytes(all: u64) -> Self {
        let template = "{bar:30} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
        let shown = stderr().is_terminal().then(|| ProgressBar::new(all).with_style(style(template)));
        Self { shown, all, began: Instant::now(), said: Instant::now() }
    }

    pub(super) fn show(&mut self, done: u64) {
        if let Some(bar) = &self.shown {
            bar.set_position(done);
        } else if self.said.elapsed() >= EVERY {
            self.said = Instant::now();
            let rate = done as f64 / self.began.elapsed().as_secs_f64();
            let left = (self.all - done) as f64 / rate.max(1.0);
            let (done, all) = (done as f64 / 1e6, self.all as f64 / 1e6);
            tell(&format!("{done:.0} of {all:.0} MB, {:.0} MB/s, {left:.0} s left", rate / 1e6));
        }
    }

    pub(super) fn end(self) {
        if let Some(bar) = self.shown {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_rates_are_not_none() {
        let told = [0.0, 0.05, 0.5, 0.999, 1.0, 9.94, 9.96, 1234.5].map(short);
        assert_eq!(told, ["0", "0.05", "0.50", "1.0", "1.0", "9.9", "10", "1234"]);
    }
}
