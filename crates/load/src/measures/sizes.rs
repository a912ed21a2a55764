//! Calls by the size of what they asked for, in `SPECweb99`'s classes: below 1 KB, 10 KB, 100 KB, 1 MB, and
//! above.
//!
//! A call that timed out does not tell how much it asked for, but others for the same did: sizes are learnt
//! from whole replies, from heads of others, or known beforehand, and failures are counted by request until
//! they are put into classes at the end. What is still unknown then is a class, too: a server that never
//! serves a size must not pass for one that does.

use std::collections::BTreeMap;

use workload::session::RequestId;

use super::Times;
use crate::record::{Call, Outcome};

/// A class of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SizeClass {
    /// Below 1 KiB: `SPECweb99`'s class 0.
    Below1K,
    /// Below 10 KiB: class 1.
    Below10K,
    /// Below 100 KiB: class 2.
    Below100K,
    /// Below 1 MiB: class 3.
    Below1M,
    /// 1 MiB and more.
    Larger,
    /// No reply ever told, so that nobody knows.
    Unknown,
}

impl SizeClass {
    /// All classes, smallest first.
    pub const ALL: [Self; 6] =
        [Self::Below1K, Self::Below10K, Self::Below100K, Self::Below1M, Self::Larger, Self::Unknown];

    /// The class of a body.
    pub fn of(bytes: u64) -> Self {
        match bytes {
            0..0x400 => Self::Below1K,
            0x400..0x2800 => Self::Below10K,
            0x2800..0x1_9000 => Self::Below100K,
            0x1_9000..0x10_0000 => Self::Below1M,
            _ => Self::Larger,
        }
    }

    /// For people and programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Below1K => "< 1 KiB",
            Self::Below10K => "< 10 KiB",
            Self::Below100K => "< 100 KiB",
            Self::Below1M => "< 1 MiB",
            Self::Larger => ">= 1 MiB",
            Self::Unknown => "unknown",
        }
    }
}

/// Counts and times by size.
#[derive(Clone, Debug, PartialEq)]
pub struct BySize {
    requests: Vec<OfRequest>,
    times: [Times; SizeClass::ALL.len()],
    bytes: [u64; SizeClass::ALL.len()],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct OfRequest {
    /// Bytes of its body, and one; 0 while nobody knows.
    size: u64,
    /// Bytes are counted by class.
    of: OfClass,
}

/// What became of the calls for one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OfClass {
    /// Calls that ended, one way or the other.
    pub calls: u64,
    /// Whole replies.
    pub replies: u64,
    /// Calls that the client gave up.
    pub timeouts: u64,
    /// Calls that [reached a server](Outcome::reached_server).
    pub reached: u64,
    /// Of these, calls that were [not served](Call::is_unserved).
    pub unserved: u64,
    /// Bytes of bodies of whole replies.
    pub bytes: u64,
}

impl BySize {
    pub(super) fn new(requests: usize) -> Self {
        Self {
            requests: vec![OfRequest::default(); requests],
            times: std::array::from_fn(|_| Times::new()),
            bytes: [0; SizeClass::ALL.len()],
        }
    }

    pub(super) fn know(&mut self, sizes: &[Option<u64>]) {
        for (request, size) in self.requests.iter_mut().zip(sizes) {
            request.learn(*size);
        }
    }

    pub(super) fn take(&mut self, call: &Call) {
        let Some(request) = self.requests.get_mut(call.request as usize) else { return };
        if matches!(call.outcome, Outcome::Unfinished | Outcome::Abandoned) {
            return;
        }
        request.of.calls += 1;
        request.of.reached += u64::from(call.outcome.reached_server());
        request.of.unserved += u64::from(call.is_unserved());
        request.learn(size_by(call));
        match call.outcome {
            Outcome::Reply => {
                request.of.replies += 1;
                let class = request.class() as usize;
                self.times[class].record(call.ended.saturating_sub(call.issued));
                self.bytes[class] += call.body_bytes;
            }
            outcome if outcome.is_timeout() => request.of.timeouts += 1,
            _ => {}
        }
    }

    pub(super) fn take_in(&mut self, other: &Self) {
        self.requests.iter_mut().zip(&other.requests).for_each(|(mine, theirs)| mine.add(theirs));
        self.times.iter_mut().zip(&other.times).for_each(|(mine, theirs)| mine.take_in(theirs));
        super::add_all(&mut self.bytes, &other.bytes);
    }

    /// What became of the calls for a class.
    pub fn of(&self, class: SizeClass) -> OfClass {
        let mut all = OfClass { bytes: self.bytes[class as usize], ..OfClass::default() };
        self.requests
            .iter()
            .filter(|request| request.class() == class)
            .for_each(|request| all.add(&request.of));
        all
    }

    /// What became of the calls for each size that is known, in order of size, with the number of calls for
    /// each.
    pub fn each_size(&self) -> BTreeMap<u64, OfClass> {
        let mut sizes: BTreeMap<u64, OfClass> = BTreeMap::new();
        for request in self.requests.iter().filter(|request| request.size > 0) {
            let size = request.size - 1;
            let of = sizes.entry(size).or_default();
            of.add(&request.of);
            of.bytes += request.of.replies * size;
        }
        sizes
    }

    /// The size of what a request of the log asks for, if anybody knows.
    pub fn size_of(&self, request: RequestId) -> Option<u64> {
        self.requests.get(request as usize)?.size.checked_sub(1)
    }

    /// Times of whole replies of a class, from issue to the last byte.
    pub fn times(&self, class: SizeClass) -> &Times {
        &self.times[class as usize]
    }
}

/// What a call tells of the size of what it asked for. An error's page, and what is not the file, say nothing
/// of it.
fn size_by(call: &Call) -> Option<u64> {
    match call.outcome {
        _ if call.status >= 500 => None,
        Outcome::WrongBytes | Outcome::WrongLength => None,
        Outcome::Reply => Some(call.body_bytes),
        _ => call.promised,
    }
}

impl OfClass {
    fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.replies += other.replies;
        self.timeouts += other.timeouts;
        self.reached += other.reached;
        self.unserved += other.unserved;
        self.bytes += other.bytes;
    }
}

impl OfRequest {
    /// Of several sizes the largest is kept.
    fn learn(&mut self, size: Option<u64>) {
        self.size = self.size.max(size.map_or(0, |size| size + 1));
    }

    /// Takes in other calls for the same.
    fn add(&mut self, other: &Self) {
        self.size = self.size.max(other.size);
        self.of.add(&other.of);
    }

    fn class(&self) -> SizeClass {
        self.size.checked_sub(1).map_or(SizeClass::Unknown, SizeClass::of)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::call;
    use super::*;

    #[test]
    fn timeouts_are_of_the_class_of_what_was_asked_for() {
        let mut sizes = BySize::new(3);
        let of = |request, outcome, body_bytes| Call { request, body_bytes, ..call(outcome, 0, 1_000_000) };
        sizes.take(&of(0, Outcome::ReplyTimeout, 0));
        sizes.take(&of(0, Outcome::Reply, 500));
        sizes.take(&of(1, Outcome::Reply, 1024));
        sizes.take(&of(1, Outcome::ConnectTimeout, 0));
        sizes.take(&of(1, Outcome::Abandoned, 0));
        sizes.take(&of(2, Outcome::ReplyTimeout, 0));
        let counts = |class| {
            let OfClass { calls, replies, timeouts, bytes, .. } = sizes.of(class);
            (calls, replies, timeouts, bytes)
        };
        assert_eq!(counts(SizeClass::Below1K), (2, 1, 1, 500));
        assert_eq!(counts(SizeClass::Below10K), (2, 1, 1, 1024));
        assert_eq!(counts(SizeClass::Unknown), (1, 0, 1, 0));
        assert_eq!(sizes.times(SizeClass::Below1K).count(), 1);
    }

    #[test]
    fn sizes_are_learnt_from_whatever_tells_them() {
        let of = |request, outcome, status, body_bytes, promised| Call {
            request,
            status,
            body_bytes,
            promised,
            ..call(outcome, 0, 1_000_000)
        };
        let mut sizes = BySize::new(5);
        sizes.know(&[Some(100), None, None]);
        sizes.take(&of(0, Outcome::Reset, 0, 0, None));
        sizes.take(&of(1, Outcome::CutShort, 200, 5, Some(200)));
        sizes.take(&of(2, Outcome::ReplyTimeout, 200, 5, None));
        sizes.take(&of(3, Outcome::Reply, 503, 70, Some(70)));
        sizes.take(&of(4, Outcome::Reply, 200, 400, Some(400)));
        sizes.take(&of(4, Outcome::Reply, 503, 70, Some(70)));
        sizes.take(&of(4, Outcome::WrongLength, 200, 500, Some(500)));
        sizes.take(&of(4, Outcome::Refused, 0, 0, None));
        let found: Vec<_> = (0..5).map(|request| sizes.size_of(request)).collect();
        assert_eq!(found, [Some(100), Some(200), None, None, Some(400)]);
        let of = |class| {
            let OfClass { calls, replies, reached, unserved, .. } = sizes.of(class);
            (calls, replies, reached, unserved)
        };
        assert_eq!(of(SizeClass::Below1K), (6, 2, 5, 4));
        assert_eq!(of(SizeClass::Unknown), (2, 1, 2, 2));
    }

    #[test]
    fn classes_are_those_of_specweb99() {
        for (class, unit) in
            [(SizeClass::Below1K, 102.4), (SizeClass::Below10K, 1024.0), (SizeClass::Below100K, 10240.0)]
        {
            for file in 1..=9 {
                assert_eq!(SizeClass::of((unit * f64::from(file)) as u64), class);
            }
        }
        assert_eq!(SizeClass::of(921_600), SizeClass::Below1M);
        assert_eq!(SizeClass::of(4 << 20), SizeClass::Larger);
    }
}
