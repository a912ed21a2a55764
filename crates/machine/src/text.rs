//! Rows of a name and what belongs to it, which most files of `/proc` are made of.

/// What follows `name` in the first line that begins with it; `None` if no line does.
pub fn row<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name))
}

/// The number that comes first after `name` in the first line that begins with it: `number(status,
/// "VmRSS:")` gives kilobytes. `None` if there is no such line, or no number.
pub fn number(text: &str, name: &str) -> Option<u64> {
    column(row(text, name)?, 0)
}

/// A line's word that has `place` words before it, if it is a number.
pub(crate) fn column(line: &str, place: usize) -> Option<u64> {
    line.split_ascii_whitespace().nth(place)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_number_is_found_by_its_name() {
        let limits =
            "Limit  Soft Limit  Hard Limit  Units\nMax open files            20000     1048576   files";
        assert_eq!(number(limits, "Max open files"), Some(20_000));
        assert_eq!(number("MemTotal:  8000000 kB\nMemFree: 1 kB\n", "MemFree:"), Some(1));
        assert_eq!(number("Threads: many\nThreads: 3\n", "Threads:"), None);
        assert_eq!((number("", "Threads:"), row("", "Threads:")), (None, None));
    }

    proptest! {
        #[test]
        fn what_is_written_in_rows_is_read(values: Vec<u64>, which: prop::sample::Index) {
            let rows = values.iter().enumerate().map(|(place, value)| format!("Row{place}:\t {value} kB\n"));
            let text: String = rows.collect();
            let place = if values.is_empty() { 0 } else { which.index(values.len()) };
            prop_assert_eq!(number(&text, &format!("Row{place}:")), values.get(place).copied());
        }
    }
}
