//! Chooses which of its two text formats Prometheus gets for the metrics, from the request's Accept field
//! (RFC 9110 section 12.5.1).
//!
//! A client that does not prefer `OpenMetrics` gets the older format, which every client reads.

use http1::media;

/// A text format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposition {
    /// Prometheus's own text format, version 0.0.4.
    Plain,
    /// `OpenMetrics` 1.0.0.
    OpenMetrics,
}

const PLAIN: &str = "text/plain;version=0.0.4";
const OPEN_METRICS: &str = "application/openmetrics-text;version=1.0.0";

impl Exposition {
    /// The format that a client prefers, from the values of its Accept lines. Together they form one
    /// list.
    pub fn accepted<'a>(values: &(impl Iterator<Item = &'a [u8]> + Clone)) -> Self {
        if media::prefers(values, OPEN_METRICS, PLAIN) { Self::OpenMetrics } else { Self::Plain }
    }

    /// The media type of text in this format.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Plain => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openmetrics_is_for_those_who_ask_for_it() {
        let accepted = |values: &[&[u8]]| Exposition::accepted(&values.iter().copied());
        let prometheus = "application/openmetrics-text;version=1.0.0,\
                          application/openmetrics-text;version=0.0.1;q=0.75,\
                          text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        for asked in [
            prometheus,
            "application/openmetrics-text",
            "text/plain;q=0.5, Application/OpenMetrics-Text; charset=utf-8; version=\"1.0.0\"",
            "*/*, text/plain;q=0.1, application/openmetrics-text;q=0.2",
            // Clients that accept no text at all.
            "application/*",
        ] {
            assert_eq!(accepted(&[asked.as_bytes()]), Exposition::OpenMetrics, "{asked}");
        }
        for asked in [
            "",
            "*/*",
            "text/plain",
            "text/plain;version=0.0.4",
            "text/plain;q=0.2, application/openmetrics-text;q=0.2",
            "application/json",
            "application/openmetrics-text;version=2.0.0",
            "application/openmetrics-text;q=0",
            "application/openmetrics-text;q=much",
            "application/openmetrics-text;q=0.5, text/plain",
            "application/openmetrics-text;q=0.5, */*",
            "text/plain;version=0.0.4, application/openmetrics-text;version=1.0.0;q=0.9",
            "\u{fffd},;,=;q=,,text/plain;q=2",
        ] {
            assert_eq!(accepted(&[asked.as_bytes()]), Exposition::Plain, "{asked}");
        }
        assert_eq!(accepted(&[]), Exposition::Plain);
        let lines: [&[u8]; 2] = [b"text/plain;q=0.1", b"application/openmetrics-text;q=0.2"];
        assert_eq!(accepted(&lines), Exposition::OpenMetrics, "lines are one list");
    }
}
