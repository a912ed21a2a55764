//! The progress of a run: a line that changes on a terminal, otherwise a new line every few seconds.

use std::time::{Duration, Instant};

use lab::progress::Display;
use load::engine::Progress;
use load::schedule::Schedule;

/// When a run ends, as far as that is known beforehand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum End {
    /// After this time.
    After(Duration),
    /// After so many requests.
    Requests(u64),
    /// After so many sessions.
    Sessions(u64),
    Unknown,
}

impl End {
    /// A given time comes before numbers, which may never be reached.
    pub(super) fn of(requests: Option<u64>, sessions: Option<u64>, duration: Option<Duration>) -> Self {
        match (duration, requests, sessions) {
            (Some(duration), ..) => Self::After(duration),
            (None, Some(requests), _) => Self::Requests(requests),
            (None, None, Some(sessions)) => Self::Sessions(sessions),
            (None, None, None) => Self::Unknown,
        }
    }

    fn all(self) -> Option<u64> {
        match self {
            Self::After(duration) => Some(duration.as_millis() as u64),
            Self::Requests(count) | Self::Sessions(count) => Some(count),
            Self::Unknown => None,
        }
    }

    /// How much of all that is done.
    fn done(self, now: &Progress) -> u64 {
        match self {
            Self::After(_) | Self::Unknown => now.elapsed.as_millis() as u64,
            Self::Requests(_) => now.shown.replies + now.shown.errors,
            Self::Sessions(_) => now.arrived.saturating_sub(now.open),
        }
    }

    /// How much is left, in words.
    fn left(self, now: &Progress) -> String {
        let of = |all: u64, what: &str| format!(", {} of {all} {what}", self.done(now).min(all));
        match self {
            Self::After(duration) => {
                format!(", {:.0} s left", duration.saturating_sub(now.elapsed).as_secs_f64())
            }
            Self::Requests(all) => of(all, "requests are over"),
            Self::Sessions(all) => of(all, "sessions are over"),
            Self::Unknown => String::new(),
        }
    }
}

/// Shows the progress of a run.
pub(super) struct Watcher {
    display: Display,
    end: End,
    /// Each with its number of sessions, if that is limited.
    schedules: Vec<(Schedule, Option<u64>)>,
    /// What arrives: sessions, connections or requests.
    unit: String,
    /// The progress that rates are computed from, and when it was.
    before: Option<Progress>,
    since: Instant,
}

/// The shortest time that rates are computed over, although a terminal shows them more often.
const LEAST: Duration = Duration::from_secs(1);

impl Watcher {
    /// For a run with this end and these schedules. `unit` is what arrives.
    pub(super) fn new(end: End, schedules: Vec<(Schedule, Option<u64>)>, unit: &str) -> Self {
        let all = end.all();
        let template = if all.is_some() { "{bar:20} {msg}, {eta} left" } else { "{spinner} {msg}" };
        let (display, unit) = (Display::new(all, template), unit.to_owned());
        Self { display, end, schedules, unit, before: None, since: Instant::now() }
    }

    /// Shows the progress if it is time for that.
    pub(super) fn show(&mut self, now: Progress) {
        if !self.display.is_due() {
            return;
        }
        let before = self.before.clone().unwrap_or_default();
        let seconds = now.elapsed.saturating_sub(before.elapsed).as_secs_f64().max(1e-3);
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        let time = |percent| now.reply_times.percentile_ms_since(&before.reply_times, percent);
        let times = match (time(50.0), time(99.0)) {
            (Some(p50), Some(p99)) => format!("p50 {p50:.2} ms, p99 {p99:.2} ms"),
            _ => "no reply".to_owned(),
        };
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
            "{} {}/s{asked}, {} replies/s, {:.1} Mbps of bodies, {times}, {}, so far {} errors{bad}",
            short(rate(now.arrived, before.arrived)),
            self.unit,
            short(rate(now.shown.replies, before.shown.replies)),
            rate(now.shown.body_bytes, before.shown.body_bytes) * 8.0 / 1e6,
            waiting(&now),
            now.shown.errors
        );
        let over = matches!(self.end, End::After(duration) if now.elapsed >= duration);
        let awaited = if over {
            format!(", waiting for {} requests of the measured time", now.under_way)
        } else {
            String::new()
        };
        let left = if over { awaited.clone() } else { self.end.left(&now) };
        let line = format!("{:.0} s: {message}{left}", now.elapsed.as_secs_f64());
        self.display.show(self.end.done(&now), message + &awaited, &line);
        if self.since.elapsed() >= LEAST {
            self.since = Instant::now();
            self.before = Some(now);
        }
    }

    /// Clears the line.
    pub(super) fn end(self) {
        self.display.end();
    }
}

/// Calls without a reply. They show that a server has stopped, even if its last replies were fast.
fn waiting(now: &Progress) -> String {
    match now.waiting {
        0 => format!("{} open", now.open),
        calls => {
            let longest = now.longest_wait.as_secs_f64();
            format!("{} open, {calls} calls wait, the longest for {longest:.2} s", now.open)
        }
    }
}

/// A rate with few digits. A small rate is not shown as 0.
fn short(rate: f64) -> String {
    match rate {
        0.0 => "0".to_owned(),
        _ if rate < 0.005 => format!("{rate:.1e}"),
        _ if rate < 0.995 => format!("{rate:.2}"),
        _ if rate < 9.95 => format!("{rate:.1}"),
        _ => format!("{rate:.0}"),
    }
}

/// Long work with a known end, counted in bytes.
pub(super) struct Bar {
    display: Display,
    all: u64,
    began: Instant,
}

impl Bar {
    pub(super) fn bytes(all: u64) -> Self {
        let template = "{bar:30} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
        Self { display: Display::new(Some(all), template), all, began: Instant::now() }
    }

    pub(super) fn show(&mut self, done: u64) {
        if !self.display.is_due() {
            return;
        }
        let rate = done as f64 / self.began.elapsed().as_secs_f64();
        let left = (self.all - done) as f64 / rate.max(1.0);
        let (so_far, all) = (done as f64 / 1e6, self.all as f64 / 1e6);
        let line = format!("{so_far:.0} of {all:.0} MB, {:.0} MB/s, {left:.0} s left", rate / 1e6);
        self.display.show(done, String::new(), &line);
    }

    pub(super) fn end(self) {
        self.display.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_told() {
        let mut now = Progress { open: 8, ..Progress::default() };
        assert_eq!(waiting(&now), "8 open");
        (now.waiting, now.longest_wait) = (5, Duration::from_millis(1234));
        assert_eq!(waiting(&now), "8 open, 5 calls wait, the longest for 1.23 s");
    }

    #[test]
    fn the_end_of_a_run_is_a_time_or_a_number() {
        let second = Duration::from_secs(1);
        let mut now = Progress { elapsed: 3 * second, arrived: 9, open: 2, ..Progress::default() };
        (now.shown.replies, now.shown.errors) = (30, 10);
        let told = |requests, sessions, duration| {
            let end = End::of(requests, sessions, duration);
            (end.done(&now), end.all(), end.left(&now))
        };
        assert_eq!(told(Some(50), None, None), (40, Some(50), ", 40 of 50 requests are over".to_owned()));
        assert_eq!(told(None, Some(8), None), (7, Some(8), ", 7 of 8 sessions are over".to_owned()));
        assert_eq!(told(Some(50), None, Some(5 * second)), (3_000, Some(5_000), ", 2 s left".to_owned()));
        assert_eq!(told(None, None, None), (3_000, None, String::new()));
    }

    #[test]
    fn small_rates_are_not_none() {
        let told = [0.0, 0.05, 0.5, 0.999, 1.0, 9.94, 9.96, 1234.5].map(short);
        assert_eq!(told, ["0", "0.05", "0.50", "1.0", "1.0", "9.9", "10", "1234"]);
    }
}
