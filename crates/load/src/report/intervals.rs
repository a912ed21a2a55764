//! Histograms of each second as an HDR interval log, which `HdrHistogram`'s tools read and plot.

use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use hdrhistogram::serialization::V2Serializer;
use hdrhistogram::serialization::interval_log::IntervalLogWriterBuilder;

use crate::measures::{Measures, Times};

/// Writes the corrected times of replies in microseconds, one line for each second; all threads' histograms of a second
/// are one.
///
/// # Errors
///
/// Writing failed.
pub fn write(to: &mut impl Write, measures: &Measures, began: SystemTime) -> io::Result<()> {
    let mut serializer = V2Serializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("reply times in microseconds, from the intended start; written by sluicelab")
        .with_start_time(began)
        .with_base_time(began)
        .begin_log_with(to, &mut serializer)?;
    for (second, times) in by_second(measures) {
        let start = Duration::from_secs(second);
        log.write_histogram(times.histogram(), start, Duration::from_secs(1), None)
            .map_err(io::Error::other)?;
    }
    Ok(())
}

fn by_second(measures: &Measures) -> Vec<(u64, Times)> {
    let mut seconds: Vec<(u64, Times)> = Vec::new();
    for interval in &measures.intervals {
        let second = interval.began / 1_000_000_000;
        match seconds.last_mut() {
            Some((last, times)) if *last == second => times.take_in(&interval.times),
            _ => seconds.push((second, interval.times.clone())),
        }
    }
    seconds
}

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;
    use crate::measures::Interval;
    use crate::report::tests::sample;

    #[test]
    fn what_is_written_can_be_read() {
        let (mut measures, _) = sample();
        let times = |count: u64| {
            let mut times = Times::new();
            (0..count).for_each(|_| times.record(2_000_000));
            times
        };
        let interval =
            |second: u64, count| Interval { began: second * 1_000_000_000, ended: 0, times: times(count) };
        measures.intervals = vec![interval(0, 3), interval(0, 4), interval(1, 5)];
        let mut written = Vec::new();
        write(&mut written, &measures, SystemTime::now()).unwrap();
        let mut counts = Vec::new();
        for entry in IntervalLogIterator::new(&written) {
            if let LogEntry::Interval(interval) = entry.unwrap() {
                let bytes = decode(interval.encoded_histogram());
                let histogram: Histogram<u64> =
                    Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
                assert!((1_998..=2_002).contains(&histogram.max()));
                counts.push(histogram.len());
            }
        }
        assert_eq!(counts, [7, 5]);
    }

    fn decode(base64: &str) -> Vec<u8> {
        let value = |byte: u8| match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            _ => 63,
        };
        let digits: Vec<u8> = base64.bytes().filter(|byte| *byte != b'=').map(value).collect();
        let bits = |chunk: &[u8]| {
            chunk.iter().fold(0_u32, |bits, digit| bits << 6 | u32::from(*digit)) << (6 * (4 - chunk.len()))
        };
        digits.chunks(4).flat_map(|chunk| bits(chunk).to_be_bytes()[1..chunk.len()].to_vec()).collect()
    }
}
