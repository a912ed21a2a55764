//! The results of a search for settings: each pass's candidates, and heat maps of pairs of values. A cell
//! has the best result of all candidates with both values, whatever their other values are.

use super::figure::Table;
use super::sample::{cell, digits};
use crate::analysis::series::mark;
use crate::description::quantity::{Better, Quantity};
use crate::record::tuned::{Found, Pass, Rank};

/// The results of a search.
#[derive(Debug)]
pub(super) struct Searched {
    pub(super) quantity: String,
    pub(super) plateau: String,
    pub(super) maps: Vec<HeatMap>,
    /// For each pass, its name and its table.
    pub(super) passes: Vec<(String, Table)>,
}

/// A map with the values of one setting in rows, and of another in columns.
#[derive(Debug)]
pub(super) struct HeatMap {
    pub(super) title: String,
    pub(super) headings: Vec<String>,
    pub(super) rows: Vec<(String, Vec<Cell>)>,
}

/// A pair of values.
#[derive(Debug)]
pub(super) struct Cell {
    pub(super) text: String,
    /// In percent: 100 is the best cell of the map, 0 the worst.
    pub(super) heat: f64,
}

impl Searched {
    pub(super) fn of(found: &Found) -> Self {
        // The last is that of the confirmatory rounds.
        let before = found.passes.split_last().map_or(&[][..], |(_, before)| before);
        let ranks: Vec<&Rank> = before.iter().flat_map(|pass| &pass.ranks).collect();
        let count = found.dimensions.len();
        let pairs = (0..count).flat_map(|row| (row + 1..count).map(move |column| (row, column)));
        let maps = pairs.map(|(row, column)| HeatMap::of(found, &ranks, row, column)).collect();
        Self {
            quantity: found.quantity.clone(),
            plateau: found.plateau.join("; "),
            maps,
            passes: found.passes.iter().map(|pass| (pass.in_words(), table(pass, &found.quantity))).collect(),
        }
    }
}

fn table(pass: &Pass, quantity: &str) -> Table {
    let mut table = Table::new(&["settings", quantity]);
    for rank in &pass.ranks {
        let told = |median: f64| digits(median) + mark(rank.is_valid);
        table.rows.push(vec![rank.server.clone(), rank.median.map_or("would not run".to_owned(), told)]);
    }
    table
}

impl HeatMap {
    fn of(found: &Found, ranks: &[&Rank], row: usize, column: usize) -> Self {
        let more_is_better =
            Quantity::named(&found.quantity).is_ok_and(|quantity| quantity.better == Better::More);
        let better = |one: f64, other: f64| if more_is_better { one.max(other) } else { one.min(other) };
        let (down, across) = (&found.dimensions[row], &found.dimensions[column]);
        let best = |of_row: &String, of_column: &String| {
            let has_both = |rank: &&&Rank| rank.values[row] == *of_row && rank.values[column] == *of_column;
            ranks.iter().filter(has_both).filter_map(|rank| rank.median).reduce(better)
        };
        let row_of = |of_row| across.values.iter().map(|of| best(of_row, of)).collect::<Vec<_>>();
        let values: Vec<Vec<Option<f64>>> = down.values.iter().map(row_of).collect();
        let all = || values.iter().flatten().copied().flatten();
        let (least, most) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
        let heat = |value: f64| {
            let part = if most > least { (value - least) / (most - least) } else { 1.0 };
            (100.0 * if more_is_better { part } else { 1.0 - part }).round()
        };
        let of = |value: &Option<f64>| Cell { text: cell(*value), heat: value.map_or(0.0, heat) };
        let cells = values.iter().map(|row| row.iter().map(of).collect());
        Self {
            title: format!("{} down, {} across", down.name, across.name),
            headings: across.values.clone(),
            rows: down.values.iter().cloned().zip(cells).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_has_the_best_of_those_with_both_values() {
        let rank = |values: [&str; 3], median| Rank {
            server: String::new(),
            values: values.map(str::to_owned).into(),
            median,
            is_valid: true,
        };
        let ranks = vec![
            rank(["1", "on", "x"], Some(30.0)),
            rank(["1", "on", "y"], Some(20.0)),
            rank(["2", "off", "x"], Some(40.0)),
            rank(["2", "on", "x"], None),
        ];
        let fresh = Pass { name: "fresh".to_owned(), rounds: 10, ranks: Vec::new() };
        let dimensions = ["workers=1,2", "send=on,off", "third=x,y"].map(|text| text.parse().unwrap());
        let found = Found {
            dimensions: dimensions.into(),
            quantity: "CPU us/reply".to_owned(),
            passes: vec![Pass { name: "all".to_owned(), rounds: 2, ranks }, fresh],
            plateau: Vec::new(),
        };
        let searched = Searched::of(&found);
        assert_eq!((searched.maps.len(), searched.passes.len()), (3, 2));
        let map = &searched.maps[0];
        assert_eq!(
            (map.title.as_str(), &map.headings[..]),
            ("workers down, send across", &["on".to_owned(), "off".into()][..])
        );
        let cells = |row: usize| {
            map.rows[row].1.iter().map(|cell| (cell.text.as_str(), cell.heat)).collect::<Vec<_>>()
        };
        assert_eq!(cells(0), [("20.0", 100.0), ("–", 0.0)], "less is better");
        assert_eq!(cells(1), [("–", 0.0), ("40.0", 0.0)]);
    }
}
