//! The journal of an experiment: everything measured so far, as a file of JSON lines. With it, an
//! interrupted experiment can continue.
//!
//! The first line has the version ([`SCHEMA`]) and the settings. Each other line has a key and a value.
//! What is missing has yet to be measured. Each command that continues the experiment is also recorded,
//! with the machine on which it ran.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use flate2::read::MultiGzDecoder;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::programs::testbed::Testbed;
use crate::record::{SCHEMA, old};

/// An open journal.
#[derive(Debug)]
pub struct Journal {
    /// The path of the file.
    pub path: PathBuf,
    /// `None`: the journal is read only.
    file: Option<File>,
    schema: u64,
    settings: Value,
    entries: HashMap<String, Value>,
}

/// A command that measured something, in a form that others can repeat.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Session {
    /// The command line.
    pub command: String,
    /// The machine and the programs.
    pub machine: Testbed,
    /// The part of the CPUs' time, in percent, that other programs used just before, if the machine was
    /// busy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_percent: Option<u64>,
}

/// The members that differ.
fn differing(one: &Value, other: &Value) -> String {
    let (Some(one), Some(other)) = (one.as_object(), other.as_object()) else {
        return "all of them".to_owned();
    };
    let keys: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    let differ = keys.into_iter().filter(|key| one.get(*key) != other.get(*key));
    differ.map(String::as_str).collect::<Vec<_>>().join(", ")
}

impl Journal {
    /// Opens the journal at `path` to continue it, or creates it. Refuses a journal with other settings.
    pub fn open(path: &Path, settings: &Value) -> Result<Self> {
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .with_context(|| format!("cannot open {}", path.display()))?;
        file.try_lock().with_context(|| format!("another program is writing to {}", path.display()))?;
        let text = fs::read_to_string(path)?;
        if text.is_empty() {
            write_line(&mut file, &json!({ "schema": SCHEMA, "settings": settings }))?;
        }
        let mut this = Self::parse(path, &fs::read_to_string(path)?)?;
        ensure!(
            this.schema == SCHEMA,
            "{} has schema {}, and this version writes schema {SCHEMA}: read it with `sluicelab report`, or \
             continue it with the version that began it",
            path.display(),
            this.schema
        );
        ensure!(
            this.settings == *settings,
            "{} was made with other settings ({}): only the same experiment, with the same builds, CPUs and \
             network, can continue it",
            path.display(),
            differing(&this.settings, settings),
        );
        // A line without an end was cut off, and does not count.
        if !text.is_empty() {
            file.set_len(whole(&text).len() as u64)?;
        }
        this.file = Some(file);
        Ok(this)
    }

    /// Opens the journal at `path` for reading only. It is compressed if its name ends in `.gz`.
    pub fn read(path: &Path) -> Result<Self> {
        let is_compressed = path.extension().is_some_and(|end| end == "gz");
        let text = if is_compressed { decompressed(path) } else { fs::read_to_string(path) };
        Self::parse(path, &text.with_context(|| format!("cannot read {}", path.display()))?)
    }

    fn parse(path: &Path, text: &str) -> Result<Self> {
        let mut lines = whole(text).lines();
        let first = lines.next().and_then(|line| serde_json::from_str::<Value>(line).ok());
        let mut first = first.unwrap_or_default();
        let schema = first.get("schema").map_or(Some(1), Value::as_u64);
        let settings = first.get_mut("settings").map(Value::take);
        let (schema, settings) =
            schema.zip(settings).with_context(|| format!("{} is no journal", path.display()))?;
        ensure!(
            schema <= SCHEMA,
            "{} has schema {schema}, and this version reads 1 to {SCHEMA}: use a newer sluicelab",
            path.display()
        );
        let mut entries = HashMap::new();
        for line in lines {
            let mut entry: Value = serde_json::from_str(line)
                .with_context(|| format!("{}: a line is no JSON: {line}", path.display()))?;
            let key = entry["key"].as_str().context("a line without a key")?.to_owned();
            let mut value = entry["value"].take();
            old::renew(&mut value, schema);
            entries.insert(key, value);
        }
        Ok(Self { path: path.to_owned(), file: None, schema, settings, entries })
    }

    /// The settings with which it was made.
    pub fn settings(&self) -> &Value {
        &self.settings
    }

    /// Records the command that continues the journal, unless it is the same as the last one.
    pub fn begin_session(&mut self, session: &Session) -> Result<()> {
        let before = self.sessions()?;
        // The load of the machine differs each time, so it does not count.
        let is_same = |last: &Session| last.command == session.command && last.machine == session.machine;
        if before.last().is_some_and(is_same) {
            Ok(())
        } else {
            self.put(&session_key(before.len()), session)
        }
    }

    /// The commands that measured, in order.
    pub fn sessions(&self) -> Result<Vec<Session>> {
        let all = (0..).map(|number| self.get(&session_key(number)));
        all.map_while(Result::transpose).collect()
    }

    /// Whether the journal has a value for `key`.
    pub fn has(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// The value for `key`.
    pub fn get<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>> {
        let Some(value) = self.entries.get(key) else { return Ok(None) };
        let value = serde_json::from_value(value.clone());
        value.map(Some).with_context(|| format!("the journal's entry {key} is of another version"))
    }

    /// Records a value.
    pub fn put(&mut self, key: &str, value: &impl Serialize) -> Result<()> {
        let value = serde_json::to_value(value)?;
        let file = self.file.as_mut().context("this journal is only read")?;
        write_line(file, &json!({ "key": key, "value": value }))?;
        self.entries.insert(key.to_owned(), value);
        Ok(())
    }

    /// The value for `key`. Measures it now if there is none.
    pub fn get_or<T: Serialize + DeserializeOwned>(
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

fn decompressed(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    MultiGzDecoder::new(File::open(path)?).read_to_string(&mut text)?;
    Ok(text)
}

/// Writes a line in one call, so that a reader can see an incomplete line only if the machine stops.
fn write_line(file: &mut File, line: &Value) -> Result<()> {
    Ok(file.write_all(format!("{line}\n").as_bytes())?)
}

/// The text without a last line that has no end.
fn whole(text: &str) -> &str {
    text.rfind('\n').map_or("", |end| &text[..=end])
}

fn session_key(number: usize) -> String {
    format!("session {}", number + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::journal;

    #[test]
    fn a_journal_goes_on_where_it_was_cut_off() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/journal");
        let mut journal = Journal::open(&path, &json!({ "rate": 5 })).unwrap();
        journal.put("a", &1.5).unwrap();
        journal.put("b", &2.5).unwrap();
        let error = Journal::open(&path, &json!({ "rate": 5 })).unwrap_err();
        assert!(error.to_string().contains("another program is writing to"), "{error}");
        drop(journal);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, &text[..text.len() - 4]).unwrap();

        let mut journal = Journal::open(&path, &json!({ "rate": 5 })).unwrap();
        assert_eq!(journal.get::<f64>("a").unwrap(), Some(1.5));
        assert_eq!(journal.get::<f64>("b").unwrap(), None);
        assert!((journal.get_or("b", || Ok(3.5)).unwrap() - 3.5f64).abs() < 1e-9);
        drop(journal);
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

    #[test]
    fn an_old_journal_is_read_and_a_newer_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let trial = r#"{"key":"a","value":{"replies_per_s":5.0,"times":{"p99":7.0},"cpu":{"server":0.5}}}"#;
        let of = |first: &str| fs::write(&path, format!("{first}\n{trial}\n")).unwrap();
        of(r#"{"settings":{"rate":5}}"#);
        let value: Value = Journal::read(&path).unwrap().get("a").unwrap().unwrap();
        assert_eq!((&value["wait_ms"]["p99"], &value["cpu"]["server_cpus"]), (&json!(7.0), &json!(0.5)));
        let error = Journal::open(&path, &json!({ "rate": 5 })).unwrap_err().to_string();
        assert!(error.contains("has schema 1, and this version writes schema 3"), "{error}");
        of(r#"{"schema":2,"settings":{"rate":5}}"#);
        let value: Value = Journal::read(&path).unwrap().get("a").unwrap().unwrap();
        assert_eq!(value["times"]["p99"], 7.0, "nothing is renamed that is not old");
        of(r#"{"schema":4,"settings":{"rate":5}}"#);
        let error = Journal::read(&path).unwrap_err().to_string();
        assert!(error.contains("has schema 4, and this version reads 1 to 3"), "{error}");
    }

    #[test]
    fn what_an_old_journal_had_as_nothing_is_unknown() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let read = |schema: u64, memory: &str, max: f64| -> Value {
            let trial = format!(
                r#"{{"key":"a","value":{{"memory_mb":{memory},"descriptors":0,"context_switches_per_s":0.0,
                "read_mb_per_s":0.0,"wait_ms":{{"p99":{max},"max":{max},"percentiles":[]}},
                "by_size":[{{"calls":3.0,"reply_time_ms_p99":0.0}}]}}}}"#
            );
            let first = format!(r#"{{"schema":{schema},"settings":{{}}}}"#);
            fs::write(&path, format!("{first}\n{}\n", trial.replace('\n', ""))).unwrap();
            Journal::read(&path).unwrap().get("a").unwrap().unwrap()
        };
        let unknown = read(2, "null", 0.0);
        assert!(unknown["descriptors"].is_null() && unknown["read_mb_per_s"].is_null(), "{unknown}");
        assert!(unknown["wait_ms"]["p99"].is_null() && unknown["wait_ms"]["percentiles"].is_array());
        assert!(
            unknown["by_size"][0]["reply_time_ms_p99"].is_null() && unknown["by_size"][0]["calls"] == 3.0
        );
        let known = read(2, "5.0", 7.0);
        assert!(known["descriptors"] == 0 && known["wait_ms"]["p99"] == 7.0, "{known}");
        assert_eq!(read(3, "null", 0.0)["wait_ms"]["p99"], 0.0, "nothing of today's is changed");
    }

    #[test]
    fn a_journal_is_looked_at_whoever_made_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let mut journal = Journal::open(&path, &json!({ "rate": 5, "builds": "old" })).unwrap();
        journal.put("a", &1.5).unwrap();
        drop(journal);
        let error = Journal::open(&path, &json!({ "rate": 5, "builds": "new" })).unwrap_err().to_string();
        assert!(error.contains("other settings (builds)"), "{error}");
        let mut journal = Journal::read(&path).unwrap();
        assert_eq!(journal.get::<f64>("a").unwrap(), Some(1.5));
        assert_eq!(journal.settings()["builds"], "old");
        assert!(journal.put("b", &1.5).is_err());
    }

    #[test]
    fn those_who_measured_are_known() {
        let mut journal = journal();
        let session = |command: &str| Session {
            command: command.to_owned(),
            machine: Testbed::describe([]),
            busy_percent: None,
        };
        for command in ["one", "one", "two"] {
            journal.begin_session(&session(command)).unwrap();
        }
        assert_eq!(journal.sessions().unwrap(), [session("one"), session("two")]);
    }
}
