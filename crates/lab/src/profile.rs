//! Where the CPU time of a server went, by groups of functions: table 1 of the 2007 paper. Whoever samples a
//! trial leaves a file in the trial's directory.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// The file's name, anywhere in a directory below `trials`.
pub const FILE: &str = "profile.json";

/// What the file says, as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The point's name.
    pub point: String,
    /// The server's.
    pub server: String,
    /// Those with more before those with less.
    pub groups: Vec<Part>,
}

/// One group of functions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Such as `copying to user space`.
    pub group: String,
    /// Of the CPU time of all groups.
    pub percent: f64,
}

impl Profile {
    /// All that an experiment's directory holds, in order of points and servers; the mean of those that are
    /// of the same.
    pub fn read_all(directory: &Path) -> Result<Vec<Self>> {
        let mut all: Vec<(Self, f64)> = Vec::new();
        for path in files(&directory.join("trials"))? {
            let text = fs::read(&path)?;
            let next: Self =
                serde_json::from_slice(&text).with_context(|| format!("{} is no profile", path.display()))?;
            let is_its = |(of, _): &&mut (Self, f64)| (&of.point, &of.server) == (&next.point, &next.server);
            match all.iter_mut().find(is_its) {
                Some((sum, count)) => {
                    sum.add(next);
                    *count += 1.0;
                }
                None => all.push((next, 1.0)),
            }
        }
        let mut all: Vec<Self> = all.into_iter().map(|(sum, count)| sum.over(count)).collect();
        all.sort_by(|one, other| (&one.point, &one.server).cmp(&(&other.point, &other.server)));
        Ok(all)
    }

    fn add(&mut self, other: Self) {
        for part in other.groups {
            match self.groups.iter_mut().find(|own| own.group == part.group) {
                Some(own) => own.percent += part.percent,
                None => self.groups.push(part),
            }
        }
    }

    fn over(mut self, count: f64) -> Self {
        for part in &mut self.groups {
            part.percent /= count;
        }
        self.groups.sort_by(|one, other| other.percent.total_cmp(&one.percent));
        self
    }
}

/// A trial's directory has one for each of its servers.
fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(directory) else { return Ok(found) };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.extend(files(&entry.path())?);
        } else if entry.file_name() == FILE {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_of_the_same_come_to_their_mean() {
        let directory = tempfile::tempdir().unwrap();
        let put = |place: &str, text: &str| {
            let path = directory.path().join("trials").join(place);
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join(FILE), text).unwrap();
        };
        let groups =
            |tcp: f64| format!(r#"[{{"group":"TCP","percent":{tcp}}},{{"group":"VFS","percent":30}}]"#);
        let profile = |tcp| format!(r#"{{"point":"p","server":"one","groups":{}}}"#, groups(tcp));
        assert_eq!(Profile::read_all(directory.path()).unwrap(), []);
        put("measuring-1-0-1/0", &profile(10.0));
        put("measuring-2-0-1/1", &profile(20.0));
        let all = Profile::read_all(directory.path()).unwrap();
        let part = |group: &str, percent| Part { group: group.to_owned(), percent };
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].groups, [part("VFS", 30.0), part("TCP", 15.0)]);
        put("measuring-3-0-1", "[]");
        let error = Profile::read_all(directory.path()).unwrap_err().to_string();
        assert!(error.contains("measuring-3-0-1/profile.json is no profile"), "{error}");
    }
}
