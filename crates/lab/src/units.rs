//! Values with units, as experiments and options have them.

use std::time::Duration;

/// A time such as `500ms`, `20 s`, `5min`; a number alone is seconds.
///
/// # Errors
/// What is allowed, if it is anything else.
pub fn time(text: &str) -> Result<Duration, String> {
    let allowed = "allowed: times such as 500ms, 2.5s, 20s, 5min";
    let (number, unit) = split(text);
    let factor = match unit {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(allowed.to_owned()),
    };
    let seconds = number.parse::<f64>().ok().map(|number| number * factor);
    let seconds = seconds.filter(|seconds| (0.0..=1e6).contains(seconds)).ok_or(allowed)?;
    Ok(Duration::from_secs_f64(seconds))
}

/// A size such as `4096`, `16KiB`, `1 MB`.
///
/// # Errors
/// What is allowed, if it is anything else.
pub fn size(text: &str) -> Result<u64, String> {
    let allowed = "allowed: sizes such as 4096, 16KiB, 1MB, 3.2GB";
    let (number, unit) = split(text);
    let factor = match unit {
        "" | "B" => 1.0,
        "KB" | "kB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "KiB" => 1024.0,
        "MiB" => 1_048_576.0,
        "GiB" => 1_073_741_824.0,
        _ => return Err(allowed.to_owned()),
    };
    let bytes = number.parse::<f64>().ok().map(|number| number * factor);
    bytes.filter(|bytes| (0.0..=1e15).contains(bytes)).map(|bytes| bytes as u64).ok_or(allowed.to_owned())
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

/// A number and what stands behind it.
fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (number, unit.trim())
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
