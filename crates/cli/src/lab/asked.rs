//! What `compare` and `tune` have servers asked for, and how much, in the words of `sluicelab load`.

use std::path::PathBuf;

use clap::Args;
use lab::description::load::Load;
use lab::description::workload::Workload;
use lab::servers::spec::Spec;

use super::BadInput;

/// What is asked for, and how much.
#[derive(Debug, Args)]
#[command(next_help_heading = "What clients ask for")]
pub(super) struct Asked {
    /// What the lab makes: one-packet, single, fixed, specweb99, support; or sessions of your own: 'mine:
    /// root=DIR sessions=FILE' (`sluicelab sessions --help` says what is in such a file). docs/experiments.md
    /// has all of them [default: specweb99]
    #[arg(long)]
    workload: Option<String>,

    /// Files of your own: the directory that servers serve, with --path
    #[arg(long, value_name = "DIR", conflicts_with = "workload", requires = "path")]
    root: Option<PathBuf>,

    /// What is asked for below --root, such as /f.bin; or with how often among the others, such as '/f.bin
    /// 5'. May be repeated. Servers that run already need no --root; with it their replies are compared with
    /// the files
    #[arg(long, value_name = "PATH", conflicts_with = "workload")]
    path: Vec<String>,

    /// Requests for --path on each connection [default: 1 at a rate, 1000 if connections ask again]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000),
          requires = "path")]
    requests_per_connection: Option<u32>,

    /// How much: '64 sessions' at a time, '500 requests/s', '0.5x' of what the first can serve; or 'mat: p99
    /// < 50ms' (mean, p50, p90, p99, p99.9), which looks for the highest rate that each server answers in
    /// time
    #[arg(long, default_value = "64 sessions")]
    load: Load,

    /// So many requests per second, whatever the server does: as --load 'R requests/s'
    #[arg(short, long, value_name = "R", conflicts_with_all = ["load", "connections"], value_parser = rate)]
    rate: Option<Load>,

    /// So many connections, each asking again when it is answered: as --load 'N sessions'
    #[arg(short, long, value_name = "N", conflicts_with = "load", value_parser = connections)]
    connections: Option<Load>,
}

fn rate(text: &str) -> Result<Load, String> {
    format!("{text} requests/s").parse().map_err(|_| "allowed: a number above 0, such as 500".to_owned())
}

fn connections(text: &str) -> Result<Load, String> {
    format!("{text} connections").parse().map_err(|_| "allowed: a number from 1, such as 64".to_owned())
}

impl Asked {
    /// What these servers are asked for. Paths hold wherever the experiment's file is read.
    pub(super) fn workload(&self, servers: &[Spec]) -> Result<Workload, BadInput> {
        let of_urls = || servers.iter().filter_map(Spec::running).map(|running| running.path);
        let mut paths = self.path.clone();
        if paths.is_empty() && self.workload.is_none() {
            paths.extend(of_urls().next());
            if let Some(other) = of_urls().find(|path| *path != paths[0]) {
                let both = format!("URLs have the paths {} and {other}", paths[0]);
                return Err(BadInput(format!("{both}; allowed: the same, or --path for all of them")));
            }
        }
        let workload = if paths.is_empty() {
            self.workload.as_deref().unwrap_or("specweb99").parse::<Workload>()
        } else {
            let typed = Workload::of_paths(self.root.clone(), paths, self.requests_per_connection).typed();
            typed.parse().map_err(|error: String| format!("--path: {error}"))
        };
        workload.map(Workload::anywhere).map_err(BadInput)
    }

    /// How much.
    pub(super) fn load(&self) -> Load {
        self.rate.or(self.connections).unwrap_or(self.load)
    }
}
