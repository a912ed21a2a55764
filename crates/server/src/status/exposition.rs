//! In which of its two text formats Prometheus wants the metrics, as the client's Accept says (RFC 9110
//! section 12.5.1).
//!
//! Who doesn't ask for `OpenMetrics` by name gets the older format, which everybody reads.

/// A text format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposition {
    /// Prometheus's own, version 0.0.4.
    Plain,
    /// `OpenMetrics` 1.0.0.
    OpenMetrics,
}

impl Exposition {
    /// The one that a client prefers that has sent Accept lines with these values, which are one list.
    /// Elements that can't be read are skipped, and so are versions that are not to be had.
    pub fn accepted<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let (mut plain, mut open) = (0.0, 0.0);
        let mut how_exact = 0;
        for element in values.into_iter().flat_map(|value| value.split(|&byte| byte == b',')) {
            let Some(Range { name, version, weight }) = Range::read(element) else { continue };
            let is_had = |had: &str| version.is_none_or(|version| version == had);
            if name.eq_ignore_ascii_case("application/openmetrics-text") && is_had("1.0.0") {
                open = weight;
            }
            let exact = match name {
                "*/*" => 1,
                name if name.eq_ignore_ascii_case("text/*") => 2,
                name if name.eq_ignore_ascii_case("text/plain") && is_had("0.0.4") => 3,
                _ => continue,
            };
            if exact > how_exact {
                (how_exact, plain) = (exact, weight);
            }
        }
        if open > 0.0 && open >= plain { Self::OpenMetrics } else { Self::Plain }
    }

    /// The media type of text in this format.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Plain => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// An element of Accept.
struct Range<'a> {
    name: &'a str,
    version: Option<&'a str>,
    weight: f32,
}

impl<'a> Range<'a> {
    fn read(element: &'a [u8]) -> Option<Self> {
        let mut parts = std::str::from_utf8(element).ok()?.split(';').map(str::trim);
        let mut range = Self { name: parts.next()?, version: None, weight: 1.0 };
        for (key, value) in parts.filter_map(|part| part.split_once('=')) {
            match key {
                "version" => range.version = Some(value.trim_matches('"')),
                "q" | "Q" => {
                    range.weight = value.parse().ok().filter(|weight| (0.0..=1.0).contains(weight))?;
                }
                _ => {}
            }
        }
        Some(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openmetrics_is_for_those_who_ask_for_it() {
        let prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                          text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        for asked in [
            prometheus,
            "application/openmetrics-text",
            "text/plain;q=0.5, Application/OpenMetrics-Text; charset=utf-8; version=\"1.0.0\"",
            "*/*, text/plain;q=0.2, application/openmetrics-text;q=0.2",
        ] {
            assert_eq!(Exposition::accepted([asked.as_bytes()]), Exposition::OpenMetrics, "{asked}");
        }
        for asked in [
            "",
            "*/*",
            "text/plain",
            "text/plain;version=0.0.4",
            "application/*",
            "application/json",
            "application/openmetrics-text;version=2.0.0",
            "application/openmetrics-text;q=0",
            "application/openmetrics-text;q=much",
            "application/openmetrics-text;q=0.5, text/plain",
            "application/openmetrics-text;q=0.5, */*",
            "text/plain;version=0.0.4, application/openmetrics-text;version=1.0.0;q=0.9",
            "\u{fffd},;,=;q=,,text/plain;q=2",
        ] {
            assert_eq!(Exposition::accepted([asked.as_bytes()]), Exposition::Plain, "{asked}");
        }
        assert_eq!(Exposition::accepted([]), Exposition::Plain);
        let lines: [&[u8]; 2] = [b"text/plain;q=0.1", b"application/openmetrics-text;q=0.2"];
        assert_eq!(Exposition::accepted(lines), Exposition::OpenMetrics, "lines are one list");
    }
}
