//! Text for people, on a terminal or in a log, in which no character can mislead the reader.
//!
//! Names of files, settings and output of applications may contain dangerous characters. Some are commands
//! to a terminal. Some begin a new line that looks like another message. Some reverse the text that follows
//! (U+202E), and some are invisible. All of these are shown by their numbers: Unicode's control and format
//! characters, line separators, blanks other than the usual one, and unassigned characters.

use std::fmt::{self, Write as _};

/// A text as a single line.
#[derive(Clone, Copy, Debug)]
pub struct Plain<'a>(pub &'a str);

impl fmt::Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some(at) = rest.find(|char| !is_plain(char)) {
            let (before, behind) = rest.split_at(at);
            f.write_str(before)?;
            let mut chars = behind.chars();
            if let Some(char) = chars.next() {
                write!(f, "{}", char.escape_default())?;
            }
            rest = chars.as_str();
        }
        f.write_str(rest)
    }
}

/// A text of several lines.
pub fn page(text: &str) -> String {
    let mut page = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        // Writing to a string cannot fail.
        let _ = write!(page, "{}{end}", Plain(line));
    }
    page
}

/// Whether a character appears as itself.
pub fn is_plain(char: char) -> bool {
    if char.is_ascii() {
        return (' '..='~').contains(&char);
    }
    // The standard library knows which characters can be shown. After another character, it leaves accents
    // as they are.
    let mut bytes = [b'a'; 5];
    let length = char.encode_utf8(&mut bytes[1..]).len();
    str::from_utf8(&bytes[..=length]).is_ok_and(|text| text.escape_debug().eq(text.chars()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_mislead_is_escaped() {
        for (text, shown) in [
            ("/srv/www \"a\" 'b' \\c", "/srv/www \"a\" 'b' \\c"),
            ("\u{e9} e\u{301} \u{65e5} \u{1f980}", "\u{e9} e\u{301} \u{65e5} \u{1f980}"),
            ("a\nb\r\tc", "a\\nb\\r\\tc"),
            ("\u{1b}[2J\u{7f}\u{9b}", "\\u{1b}[2J\\u{7f}\\u{9b}"),
            ("a\u{202e}b\u{2066}c\u{200f}", "a\\u{202e}b\\u{2066}c\\u{200f}"),
            ("a\u{200b}\u{ad}\u{feff}\u{2028}\u{a0}", "a\\u{200b}\\u{ad}\\u{feff}\\u{2028}\\u{a0}"),
            ("", ""),
        ] {
            assert_eq!(Plain(text).to_string(), shown, "{shown}");
        }
    }

    #[test]
    fn no_control_or_format_character_is_plain() {
        // All of Unicode's categories Cc and Cf, except visible characters of some scripts.
        let format = [
            0xad..=0xad,
            0x61c..=0x61c,
            0x180e..=0x180e,
            0x200b..=0x200f,
            0x2028..=0x202e,
            0x2060..=0x206f,
            0xfeff..=0xfeff,
            0xfff9..=0xfffb,
            0x1bca0..=0x1bca3,
            0x1d173..=0x1d17a,
            0xe0001..=0xe0001,
            0xe0020..=0xe007f,
        ];
        for char in (0..=0x9f).chain(format.into_iter().flatten()).filter_map(char::from_u32) {
            assert_eq!(is_plain(char), (' '..='~').contains(&char), "{char:?}");
        }
    }

    #[test]
    fn a_page_keeps_its_lines() {
        assert_eq!(page("a\u{1b}\n\nb\r\n"), "a\\u{1b}\n\nb\\r\n");
        assert_eq!(page("a"), "a");
    }
}
