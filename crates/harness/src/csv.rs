//! Tables as the lab writes them.

/// The fields of a line of CSV: texts with commas, such as why a run is not valid, stand in quotes.
pub fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut is_quoted = false;
    for letter in line.chars() {
        match letter {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => fields.push(String::new()),
            _ => fields.last_mut().expect("a field").push(letter),
        }
    }
    fields
}
