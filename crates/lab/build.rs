//! Makes the experiments of `experiments/` part of the program, so that one that is installed has them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root =
        PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").ok_or_else(|| io::Error::other("cargo runs this"))?)
            .join("../../experiments")
            .canonicalize()?;
    let mut found = Vec::new();
    collect(&root, &mut found)?;
    found.sort();
    let mut list = "[\n".to_owned();
    for path in &found {
        let name = path.strip_prefix(&root).map_err(io::Error::other)?;
        let [name, path] = [name, path].map(|path| path.display().to_string());
        let _ = writeln!(list, "    ({name:?}, include_str!({path:?})),");
    }
    list.push(']');
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo runs this"))?;
    fs::write(PathBuf::from(out).join("experiments.rs"), list)
}

/// All TOML files below a directory. Cargo runs this again when one comes or goes.
fn collect(directory: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    println!("cargo:rerun-if-changed={}", directory.display());
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, found)?;
        } else if path.extension().is_some_and(|end| end == "toml") {
            found.push(path);
        }
    }
    Ok(())
}
