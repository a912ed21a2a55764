//! Checks whether servers that already run are kept off the clients' CPUs. The lab pins servers that it
//! starts. Other servers may run on the clients' CPUs, and then server and clients slow each other down.

use machine::process;

/// A remark if a server's process may run on the clients' CPUs. `server` is its name, and `free` are CPUs
/// that it could use instead.
pub(super) fn remark(server: &str, pid: u32, clients: &[usize], free: &[usize]) -> Option<String> {
    let processes = process::tree(pid).ok()?;
    let shared = |pid: &u32| {
        let allowed = units::parse_cpus(&process::allowed_cpus(*pid).ok()?).ok()?;
        let shared: Vec<usize> = allowed.into_iter().filter(|cpu| clients.contains(cpu)).collect();
        (!shared.is_empty()).then_some((*pid, shared))
    };
    let (unpinned, shared): (Vec<u32>, Vec<Vec<usize>>) = processes.iter().filter_map(shared).unzip();
    let shared = units::print_cpus(shared.first()?);
    let free = if free.is_empty() { "LIST".to_owned() } else { units::print_cpus(free) };
    let how = match &unpinned[..] {
        [pid] => format!("taskset -acp {free} {pid}"),
        several => {
            let all: Vec<String> = several.iter().map(u32::to_string).collect();
            format!("for pid in {}; do taskset -acp {free} $pid; done", all.join(" "))
        }
    };
    Some(format!(
        "{server} (process {pid}) may run on CPU {shared}, where the clients run, so they slow each other \
         down. Pin it to other CPUs: {how}"
    ))
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    /// A process that may run on these CPUs.
    struct Sleeper(Child);

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn who_is_pinned_elsewhere_is_not_remarked_on() {
        let here = process::allowed_cpus(std::process::id()).unwrap();
        let here = units::parse_cpus(&here).unwrap();
        let sleeper = Sleeper(Command::new("sleep").arg("1000").spawn().unwrap());
        let pid = sleeper.0.id();
        let told = remark("http://a/", pid, &here[here.len() - 1..], &[0]).unwrap();
        let expected = format!("http://a/ (process {pid}) may run on CPU {}, where", here[here.len() - 1]);
        assert!(told.starts_with(&expected), "{told}");
        assert!(told.ends_with(&format!("Pin it to other CPUs: taskset -acp 0 {pid}")), "{told}");
        let elsewhere = here.iter().max().unwrap() + 1;
        assert_eq!(remark("a", pid, &[elsewhere], &[0]), None);
        assert_eq!(remark("a", u32::MAX, &here, &[0]), None, "nobody");
    }
}
