//! Writes tables in Markdown.

/// A table whose first column is text and whose others are aligned to the right; each row has a cell for each
/// heading.
pub fn markdown(headings: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let headings: Vec<String> = headings.iter().map(|&heading| heading.to_owned()).collect();
    let rule = format!("|---|{}\n", "---:|".repeat(headings.len() - 1));
    let rows: String = rows.into_iter().map(|row| line(&row)).collect();
    line(&headings) + &rule + &rows
}

/// A column: its heading, and its cell for a row.
pub type Column<'a, Row> = (&'a str, &'a dyn Fn(&Row) -> String);

/// A table with these columns.
pub fn of<'a, Row: 'a>(columns: &[Column<'_, Row>], rows: impl IntoIterator<Item = &'a Row>) -> String {
    let headings: Vec<&str> = columns.iter().map(|(heading, _)| *heading).collect();
    let cells = |row: &Row| columns.iter().map(|(_, cell)| cell(row)).collect();
    markdown(&headings, rows.into_iter().map(cells))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_table_has_a_rule_below_its_headings() {
        let table = super::markdown(&["server", "us"], [vec!["ours".to_owned(), "4.2".to_owned()]]);
        assert_eq!(table, "| server | us |\n|---|---:|\n| ours | 4.2 |\n");
    }
}
