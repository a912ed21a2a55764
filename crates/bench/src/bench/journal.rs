//! What an experiment has measured so far, as a file of JSON lines, so that it can be interrupted and gone on with.
//!
//! The first line holds the settings, each other one a key and a value. What is missing is what remains to be done.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// An open journal.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    entries: HashMap<String, Value>,
}

impl Journal {
    /// Goes on with the journal at `path`, or begins it. One with other settings is refused.
    pub(crate) fn open(path: &Path, settings: &Value) -> Result<Self> {
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .with_context(|| format!("cannot open {}", path.display()))?;
        let text = fs::read_to_string(path)?;
        // A line without its end was cut off in the middle, and does not count.
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        file.set_len(whole.len() as u64)?;
        let mut lines = whole.lines();
        match lines.next() {
            None => writeln!(file, "{}", json!({ "settings": settings }))?,
            Some(line) => {
                let found: Value = serde_json::from_str(line)
                    .with_context(|| format!("{} is no journal", path.display()))?;
                ensure!(
                    found["settings"] == *settings,
                    "{} was made with other settings: name another file with --journal, or remove it\n  there: {}\n  here:  {settings}",
                    path.display(),
                    found["settings"]
                );
            }
        }
        let mut entries = HashMap::new();
        for line in lines {
            let mut entry: Value = serde_json::from_str(line)
                .with_context(|| format!("{}: a line is no JSON: {line}", path.display()))?;
            let key = entry["key"].as_str().context("a line without a key")?.to_owned();
            entries.insert(key, entry["value"].take());
        }
        Ok(Self { file, entries })
    }

    /// What the journal says under `key`.
    pub(crate) fn get<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>> {
        let Some(value) = self.entries.get(key) else { return Ok(None) };
        let value = serde_json::from_value(value.clone());
        value.map(Some).with_context(|| format!("the journal's entry {key} is of another version"))
    }

    /// Whether there is something under `key`.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// Writes down what was measured.
    pub(crate) fn put(&mut self, key: &str, value: &impl Serialize) -> Result<()> {
        let value = serde_json::to_value(value)?;
        writeln!(self.file, "{}", json!({ "key": key, "value": value }))?;
        self.entries.insert(key.to_owned(), value);
        Ok(())
    }

    /// What is under `key`, measured now if it was not before.
    pub(crate) fn get_or<T: Serialize + DeserializeOwned>(
        &mut self,
        key: &str,
        measure: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        if let Some(value) = self.get(key)? {
            return Ok(value);
        }
        let value = measure()?;
        self.put(key, &value)?;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_goes_on_where_it_was_cut_off() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/journal");
        let mut journal = Journal::open(&path, &json!({ "rate": 5 })).unwrap();
        journal.put("a", &1.5).unwrap();
        journal.put("b", &2.5).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, &text[..text.len() - 4]).unwrap();

        let mut journal = Journal::open(&path, &json!({ "rate": 5 })).unwrap();
        assert_eq!(journal.get::<f64>("a").unwrap(), Some(1.5));
        assert!(!journal.has("b"));
        assert!((journal.get_or("b", || Ok(3.5)).unwrap() - 3.5f64).abs() < 1e-9);
        let journal = Journal::open(&path, &json!({ "rate": 5 })).unwrap();
        assert_eq!(journal.get::<f64>("b").unwrap(), Some(3.5));
        assert!(journal.get::<String>("a").is_err());
    }

    #[test]
    fn other_settings_are_another_journal() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        Journal::open(&path, &json!({ "rate": 5 })).unwrap();
        let error = Journal::open(&path, &json!({ "rate": 6 })).unwrap_err();
        assert!(error.to_string().contains("other settings"), "{error}");
    }
}
