//! The options for workload and load that `compare` and `tune` share, in the words of `sluicelab load`.

use std::path::PathBuf;

use clap::Args;
use lab::description::load::Load;
use lab::description::workload::Workload;
use lab::servers::spec::Spec;

use super::BadInput;

/// What clients request, and how much.
#[derive(Debug, Args)]
#[command(next_help_heading = "What clients request")]
pub(super) struct Asked {
    /// A workload of the lab: one-packet, single, fixed, specweb99, support; or your own sessions: 'mine:
    /// root=DIR sessions=FILE' (`sluicelab sessions --help` shows the format). docs/experiments.md lists all
    /// [default: specweb99]
    #[arg(long)]
    workload: Option<String>,

    /// Your own files: the directory that servers serve. Requires --path
    #[arg(long, value_name = "DIR", conflicts_with = "workload", requires = "path")]
    root: Option<PathBuf>,

    /// A path below --root to request, such as /f.bin, with an optional number, how often it is requested
    /// among the others: '/f.bin 5'. May be repeated. --root is not needed for servers that already run; with
    /// it, their replies are compared with the files
    #[arg(long, value_name = "PATH", conflicts_with = "workload")]
    path: Vec<String>,

    /// Requests for --path on each connection [default: 1 at a rate, 1000 if connections ask again]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000),
          requires = "path")]
    requests_per_connection: Option<u32>,

    /// How much load: '64 sessions' at a time, '500 requests/s', '0.5x' of what the first server can serve;
    /// or 'mat: p99 < 50ms' (mean, p50, p90, p99, p99.9), which finds the highest rate that each server
    /// answers in time
    #[arg(long, default_value = "64 sessions")]
    load: Load,

    /// Requests per second, however fast the server answers: same as --load 'R requests/s'
    #[arg(short, long, value_name = "R", conflicts_with_all = ["load", "connections"], value_parser = rate)]
    rate: Option<Load>,

    /// Number of connections, each asking again when it is answered: same as --load 'N sessions'
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
    /// The workload for these servers. Its paths are absolute, so that they do not depend on the experiment's
    /// directory.
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

    /// The load.
    pub(super) fn load(&self) -> Load {
        self.rate.or(self.connections).unwrap_or(self.load)
    }
}
