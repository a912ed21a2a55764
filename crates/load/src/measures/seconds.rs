//! What happened in each second of a run: how load and replies went over time, and how sure a mean is.
//!
//! Replies that follow one another are not independent: when one is late, the next is, too. So the confidence
//! of a mean is told from means of stretches of the run ("batch means"), which hardly depend on each other if
//! they are long.

use crate::record::{Call, Nanos, Outcome, SessionEnd};

const SECOND: Nanos = 1_000_000_000;
/// Room for a day; what comes later joins the last second.
const MOST_SECONDS: usize = 24 * 3600;

/// Stretches of which means are taken, and Student's t for a 95% interval of so many (29 degrees of freedom).
const STRETCHES: usize = 30;
const STUDENT: f64 = 2.045;

/// One second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Second {
    /// Sessions that arrived.
    pub arrived: u64,
    /// Whole replies that came to their end.
    pub replies: u64,
    /// Calls that the client gave up.
    pub timeouts: u64,
    /// Calls that failed otherwise.
    pub errors: u64,
    /// Bytes of the replies' bodies.
    pub bytes: u64,
    /// Times of the replies, from issue to the last byte, added up.
    pub reply_time: Nanos,
}

/// Each second of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seconds {
    seconds: Vec<Second>,
    used: usize,
}

/// How sure a mean is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Confidence {
    /// The mean of the stretches' means, in milliseconds.
    pub mean_ms: f64,
    /// Half the width of its 95% confidence interval, in milliseconds.
    pub error_ms: f64,
}

impl Seconds {
    pub(super) fn new() -> Self {
        Self { seconds: vec![Second::default(); MOST_SECONDS], used: 0 }
    }

    /// The seconds since the run began, up to the last one in which something ended.
    pub fn each(&self) -> &[Second] {
        &self.seconds[..self.used]
    }

    /// How sure the mean reply time is; `None` if there are too few seconds with replies to tell.
    pub fn confidence(&self) -> Option<Confidence> {
        let answered: Vec<&Second> = self.each().iter().filter(|second| second.replies > 0).collect();
        if answered.len() < STRETCHES {
            return None;
        }
        let mut means = super::Moments::default();
        for number in 0..STRETCHES {
            let bound = |number: usize| number * answered.len() / STRETCHES;
            let stretch = &answered[bound(number)..bound(number + 1)];
            let time: u64 = stretch.iter().map(|second| second.reply_time).sum();
            let replies: u64 = stretch.iter().map(|second| second.replies).sum();
            means.add(time as f64 / replies as f64 / 1e6);
        }
        let error_ms = STUDENT * means.deviation() / (STRETCHES as f64).sqrt();
        Some(Confidence { mean_ms: means.mean(), error_ms })
    }

    pub(super) fn call(&mut self, call: &Call) {
        let second = self.at(call.ended);
        match call.outcome {
            Outcome::Reply => {
                second.replies += 1;
                second.bytes += call.body_bytes;
                second.reply_time += call.ended.saturating_sub(call.issued);
            }
            outcome if outcome.is_timeout() => second.timeouts += 1,
            outcome if outcome.is_error() => second.errors += 1,
            _ => {}
        }
    }

    pub(super) fn session(&mut self, session: &SessionEnd) {
        self.at(session.intended).arrived += 1;
    }

    fn at(&mut self, time: Nanos) -> &mut Second {
        let number = ((time / SECOND) as usize).min(MOST_SECONDS - 1);
        self.used = self.used.max(number + 1);
        &mut self.seconds[number]
    }

    pub(super) fn take_in(&mut self, other: &Self) {
        for (mine, theirs) in self.seconds.iter_mut().zip(other.each()) {
            mine.arrived += theirs.arrived;
            mine.replies += theirs.replies;
            mine.timeouts += theirs.timeouts;
            mine.errors += theirs.errors;
            mine.bytes += theirs.bytes;
            mine.reply_time += theirs.reply_time;
        }
        self.used = self.used.max(other.used);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::call;
    use super::*;

    #[test]
    fn calls_belong_to_the_second_in_which_they_end() {
        let mut seconds = Seconds::new();
        seconds.call(&call(Outcome::Reply, SECOND - 1, SECOND + 1_000_000));
        seconds.call(&call(Outcome::ReplyTimeout, 0, SECOND));
        seconds.call(&call(Outcome::Refused, 0, 5));
        seconds.call(&call(Outcome::Unfinished, 0, 5));
        let mut all = Seconds::new();
        all.take_in(&seconds);
        all.take_in(&seconds);
        let first = Second { errors: 2, ..Second::default() };
        let next =
            Second { replies: 2, timeouts: 2, bytes: 2000, reply_time: 2_000_002, ..Second::default() };
        assert_eq!(all.each(), [first, next]);
        assert_eq!(all.confidence(), None);
    }

    #[test]
    fn a_mean_is_as_sure_as_its_stretches_agree() {
        let mut seconds = Seconds::new();
        // Sixty seconds of a reply each, of 1 ms and 3 ms in turn: the means of all stretches of two are 2
        // ms.
        for number in 0..60 {
            let took = if number % 2 == 0 { 1_000_000 } else { 3_000_000 };
            let ended = number * SECOND + SECOND / 2;
            seconds.call(&call(Outcome::Reply, ended - took, ended));
        }
        let confidence = seconds.confidence().unwrap();
        assert!((confidence.mean_ms - 2.0).abs() < 1e-9 && confidence.error_ms < 1e-9, "{confidence:?}");

        // Half of the stretches at 1 ms, half at 3 ms: the deviation is sqrt(30/29) ms.
        let mut halves = Seconds::new();
        for number in 0..60 {
            let took = if number < 30 { 1_000_000 } else { 3_000_000 };
            let ended = number * SECOND + SECOND / 2;
            halves.call(&call(Outcome::Reply, ended - took, ended));
        }
        let error = 2.045 * (30.0_f64 / 29.0).sqrt() / 30.0_f64.sqrt();
        let found = halves.confidence().unwrap();
        assert!((found.mean_ms - 2.0).abs() < 1e-9 && (found.error_ms - error).abs() < 1e-9, "{found:?}");
    }
}
