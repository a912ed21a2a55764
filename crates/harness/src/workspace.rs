//! The sources of this workspace, for tests that check them against rules.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

/// A member of the workspace, as `cargo metadata` describes it.
#[derive(Deserialize)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Where its `Cargo.toml` is.
    pub manifest_path: PathBuf,
    /// The crates that it is built or tested with.
    pub dependencies: Vec<Dependency>,
    /// What is built from it.
    pub targets: Vec<Target>,
}

/// A crate that a member depends on.
#[derive(Deserialize)]
pub struct Dependency {
    /// Its name.
    pub name: String,
    /// `dev`, `build`, or nothing.
    pub kind: Option<String>,
    /// Its directory, if it is a member of this workspace.
    pub path: Option<PathBuf>,
}

/// A library, a program, or tests.
#[derive(Deserialize)]
pub struct Target {
    /// The kinds, such as `lib`, `bin` and `test`.
    pub kind: Vec<String>,
    /// Its root module.
    pub src_path: PathBuf,
}

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The members of the workspace.
pub fn packages() -> Vec<Package> {
    #[derive(Deserialize)]
    struct Workspace {
        packages: Vec<Package>,
    }
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1", "--manifest-path"]);
    let printed = printed(cargo.arg(root().join("Cargo.toml")));
    serde_json::from_str::<Workspace>(&printed).expect("cargo metadata prints JSON").packages
}

/// The files that git tracks, or would add, as paths from the root. Only those that match a pattern, or
/// all files if there is no pattern.
pub fn files(patterns: &[&str]) -> Vec<String> {
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard"]).args(patterns);
    let printed = printed(git.current_dir(root()));
    printed.lines().filter(|path| root().join(path).exists()).map(str::to_owned).collect()
}

fn printed(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("it is text")
}
