//! A finding: a result of others that an experiment checks. It is a relation between servers of the
//! experiment, in one line, and the size that a paper gives.
//!
//! A relation is `TERM > TERM in QUANTITY at POINT`, or with `<` or `=`. If the terms name their own
//! points, there is no `at POINT` at the end: `A at P > A at Q in QUANTITY`. Lists use semicolons, because
//! names have blanks and commas.

use std::fmt;
use std::str::FromStr;

use serde::ser::SerializeTuple as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::description::quantity::Quantity;

/// A result of others, as a relation that can be checked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written")]
pub struct Finding {
    /// Its row in the catalogue of papers, such as `B04-8`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Where it is published.
    pub paper: String,
    /// Its wording there.
    pub says: String,
    /// The relation to check here.
    pub expect: Relation,
    /// The ratio of the left term to the right one in the paper.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Size>,
    /// How far from the size, or from 1, still counts as equal, as a fraction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<f64>,
}

/// A ratio, or a range of ratios.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size {
    /// Its lower end.
    pub least: f64,
    /// Its upper end; the same for one ratio.
    pub most: f64,
}

/// The claim about two terms.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Relation {
    /// The term before the sign.
    pub left: Term,
    /// The sign.
    pub is: Is,
    /// The term after the sign.
    pub right: Term,
    /// The compared quantity.
    pub quantity: Quantity,
}

/// How the left term compares with the right one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Is {
    /// The left term has more.
    More,
    /// The left term has less.
    Less,
    /// Both have the same.
    Equal,
}

/// One side of a relation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Term {
    /// The value that the term takes from its servers and points.
    pub of: Of,
    /// One server, or the candidates for the best.
    pub servers: Vec<String>,
    /// One point, or those of a peak or an area.
    pub points: Vec<String>,
}

/// The value that a term takes from its servers and points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Of {
    /// One server at one point.
    Server,
    /// The best of several servers at one point.
    Best,
    /// The best of one server at several points.
    Peak,
    /// The area below one server's curve over the rates of several points.
    Area,
}

/// A table of `[[findings]]`, as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    id: Option<String>,
    paper: String,
    says: String,
    expect: Relation,
    size: Option<Size>,
    within: Option<f64>,
}

impl TryFrom<Written> for Finding {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let Written { id, paper, says, expect, size, within } = written;
        let sign = expect.is.sign();
        let wrong = |key, value: String, allowed: &str| {
            Err(format!("{key}: {value} is not allowed with {sign}; allowed: {allowed}"))
        };
        match (expect.is, size) {
            // A range may begin at 1: it claims a difference, but not a large one.
            (Is::More, Some(size)) if size.least < 1.0 || size.most <= 1.0 => {
                return wrong("size", size.to_string(), "above 1, the left over the right");
            }
            (Is::Less, Some(size)) if size.most > 1.0 || size.least >= 1.0 => {
                return wrong("size", size.to_string(), "below 1, the left over the right");
            }
            _ => {}
        }
        match (expect.is, within) {
            (Is::Equal, None) => {
                return Err("within: it is missing; = needs it, such as within = 0.02".into());
            }
            (Is::Equal, Some(within)) if !(within > 0.0 && within < 1.0) => {
                return wrong("within", within.to_string(), "above 0 and below 1, as a part of one");
            }
            (Is::More | Is::Less, Some(within)) => {
                return wrong("within", within.to_string(), "with = only");
            }
            _ => {}
        }
        Ok(Self { id, paper, says, expect, size, within })
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "size: allowed: a ratio such as 1.65, or a range such as [1.12, 1.15]")]
        enum OneOrTwo {
            One(f64),
            Two([f64; 2]),
        }
        let [least, most] = match OneOrTwo::deserialize(deserializer)? {
            OneOrTwo::One(one) => [one, one],
            OneOrTwo::Two(two) => two,
        };
        let size = Self { least, most };
        if least > 0.0 && most.is_finite() && least <= most {
            return Ok(size);
        }
        Err(D::Error::custom(format!(
            "size: {size} is not allowed; allowed: a ratio above 0, or a range with its lower end first"
        )))
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut pair = serializer.serialize_tuple(2)?;
        pair.serialize_element(&self.least)?;
        pair.serialize_element(&self.most)?;
        pair.end()
    }
}

/// `1.65`, or `1.12 to 1.15`.
impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.least)?;
        if self.most > self.least { write!(f, " to {}", self.most) } else { Ok(()) }
    }
}

impl Size {
    /// The size of the right term over the left one.
    pub fn inverse(self) -> Self {
        Self { least: 1.0 / self.most, most: 1.0 / self.least }
    }
}

impl Is {
    /// The sign as the file has it.
    pub fn sign(self) -> char {
        match self {
            Self::More => '>',
            Self::Less => '<',
            Self::Equal => '=',
        }
    }
}

/// In the order in which the text is searched for them: a load such as `mat: mean < 0.5ms` has a `<`.
const SIGNS: [Is; 3] = [Is::More, Is::Equal, Is::Less];

impl FromStr for Relation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let allowed = || {
            format!(
                "{text:?} is no relation; allowed: 'TERM > TERM in QUANTITY at POINT', with >, < or =, such \
                 as 'nginx > lighttpd in replies/s at one-packet, 2x'. A TERM is 'SERVER', 'SERVER at \
                 POINT', 'best of (SERVER; SERVER)', 'peak of SERVER at (POINT; POINT)' or 'area of SERVER \
                 at (POINT; POINT)'"
            )
        };
        let split = |is: Is| text.split_once(&format!(" {} ", is.sign())).map(|of| (is, of));
        let (is, (left, rest)) = SIGNS.into_iter().find_map(split).ok_or_else(allowed)?;
        // Names may contain the word.
        let cuts = rest.match_indices(" in ").map(|(at, word)| (&rest[..at], &rest[at + word.len()..]));
        let cut = cuts.clone().find(|(_, rest)| quantity(rest).is_ok()).or_else(|| cuts.clone().next());
        let (right, rest) = cut.ok_or_else(allowed)?;
        let (quantity, point) = quantity(rest)?;
        let [left, right] = [left, right].map(|term| Term::of(term.trim(), point).ok_or_else(allowed));
        let (left, right) = (left?, right?);
        let has_area = [&left, &right].map(|term| term.of == Of::Area);
        if has_area != [false; 2] && (has_area != [true; 2] || left.points != right.points) {
            return Err(format!(
                "{text:?}: an area is compared with another over the same points; allowed: 'area of A at \
                 (P; Q) > area of B at (P; Q) in QUANTITY'"
            ));
        }
        if [&left, &right].iter().any(|term| matches!(term.of, Of::Best | Of::Peak)) {
            Quantity::to_be_best(quantity.name).map_err(|why| format!("{text:?}: {why}"))?;
        }
        Ok(Self { left, is, right, quantity })
    }
}

/// `QUANTITY`, or `QUANTITY at POINT`.
fn quantity(text: &str) -> Result<(Quantity, Option<&str>), String> {
    let (name, point) = text.split_once(" at ").map_or((text, None), |(name, at)| (name, Some(at.trim())));
    Ok((Quantity::named(name.trim())?, point))
}

impl Term {
    /// `None` if the text is no term, or has no point.
    fn of(text: &str, point: Option<&str>) -> Option<Self> {
        let several = |of, text: &str| {
            let (server, points) = text.split_once(" at (")?;
            let points = list(points.strip_suffix(')')?)?;
            Some(Self { of, servers: vec![server.trim().to_owned()], points })
        };
        if let Some(rest) = text.strip_prefix("peak of ") {
            return several(Of::Peak, rest);
        }
        if let Some(rest) = text.strip_prefix("area of ") {
            return several(Of::Area, rest);
        }
        let at = |point: &str| vec![point.trim().to_owned()];
        if let Some(rest) = text.strip_prefix("best of (") {
            let alone = rest.strip_suffix(')').zip(point);
            let (servers, point) = alone.or_else(|| rest.split_once(") at "))?;
            return Some(Self { of: Of::Best, servers: list(servers)?, points: at(point) });
        }
        let (server, point) = point.map(|point| (text, point)).or_else(|| text.split_once(" at "))?;
        let is_none = server.is_empty() || point.is_empty();
        (!is_none).then(|| Self { of: Of::Server, servers: at(server), points: at(point) })
    }

    /// The term's point, if it has exactly one.
    fn point(&self) -> Option<&str> {
        if let [point] = &self.points[..] { Some(point) } else { None }
    }

    fn name(&self) -> String {
        let servers = self.servers.join("; ");
        match self.of {
            Of::Server => servers,
            Of::Best => format!("best of ({servers})"),
            Of::Peak => format!("peak of {servers}"),
            Of::Area => format!("area of {servers}"),
        }
    }
}

/// At least two names, separated by semicolons.
fn list(text: &str) -> Option<Vec<String>> {
    let names: Vec<String> = text.split(';').map(|name| name.trim().to_owned()).collect();
    (names.len() > 1 && names.iter().all(|name| !name.is_empty())).then_some(names)
}

impl Relation {
    /// Both terms.
    pub fn terms(&self) -> [&Term; 2] {
        [&self.left, &self.right]
    }

    /// The point, if both terms have the same one.
    pub fn point(&self) -> Option<&str> {
        self.left.point().filter(|point| self.right.point() == Some(*point))
    }
}

impl<'de> Deserialize<'de> for Relation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// Formats the relation as the file has it.
impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { left, is, right, quantity } = self;
        if let Some(point) = self.point() {
            let (left, right) = (left.name(), right.name());
            return write!(f, "{left} {} {right} in {} at {point}", is.sign(), quantity.name);
        }
        write!(f, "{left} {} {right} in {}", is.sign(), quantity.name)
    }
}

/// Formats the term with its points.
impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let points = self.points.join("; ");
        match self.of {
            Of::Server | Of::Best => write!(f, "{} at {points}", self.name()),
            Of::Peak | Of::Area => write!(f, "{} at ({points})", self.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relation(text: &str) -> Relation {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    fn finding(more: &str) -> Result<Finding, String> {
        toml::from_str(&format!("paper = 'p'\nsays = 's'\n{more}")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_relation_is_written_as_it_is_read() {
        for text in [
            "symped, 2 processes > sped in replies/s at specweb99, 100 sessions, from disk",
            "one in three < two in replies/s at one in two, 2x",
            "a = b in CPU us/reply at support, mat: mean < 0.5ms",
            "10 > best of (1; 50; inf) in replies/s at one-packet, 2x",
            "sped at specweb99, 2x < sped at specweb99, 1x in replies/s",
            "sped at 2x < peak of sped at (0.5x; 1x; 2x) in replies/s",
            "peak of a at (one, 1x; one, 2x) = peak of b, c at (one, 1x; one, 2x) in Mbit/s",
            "area of a at (one, 0.5x; one, 1x) > area of b at (one, 0.5x; one, 1x) in 2xx/s",
            "best of (a; b) at 1x > best of (a; b) at 2x in p99 ms",
        ] {
            assert_eq!(relation(text).to_string(), text);
        }
        let across = relation("best of (a; b, c) at P, 1 > peak of d at (P, 1; Q) in replies/s");
        assert_eq!((across.left.of, across.right.of, across.is), (Of::Best, Of::Peak, Is::More));
        assert_eq!(across.left.servers, ["a", "b, c"]);
        assert_eq!(
            (across.left.points, across.right.points),
            (vec!["P, 1".into()], vec!["P, 1".into(), "Q".into()])
        );
        let mat = relation("a at x, mat: mean < 0.5ms > b at y in replies/s");
        assert_eq!((mat.is, mat.left.points), (Is::More, vec!["x, mat: mean < 0.5ms".to_owned()]));
    }

    #[test]
    fn what_is_no_relation_is_refused_with_what_is_allowed() {
        for text in [
            "",
            "a b in replies/s at p",
            "a > b at p",
            "a > b in replies/s",
            "a > b in nothing at p",
            "best of (a) > b in replies/s at p",
            "best of (a; ) > b in replies/s at p",
            "best of (a; b > c in replies/s at p",
            "peak of a > b in replies/s at p",
            "peak of a at (p) > b in replies/s at p",
            " > b in replies/s at p",
            "area of a at (p; q) > b in replies/s at p",
            "area of a at (p; q) > area of b at (p; r) in replies/s",
        ] {
            let error = text.parse::<Relation>().expect_err(text);
            assert!(error.contains("allowed: "), "{text}: {error}");
        }
    }

    #[test]
    fn a_size_is_on_the_side_that_the_relation_says() {
        let expect = |sign, more: &str| finding(&format!("expect = 'a {sign} b in replies/s at p'\n{more}"));
        assert_eq!(expect('>', "size = 2").unwrap().size, Some(Size { least: 2.0, most: 2.0 }));
        assert_eq!(expect('>', "size = [1.12, 1.15]").unwrap().size.unwrap().to_string(), "1.12 to 1.15");
        assert_eq!(expect('>', "size = [1, 2]").unwrap().size.unwrap().to_string(), "1 to 2");
        assert_eq!(expect('<', "size = 0.95").unwrap().size.unwrap().to_string(), "0.95");
        assert_eq!(expect('=', "within = 0.02\nsize = 0.95").unwrap().within, Some(0.02));
        for (sign, more, said) in [
            ('>', "size = 0.95", "size: 0.95 is not allowed with >; allowed: above 1"),
            ('>', "size = 1", "size: 1 is not allowed with >"),
            ('>', "size = [0.95, 1.1]", "size: 0.95 to 1.1 is not allowed with >"),
            ('<', "size = 1.65", "size: 1.65 is not allowed with <; allowed: below 1"),
            ('>', "size = [1.15, 1.12]", "size: 1.15 is not allowed"),
            ('>', "size = -1", "size: -1 is not allowed"),
            ('>', "size = 'much'", "allowed: a ratio such as 1.65, or a range"),
            ('>', "within = 0.02", "within: 0.02 is not allowed with >; allowed: with = only"),
            ('=', "", "within: it is missing"),
            ('=', "within = 2", "within: 2 is not allowed with =; allowed: above 0 and below 1"),
            ('>', "sise = 2", "sise"),
        ] {
            let error = expect(sign, more).expect_err(more);
            assert!(error.contains(said), "{more}: {error}");
        }
    }
}
