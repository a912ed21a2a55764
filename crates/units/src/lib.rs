//! Values as people write them, in settings, in experiments and as options: sizes, times, lists of CPUs.
//! Each kind has a reader, which says what is wrong and what is allowed, and a writer, whose text reads back
//! as the same value. There is one grammar, so that a text means the same to every program.
//!
//! Values are exact: a fraction that comes to no whole byte or microsecond is refused, not rounded. A bare
//! number is bytes if it is a size. A time needs a unit, but for 0, which is the same in all units.

use std::time::Duration;

/// A kind of values that are a number and a unit.
struct Quantity {
    name: &'static str,
    /// What each unit is in the smallest.
    units: &'static [(&'static str, u64)],
    /// The units, as an error tells them.
    allowed: &'static str,
    /// The largest value.
    most: u64,
}

/// In bytes. `KB` and `MB` are decimal, `KiB` and `MiB` binary. Up to a pebibyte: the sum of a thousand does
/// not overflow.
const SIZE: Quantity = Quantity {
    name: "size",
    units: &[
        ("", 1),
        ("B", 1),
        ("KB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
    ],
    allowed: "KB, MB, GB (powers of 1000), KiB, MiB, GiB (powers of 1024)",
    most: 1 << 50,
};

/// In microseconds. Up to a hundred years: the sum of a few does not overflow in nanoseconds.
const TIME: Quantity = Quantity {
    name: "time",
    units: &[
        ("us", 1),
        ("ms", 1_000),
        ("s", 1_000_000),
        ("min", 60_000_000),
        ("h", 3_600_000_000),
        ("d", 86_400_000_000),
    ],
    allowed: "us, ms, s, min, h, d",
    most: 36_500 * 86_400_000_000,
};

/// Highest number of a CPU: what `sched_setaffinity(2)` takes from us.
const MAX_CPU: usize = 1023;

/// Reads a size in bytes, such as `4096`, `16 KiB`, `2MB`.
pub fn parse_size(text: &str) -> Result<u64, String> {
    SIZE.parse(text)
}

/// Writes a size in the largest binary unit that is exact.
pub fn print_size(bytes: u64) -> String {
    print(bytes, &SIZE.units[5..]).unwrap_or_else(|| bytes.to_string())
}

/// Reads a time, such as `500ms`, `20 s`, `5 min`.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    TIME.parse(text).map(Duration::from_micros)
}

/// Writes a time, to the microsecond, in the largest unit that is exact.
pub fn print_time(time: Duration) -> String {
    print(time.as_micros() as u64, TIME.units).unwrap_or_else(|| "0 ms".to_owned())
}

/// Reads a list of CPUs, such as `0-3,8`; the result ascends.
pub fn parse_cpus(text: &str) -> Result<Vec<usize>, String> {
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
pub fn print_cpus(cpus: &[usize]) -> String {
    let ranges = cpus.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [only] => only.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    });
    ranges.collect::<Vec<_>>().join(",")
}

/// Reads digits and nothing else. Rust's own parser takes a leading `+`.
pub fn parse_number(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Writes a number beside a limit that it is held against: with so many digits after the point, or as many
/// more as it takes to see which is larger.
pub fn print_beside(number: f64, limit: f64, digits: usize) -> String {
    let told = |value: f64, digits: usize| format!("{value:.digits$}");
    let is_seen = |digits: &usize| told(number, *digits) != told(limit, *digits);
    told(number, (digits..digits + MOST_MORE_DIGITS).find(is_seen).unwrap_or(digits))
}

/// What is closer than that is the same to everybody.
const MOST_MORE_DIGITS: usize = 9;

impl Quantity {
    fn parse(&self, text: &str) -> Result<u64, String> {
        let Self { name, allowed, .. } = self;
        let text = text.trim();
        if text == "0" {
            return Ok(0);
        }
        let end = text.bytes().take_while(|&byte| byte.is_ascii_digit() || byte == b'.').count();
        let (number, unit) = (&text[..end], text[end..].trim_start());
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        if whole.is_empty() || fraction.is_empty() || fraction.contains('.') {
            return Err(format!("not a {name}; allowed: a number and a unit ({allowed})"));
        }
        let Some(&(_, factor)) = self.units.iter().find(|(known, _)| *known == unit) else {
            return Err(match unit {
                "" => format!("a {name} needs a unit; allowed: {allowed}"),
                _ => format!("unknown unit \"{unit}\" of a {name}; allowed: {allowed}"),
            });
        };
        let value = parse_number(whole).and_then(|number| number.checked_mul(factor));
        let part =
            part_of(fraction, factor).ok_or_else(|| format!("this {name} is finer than it can be told"))?;
        value
            .and_then(|value| value.checked_add(part))
            .filter(|value| *value <= self.most)
            .ok_or_else(|| format!("this {name} is out of all bounds"))
    }
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
fn print(value: u64, units: &[(&str, u64)]) -> Option<String> {
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
            ("1.5 KiB", 1_536),
            ("100 MB", 100_000_000),
            ("3.2GB", 3_200_000_000),
            ("1048576 GiB", 1 << 50),
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
            "16 kB",
            "16 K",
            "1 2",
            "ten",
            "x",
            "-1s",
            "5 days",
            "nan",
            "inf",
            "1048577 GiB",
            "99999999999 GiB",
            "99999999999999999999",
        ] {
            assert!(parse_size(text).is_err(), "{text}");
        }
        assert!(parse_size("16 K").unwrap_err().contains("unknown unit \"K\" of a size; allowed: KB, MB"));
    }

    #[test]
    fn times() {
        for (text, us) in [
            ("2500us", 2_500),
            ("0.5 ms", 500),
            ("500ms", 500_000),
            ("20 s", 20_000_000),
            ("1.5 s", 1_500_000),
            ("2.5 s", 2_500_000),
            ("2min", 120_000_000),
            ("5min", 300_000_000),
            ("1 h", 3_600_000_000),
            ("36500 d", TIME.most),
            ("0 s", 0),
            ("0", 0),
        ] {
            assert_eq!(parse_time(text), Ok(Duration::from_micros(us)), "{text}");
        }
        for text in
            ["", "x", "s", "20", "0.0", "00", "-1s", "+1 s", "5 days", "nan", "inf", "36501 d", "1.5 us"]
        {
            assert!(parse_time(text).is_err(), "{text}");
        }
        assert_eq!(parse_time("1.5 us"), Err("this time is finer than it can be told".into()));
        assert_eq!(parse_time("20"), Err("a time needs a unit; allowed: us, ms, s, min, h, d".into()));
        assert!(parse_time("5 m").unwrap_err().starts_with("unknown unit \"m\" of a time"));
    }

    #[test]
    fn a_number_is_not_told_as_the_limit_that_it_exceeds() {
        for (number, limit, digits, told) in [
            (5.04, 5.0, 0, "5.04"),
            (5.0, 5.0, 0, "5"),
            (7.2, 5.0, 0, "7"),
            (4.999_6, 5.0, 2, "4.9996"),
            (50.000_3, 50.0, 3, "50.0003"),
            (5.0 + 1e-15, 5.0, 1, "5.0"),
        ] {
            assert_eq!(print_beside(number, limit, digits), told);
        }
    }

    #[test]
    fn cpu_lists() {
        assert_eq!(parse_cpus("0-3,8"), Ok(vec![0, 1, 2, 3, 8]));
        assert_eq!(parse_cpus("8, 1, 0-2"), Ok(vec![0, 1, 2, 8]));
        assert_eq!(parse_cpus("3,0-1"), Ok(vec![0, 1, 3]));
        assert_eq!(parse_cpus("0-2,5,1"), Ok(vec![0, 1, 2, 5]));
        assert_eq!(print_cpus(&[0, 1, 2, 3, 8, 10, 11]), "0-3,8,10-11");
        for text in ["", "a", "1-", "-1", "1,,2", "3-1", "1-2-3", "1024", "5000", "0-99999999999999999999999"]
        {
            assert!(parse_cpus(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_the_same(
            bytes in 0..=SIZE.most,
            us in 0..=TIME.most,
            list in prop::collection::btree_set(0..=MAX_CPU, 1..20),
        ) {
            prop_assert_eq!(parse_size(&print_size(bytes)), Ok(bytes));
            let time = Duration::from_micros(us);
            prop_assert_eq!(parse_time(&print_time(time)), Ok(time));
            let list: Vec<_> = list.into_iter().collect();
            prop_assert_eq!(parse_cpus(&print_cpus(&list)), Ok(list));
        }

        #[test]
        fn nothing_panics(text: String) {
            let _ = (parse_size(&text), parse_time(&text), parse_cpus(&text));
        }
    }
}
