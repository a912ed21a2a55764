//! Makes the manual page `sluice.toml(5)` from docs/configuration.md, which tests compare with the code.
//!
//! Only the Markdown of that page is understood: headings, paragraphs, lists, tables of keys, and code.

use roff::{Inline, Roff, bold, italic, roman};

const PAGE: &str = include_str!("../../../docs/configuration.md");

/// The page's text.
pub(crate) fn text() -> String {
    // What is before the first chapter is for reading on a screen.
    let (_, chapters) = PAGE.split_once("\n## How settings are told\n").expect("the page begins with this");
    let mut page = Roff::new();
    page.control("TH", ["SLUICE.TOML", "5"]);
    page.control("SH", ["NAME"]).text([roman("sluice.toml - settings of the web server sluice(1)")]);
    page.control("SH", ["DESCRIPTION"]);
    for block in chapters.split("\n\n") {
        write_block(&mut page, block.trim_matches('\n'));
    }
    page.control("SH", ["SEE ALSO"]).text([
        bold("sluice-serve"),
        roman("(1), "),
        bold("sluice-check"),
        roman("(1); other pages that this one refers to are in the directory docs of the source"),
    ]);
    page.render()
}

fn write_block(page: &mut Roff, block: &str) {
    if let Some(title) = block.strip_prefix("## ") {
        page.control("SH", [title.trim_matches('`')]);
    } else if let Some(title) = block.strip_prefix("### ") {
        page.control("SS", [title]);
    } else if block.starts_with('|') {
        block.lines().filter(|row| row.starts_with("| `")).for_each(|row| write_key(page, row));
    } else if block.starts_with("    ") {
        page.control("PP", []).control("RS", ["4"]).control("nf", []);
        for line in block.lines() {
            page.text([roman(line.strip_prefix("    ").unwrap_or(line))]);
        }
        page.control("fi", []).control("RE", []);
    } else if let Some(list) = block.strip_prefix("- ") {
        for item in list.split("\n- ") {
            page.control("IP", [r"\(bu", "2"]).text(inlines(item));
        }
    } else if !block.is_empty() {
        page.control("PP", []).text(inlines(block));
    }
}

/// A row of a table: key, meaning, default, what is allowed.
fn write_key(page: &mut Roff, row: &str) {
    let mut cells = row.trim_matches('|').split(" | ").map(str::trim);
    let mut cell = || cells.next().unwrap_or_default();
    let (key, meaning, default, allowed) = (cell(), cell(), cell(), cell());
    page.control("TP", []);
    page.text(match default.trim_matches('`') {
        "–" => vec![bold(key.trim_matches('`'))],
        default => vec![bold(key.trim_matches('`')), roman(" = "), roman(default)],
    });
    page.text(inlines(meaning));
    page.control("br", []);
    page.text([vec![roman("Allowed: ")], inlines(allowed), vec![roman(".")]].concat());
}

/// Text with `` `code` ``, `**emphasis**` and `[links](to)`. Of a link only its text is kept.
fn inlines(text: &str) -> Vec<Inline> {
    let mut inlines = Vec::new();
    let text = text.lines().map(str::trim).collect::<Vec<_>>().join("\n");
    let mut rest = text.as_str();
    while let Some(at) = rest.find(['`', '*', '[']) {
        let (before, from) = rest.split_at(at);
        inlines.push(roman(before));
        rest = if let Some((code, after)) = from.strip_prefix('`').and_then(|text| text.split_once('`')) {
            inlines.push(bold(code));
            after
        } else if let Some((words, after)) = from.strip_prefix("**").and_then(|text| text.split_once("**")) {
            inlines.push(italic(words));
            after
        } else if let Some((link, after)) = link(from) {
            inlines.extend(self::inlines(link));
            after
        } else {
            inlines.push(roman(&from[..1]));
            &from[1..]
        };
    }
    inlines.push(roman(rest));
    inlines
}

/// The text of a link, and the rest after it.
fn link(text: &str) -> Option<(&str, &str)> {
    let (words, rest) = text.strip_prefix('[')?.split_once("](")?;
    let (_, after) = rest.split_once(')')?;
    (!words.contains(']')).then_some((words, after))
}
