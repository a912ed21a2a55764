//! Keeps complete measurements in directories with journals, and evaluates these for the rows.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use base16ct::lower::encode_string as hex;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::catalogue::{self, Catalogue, fresh_directory};
use super::measured::{Checked, Here, Measured, OfExperiment, Word};
use crate::analysis::holding::Holding;
use crate::description::experiment::Experiment;
use crate::description::finding::{Finding, Is};
use crate::record::journal::Journal;
use crate::report::results::{EXPERIMENT, Held, JOURNAL, LeftOut, Results};
use crate::run::ENVIRONMENT;

/// The journal, compressed.
pub const COMPRESSED: &str = "journal.jsonl.gz";

/// The key of the date of the measurement, in the environment.
const DATE: &str = "measured";

/// A hash of what an experiment measures: everything except its title, text and findings.
///
/// # Errors
/// The experiment cannot be written as JSON.
pub fn version(experiment: &Experiment) -> Result<String> {
    let mut value = serde_json::to_value(experiment)?;
    if let Some(members) = value.as_object_mut() {
        for said in ["title", "about", "findings"] {
            members.remove(said);
        }
    }
    let hash = hex(&Sha256::digest(value.to_string()));
    Ok(hash[..16].to_owned())
}

/// Evaluates a directory with a compressed journal for the rows. The findings are those of today's version
/// of the experiment (`today`). A finding about something that was not measured then is "cannot tell".
/// `told` is the directory's name for readers. `date` is the date of the measurement, in case the directory
/// has none.
///
/// # Errors
/// The directory cannot be read, or no date is known.
pub fn evaluate(
    (name, today): (&str, &Experiment),
    directory: &Path,
    (told, date): (&str, Option<&str>),
) -> Result<OfExperiment> {
    let experiment = Experiment::read(&directory.join(EXPERIMENT)).map_err(anyhow::Error::msg)?;
    let version = version(&experiment)?;
    let (findings, others): (Vec<Finding>, Vec<Finding>) =
        today.findings.iter().cloned().partition(|finding| experiment.has(finding));
    let experiment = Experiment { findings, ..experiment };
    let journal = Journal::read(&directory.join(COMPRESSED))?;
    let results = Results::from(experiment, &journal)?;
    let environment = fs::read_to_string(directory.join(ENVIRONMENT)).unwrap_or_default();
    let environment: Value = serde_json::from_str(&environment).unwrap_or_default();
    let date = environment[DATE].as_str().or(date);
    let date = date
        .with_context(|| format!("{}: the date of its measurement is missing", directory.display()))?
        .to_owned();
    let machine = results.machines().pop();
    let margin = results.experiment.margin;
    let why = || Holding::CannotTell("the experiment has changed since; run it again".to_owned());
    let others = others.into_iter().map(|finding| Held { finding, ratio: None, says: why() });
    let others: Vec<Held> = others.collect();
    Ok(OfExperiment {
        experiment: name.to_owned(),
        directory: told.to_owned(),
        version,
        date,
        machine: machine.context("a journal without a session")?,
        findings: results.findings.iter().chain(&others).filter_map(|held| checked(held, margin)).collect(),
    })
}

/// The result of a finding that belongs to a row.
fn checked(held: &Held, margin: f64) -> Option<Checked> {
    let Held { finding, ratio, says } = held;
    let ratio = ratio.as_ref().map(|ratio| Here {
        median: rounded(ratio.median),
        interval: ratio.interval.map(|of| [of.lower, of.upper].map(rounded)),
        rounds: ratio.pairs,
    });
    let (word, reason) = match says {
        Holding::Holds => (Word::Holds, None),
        Holding::OtherSize => (Word::OtherSize, None),
        Holding::Contradicted => (Word::Contradicted, None),
        Holding::CannotTell(why) => (Word::CannotTell, Some(why.clone())),
    };
    Some(Checked {
        id: finding.id.clone()?,
        says: finding.says.clone(),
        expect: finding.expect.to_string(),
        size: finding.size.map(|size| [size.least, size.most]),
        is_less: finding.expect.is == Is::Less,
        within: finding.within,
        margin,
        ratio,
        word,
        reason,
    })
}

/// Rounds to as many digits as are useful. These are the same on every machine.
fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

/// Evaluates all journals of a source tree.
///
/// # Errors
/// A journal cannot be read.
pub fn evaluate_all(catalogue: &Catalogue, root: &Path) -> Result<Measured> {
    let mut measured = Measured::default();
    for name in catalogue.experiments() {
        let kept = catalogue.kept.iter().find(|kept| kept.experiment == name);
        let fresh = (fresh_directory(name), None);
        let older = kept.map(|kept| (kept.directory.clone(), Some(kept.date.as_str())));
        for (below, date) in [Some(fresh), older].into_iter().flatten() {
            let told = format!("docs/measurements/{below}");
            let directory = root.join(&told);
            if directory.join(COMPRESSED).is_file() {
                let text = catalogue::experiment(name).context("there is no such experiment")?;
                let today = Experiment::parse(text).map_err(anyhow::Error::msg)?;
                let of = evaluate((name, &today), &directory, (&told, date));
                measured.put(of.with_context(|| told.clone())?);
                break;
            }
        }
    }
    Ok(measured)
}

/// Keeps a complete directory of results: its journal (compressed), its experiment, and its environment
/// with the date.
///
/// # Errors
/// The results are not complete, no server took part, or they cannot be written there.
pub fn keep(results: &Path, to: &Path, date: &str) -> Result<()> {
    let Results { missing, experiment, left_out, .. } = Results::of(results)?;
    ensure!(missing == 0, "{}: {missing} trials are not measured yet", results.display());
    let places: usize = experiment.points.iter().map(|point| point.servers.len()).sum();
    if let Some(LeftOut { server, why, .. }) = left_out.first().filter(|_| left_out.len() == places) {
        bail!("{}: no server could be measured ({server}: {why})", results.display());
    }
    fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    let mut environment: Value = serde_json::from_str(&fs::read_to_string(results.join(ENVIRONMENT))?)?;
    environment[DATE] = Value::from(date);
    let text = serde_json::to_string_pretty(&environment)? + "\n";
    // The journal of an earlier measurement must not stay beside these files.
    match fs::remove_file(to.join(COMPRESSED)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    fs::copy(results.join(EXPERIMENT), to.join(EXPERIMENT))?;
    fs::write(to.join(ENVIRONMENT), text)?;
    let mut compressed = GzEncoder::new(Vec::new(), Compression::best());
    compressed.write_all(&fs::read(results.join(JOURNAL))?)?;
    // The journal comes last, and in one step: once it exists, the measurement is complete.
    let unfinished = to.join(format!("{COMPRESSED}.new"));
    fs::write(&unfinished, compressed.finish()?)?;
    fs::rename(&unfinished, to.join(COMPRESSED))?;
    Ok(())
}

/// Whether a directory has a measurement of this experiment.
///
/// # Errors
/// The directory cannot be read.
pub fn is_kept(experiment: &Experiment, directory: &Path) -> Result<bool> {
    if !directory.join(COMPRESSED).is_file() {
        return Ok(false);
    }
    let kept = Experiment::read(&directory.join(EXPERIMENT)).map_err(anyhow::Error::msg)?;
    Ok(version(&kept)? == version(experiment)?)
}
