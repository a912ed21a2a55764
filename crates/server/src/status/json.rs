//! A snapshot as JSON, and how `sluice status` reads it back. The schema is in docs/status.md. Later
//! versions may add names, and a reader ignores names that it does not know. So clients and servers of
//! different versions understand each other.

use results::status::{SCHEMA, Snapshot};
use serde::Deserialize;

/// The answer is not a snapshot.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The answer is not JSON.
    #[error("the status is not JSON: {0}")]
    Syntax(serde_json::Error),
    /// The answer is other JSON.
    #[error("the status can't be understood: {0}")]
    Other(serde_json::Error),
    /// The answer has the schema of another version of the program.
    #[error("the status has schema {0}, this program reads {SCHEMA}")]
    Schema(u64),
}

impl From<serde_json::Error> for ReadError {
    fn from(error: serde_json::Error) -> Self {
        if error.is_data() { Self::Other(error) } else { Self::Syntax(error) }
    }
}

/// Renders a snapshot as one JSON object, indented.
pub fn render(snapshot: &Snapshot) -> String {
    // Strings, numbers and lists of them can always be written as JSON.
    serde_json::to_string_pretty(snapshot).unwrap_or_default() + "\n"
}

/// Parses what [`render`] wrote, in this or another version of the program.
///
/// # Errors
///
/// The text is not a snapshot, or has a schema that this version does not know.
pub fn read(text: &[u8]) -> Result<Snapshot, ReadError> {
    /// The member that every snapshot has.
    #[derive(Deserialize)]
    struct Schema {
        schema: u64,
    }

    match serde_json::from_slice(text)? {
        Schema { schema: SCHEMA } => Ok(serde_json::from_slice(text)?),
        Schema { schema } => Err(ReadError::Schema(schema)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::status::tests::sample;

    #[test]
    fn what_is_written_can_be_read() {
        let snapshot = sample();
        assert_eq!(read(render(&snapshot).as_bytes()).unwrap(), snapshot);
    }

    #[test]
    fn the_documented_names_are_there() {
        let value: Value = serde_json::from_str(&render(&sample())).unwrap();
        assert_eq!(value["schema"], 1);
        assert_eq!(value["total"]["accepts"], 12);
        assert_eq!(value["workers"][1]["replies"]["2xx"], 2);
        assert_eq!(value["workers"][1]["responsive"], false);
        assert_eq!(value["kernel"]["listen_overflows"], 9);
        assert_eq!(value["kernel_per_second"]["listen_overflows"], 3.0);
        assert_eq!(value["kernel_per_second"]["over_ms"], 2000);
        assert_eq!(value["listeners"][0]["accept_queue_limit"], 511);
        assert_eq!(value["listeners"][0]["drops"], 4);
        assert_eq!(value["listeners"][0]["drops_per_second"], 2.5);
        assert_eq!(value["listeners"][1]["accept_queue_limit"], Value::Null);
        let pool = &value["pools"][0];
        assert_eq!(
            (&pool["name"], &pool["queued"], &pool["wait_us"]),
            (&"php".into(), &3.into(), &5500.into())
        );
        assert_eq!((&pool["waits_ms"]["0"], &pool["waits_ms"]["8"]), (&1.into(), &1.into()));
    }

    #[test]
    fn other_things_are_refused_by_name() {
        let error = |text: &str| read(text.as_bytes()).unwrap_err().to_string();
        assert!(error("<html>").starts_with("the status is not JSON"));
        assert!(error("{\"schema\":").starts_with("the status is not JSON"));
        assert!(error("{}").starts_with("the status can't be understood: missing field `schema`"));
        assert!(error("[]").starts_with("the status can't be understood: "));
        assert_eq!(error(r#"{"schema":2}"#), "the status has schema 2, this program reads 1");
        assert!(error(r#"{"schema":1}"#).contains("missing field `time_unix_ms`"));
    }
}
