//! Values with units as people write them: sizes, times, lists of CPUs. Each kind has a reader, which says
//! what is wrong and what is allowed, and a writer, whose text reads back as the same value.

use std::time::Duration;

/// Units of sizes and their bytes. `KB` and `MB` are decimal, `KiB` and `MiB` binary.
const SIZES: [(&str, u64); 8] = [
    ("", 1),
    ("B", 1),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

/// Units of times and their milliseconds.
const TIMES: [(&str, u64); 5] =
    [("ms", 1), ("s", 1_000), ("min", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Highest number of a CPU: what `sched_setaffinity(2)` takes from us.
const MAX_CPU: usize = 1023;

/// Reads a size in bytes, such as `4096`, `16 KiB`, `2MB`.
pub(super) fn parse_size(text: &str) -> Result<u64, String> {
    parse_quantity(text, &SIZES, "size", "KB, MB, GB (powers of 1000), KiB, MiB, GiB (powers of 1024)")
}

/// Writes a size in the largest binary unit that is exact.
pub(super) fn size(bytes: u64) -> String {
    quantity(bytes, &SIZES[5..]).unwrap_or_else(|| bytes.to_string())
}

/// Reads a time, such as `500ms`, `20 s`, `5 min`.
pub(super) fn parse_time(text: &str) -> Result<Duration, String> {
    parse_quantity(text, &TIMES, "time", "ms, s, min, h, d").map(Duration::from_millis)
}

/// Writes a time, to the millisecond, in the largest unit that is exact.
pub(super) fn time(time: Duration) -> String {
    let ms = time.as_millis() as u64;
    quantity(ms, &TIMES).unwrap_or_else(|| format!("{ms} ms"))
}

/// Reads a list of CPUs, such as `0-3,8`; the result ascends.
pub(crate) fn parse_cpus(text: &str) -> Result<Vec<usize>, String> {
    let malformed = || "not a list of CPUs; allowed: numbers and ranges such as \"0-3,8\"".to_owned();
    let number = |text: &str| -> Result<usize, String> {
        let cpu = parse_number(text.trim()).ok_or_else(malformed)?;
        usize::try_from(cpu)
            .ok()
            .filter(|&cpu| cpu <= MAX_CPU)
            .ok_or_else(|| format!("CPU {cpu} is out of range; allowed: 0 to {MAX_CPU}"))
    };
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(part)?, number(part)?),
        };
        if first > last {
            return Err(format!(
                "the range {first}-{last} is empty; allowed: from the lower to the higher number"
            ));
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

/// Writes a list of CPUs that ascends.
pub(crate) fn cpus(cpus: &[usize]) -> String {
    let ranges = cpus.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [only] => only.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    });
    ranges.collect::<Vec<_>>().join(",")
}

/// Reads digits and nothing else. Rust's own parser takes a leading `+`.
pub(super) fn parse_number(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

fn parse_quantity(text: &str, units: &[(&str, u64)], what: &str, names: &str) -> Result<u64, String> {
    let text = text.trim();
    let end = text.bytes().take_while(|&byte| byte.is_ascii_digit() || byte == b'.').count();
    let (number, unit) = (&text[..end], text[end..].trim_start());
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || fraction.is_empty() || fraction.contains('.') {
        return Err(format!("not a {what}; allowed: a number and a unit ({names})"));
    }
    let Some(&(_, factor)) = units.iter().find(|(name, _)| *name == unit) else {
        return Err(match unit {
            "" => format!("a {what} needs a unit; allowed: {names}"),
            _ => format!("unknown unit \"{unit}\" of a {what}; allowed: {names}"),
        });
    };
    let value = parse_number(whole).and_then(|number| number.checked_mul(factor));
    let part =
        part_of(fraction, factor).ok_or_else(|| format!("this {what} is finer than it can be told"))?;
    value.and_then(|value| value.checked_add(part)).ok_or_else(|| format!("this {what} is out of all bounds"))
}

/// So many decimal digits of `factor`, if that is a whole number: 5 of 1000 are 500.
fn part_of(digits: &str, factor: u64) -> Option<u64> {
    let digits = digits.trim_end_matches('0');
    if digits.is_empty() {
        return Some(0);
    }
    let (number, scale) = (parse_number(digits)?, 10_u64.checked_pow(digits.len() as u32)?);
    let scaled = u128::from(number) * u128::from(factor);
    let part = scaled.is_multiple_of(scale.into()).then(|| scaled / u128::from(scale))?;
    u64::try_from(part).ok()
}

/// Writes `value` in the largest of the `units` that is exact.
fn quantity(value: u64, units: &[(&str, u64)]) -> Option<String> {
    let exact = |&&(_, factor): &&(&str, u64)| value >= factor && value.is_multiple_of(factor);
    units.iter().rev().find(exact).map(|(name, factor)| format!("{} {name}", value / factor))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes() {
        let sizes = [
            ("0", 0),
            ("4096", 4096),
            ("16KiB", 16 << 10),
            ("16 KiB", 16 << 10),
            (" 2 MB ", 2_000_000),
            ("1GiB", 1 << 30),
            ("7 B", 7),
            ("1.5 MiB", 3 << 19),
            ("0.25KB", 250),
            ("2.0 B", 2),
        ];
        for (text, bytes) in sizes {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "KiB",
            "-1",
            "+1",
            "1.5 B",
            "1.5.5 MiB",
            ".5 MiB",
            "1. MiB",
            "1.00000000000000000000001 GiB",
            "16 kb",
            "16 K",
            "1 2",
            "99999999999 GiB",
            "99999999999999999999",
        ] {
            assert!(parse_size(text).is_err(), "{text}");
        }
        assert!(parse_size("16 K").unwrap_err().contains("unknown unit \"K\" of a size; allowed: KB, MB"));
    }

    #[test]
    fn times() {
        for (text, ms) in [
            ("500ms", 500),
            ("20 s", 20_000),
            ("1.5 s", 1_500),
            ("5min", 300_000),
            ("1 h", 3_600_000),
            ("0 s", 0),
        ] {
            assert_eq!(parse_time(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        assert_eq!(parse_time("1.5 ms"), Err("this time is finer than it can be told".into()));
        assert_eq!(parse_time("20"), Err("a time needs a unit; allowed: ms, s, min, h, d".into()));
        assert!(parse_time("5 m").unwrap_err().starts_with("unknown unit \"m\" of a time"));
    }

    #[test]
    fn cpu_lists() {
        assert_eq!(parse_cpus("0-3,8"), Ok(vec![0, 1, 2, 3, 8]));
        assert_eq!(parse_cpus("8, 1, 0-2"), Ok(vec![0, 1, 2, 8]));
        assert_eq!(cpus(&[0, 1, 2, 3, 8, 10, 11]), "0-3,8,10-11");
        for text in ["", "a", "1-", "-1", "1,,2", "3-1", "1-2-3", "1024", "0-99999999999999999999999"] {
            assert!(parse_cpus(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_the_same(
            bytes: u64,
            ms in 0..u64::MAX / 2,
            list in prop::collection::btree_set(0..=MAX_CPU, 1..20),
        ) {
            prop_assert_eq!(parse_size(&size(bytes)), Ok(bytes));
            prop_assert_eq!(parse_time(&time(Duration::from_millis(ms))), Ok(Duration::from_millis(ms)));
            let list: Vec<_> = list.into_iter().collect();
            prop_assert_eq!(parse_cpus(&cpus(&list)), Ok(list));
        }

        #[test]
        fn nothing_panics(text: String) {
            let _ = (parse_size(&text), parse_time(&text), parse_cpus(&text));
        }
    }
}
