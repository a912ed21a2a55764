//! Divides the available descriptors (`RLIMIT_NOFILE`, getrlimit(2)) between connections and files that are
//! kept open.
//!
//! Some are reserved for everything else. Of the rest, each side has half, and whatever the other side does
//! not need. So files that are kept open never take what clients need. And each client that wants its own
//! open file can have one.

use std::borrow::Cow;
use std::io;

use sys::process;

use crate::common;
use crate::config::{Architecture, FileSettings, PoolRule, Role, Settings, Transport};

/// What a worker and its table of open files may have open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allotment {
    /// Connections of one worker, at least 1. It is 1 if a worker serves one connection at a time.
    pub connections: u32,
    /// Files that one table of open files keeps open, at least 1. If no files are kept open: those that
    /// replies send at a time.
    pub open_files: u32,
}

/// The consequences of the limit, as text for people.
#[derive(Debug)]
pub struct Room {
    /// How it is divided.
    pub text: String,
    /// Set if next to nothing is left.
    pub warning: Option<String>,
}

/// The users of one descriptor table.
struct Users {
    workers: u64,
    /// Tables of open files.
    tables: u64,
    /// Descriptors in addition to connections and files.
    other: u64,
}

/// Descriptors reserved for what belongs to no worker: listeners, logs, the status, and files while they
/// are looked up.
const RESERVED: u64 = 64;

/// If there is room for fewer connections than this, and more are wanted, the operator gets a warning.
const FEW: u64 = 64;

/// What a worker has open in addition to connections and files, if several share a descriptor table.
const OF_A_WORKER: u64 = 8;

/// What a request in flight to an application has open: the connection, its body, and its reply. The shared
/// memory of the connection, if there is any, is extra. A request with a large body may find no descriptor
/// left for it, and is answered with 503.
const OF_A_REQUEST_IN_FLIGHT: u64 = 3;

/// Files that a reply may need open at a time, if no files are kept open: a file and its coded form, or an
/// error page. A few more are for what an application puts together.
const OF_A_REPLY: u64 = 4;

/// The most files that are open at a time in one table, if no files are kept open. A shared table reserves
/// memory for this many.
const MOST_UNKEPT: u64 = 1 << 16;

/// What an AMPED helper has open while it looks up a file.
const OF_A_HELPER: u64 = 2;

impl Allotment {
    /// Uses the limit of this process.
    pub fn of(settings: &Settings) -> Self {
        Self::within(process::descriptor_limit(), settings)
    }

    /// Explains for people the limit that serving would have from here.
    ///
    /// # Errors
    ///
    /// The limit cannot be raised as far as serving would raise it.
    pub fn explain(settings: &Settings) -> io::Result<Room> {
        let layout = settings.layout();
        let is_common = layout.shares_descriptors;
        let most = if is_common { common::MOST_DESCRIPTORS } else { u64::MAX };
        let limit = process::raise_descriptor_limit()?.min(most);
        let Self { connections, open_files } = Self::within(limit, settings);
        let whose = if is_common { "for all workers together" } else { "for each process" };
        let who = if layout.owners() > 1 { "thread" } else { "worker" };
        let asked = settings.connections.max.map_or(0, |_| connections_asked(settings));
        let is_less = u64::from(connections) < asked;
        let more = if is_less { " (max_connections asks for more)" } else { "" };
        let workers = (settings.copies * layout.processes * layout.owners()) as u64;
        let total = u64::from(connections) * workers;
        let kept = if settings.files.max_open > 0 { "kept open" } else { "sent at a time" };
        let text = format!(
            "{limit} descriptors {whose}: room for {connections} connections of each {who}{more}, and for \
             {open_files} files that are {kept} in each table: {total} connections in all"
        );
        let users = Users::of(settings);
        let least = RESERVED + users.other + 2 * (users.workers + users.tables);
        let wanted = connections_asked(settings).saturating_mul(workers);
        let is_scant = limit < least || total < wanted.min(FEW);
        let warning = is_scant.then(|| {
            format!(
                "the limit of {limit} descriptors leaves room for only {total} connections: raise it \
                 (ulimit -n, LimitNOFILE= of a systemd unit)"
            )
        });
        Ok(Room { text, warning })
    }

    fn within(limit: u64, settings: &Settings) -> Self {
        let Users { workers, tables, other } = Users::of(settings);
        let room = limit.saturating_sub(RESERVED + other);
        let asked = connections_asked(settings).saturating_mul(workers);
        let of_a_connection = of_a_connection(settings);
        let asked_by_clients = asked.saturating_mul(of_a_connection);
        // Each thread has its own table.
        let FileSettings { max_open, .. } = settings.files.share_of_one(settings.layout().owners());
        let asked_by_files = match max_open {
            0 => asked.saturating_mul(OF_A_REPLY).min(MOST_UNKEPT.saturating_mul(tables)),
            _ => u64::from(max_open).saturating_mul(tables),
        };
        let files = asked_by_files.min((room / 2).max(room.saturating_sub(asked_by_clients)));
        let clients = asked_by_clients.min(room - files.min(room));
        let each = |sum: u64, of: u64| (sum / of).clamp(1, u32::MAX.into()) as u32;
        Self { connections: each(clients, workers * of_a_connection), open_files: each(files, tables) }
    }
}

impl Users {
    fn of(settings: &Settings) -> Self {
        let layout = settings.layout();
        let copies = settings.copies as u64;
        let processes = if layout.shares_descriptors { copies * layout.processes as u64 } else { 1 };
        let workers = processes * layout.owners() as u64;
        let threads = processes * layout.threads(Role::Serve) as u64;
        let helpers = processes * layout.threads(Role::AwaitDisk) as u64;
        let of_workers = if threads > 1 { threads * OF_A_WORKER } else { 0 };
        let of_pools = |pool: Cow<'_, PoolRule>| {
            let area = u64::from(pool.transport == Transport::SharedMemory);
            let in_flight = u64::from(pool.children()) * (OF_A_REQUEST_IN_FLIGHT + area);
            in_flight + threads * u64::from(settings.kept_connections(&pool)) * (1 + area)
        };
        let of_pools: u64 = settings.all_pools().map(of_pools).sum();
        let tables = if layout.shares_descriptors { copies } else { workers };
        // The supervisor has the logs open. If its processes share descriptors, each of them opens the logs
        // again. The common log is part of the reserve.
        let opened = if layout.shares_descriptors { 1 + processes } else { 1 };
        let logs = opened * (settings.access_logs().len() as u64).saturating_sub(1);
        // Each process keeps the roots of its sites open. The root of the default site is part of the
        // reserve.
        let roots = processes * (settings.number_of_sites() as u64 - 1);
        Self { workers, tables, other: of_workers + of_pools + helpers * OF_A_HELPER + roots + logs }
    }
}

/// Descriptors of a connection: its socket, and a copy of it while a [helper](crate::handed_send) sends.
fn of_a_connection(settings: &Settings) -> u64 {
    let helpers_send =
        settings.architecture == Architecture::UserThreads && settings.user_threads.helpers_send;
    1 + u64::from(helpers_send)
}

/// Connections that a worker would like to have.
fn connections_asked(settings: &Settings) -> u64 {
    if !settings.architecture.is_event_driven() {
        return 1;
    }
    let layout = settings.layout();
    let workers = (settings.copies * layout.processes * layout.owners()) as u64;
    settings.connections.max.map_or(u64::from(u32::MAX), |max| (max.get() as u64).div_ceil(workers))
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use proptest::prelude::*;

    use super::*;

    fn settings(architecture: Architecture, workers: usize, copies: usize) -> Settings {
        Settings { architecture, workers, copies, ..Settings::new("/".into()) }
    }

    fn allotted(limit: u64, settings: &Settings) -> (u32, u32) {
        let Allotment { connections, open_files } = Allotment::within(limit, settings);
        (connections, open_files)
    }

    #[test]
    fn each_side_has_half_and_what_the_other_does_not_ask_for() {
        let mut of = settings(Architecture::Symped, 2, 1);
        assert_eq!(allotted(1024, &of), (480, 480));
        assert_eq!(allotted(100_064, &of), (95_904, 4_096));
        of.connections.max = NonZeroUsize::new(200);
        assert_eq!(allotted(1024, &of), (100, 860), "of each worker's half of the connections");
        of.connections.max = NonZeroUsize::new(100_000);
        assert_eq!(allotted(1024, &of), (480, 480));
        of.files.max_open = 60;
        assert_eq!(allotted(1024, &of), (900, 60));
    }

    #[test]
    fn where_no_file_is_kept_each_reply_may_have_some() {
        let mut of = settings(Architecture::Symped, 2, 1);
        of.files.max_open = 0;
        assert_eq!(allotted(1024, &of), (480, 480));
        of.connections.max = NonZeroUsize::new(200);
        assert_eq!(allotted(1024, &of), (100, 400));
        assert_eq!(allotted(1 << 20, &settings(Architecture::Processes, 64, 1)).1, 4096);
        let mut one_each = settings(Architecture::Processes, 64, 1);
        one_each.files.max_open = 0;
        assert_eq!(allotted(1 << 20, &one_each), (1, 4));
        of.connections.max = NonZeroUsize::new(1 << 20);
        assert_eq!(allotted(1 << 20, &of).1, 1 << 16);
    }

    #[test]
    fn what_has_one_descriptor_table_shares_the_limit() {
        let shared = settings(Architecture::SharedSymped, 4, 2);
        assert_eq!(allotted(4224, &shared), (2048 / 8, 2048 / 2));
        let threads = settings(Architecture::Threads, 64, 1);
        assert_eq!(allotted(1024, &threads), (1, (1024 - 64 - 512 - 64) / 64));
        assert_eq!(allotted(1 << 20, &threads), (1, 4096 / 64));
        assert_eq!(allotted(1024, &settings(Architecture::Processes, 64, 1)), (1, 959));
        assert_eq!(allotted(1024, &settings(Architecture::Amped, 64, 1)), (476, 476));
    }

    #[test]
    fn memory_that_is_shared_takes_a_descriptor_for_each_connection() {
        let mut shared = settings(Architecture::Symped, 2, 1);
        shared.connections.max = NonZeroUsize::new(100_000);
        let pool = PoolRule { keep: Some(4), ..PoolRule::default() };
        shared.pools = vec![PoolRule { transport: Transport::SharedMemory, ..pool.clone() }];
        let mut streams = shared.clone();
        streams.pools = vec![pool];
        let other = |settings: &Settings| Users::of(settings).other;
        assert_eq!(other(&shared) - other(&streams), 5 + 4);
    }

    #[test]
    fn a_helper_that_sends_has_a_copy_of_the_socket() {
        let mut of = settings(Architecture::UserThreads, 1, 1);
        of.connections.max = NonZeroUsize::new(100_000);
        let room = 10_000 - 64 - Users::of(&of).other as u32;
        assert_eq!(allotted(10_000, &of), (room - 4_096, 4_096));
        of.user_threads.helpers_send = true;
        assert_eq!(allotted(10_000, &of), ((room - 4_096) / 2, 4_096));
    }

    const ARCHITECTURES: [Architecture; 9] = [
        Architecture::Sped,
        Architecture::Symped,
        Architecture::SharedSymped,
        Architecture::NCopy,
        Architecture::Amped,
        Architecture::UserThreads,
        Architecture::Processes,
        Architecture::Threads,
        Architecture::Pipeline,
    ];

    proptest! {
        #[test]
        fn no_more_is_allotted_than_there_is(
            architecture in prop::sample::select(&ARCHITECTURES[..]),
            limit in prop_oneof![0..200_u64, 200..5_000_u64, Just(u64::MAX)],
            (workers, copies) in (1..20_usize, 1..4_usize),
            (max, max_open) in (prop::option::of(1..2_000_usize), 1..5_000_u32),
            helpers_send in any::<bool>(),
        ) {
            let mut settings = settings(architecture, workers, copies);
            settings.connections.max = max.and_then(NonZeroUsize::new);
            settings.files.max_open = max_open;
            settings.user_threads.helpers_send = helpers_send;
            let Allotment { connections, open_files } = Allotment::within(limit, &settings);
            prop_assert!(connections >= 1 && open_files >= 1 && open_files <= max_open);
            let users = Users::of(&settings);
            let of_workers = users.workers * of_a_connection(&settings);
            let sum = RESERVED + users.other
                + u64::from(connections) * of_workers + u64::from(open_files) * users.tables;
            // Each worker and table gets at least one, however few there are.
            let least = RESERVED + users.other + 2 * (of_workers + users.tables);
            prop_assert!(sum <= limit.max(least), "{sum}");
            // The remainder is less than one more for each of them.
            let served = u64::from(connections) >= connections_asked(&settings);
            let files = settings.files.share_of_one(settings.layout().owners());
            let kept = open_files == files.max_open;
            prop_assert!(served && kept || sum + of_workers + users.tables > limit);
        }
    }
}
