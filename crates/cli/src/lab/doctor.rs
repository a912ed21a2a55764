//! `sluicelab doctor`: checks what this machine can measure, and cleans up after experiments.

use clap::Args;
use load::doctor;

use crate::console::print;

/// Checks descriptors, ports, queues, processors, clocks, kernel, memory, network and tools. Then measures
/// for a second how much CPU time is stolen and what else runs, and spins for half a second to measure how
/// punctual a generator could be.
#[derive(Args)]
#[command(
    after_help = "good: as it should be; note: keep it in mind when you read results; WARN: results will \
    suffer; BLIND: cannot be measured here. The last line, ANSWER, says whether the machine is good enough. \
    The exit code is 0 whatever is found."
)]
pub(crate) struct Doctor {
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
    /// Remove what ended experiments left behind: processes, network namespaces, control groups
    #[arg(long, conflicts_with = "json")]
    clean: bool,
}

impl Doctor {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        if self.clean {
            let gone = lab::programs::janitor::clean_up()?;
            let told = if gone.is_empty() { "nothing to remove".to_owned() } else { gone.join("\n") };
            print(&(told + "\n"))?;
            return Ok(());
        }
        let diagnosis = doctor::examine();
        print(&if self.json { diagnosis.to_json() + "\n" } else { diagnosis.to_text() })?;
        Ok(())
    }
}
