//! `sluicelab fileset`: writes the files of a workload, for servers to serve.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};
use lab::programs::interrupt;
use workload::fileset::FileSet;
use workload::manifest::FileSetManifest;
use workload::specweb99::{DIRECTORY_BYTES, PRESETS};
use workload::support;
use workload::writer::{self, WriteError};

use super::progress::Bar;
use super::{BadInput, tell};
use crate::console::print;

/// The options of a file set.
#[derive(Args)]
#[command(after_help = presets())]
pub(crate) struct Options {
    /// The kind of files
    #[arg(value_enum)]
    kind: Kind,

    /// The directory to write to, a server's document root; created if it is missing
    #[arg(long, value_name = "DIR")]
    root: PathBuf,

    /// Number of directories: for specweb99, each has 36 files and 5,119,484 bytes; for the downloads of
    /// support, each has 16 files and 68 MB
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000),
          conflicts_with_all = ["total", "preset"])]
    directories: Option<u32>,

    /// As many directories as fit into this size, such as 500MB
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size, conflicts_with = "preset")]
    total: Option<u64>,

    /// A set from one of the papers, by its name in the list below
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,

    /// For fixed: one file of this size, such as 10KiB [default: eight sizes]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    bytes: Option<u64>,

    /// Seed of the files' contents
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Check the existing files against their expected contents, and write nothing
    #[arg(long)]
    check: bool,
}

/// The kinds of file sets.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// SPECweb99's static files: 36 sizes from 102 to 921,600 bytes in each directory
    Specweb99,
    /// SPECweb2009's Support workload: images, downloads up to 38 MB, and pages in PHP
    Support,
    /// One file of 1,024 bytes, which fits into a packet with the reply's headers
    OnePacket,
    /// One file of 1 KiB
    Single,
    /// 32 KiB to 4 MiB, each twice the one before, or one file of --bytes
    Fixed,
    /// Pages of these sizes with placeholders for advertisements, which an application fills in
    DynamicFixed,
}

/// Writes a file set, continues an interrupted one, or checks one.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let manifest = FileSetManifest::new(set(options)?, options.seed);
    if options.check {
        let wrong = writer::compare(&options.root, &manifest);
        for path in wrong.iter().take(20) {
            tell(&format!("sluicelab: {path} is missing or has the wrong contents"));
        }
        print(&format!("{} files, {} wrong\n", manifest.files, wrong.len()))?;
        return Ok(ExitCode::from(u8::from(!wrong.is_empty())));
    }
    interrupt::catch()?;
    let mut bar = Bar::bytes(manifest.bytes);
    let written = writer::write(&options.root, &manifest, |written| {
        bar.show(written.bytes);
        !interrupt::is_asked()
    });
    bar.end();
    match written {
        Ok(written) => {
            let root = options.root.display();
            print(&format!(
                "{root}: {} files, {} bytes ({} were there)\nsha256 {}\n",
                written.files, written.bytes, written.kept, manifest.sha256
            ))?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error @ WriteError::Another(_)) => Err(BadInput(format!("--root: {error}")).into()),
        Err(error) => Err(error.into()),
    }
}

fn set(options: &Options) -> Result<FileSet> {
    let sized = matches!(options.kind, Kind::Specweb99 | Kind::Support);
    if !sized && (options.directories.is_some() || options.total.is_some()) {
        let what = "--directories and --total: only specweb99 and support have directories";
        return Err(BadInput(what.to_owned()).into());
    }
    if options.preset.is_some() && options.kind != Kind::Specweb99 {
        return Err(BadInput("--preset: only specweb99 has presets".to_owned()).into());
    }
    if options.bytes.is_some() && options.kind != Kind::Fixed {
        return Err(BadInput("--bytes: only fixed has files of any size".to_owned()).into());
    }
    let directories = |bytes: u64, usual: u32| match (options.directories, options.total) {
        (Some(directories), _) => Ok(directories),
        (None, Some(total)) if total >= bytes => Ok((total / bytes) as u32),
        (None, Some(total)) => Err(BadInput(format!("--total {total}: a directory alone has {bytes} bytes"))),
        (None, None) => Ok(usual),
    };
    Ok(match options.kind {
        Kind::Specweb99 => match &options.preset {
            Some(name) => FileSet::Specweb99 { directories: preset(name)? },
            None => FileSet::Specweb99 { directories: directories(DIRECTORY_BYTES, 32)? },
        },
        Kind::Support => FileSet::Support { directories: directories(support::DIRECTORY_BYTES, 4)? },
        Kind::OnePacket => FileSet::OnePacket,
        Kind::Single => FileSet::Single,
        Kind::Fixed => {
            options.bytes.map_or_else(FileSet::fixed, |bytes| FileSet::Fixed { sizes: vec![bytes] })
        }
        Kind::DynamicFixed => FileSet::dynamic_fixed(),
    })
}

fn preset(name: &str) -> Result<u32, BadInput> {
    let found = PRESETS.iter().find(|preset| preset.name == name);
    found.map(|preset| preset.directories).ok_or_else(|| {
        let allowed = PRESETS.map(|preset| preset.name).join(", ");
        BadInput(format!("--preset {name}: allowed: {allowed}"))
    })
}

fn presets() -> String {
    let lines = PRESETS.iter().map(|preset| format!("  {:<12} {}\n", preset.name, preset.source));
    let lines: String = lines.collect();
    format!(
        "Presets of specweb99:\n{lines}\nAn interrupted command continues when it is repeated. \
         DIR/.sluicelab.json describes the finished set."
    )
}
