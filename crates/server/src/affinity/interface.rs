//! A network interface as the kernel shows it: its queues, and their interrupts.
//!
//! A device's interrupts are listed in its directory (`msi_irqs`; for a virtio device, in its parent's
//! directory), and named in `/proc/interrupts`. The driver chooses the names: `eth0-TxRx-3`, `eth0-rx-3`,
//! `mlx5_comp3@pci:...`, `virtio2-input.0`. A number in the name is that of the queue. An interrupt
//! without a number is not about packets (`virtio2-config`).

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::{AffinityError, Roots, input};

/// A network interface.
#[derive(Debug)]
pub(super) struct Interface {
    pub(super) name: String,
    /// Its directory in sysfs.
    pub(super) directory: PathBuf,
    pub(super) receive_queues: usize,
    pub(super) transmit_queues: usize,
    /// The interrupts of its queues.
    pub(super) interrupts: Vec<Interrupt>,
    /// Whether it belongs to a device. If not, it exists only in software.
    has_device: bool,
}

/// An interrupt of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interrupt {
    pub(super) number: u32,
    pub(super) name: String,
    /// The queue that it belongs to. `None`: the interface has one interrupt for all queues.
    pub(super) queue: Option<usize>,
    /// Whether it may signal received packets.
    receives: bool,
}

/// The name of the interface. The operator typed the name or one of the interface's addresses.
pub(super) fn name(typed: &str, roots: &Roots) -> Result<String, AffinityError> {
    let known = interfaces(roots)?;
    if let Ok(address) = typed.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        let found = sys::interfaces::with_address(address)
            .map_err(|source| AffinityError::Read { path: "getifaddrs".into(), source })?;
        return found.ok_or_else(|| input(typed, "is the address of no interface here (ip address)".into()));
    }
    if known.iter().any(|name| name == typed) {
        return Ok(typed.to_owned());
    }
    Err(input(typed, format!("there is no such interface; there are: {}", known.join(", "))))
}

fn interfaces(roots: &Roots) -> Result<Vec<String>, AffinityError> {
    let mut names = names_in(roots.sys.join("class/net"))?;
    names.sort_unstable();
    Ok(names)
}

fn names_in(path: PathBuf) -> Result<Vec<String>, AffinityError> {
    let entries = fs::read_dir(&path).map_err(|source| AffinityError::Read { path, source })?;
    Ok(entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
}

impl Interface {
    pub(super) fn look(name: &str, roots: &Roots) -> Result<Self, AffinityError> {
        let directory = roots.sys.join("class/net").join(name);
        let names = names_in(directory.join("queues"))?;
        let count = |prefix: &str| names.iter().filter(|name| name.starts_with(prefix)).count();
        let has_device = directory.join("device").exists();
        let interrupts = fs::read_to_string(roots.proc.join("interrupts")).unwrap_or_default();
        Ok(Self {
            name: name.to_owned(),
            receive_queues: count("rx-"),
            transmit_queues: count("tx-"),
            interrupts: if has_device { of_device(name, &directory, &interrupts) } else { Vec::new() },
            has_device,
            directory,
        })
    }

    /// How many interrupts signal received packets. Each goes to its own CPU.
    pub(super) fn receive_interrupts(&self) -> usize {
        self.interrupts.iter().filter(|interrupt| interrupt.receives).count()
    }

    pub(super) fn why_no_interrupts(&self) -> String {
        let name = &self.name;
        if self.has_device {
            format!(
                "{name}: /proc/interrupts names no message-signalled interrupts of its device; its packets \
                 are steered (RPS), and interrupts stay where they are"
            )
        } else {
            format!("{name}: has no device, and so no interrupts; its packets are steered (RPS)")
        }
    }
}

/// The interrupts of the queues of a device.
fn of_device(interface: &str, directory: &Path, interrupts: &str) -> Vec<Interrupt> {
    let device = directory.join("device");
    let named = parse(interrupts);
    // A virtio device's directory is inside that of the PCI device, which has the interrupts, possibly
    // with interrupts of other parts of that device.
    let virtio = fs::canonicalize(&device)
        .ok()
        .and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
        .filter(|name| name.starts_with("virtio"));
    let numbers = [device.join("msi_irqs"), device.join("../msi_irqs")].into_iter().find_map(|path| {
        let entries = fs::read_dir(path).ok()?.flatten();
        Some(entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect::<Vec<u32>>())
    });
    let is_its_own = |(number, name): &(u32, String)| match (&numbers, &virtio) {
        (Some(numbers), Some(virtio)) => numbers.contains(number) && starts_with_word(name, virtio),
        (Some(numbers), None) => numbers.contains(number),
        // virtio on memory-mapped I/O has one interrupt, named after the device. Older network cards have
        // one, named after the interface.
        (None, virtio) => starts_with_word(name, virtio.as_deref().unwrap_or(interface)),
    };
    let own: Vec<_> = named.into_iter().filter(is_its_own).collect();
    if let [(number, name)] = own.as_slice() {
        return vec![Interrupt { number: *number, name: name.clone(), queue: None, receives: true }];
    }
    let of_queue = own.into_iter().filter_map(|(number, name)| {
        // A number that belongs to the interface's name is not that of a queue.
        let queue = queue_number(&name).filter(|_| name != interface)?;
        let lower = name.to_ascii_lowercase();
        let sends = lower.contains("tx") || lower.contains("output");
        let receives = lower.contains("rx") || lower.contains("input") || !sends;
        Some(Interrupt { number, name, queue: Some(queue), receives })
    });
    of_queue.collect()
}

/// The numbered interrupts in `/proc/interrupts`, with their names.
fn parse(text: &str) -> Vec<(u32, String)> {
    let mut lines = text.lines();
    // CPU0 CPU1 ...
    let cpus = lines.next().map_or(0, |head| head.split_ascii_whitespace().count());
    let interrupt = |line: &str| {
        let (number, rest) = line.split_once(':')?;
        let number = number.trim().parse().ok()?;
        // A line has a count for each CPU, the controller's name, the number there and the trigger, and
        // then the devices that share the interrupt.
        Some((number, rest.split_ascii_whitespace().skip(cpus + 1).last()?.to_owned()))
    };
    lines.filter_map(interrupt).collect()
}

/// Whether a name begins with a whole word: `virtio2-input.0` begins with `virtio2`, and
/// `virtio21-input.0` does not.
fn starts_with_word(name: &str, word: &str) -> bool {
    name.strip_prefix(word).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
}

/// The number at the end of a name, or before an `@`.
fn queue_number(name: &str) -> Option<usize> {
    let name = name.split('@').next()?;
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    name[name.len() - digits..].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERRUPTS: &str = "           CPU0       CPU1       \n\
         \x2024:          1          0  IO-APIC   5-edge      ACPI:Ged\n\
         \x2037:          0          0 PCI-MSIX-0000:00:03.0   0-edge      virtio2-config\n\
         \x2038:          0      14092 PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0\n\
         130:          7          1 IR-PCI-MSI 524288-edge      eth1-TxRx-11\n\
         NMI:          0          0   Non-maskable interrupts\n\
         ERR:          0\n";

    #[test]
    fn interrupts_are_told_by_number_and_name() {
        let named = parse(INTERRUPTS);
        let named: Vec<_> = named.iter().map(|(number, name)| (*number, name.as_str())).collect();
        assert_eq!(
            named,
            [(24, "ACPI:Ged"), (37, "virtio2-config"), (38, "virtio2-input.0"), (130, "eth1-TxRx-11")]
        );
        assert_eq!(parse(""), []);
    }

    #[test]
    fn names_of_many_drivers_tell_the_queue() {
        for (name, queue) in [
            ("virtio2-input.0", Some(0)),
            ("virtio2-config", None),
            ("eth1-TxRx-11", Some(11)),
            ("eth0-rx-3", Some(3)),
            ("mlx5_comp7@pci:0000:81:00.0", Some(7)),
            ("mlx5_async@pci:0000:81:00.0", None),
            ("ens5-Tx-Rx-2", Some(2)),
            ("eth0", Some(0)),
        ] {
            assert_eq!(queue_number(name), queue, "{name}");
        }
        assert!(starts_with_word("virtio2-input.0", "virtio2") && starts_with_word("virtio2", "virtio2"));
        assert!(!starts_with_word("virtio21-input.0", "virtio2"));
    }
}
