//! Pages of the docs that tests follow.

/// The commands of a page: the lines of its indented blocks, each with the remark behind it (` # remark`).
pub fn commands(page: &str) -> Vec<(&str, Option<&str>)> {
    let lines = page.lines().filter_map(|line| line.strip_prefix("    "));
    lines
        .map(|line| match line.split_once(" # ") {
            Some((command, remark)) => (command.trim(), Some(remark.trim())),
            None => (line.trim(), None),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_the_remark_behind_it() {
        let page = "Text.\n\n    sluice serve site   # a page\n    curl http://localhost/#top\n\nMore.\n";
        assert_eq!(
            commands(page),
            [("sluice serve site", Some("a page")), ("curl http://localhost/#top", None)]
        );
    }
}
