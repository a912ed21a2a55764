//! The memory of a server as text.

use std::fmt::Write as _;

use super::{Connections, Memory, Sessions, Threads, Workers};

/// Renders it: the formula, a line for each term with its source, the sum, and the processes.
pub fn render(memory: &Memory) -> String {
    let mut text = String::new();
    // Writing to a String can't fail.
    let _ = write_all(&mut text, memory);
    text
}

fn write_all(text: &mut String, memory: &Memory) -> std::fmt::Result {
    let Memory { architecture, formula, connections, workers, files, applications, .. } = memory;
    let Memory { once, sum, measured, processes, .. } = memory;
    writeln!(text, "{architecture}\n\n{formula}\n")?;
    writeln!(text, "{:<15} {:>9} {:>11} {:>13}", "term", "count", "bytes each", "bytes")?;

    let Connections { open, places, each, each_by_growth } = connections;
    let growth = match each_by_growth {
        Some(growth) => format!("{} by the workers' growth", grouped(*growth)),
        None => "too few to measure by the workers' growth".to_owned(),
    };
    let how = format!("sizes of its parts; {growth}; {} open, and room for the count", grouped(*open));
    row(text, "c connections", *places, Some(*each), places * each, &how)?;

    if let Some(Sessions { open, each }) = &memory.sessions {
        row(
            text,
            "e TLS sessions",
            *open,
            Some(*each),
            open * each,
            "a constant: an idle client's, measured",
        )?;
    }

    if let Some(Threads { count, each }) = &memory.threads {
        row(text, "t user threads", *count, Some(*each), count * each, "pages of some stacks, on average")?;
    }

    let Workers { count, each, each_at_start } = workers;
    let how = format!("measured, less connections and files; {} when it began", grouped(*each_at_start));
    row(text, "p workers", *count, Some(*each), count * each, &how)?;

    let in_tables = files.entries * files.each.unwrap_or(0);
    row(text, "f cached files", files.entries, files.each, in_tables, "counted by the open-file tables")?;
    row(text, "once", 1, Some(*once), *once, "measured: shared pages, supervisor, status")?;
    writeln!(text, "{:<15} {:>9} {:>11} {:>13}", "sum", "", "", grouped(*sum))?;
    writeln!(text, "{:<15} {:>9} {:>11} {:>13}", "measured", "", "", grouped(*measured))?;

    writeln!(text, "\n{:<15} {:>9} {:>11} {:>13}", "process", "pid", "its own", "with its part")?;
    for process in processes {
        let (own, proportional) = (grouped(process.own), grouped(process.proportional));
        writeln!(text, "{:<15} {:>9} {own:>11} {proportional:>13}", process.role, process.pid)?;
    }
    if applications.bytes > 0 {
        writeln!(
            text,
            "\nFor applications {} are set aside: bodies, replies, and memory that is shared with them,\n\
             used or not. The used part is in the figures above.",
            grouped(applications.bytes)
        )?;
    }
    writeln!(text, "\nThe kernel's memory for sockets, their buffers and the page cache is not included.")
}

fn row(
    text: &mut String,
    term: &str,
    count: u64,
    each: Option<u64>,
    all: u64,
    how: &str,
) -> std::fmt::Result {
    let each = each.map_or_else(|| "-".to_owned(), grouped);
    writeln!(text, "{term:<15} {:>9} {each:>11} {:>13}  {how}", grouped(count), grouped(all))
}

/// With commas between thousands, as in the paper.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_told_apart() {
        assert_eq!(
            [0, 12, 999, 1000, 7_667_536, 1_000_000].map(grouped),
            ["0", "12", "999", "1,000", "7,667,536", "1,000,000"]
        );
    }

    #[test]
    fn people_find_what_they_look_for() {
        let text = render(&super::super::tests::memory());
        for words in [
            "memory = c*368 + p*(318,168) + f*1,500 + 1,000,000",
            "c connections       2,048         368       753,664  sizes of its parts; \
             385 by the workers' growth; 2,000 open",
            "p workers               2     318,168       636,336  measured, \
             less connections and files; 300,000 when",
            "f cached files         20       1,500        30,000  counted",
            "once                    1   1,000,000     1,000,000  measured",
            "sum                                       2,420,000\n",
            "worker               4713     720,000       920,000\n",
            "For applications 2,097,152 are set aside",
        ] {
            assert!(text.contains(words), "{words}\n{text}");
        }
    }
}
