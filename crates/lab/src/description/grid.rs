//! A grid: a line of `servers` stands for one server for each combination of the values that its names in
//! braces have.

use toml::{Table, Value};

use crate::near::meant;
use crate::servers::FILLED;
use crate::servers::spec::Spec;

/// The most servers that one line may make. All servers of a point are measured in each round. They are all
/// started at the same time, unless the order is sequential.
const MOST: usize = 100;

/// The varied names, and their values.
#[derive(Debug)]
pub(super) struct Grid(Vec<(String, Vec<String>)>);

impl Grid {
    /// Reads the table `vary`.
    ///
    /// # Errors
    /// The key and its mistake.
    pub(super) fn of(vary: &Table) -> Result<Self, String> {
        let axes = vary.iter().map(|(name, values)| {
            if !is_name(name) {
                return Err(format!("{name}: allowed in a name: letters, digits, _ and -"));
            }
            if FILLED.contains(&name.as_str()) {
                return Err(format!("{name}: the lab fills in {{{name}}} itself; allowed: another name"));
            }
            let values = values.as_array().filter(|values| !values.is_empty());
            let texts: Option<Vec<String>> = values.and_then(|values| values.iter().map(text).collect());
            let texts = texts.ok_or_else(|| {
                format!("{name}: allowed: numbers and words, such as {name} = [1, 2, 'inf']")
            })?;
            let twice = texts.iter().enumerate().find(|(at, text)| texts[..*at].contains(text));
            match twice.map(|(_, text)| format!("{name}: {text} is listed twice")) {
                Some(error) => Err(error),
                None => Ok((name.clone(), texts)),
            }
        });
        axes.collect::<Result<_, _>>().map(Self)
    }

    /// The servers of a line. The values of the last name in the line change first.
    ///
    /// # Errors
    /// The mistake in the line.
    pub(super) fn servers(&self, line: &str) -> Result<Vec<Spec>, String> {
        let allowed = || self.0.iter().map(|(name, _)| name.as_str()).chain(FILLED);
        let is_unknown = |name: &&str| !allowed().any(|other| other == *name);
        // Without a table `vary`, names in braces are the program's own.
        if let Some(name) = names(line).into_iter().find(|name| !self.0.is_empty() && is_unknown(name)) {
            let near = meant(name, allowed());
            let names: Vec<&str> = allowed().collect();
            return Err(format!("{{{name}}} is not in [vary]{near}; allowed: {}", names.join(", ")));
        }
        let named = |name: &str| self.0.iter().find(|(other, _)| other == name);
        let axes: Vec<&(String, Vec<String>)> = names(line).iter().filter_map(|name| named(name)).collect();
        let count = axes.iter().map(|(_, values)| values.len()).product::<usize>();
        if count > MOST {
            return Err(format!("{line:?} makes {count} servers; allowed: at most {MOST}"));
        }
        let mut lines = vec![line.to_owned()];
        for (name, values) in axes {
            let of = |line: &String| {
                values.iter().map(|value| line.replace(&format!("{{{name}}}"), value)).collect::<Vec<_>>()
            };
            lines = lines.iter().flat_map(of).collect();
        }
        let servers =
            lines.iter().map(|line| line.parse::<Spec>().map_err(|error| format!("{line:?}: {error}")));
        let servers: Vec<Spec> = servers.collect::<Result<_, _>>()?;
        match servers.windows(2).find(|pair| pair[0].name == pair[1].name) {
            Some(pair) => Err(format!(
                "{line:?} makes {count} servers with the name {}; put every varied key into the name",
                pair[0].name
            )),
            None => Ok(servers),
        }
    }

    /// An error if no line uses a key.
    pub(super) fn unused<'a>(&self, lines: impl IntoIterator<Item = &'a String>) -> Option<String> {
        let named: Vec<&str> = lines.into_iter().flat_map(|line| names(line)).collect();
        let (name, _) = self.0.iter().find(|(name, _)| !named.contains(&name.as_str()))?;
        Some(format!("{name}: no server uses {{{name}}}"))
    }
}

/// A value in the form for a line.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::String(word) => Some(word.clone()),
        _ => None,
    }
}

/// The names that a line has in braces, each once.
fn names(line: &str) -> Vec<&str> {
    let mut names = Vec::new();
    for after in line.split('{').skip(1) {
        let name = after.split_once('}').map(|(name, _)| name);
        names.extend(name.filter(|name| is_name(name) && !names.contains(name)));
    }
    names
}

fn is_name(text: &str) -> bool {
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
    text.starts_with(|letter: char| letter.is_ascii_alphabetic()) && text.chars().all(is_of_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(vary: &str) -> Result<Grid, String> {
        Grid::of(&vary.parse().unwrap())
    }

    fn names_of(vary: &str, line: &str) -> Result<Vec<String>, String> {
        let servers = grid(vary)?.servers(line)?;
        Ok(servers.into_iter().map(|server| server.name).collect())
    }

    #[test]
    fn a_line_is_one_for_each_combination_in_the_order_of_its_names() {
        let vary = "connections = [100, 1000]\nworkers = [1, 'auto']";
        let line = "w{workers} c{connections} = sluice: --workers={workers} --max-connections={connections}";
        let servers = grid(vary).unwrap().servers(line).unwrap();
        let typed: Vec<String> = servers.iter().map(Spec::typed).collect();
        assert_eq!(typed[1], "w1 c1000 = sluice: --workers=1 --max-connections=1000");
        let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
        assert_eq!(names, ["w1 c100", "w1 c1000", "wauto c100", "wauto c1000"]);
        assert_eq!(names_of(vary, "nginx").unwrap(), ["nginx"]);
        assert_eq!(names_of(vary, "sluice: --workers={workers}").unwrap().len(), 2);
        // Braces of a program are not names of the grid.
        let command = "mine = ./server {port} {\"a\": 1} {}";
        assert_eq!(names_of(vary, command).unwrap(), ["mine"]);
        assert_eq!(names_of("", "mine = ./server {port} {mine}").unwrap(), ["mine"]);
    }

    #[test]
    fn what_is_wrong_with_a_grid_is_told() {
        let line = "w{workers} = sluice: --workers={workers}";
        let said = |vary: &str, line: &str| names_of(vary, line).unwrap_err();
        let worker = said("worker = [1]", line);
        assert!(
            worker.starts_with("{workers} is not in [vary] (is it worker?); allowed: worker, "),
            "{worker}"
        );
        for values in ["[]", "3", "[true]", "[[1]]"] {
            let error = said(&format!("workers = {values}"), line);
            assert_eq!(error, "workers: allowed: numbers and words, such as workers = [1, 2, 'inf']");
        }
        assert_eq!(said("workers = [1, 2, 1]", line), "workers: 1 is listed twice");
        assert_eq!(said("port = [1]", line), "port: the lab fills in {port} itself; allowed: another name");
        assert!(said("'a b' = [1]", line).starts_with("a b: allowed in a name: letters"));
        let alike = said("workers = [1, 2]", "same = sluice: --workers={workers}");
        assert!(alike.contains("makes 2 servers with the name same"), "{alike}");
        let eleven = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]";
        let many = said(&format!("workers = {eleven}\nn = {eleven}"), "{n} {workers} = sluice");
        assert!(many.ends_with("makes 121 servers; allowed: at most 100"), "{many}");
        let wrong = said("kind = ['nginx', 'ngnix']", "{kind}");
        assert!(wrong.contains("is it nginx?"), "{wrong}");
    }

    #[test]
    fn what_no_line_names_is_unused() {
        let grid = grid("workers = [1]\nconnections = [1]").unwrap();
        let lines = ["w{workers} = sluice".to_owned(), "nginx".to_owned()];
        assert_eq!(grid.unused(&lines).unwrap(), "connections: no server uses {connections}");
        let lines = ["{workers} {connections} = sluice".to_owned()];
        assert_eq!(grid.unused(&lines), None);
    }
}
