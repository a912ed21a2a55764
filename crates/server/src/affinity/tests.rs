use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;
use crate::config::{CopiesBy, Settings};

/// A machine with four CPUs, one of them offline, and these interfaces: `eth0`, of virtio with two queue
/// pairs; `eth1`, whose driver has an interrupt for each of four queues; `old`, with a single interrupt;
/// `veth`, without a device.
struct Machine {
    directory: TempDir,
    roots: Roots,
}

const INTERRUPTS: &str = "           CPU0       CPU1       CPU2
 10:          5          0          0  IO-APIC   5-edge      old
 37:          0          0          0 PCI-MSIX-0000:00:03.0   0-edge      virtio2-config
 38:          0      14092          0 PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0
 39:      10339          0          0 PCI-MSIX-0000:00:03.0   2-edge      virtio2-output.0
 40:          0          2          0 PCI-MSIX-0000:00:03.0   3-edge      virtio2-input.1
 41:      10339          0          0 PCI-MSIX-0000:00:03.0   4-edge      virtio2-output.1
 50:          0          0          0 PCI-MSIX-0000:00:04.0   0-edge      virtio21-input.0
 60:          0          0          0 PCI-MSI 524288-edge      eth1
 61:          0          0          0 PCI-MSI 524289-edge      eth1-TxRx-0
 62:          0          0          0 PCI-MSI 524290-edge      eth1-TxRx-1
 63:          0          0          0 PCI-MSI 524291-edge      eth1-TxRx-2
 64:          0          0          0 PCI-MSI 524292-edge      eth1-TxRx-3
LOC:   15740949   12568374          9   Local timer interrupts
";

impl Machine {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap();
        let machine = Self { roots: Roots { proc: path.join("proc"), sys: path.join("sys") }, directory };
        machine.write("sys/devices/system/cpu/online", "0-2\n");
        machine.write("proc/interrupts", INTERRUPTS);
        for number in [10, 37, 38, 39, 40, 41, 50, 60, 61, 62, 63, 64] {
            machine.write(&format!("proc/irq/{number}/smp_affinity_list"), "0-2\n");
        }
        machine.interface("eth0", 2, Some("pci3/virtio2"));
        machine.interface("eth1", 4, Some("pci5"));
        machine.interface("old", 1, Some("isa"));
        machine.interface("veth", 1, None);
        for number in [37, 38, 39, 40, 41] {
            machine.write(&format!("sys/devices/pci3/msi_irqs/{number}"), "msix\n");
        }
        for number in [60, 61, 62, 63, 64] {
            machine.write(&format!("sys/devices/pci5/msi_irqs/{number}"), "msi\n");
        }
        machine
    }

    fn interface(&self, name: &str, queues: usize, device: Option<&str>) {
        for queue in 0..queues {
            self.write(&format!("sys/class/net/{name}/queues/rx-{queue}/rps_cpus"), "0\n");
            self.write(&format!("sys/class/net/{name}/queues/tx-{queue}/xps_cpus"), "0\n");
        }
        if let Some(device) = device {
            let device = self.roots.sys.join("devices").join(device);
            fs::create_dir_all(&device).unwrap();
            symlink(device, self.roots.sys.join("class/net").join(name).join("device")).unwrap();
        }
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.directory.path().join(path)).unwrap().trim().to_owned()
    }

    fn plan(&self, typed: &[&str], mapping: Mapping) -> Result<Plan, AffinityError> {
        let asked = typed.iter().map(|typed| typed.parse()).collect::<Result<Vec<Assignment>, _>>()?;
        Plan::new(&asked, mapping, &self.roots)
    }

    /// The changes that a plan for these assignments makes: the files below the root, and their new
    /// contents.
    fn changes(&self, typed: &[&str]) -> Vec<(String, String)> {
        let root = self.directory.path().canonicalize().unwrap();
        let plan = self.plan(typed, Mapping::Direct).unwrap();
        let short = |change: &Change| {
            (change.path.strip_prefix(&root).unwrap().display().to_string(), change.new.clone())
        };
        plan.changes.iter().map(short).collect()
    }
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(path, value)| ((*path).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn interrupts_of_virtio_are_placed_and_packets_steered_where_queues_are_few() {
    let machine = Machine::new();
    assert_eq!(
        machine.changes(&["eth0=0-2"]),
        pairs(&[
            ("proc/irq/38/smp_affinity_list", "0"),
            ("proc/irq/39/smp_affinity_list", "0"),
            ("proc/irq/40/smp_affinity_list", "1"),
            ("proc/irq/41/smp_affinity_list", "1"),
            ("sys/class/net/eth0/queues/rx-0/rps_cpus", "7"),
            ("sys/class/net/eth0/queues/rx-1/rps_cpus", "7"),
            ("sys/class/net/eth0/queues/tx-0/xps_cpus", "5"),
            ("sys/class/net/eth0/queues/tx-1/xps_cpus", "2"),
        ])
    );
}

#[test]
fn with_an_interrupt_for_each_cpu_nothing_is_passed_on() {
    let machine = Machine::new();
    // The interrupt without a queue is not moved.
    let expected = [
        ("proc/irq/61/smp_affinity_list", "1"),
        ("proc/irq/62/smp_affinity_list", "2"),
        ("proc/irq/63/smp_affinity_list", "1"),
        ("proc/irq/64/smp_affinity_list", "2"),
        ("sys/class/net/eth1/queues/tx-0/xps_cpus", "2"),
        ("sys/class/net/eth1/queues/tx-1/xps_cpus", "4"),
        ("sys/class/net/eth1/queues/tx-2/xps_cpus", "2"),
        ("sys/class/net/eth1/queues/tx-3/xps_cpus", "4"),
    ];
    assert_eq!(machine.changes(&["eth1=1-2"]), pairs(&expected));
    // Packet steering that was on is turned off.
    machine.write("sys/class/net/eth1/queues/rx-3/rps_cpus", "00000000,00000007");
    let changes = machine.changes(&["eth1=1-2"]);
    assert!(changes.contains(&("sys/class/net/eth1/queues/rx-3/rps_cpus".to_owned(), "0".to_owned())));
}

#[test]
fn one_interrupt_for_all_goes_to_the_first_cpu() {
    let machine = Machine::new();
    assert_eq!(
        machine.changes(&["old=1-2"]),
        pairs(&[("proc/irq/10/smp_affinity_list", "1"), ("sys/class/net/old/queues/rx-0/rps_cpus", "6"),])
    );
    assert_eq!(machine.changes(&["old=2"]), pairs(&[("proc/irq/10/smp_affinity_list", "2")]));
}

#[test]
fn without_interrupts_packets_are_steered_and_that_is_told() {
    let machine = Machine::new();
    assert_eq!(machine.changes(&["veth=2"]), pairs(&[("sys/class/net/veth/queues/rx-0/rps_cpus", "4")]));
    let remarks = machine.plan(&["veth=2"], Mapping::Direct).unwrap().remarks;
    assert_eq!(remarks, ["veth: has no device, and so no interrupts; its packets are steered (RPS)"]);
    machine.write("proc/interrupts", "  CPU0\n");
    let remarks = machine.plan(&["eth0=2"], Mapping::Direct).unwrap().remarks;
    assert!(remarks[0].starts_with("eth0: /proc/interrupts names no message-signalled"), "{remarks:?}");
}

#[test]
fn who_moves_interrupts_again_is_told() {
    let machine = Machine::new();
    machine.write("proc/77/comm", "irqbalance\n");
    let remarks = machine.plan(&["eth0=2"], Mapping::Direct).unwrap().remarks;
    assert!(remarks[0].starts_with("irqbalance (process 77) is running"), "{remarks:?}");
}

#[test]
fn indirect_mapping_gives_each_the_cpus_of_the_next() {
    let machine = Machine::new();
    let plan = machine.plan(&["veth=0", "old=1"], Mapping::Indirect).unwrap();
    let of = |end: &str| plan.changes.iter().find(|change| change.path.ends_with(end)).unwrap().new.clone();
    assert_eq!((of("veth/queues/rx-0/rps_cpus"), of("irq/10/smp_affinity_list")), ("2".into(), "0".into()));
}

#[test]
fn what_makes_no_sense_is_named() {
    let machine = Machine::new();
    for (typed, mapping, expected) in [
        (
            &["eth9=0"][..],
            Mapping::Direct,
            "eth9: there is no such interface; there are: eth0, eth1, old, veth",
        ),
        (
            &["192.0.2.1=0"][..],
            Mapping::Direct,
            "192.0.2.1: is the address of no interface here (ip address)",
        ),
        (&["eth0=3"][..], Mapping::Direct, "eth0: CPU 3 is not online; allowed: 0-2"),
        (
            &["eth0=2-1"],
            Mapping::Direct,
            "eth0=2-1: the range 2-1 is empty; allowed: from the lower to the higher number",
        ),
        (
            &["eth0="],
            Mapping::Direct,
            "eth0=: not a list of CPUs; allowed: numbers and ranges such as \"0-3,8\"",
        ),
        (
            &["eth0=0x3"],
            Mapping::Direct,
            "eth0=0x3: \"0x3\" looks like a mask; CPUs are listed, such as 0-3,8",
        ),
        (&["eth0=f"][..], Mapping::Direct, "eth0=f: \"f\" looks like a mask; CPUs are listed, such as 0-3,8"),
        (
            &["eth0"],
            Mapping::Direct,
            "eth0: allowed: an interface (or one of its addresses) and CPUs, such as eth0=0-3",
        ),
        (&["eth0=0", "eth0=1"][..], Mapping::Direct, "eth0: eth0 has been given other CPUs already"),
        (
            &["eth0=0"],
            Mapping::Indirect,
            "indirect: needs at least two interfaces: each one's packets go to the next one's CPUs",
        ),
    ] {
        let error = machine.plan(typed, mapping).unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert!(error.is_bad_input());
    }
}

#[test]
fn a_plan_is_applied_printed_read_and_undone() {
    let machine = Machine::new();
    let plan = machine.plan(&["eth0=1", "veth=2"], Mapping::Direct).unwrap();
    plan.apply().unwrap();
    assert_eq!(machine.read("proc/irq/40/smp_affinity_list"), "1");
    assert_eq!(machine.read("sys/class/net/veth/queues/rx-0/rps_cpus"), "4");
    assert_eq!(machine.plan(&["eth0=1", "veth=2"], Mapping::Direct).unwrap().changes, [], "it is so already");

    let printed = format!("# a remark\n\n{}", plan.inverse());
    let undo = Plan::read(&printed, &machine.roots).unwrap();
    assert_eq!(undo.changes.len(), plan.changes.len());
    undo.apply().unwrap();
    for change in &plan.changes {
        assert_eq!(fs::read_to_string(&change.path).unwrap().trim(), change.old);
    }
    assert_eq!(Plan::read(&printed, &machine.roots).unwrap().changes, [], "it is undone");
}

#[test]
fn only_lines_of_a_plan_are_read() {
    let machine = Machine::new();
    let Roots { proc, sys } = &machine.roots;
    for line in [
        "rm -rf /".to_owned(),
        "echo 1 > /etc/passwd".to_owned(),
        format!("echo 1 > {}/irq/x/smp_affinity_list", proc.display()),
        format!("echo x > {}/irq/10/smp_affinity_list", proc.display()),
        format!("echo 1 > {}/irq/../../irq/10/smp_affinity_list", proc.display()),
        format!("echo 1 > {}/class/net/veth/queues/rx-0/other", sys.display()),
        format!("echo 0-1 > {}/class/net/veth/queues/rx-0/rps_cpus", sys.display()),
    ] {
        let error = Plan::read(&line, &machine.roots).unwrap_err();
        assert!(error.is_bad_input() && error.to_string().starts_with(&line), "{error}");
    }
}

#[test]
fn what_was_done_before_a_refusal_is_undone() {
    let machine = Machine::new();
    let mut plan = machine.plan(&["eth0=1"], Mapping::Direct).unwrap();
    let last = plan.changes.last_mut().unwrap();
    last.path = machine.roots.proc.join("irq/38");
    let error = plan.apply().unwrap_err().to_string();
    assert!(error.contains("earlier changes have been undone"), "{error}");
    assert_eq!(machine.read("proc/irq/38/smp_affinity_list"), "0-2");
}

#[test]
fn settings_with_groups_of_addresses_say_it_all() {
    let mut settings = Settings::new("/".into());
    let error = of_settings(&settings).unwrap_err().to_string();
    assert!(error.contains("name interfaces"), "{error}");
    settings.copies = 2;
    settings.copies_by = CopiesBy::Address;
    settings.placement.mapping = Mapping::Indirect;
    settings.placement.cpus = vec![vec![0], vec![1]];
    settings.listen = ["127.0.0.1:80", "127.0.0.1:81", "127.0.0.2:80", "127.0.0.2:81"]
        .map(|address| address.parse().unwrap())
        .into();
    let found = of_settings(&settings).unwrap();
    let expected = ["127.0.0.1=0", "127.0.0.2=1"].map(|typed| typed.parse::<Assignment>().unwrap());
    assert_eq!(found, expected);
    settings.listen[0] = "0.0.0.0:80".parse().unwrap();
    assert!(of_settings(&settings).unwrap_err().to_string().contains("no single interface"));
}
