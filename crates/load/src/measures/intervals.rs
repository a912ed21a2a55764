//! Histograms of each second as an HDR interval log, in the form that all of `HdrHistogram`'s readers
//! understand: lines of comments, a legend, then a line for each interval with its histogram in the
//! compressed form (V2, zlib, base64). Its `HistogramLogWriter` is what there is of a specification.
//!
//! Each recorder hands over its histogram of a second when that is over. A thread makes one of all recorders'
//! and writes it at once: should this process be killed, the file has all but the last seconds.

use std::collections::BTreeMap;
use std::io::{self, LineWriter, Write as _};
use std::mem;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, IntervalLogWriterError};

use super::Times;
use crate::output::{Output, Unwritten};
use crate::record::Nanos;

const SECOND: Nanos = 1_000_000_000;

/// A recorder's end.
#[derive(Debug)]
pub struct IntervalLog {
    number: usize,
    second: u64,
    times: Times,
    /// The time that it was told last.
    now: Nanos,
    to_writer: Sender<Part>,
}

/// What one recorder has of a second.
struct Part {
    recorder: usize,
    second: u64,
    times: Times,
    /// When it was handed over, since the run began.
    at: Nanos,
    /// The first second that this recorder may still have something of.
    next: u64,
}

/// The file and the thread that writes it.
#[derive(Debug)]
pub struct IntervalWriter {
    logs: usize,
    thread: JoinHandle<Result<(), Unwritten>>,
    to_writer: Sender<Part>,
}

impl IntervalWriter {
    /// Begins the file of a run of so many recorders, each of which must get a [log](Self::log).
    ///
    /// # Errors
    ///
    /// There is no thread to be had.
    pub fn start(file: Output, began: SystemTime, recorders: usize) -> io::Result<Self> {
        let (to_writer, parts) = channel::<Part>();
        let thread = std::thread::Builder::new().name("intervals".into()).spawn(move || {
            file.begin()?;
            write(&file, began, recorders, parts).map_err(|error| file.unwritten(error))
        })?;
        Ok(Self { logs: 0, thread, to_writer })
    }

    /// A recorder's end.
    pub fn log(&mut self) -> IntervalLog {
        self.logs += 1;
        let to_writer = self.to_writer.clone();
        IntervalLog { number: self.logs - 1, second: 0, times: Times::new(), now: 0, to_writer }
    }

    /// Waits until everything is written. All logs must have been dropped.
    ///
    /// # Errors
    ///
    /// Writing failed; the file ends where it did.
    ///
    /// # Panics
    ///
    /// When the thread that writes did.
    pub fn finish(self) -> Result<(), Unwritten> {
        drop(self.to_writer);
        self.thread.join().expect("the thread that writes intervals panicked")
    }
}

impl IntervalLog {
    /// Takes in the time of a reply that came to its end at `ended`.
    pub(super) fn record(&mut self, ended: Nanos, time: Nanos) {
        if ended / SECOND > self.second {
            self.tick(ended);
        }
        self.times.record(time);
    }

    /// Once a second it allocates, not for each call.
    pub(super) fn tick(&mut self, now: Nanos) {
        self.now = now;
        if now / SECOND > self.second {
            self.hand_over(self.second + 1);
            self.second = now / SECOND;
        }
    }

    fn hand_over(&mut self, next: u64) {
        let times = mem::take(&mut self.times);
        // Fails when the writer has failed, which finishing will tell.
        let _ = self.to_writer.send(Part {
            recorder: self.number,
            second: self.second,
            times,
            at: self.now,
            next,
        });
    }
}

impl Drop for IntervalLog {
    fn drop(&mut self) {
        self.hand_over(u64::MAX);
    }
}

/// Nothing but intervals may come behind it: not all readers take comments there.
const LEGEND: &str =
    "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n";

/// A line is written as a whole: should this process be killed, none is cut. Longer ones than this are not
/// known.
const LONGEST_LINE: usize = 1 << 20;

/// Writes the seconds of all recorders, each when it is complete, until they have handed over their last.
fn write(file: &Output, began: SystemTime, recorders: usize, parts: Receiver<Part>) -> io::Result<()> {
    let (mut lines, mut serializer) =
        (LineWriter::with_capacity(LONGEST_LINE, file), V2DeflateSerializer::new());
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment(
            "reply times in microseconds from the intended start, Interval_Max in milliseconds; by sluicelab",
        )
        .add_comment("[Histogram log format version 1.3]")
        .with_start_time(began)
        .with_base_time(began)
        .with_max_value_divisor(1e3)
        .begin_log_with(&mut lines, &mut serializer)?;
    // The log has only comments before its intervals, which have been written.
    (&mut &*file).write_all(LEGEND.as_bytes())?;
    let mut reached = vec![0; recorders];
    let mut seconds: BTreeMap<u64, (Times, Nanos)> = BTreeMap::new();
    for Part { recorder, second, times, at, next } in parts {
        if times.count() > 0 || next == second + 1 {
            let (sum, end) = seconds.entry(second).or_default();
            sum.take_in(&times);
            *end = at.max(*end);
        }
        reached[recorder] = next;
        let complete = reached.iter().min().copied().unwrap_or(u64::MAX);
        while let Some(first) = seconds.first_entry()
            && *first.key() < complete
        {
            let (second, (times, end)) = first.remove_entry();
            let written = log.write_histogram(
                times.histogram(),
                Duration::from_secs(second),
                length(second, end),
                None,
            );
            match written {
                Ok(()) => {}
                Err(IntervalLogWriterError::IoError(error)) => return Err(error),
                Err(IntervalLogWriterError::SerializeError(error)) => return Err(io::Error::other(error)),
            }
        }
    }
    Ok(())
}

/// Of a second that was over at `end`, or was cut short then by the end of the run.
fn length(second: u64, end: Nanos) -> Duration {
    let length = Duration::from_nanos(end.saturating_sub(second * SECOND));
    length.clamp(Duration::from_millis(1), Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;

    const MS: Nanos = 1_000_000;

    #[test]
    fn what_is_written_can_be_read_second_by_second() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let mut writer = IntervalWriter::start(Output::open(&path).unwrap(), SystemTime::now(), 2).unwrap();
        let (mut one, mut other) = (writer.log(), writer.log());
        for tenth in 1..=25 {
            one.record(tenth * 100 * MS, 2 * MS);
            one.tick(tenth * 100 * MS);
        }
        other.record(50 * MS, 3 * MS);
        // It was held up for longer than a second.
        other.tick(2200 * MS);
        other.record(2300 * MS, 4 * MS);
        other.tick(2500 * MS);
        drop((one, other));
        writer.finish().unwrap();
        let written = fs::read(&path).unwrap();
        let found = IntervalLogIterator::new(&written).filter_map(|entry| match entry.unwrap() {
            LogEntry::Interval(interval) => Some(interval),
            _ => None,
        });
        let found = found.map(|interval| {
            let bytes = STANDARD.decode(interval.encoded_histogram()).unwrap();
            let histogram: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
            let ms = |time: std::time::Duration| time.as_millis();
            (ms(interval.start_timestamp()), ms(interval.duration()), histogram.len(), interval.max())
        });
        // Each in its own second, also where the clock was told later; values from 2048 on have neighbours.
        let expected = [(0, 1000, 10, 3.001), (1000, 1000, 10, 2.0), (2000, 500, 7, 4.001)];
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_second_is_in_the_file_when_all_have_reached_the_next() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let mut writer = IntervalWriter::start(Output::open(&path).unwrap(), SystemTime::now(), 2).unwrap();
        let (mut one, mut other) = (writer.log(), writer.log());
        one.record(500 * MS, MS);
        one.tick(1100 * MS);
        other.tick(1100 * MS);
        while fs::read_to_string(&path).unwrap().lines().count() < 7 {
            std::thread::yield_now();
        }
        drop((one, other));
        writer.finish().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 7, "nothing came after");
    }

    #[test]
    fn a_full_disk_is_told() {
        let full = Output::open(Path::new("/dev/full")).unwrap();
        let mut writer = IntervalWriter::start(full, SystemTime::now(), 1).unwrap();
        let mut log = writer.log();
        (1..5).for_each(|second| log.tick(second * SECOND));
        drop(log);
        assert_eq!(writer.finish().unwrap_err().path, Path::new("/dev/full"));
    }
}
