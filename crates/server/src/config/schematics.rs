//! Plain-text drawings of the architectures, for `sluice architectures` and docs/schematics.md. Each
//! shows the architecture's processes, threads and queues, and the path of a connection through them.

pub(super) const SPED: &str = "\
            ┌ process ───────────────────────────┐
clients ──▶ │ event loop: wait, accept, work ... │
            └────────────────────────────────────┘
";

pub(super) const SYMPED: &str = "\
            ┌ process 1: event loop ┐
clients ──▶ ├ process 2: event loop ┤ the same listening sockets
            └ process n: event loop ┘
";

pub(super) const SHARED_SYMPED: &str = "\
            ┌ process 1: event loop ┐
clients ──▶ ├ process 2: event loop ┤ ◀──▶ shared: descriptors, open files
            └ process n: event loop ┘
";

pub(super) const N_COPY: &str = "\
clients ──▶ listening socket 1 ──▶ process 1: event loop, on CPU 1
clients ──▶ listening socket n ──▶ process n: event loop, on CPU n
";

pub(super) const AMPED: &str = "\
            ┌ process ─────────────────────────────────────────┐
            │            ── file is not in memory ──▶          │
clients ──▶ │ event loop                        helper threads │ ◀──▶ disk
            │            ◀── now it is ──────────────          │
            └──────────────────────────────────────────────────┘
";

pub(super) const PROCESSES: &str = "\
            ┌ process 1: serves one connection ┐
clients ──▶ ├ process 2: serves one connection ┤ the same listening sockets
            └ process n: waits for a client    ┘
";

pub(super) const THREADS: &str = "\
            ┌ process ────────────────────────┐
            │ thread 1: serves one connection │
clients ──▶ │ thread 2: serves one connection │
            │ thread n: waits for a client    │
            └─────────────────────────────────┘
";

pub(super) const PIPELINE: &str = "\
            ┌ process: each stage has threads, and a queue before it ──┐
clients ──▶ │ accept ──▶ read poll ──▶ read ──▶ write poll ──▶ write   │
            │                ▲                                   │     │
            │                └────────── next request ───────────┘     │
            └──────────────────────────────────────────────────────────┘
";

pub(super) const URING: &str = "\
            ┌ kernel ──────────────────┐                  ┌ process ──────┐
clients ──▶ │ accepts, receives, sends │ ◀─ operations ── │ works on what │
            │                          │ ─ completions ─▶ │ has completed │
            └──────────────────────────┘                  └───────────────┘
";

pub(super) const USER_THREADS: &str = "\
            ┌ process ────────────────────────────────────────────┐
            │             ┌▶ thread 1: reads a request            │
clients ──▶ │ scheduler ──┼▶ thread 2: writes a reply             │
            │             └▶ thread n: parked, its client is slow │
            └─────────────────────────────────────────────────────┘
";
