//! `sluicelab besim`: the back-end simulator that the pages of the Support workload query over HTTP.
//! docs/besim.md has its protocol; the crate `workload` computes the answers.
//!
//! A few threads serve one connection after the other. An answer takes microseconds, and the pages close
//! their connections, so no client waits for long. A connection that is silent for a second is closed.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use workload::besim::{Answer, answer};

use super::{BadInput, answering, tell};

/// The options of the simulator.
#[derive(Args)]
pub(crate) struct Options {
    /// Where to listen; port 0 picks a free port, which is printed
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8081")]
    listen: SocketAddr,

    /// Number of connections served at a time
    #[arg(long, value_name = "N", default_value_t = 16,
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
}

/// How long a client may be silent.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Serves for as long as the process lives.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let listener = TcpListener::bind(options.listen)
        .map_err(|error| BadInput(format!("--listen {}: {error}", options.listen)))?;
    tell(&format!("listening on http://{}/ (besim)", listener.local_addr()?));
    thread::scope(|scope| {
        for _ in 1..options.threads {
            thread::Builder::new()
                .spawn_scoped(scope, || attend(&listener))
                .context("cannot start a thread")?;
        }
        attend(&listener);
        Ok(ExitCode::SUCCESS)
    })
}

/// Serves one connection after the other.
fn attend(listener: &TcpListener) {
    for client in listener.incoming() {
        match client {
            // A client that disconnects is no error.
            Ok(client) => drop(serve(client)),
            // There may be no descriptors for a while.
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
    }
}

fn serve(client: TcpStream) -> io::Result<()> {
    client.set_read_timeout(Some(TIMEOUT))?;
    client.set_write_timeout(Some(TIMEOUT))?;
    answering::serve(client, |target| {
        let Answer { status, text } = answer(target);
        (status, text.into_bytes().into())
    })
}
