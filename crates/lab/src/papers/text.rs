//! Lists the rows on a terminal.

use std::env;
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};

use terminal_size::terminal_size;

use super::verdict::{Says, Verdict, counts};
use crate::papers::measured::Word;

/// How a terminal shows text.
#[derive(Clone, Copy, Debug)]
pub struct Terminal {
    /// The longest line in columns. `None`: no limit, for another program.
    pub width: Option<usize>,
    /// Whether colours are shown.
    pub has_colours: bool,
}

/// The columns of the list for ids and verdicts.
const ID: usize = 16;
const VERDICT: usize = 14;

/// A line for each row, and the number of rows of each kind.
pub fn list(verdicts: &[Verdict<'_>], terminal: Terminal) -> String {
    let mut text = String::new();
    let left = terminal.width.map(|width| width.saturating_sub(ID + VERDICT + 3).max(20));
    for verdict in verdicts {
        let row = verdict.row;
        let finding = match verdict.says {
            Says::Waits(what) => format!("(for {what}) {}", row.finding),
            _ => row.finding.clone(),
        };
        let told = match left {
            Some(left) => {
                let varies = left * 2 / 5;
                format!("{} {}", padded(&row.varies, varies), cut(&finding, left - varies - 1))
            }
            None => format!("{}: {finding}", row.varies),
        };
        let word = padded(&format!("{} {}", verdict.says.sign(), verdict.says.short()), VERDICT);
        let word = terminal.coloured(verdict.says, &word);
        let _ = writeln!(text, "{:ID$} {word} {told}", row.id);
    }
    let _ = writeln!(text, "\n{} rows:", verdicts.len());
    for (sign, words, count) in counts(verdicts) {
        let _ = writeln!(text, "{count:4} {sign} {words}");
    }
    let _ = writeln!(text, "\nOne of them: sluicelab papers show B04-8");
    text
}

impl Terminal {
    /// The properties of this program's standard output.
    pub fn of_standard_output() -> Self {
        let is_terminal = io::stdout().is_terminal();
        // If the terminal does not report a width, the classic one is used.
        let columns = || terminal_size().map_or(80, |(width, _)| usize::from(width.0));
        Self {
            width: is_terminal.then(columns),
            has_colours: is_terminal && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        }
    }

    /// Text in the colour of a verdict.
    pub(super) fn coloured(self, says: Says<'_>, text: &str) -> String {
        let colour = match says {
            Says::Told(Word::Holds) => "32",
            Says::Told(Word::OtherSize) => "36",
            Says::Told(Word::Contradicted) => "31",
            Says::Told(Word::CannotTell) => "33",
            Says::NotHere | Says::Waits(_) | Says::NotYet => "2",
        };
        if self.has_colours { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Text padded to this many columns.
fn padded(text: &str, columns: usize) -> String {
    format!("{:columns$}", cut(text, columns))
}

/// Text cut to this many columns.
fn cut(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    text.chars().take(columns.saturating_sub(1)).chain(['…']).collect()
}
