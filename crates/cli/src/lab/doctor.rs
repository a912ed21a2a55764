//! `sluicelab doctor`.

use clap::Args;
use load::doctor;

use crate::console::print;

/// Looks at descriptors, ports, queues, processors, clocks, kernel, memory, network and tools; watches for a
/// second how much time is stolen and what else runs; and spins for half a second to see how punctual a
/// generator could be.
#[derive(Args)]
#[command(
    after_help = "good: as it should be; note: to be known when results are read; WARN: results will suffer; \
    BLIND: can't be measured here. Exit code 0 whatever is found."
)]
pub(crate) struct Doctor {
    /// As JSON, for programs
    #[arg(long)]
    json: bool,
    /// Take away what experiments that are over have left: processes, network namespaces, control groups
    #[arg(long, conflicts_with = "json")]
    clean: bool,
}

impl Doctor {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        if self.clean {
            let gone = lab::programs::janitor::clean_up()?;
            let told = if gone.is_empty() { "nothing was left".to_owned() } else { gone.join("\n") };
            print(&(told + "\n"))?;
            return Ok(());
        }
        let diagnosis = doctor::examine();
        print(&if self.json { diagnosis.to_json() + "\n" } else { diagnosis.to_text() })?;
        Ok(())
    }
}
