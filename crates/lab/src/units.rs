//! Values with units, as experiments and options have them.

use std::time::Duration;

/// A time such as `500ms`, `20 s`, `5min`; a number alone is seconds.
///
/// # Errors
/// What is allowed, if it is anything else.
pub fn time(text: &str) -> Result<Duration, String> {
    let units = [("ms", 1e-3), ("", 1.0), ("s", 1.0), ("min", 60.0), ("h", 3600.0)];
    let seconds = number(text, &units).filter(|seconds| *seconds <= 1e6);
    let seconds = seconds.ok_or("allowed: times such as 500ms, 2.5s, 20s, 5min")?;
    Ok(Duration::from_secs_f64(seconds))
}

/// A size such as `4096`, `16KiB`, `1 MB`.
///
/// # Errors
/// What is allowed, if it is anything else.
pub fn size(text: &str) -> Result<u64, String> {
    let (kib, mib, gib) = (1024.0, 1_048_576.0, 1_073_741_824.0);
    let decimal = [("", 1.0), ("B", 1.0), ("KB", 1e3), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9)];
    let units = [&decimal[..], &[("KiB", kib), ("MiB", mib), ("GiB", gib)]].concat();
    let bytes = number(text, &units).filter(|bytes| *bytes <= 1e15);
    Ok(bytes.ok_or("allowed: sizes such as 4096, 16KiB, 1MB, 3.2GB")? as u64)
}

/// CPUs such as `0-3,8`, in order.
///
/// # Errors
/// What is allowed, if it is anything else.
pub fn cpus(text: &str) -> Result<Vec<usize>, String> {
    let allowed = "allowed: numbers and ranges such as 0-3,8";
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.trim().parse::<usize>().ok().filter(|cpu| *cpu < 4096);
        let (first, last) =
            number(first).zip(number(last)).filter(|(first, last)| first <= last).ok_or(allowed)?;
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

/// A number, which is not negative, with one of these units behind it, in units of one.
fn number(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let text = text.trim();
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (_, factor) = units.iter().find(|(unit, _)| *unit == text[end..].trim())?;
    Some(text[..end].parse::<f64>().ok()? * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_units_or_are_refused() {
        assert_eq!(time("1.5 s"), Ok(Duration::from_millis(1_500)));
        assert_eq!(time("2min"), Ok(Duration::from_mins(2)));
        assert!(time("-1s").is_err() && time("5 days").is_err() && time("").is_err());
        assert_eq!(size("1.5 KiB"), Ok(1_536));
        assert_eq!(size("100 MB"), Ok(100_000_000));
        assert!(size("ten").is_err());
        assert_eq!(cpus("3,0-1"), Ok(vec![0, 1, 3]));
        assert!(cpus("3-1").is_err() && cpus("a").is_err());
    }
}
