//! Content codings and their negotiation by Accept-Encoding (RFC 9110 section 12.5.3).
//!
//! The server has some files in several codings, compressed in advance. [`accepted`] reads what a client
//! accepts, and [`Accepted::best`] picks an available coding. No request is refused for this. A client
//! that excludes everything, including the uncoded file, still gets the uncoded file. The RFC prefers
//! that to an error.

/// A content coding in which files may be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    /// RFC 7932.
    Brotli,
    /// RFC 8878.
    Zstd,
    /// RFC 1952.
    Gzip,
}

impl Coding {
    /// All codings. On a tie the first wins; the order is by compression, the best first.
    pub const ALL: [Self; 3] = [Self::Brotli, Self::Zstd, Self::Gzip];

    /// The name in Accept-Encoding and Content-Encoding.
    pub const fn token(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
        }
    }

    /// The extension of files in this coding, including the dot.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Brotli => ".br",
            Self::Zstd => ".zst",
            Self::Gzip => ".gz",
        }
    }
}

/// A set of codings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodingSet(u8);

impl CodingSet {
    /// No coding.
    pub const EMPTY: Self = Self(0);

    /// This set with `coding` added.
    #[must_use]
    pub const fn with(self, coding: Coding) -> Self {
        Self(self.0 | 1 << coding as u8)
    }

    /// Whether `coding` is in the set.
    pub const fn contains(self, coding: Coding) -> bool {
        self.0 & 1 << coding as u8 != 0
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// What a client accepts: a weight for each coding, in thousandths; 0 means refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    codings: [u16; Coding::ALL.len()],
    /// 0 unless the client names the uncoded file. That file is always accepted, but preferred only if it
    /// is named.
    identity: u16,
}

impl Accepted {
    /// The uncoded file alone, for a client that sends no Accept-Encoding.
    pub const NOTHING: Self = Self { codings: [0; Coding::ALL.len()], identity: 0 };

    /// The coding to send out of those `available`, or `None` for the uncoded file. The highest weight
    /// wins; on a tie, the first of [`Coding::ALL`]. The uncoded file is sent if the client names it with
    /// a higher weight, or refuses all available codings.
    pub fn best(self, available: CodingSet) -> Option<Coding> {
        let mut best = None;
        let mut best_weight = 0;
        for coding in Coding::ALL {
            let weight = self.codings[coding as usize];
            if weight > best_weight && available.contains(coding) {
                (best, best_weight) = (Some(coding), weight);
            }
        }
        best.filter(|_| best_weight >= self.identity)
    }
}

/// Parses the values of the Accept-Encoding lines, which are one list.
///
/// Without the field the RFC allows anything. But clients that do not send the field usually cannot
/// decode anything, so they get the uncoded file. Elements that cannot be parsed and unknown codings are
/// skipped.
pub fn accepted<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Accepted {
    let mut accepted = Accepted::NOTHING;
    let mut named = CodingSet::EMPTY;
    let mut others = 0;
    for element in values.into_iter().flat_map(|value| value.split(|&b| b == b',')) {
        let Some((name, weight)) = element_weight(element) else { continue };
        let coding = match name {
            b"*" => {
                others = weight;
                continue;
            }
            name if name.eq_ignore_ascii_case(b"identity") => {
                accepted.identity = weight;
                continue;
            }
            // An older name (RFC 9110 section 8.4.1.3).
            name if name.eq_ignore_ascii_case(b"x-gzip") => Coding::Gzip,
            name => match Coding::ALL.into_iter().find(|c| name.eq_ignore_ascii_case(c.token().as_bytes())) {
                Some(coding) => coding,
                None => continue,
            },
        };
        named = named.with(coding);
        accepted.codings[coding as usize] = weight;
    }
    for coding in Coding::ALL {
        if !named.contains(coding) {
            accepted.codings[coding as usize] = others;
        }
    }
    accepted
}

/// One element of the list: its name, and its weight in thousandths.
fn element_weight(element: &[u8]) -> Option<(&[u8], u16)> {
    let mut parts = element.splitn(2, |&b| b == b';');
    let name = parts.next()?.trim_ascii();
    let Some(weight) = parts.next() else { return Some((name, 1000)) };
    match weight.trim_ascii() {
        [b'q' | b'Q', b'=', weight @ ..] => Some((name, qvalue(weight)?)),
        _ => None,
    }
}

/// A weight from 0 to 1 with at most three decimals (RFC 9110 section 12.4.2), in thousandths.
pub(crate) fn qvalue(text: &[u8]) -> Option<u16> {
    let (whole, decimals) = match text {
        [whole] => (whole, &[][..]),
        [whole, b'.', decimals @ ..] if decimals.len() <= 3 => (whole, decimals),
        _ => return None,
    };
    let mut thousandths = match whole {
        b'0' => 0,
        b'1' => 1000,
        _ => return None,
    };
    for (digit, unit) in decimals.iter().zip([100, 10, 1]) {
        thousandths += u16::from(digit.is_ascii_digit().then(|| digit - b'0')?) * unit;
    }
    (thousandths <= 1000).then_some(thousandths)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use Coding::{Brotli, Gzip, Zstd};

    const EVERYTHING: CodingSet = CodingSet::EMPTY.with(Brotli).with(Zstd).with(Gzip);

    fn best(value: &str, available: CodingSet) -> Option<Coding> {
        accepted(Some(value.as_bytes())).best(available)
    }

    #[test]
    fn what_browsers_send() {
        assert_eq!(best("gzip, deflate, br, zstd", EVERYTHING), Some(Brotli));
        assert_eq!(best("gzip, deflate, br, zstd", CodingSet::EMPTY.with(Gzip).with(Zstd)), Some(Zstd));
        assert_eq!(best("gzip, deflate, br, zstd", CodingSet::EMPTY.with(Gzip)), Some(Gzip));
        assert_eq!(best("gzip, deflate, br, zstd", CodingSet::EMPTY), None);
        assert_eq!(best("gzip, deflate", EVERYTHING), Some(Gzip));
    }

    #[test]
    fn without_the_field_nothing_is_coded() {
        assert_eq!(accepted(None).best(EVERYTHING), None);
        assert_eq!(best("", EVERYTHING), None);
        assert_eq!(best("deflate, compress", EVERYTHING), None);
    }

    #[test]
    fn the_highest_weight_wins() {
        for (value, expected) in [
            ("br;q=0.1, gzip;q=0.2", Some(Gzip)),
            ("br;q=0.2, zstd;q=0.2, gzip;q=0.2", Some(Brotli)),
            ("zstd;q=0.999,gzip;q=1.000", Some(Gzip)),
            ("GZip", Some(Gzip)),
            ("x-gzip;q=0.5", Some(Gzip)),
            ("gzip ; q=0.5 , br\t;\tQ=0", Some(Gzip)),
            ("br;q=0, gzip;q=0.000", None),
            ("*", Some(Brotli)),
            ("*;q=0.1, br;q=0", Some(Zstd)),
            ("br;q=0.1, *", Some(Zstd)),
            ("*;q=0", None),
        ] {
            assert_eq!(best(value, EVERYTHING), expected, "{value}");
        }
    }

    #[test]
    fn the_uncoded_file_wins_only_by_name() {
        for (value, expected) in [
            ("identity, gzip;q=0.5", None),
            ("identity;q=0.5, gzip;q=0.5", Some(Gzip)),
            ("identity, gzip", Some(Gzip)),
            ("gzip;q=0.001", Some(Gzip)),
            ("identity", None),
            ("identity;q=0", None),
            ("identity;q=0, gzip;q=0.1", Some(Gzip)),
        ] {
            assert_eq!(best(value, EVERYTHING), expected, "{value}");
        }
    }

    #[test]
    fn elements_that_cannot_be_read_are_skipped() {
        for element in [
            "br;q=",
            "br;q=2",
            "br;q=1.001",
            "br;q=0.1234",
            "br;q=-1",
            "br;q=.5",
            "br;q",
            "br;level=1",
            "br;q=0.5;x",
            "b r",
            "br;q =1",
            ";q=1",
            "br;q=0.5x",
        ] {
            assert_eq!(best(&format!("{element},gzip;q=0.1,,"), EVERYTHING), Some(Gzip), "{element}");
        }
        assert_eq!(best("br;q=1.", EVERYTHING), Some(Brotli));
        assert_eq!(best("br;q=0.", EVERYTHING), None);
    }

    proptest! {
        /// If every coding has a weight, the weights decide, whatever the order of the list.
        #[test]
        fn nothing_acceptable_is_weighed_higher(
            weights in prop::array::uniform4(0u16..=1000),
            order in Just([0, 1, 2, 3]).prop_shuffle(),
            available in 0u8..8,
        ) {
            let names = ["br", "zstd", "gzip", "identity"];
            let list: Vec<_> = order.iter()
                .map(|&i| format!("{};q={}.{:03}", names[i], weights[i] / 1000, weights[i] % 1000))
                .collect();
            let available = CodingSet(available);
            let chosen = best(&list.join(", "), available);
            let weight = chosen.map_or(weights[3], |coding| weights[coding as usize]);
            for coding in Coding::ALL.into_iter().filter(|&c| available.contains(c)) {
                prop_assert!(weight >= weights[coding as usize], "{:?} over {:?}", chosen, coding);
            }
            if let Some(chosen) = chosen {
                prop_assert!(weight > 0 && weight >= weights[3] && available.contains(chosen));
            }
        }

        #[test]
        fn nothing_panics(value in "[a-z*,;=q0-9. ]{0,40}|.{0,40}") {
            accepted(Some(value.as_bytes())).best(EVERYTHING);
        }
    }
}
