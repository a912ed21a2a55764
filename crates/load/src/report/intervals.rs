//! Histograms of each second as an HDR interval log, in the form that all of `HdrHistogram`'s readers understand: lines of
//! comments, a legend, then a line for each interval with its histogram in the compressed form (V2, zlib, base64). Its
//! `HistogramLogWriter` is what there is of a specification.

use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};

use crate::measures::{Measures, Times};

/// Writes the corrected times of replies in microseconds, one line for each second; all threads' histograms of a second
/// are one.
///
/// # Errors
///
/// Writing failed.
pub fn write(to: &mut impl Write, measures: &Measures, began: SystemTime) -> io::Result<()> {
    write_head(to, began)?;
    let mut serializer = V2DeflateSerializer::new();
    for (second, times) in by_second(measures) {
        write_second(to, &mut serializer, second, &times)?;
    }
    Ok(())
}

/// Nothing but intervals may come behind the legend: the C library's reader takes no comments there.
fn write_head(to: &mut impl Write, began: SystemTime) -> io::Result<()> {
    let began = began.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    writeln!(
        to,
        "#reply times in microseconds from the intended start, Interval_Max in milliseconds; by sluicelab"
    )?;
    writeln!(to, "#[Histogram log format version 1.3]")?;
    writeln!(to, "#[StartTime: {began:.3} (seconds since epoch)]")?;
    writeln!(to, "#[BaseTime: {began:.3} (seconds since epoch)]")?;
    writeln!(to, r#""StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram""#)
}

fn write_second(
    to: &mut impl Write,
    serializer: &mut V2DeflateSerializer,
    second: u64,
    times: &Times,
) -> io::Result<()> {
    let mut histogram = Vec::new();
    serializer.serialize(times.histogram(), &mut histogram).map_err(io::Error::other)?;
    writeln!(to, "{second}.000,1.000,{:.3},{}", times.most_ms(), STANDARD.encode(histogram))
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
                let bytes = STANDARD.decode(interval.encoded_histogram()).unwrap();
                let histogram: Histogram<u64> =
                    Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
                assert!((1_998..=2_002).contains(&histogram.max()));
                counts.push(histogram.len());
            }
        }
        assert_eq!(counts, [7, 5]);
    }
}
