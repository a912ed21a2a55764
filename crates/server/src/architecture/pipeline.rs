//! The pipeline: `WatPipe` (Harji et al. 2012, section 4; Pariag et al. 2007, section 4.3). One process,
//! whose stages have their own threads. Connections move from one stage to the next in batches.
//!
//! ```text
//!             Accept          a thread for each address, on any CPU
//!               |
//!   +-----------v-----------------------+
//!   |   queue --> Read  --> queue --> Write      readers and writers of each CPU
//!   |    ^         |  ^               |  |  ^
//!   |    |     no  |  |  more to read |  |  |
//!   |    |   input |  +---------------+  |  |
//!   |    |         v          no more    |  |
//!   |  Read Poll <-----------------------+  |    one thread, on any CPU
//!   |                             no room|  |
//!   |                         Write Poll <--+    one thread, on any CPU
//!   +-----------------------------------+
//! ```
//!
//! 1. [`accept`]: takes connections out of the accept queues.
//! 2. [`poll`], **Read Poll**: passes on connections that have input, and those whose deadline has passed.
//! 3. [`read`]: receives requests, and plans replies.
//! 4. [`poll`], **Write Poll**: passes on connections that have room to write.
//! 5. [`mod@write`]: sends replies.
//!
//! Most requests skip the poll stages: a new connection is read from, and a planned reply is sent, before
//! any thread waits for an event. Between two stages a connection belongs to a [`queue`]. While it
//! [waits](waiting), it belongs to the poll stages. They receive the events of the client's socket and of
//! the socket to an application's server. No thread ever locks a connection.
//!
//! One thread plans a reply, and another one sends it and gives back what it used. So the process has one
//! table of open files, in which all threads pin files. Plan sheets and buffers pile up where replies end;
//! a shared stock returns them to the threads that plan.
//!
//! Each worker is a CPU and has a [`lane`]: a queue into Read, a queue into Write, and its readers and
//! writers. A connection stays in its first lane. The queues are bounded. A full queue stops the stages
//! that bring something new, back to the accept queue, where waiting is cheap.
//!
//! [Controllers](control) may set the number of threads that take from a queue, the batch size and the
//! number of admitted connections.

mod accept;
mod control;
mod ending;
mod lane;
mod listings;
mod poll;
mod queue;
mod read;
mod starts;
mod sync;
mod tokens;
mod traveller;
mod waiting;
mod wakeups;
mod write;
mod yielding;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, Builder, Scope};
use std::time::Duration;

use sys::event::Interest;
use sys::process;

use self::accept::Acceptor;
use self::control::Controllers;
use self::ending::Keeper;
use self::lane::Lane;
use self::poll::{PollStage, watch_wakeup};
use self::queue::{Queue, Taken};
use self::read::Reader;
use self::starts::Starts;
use self::tokens::Tokens;
use self::traveller::{Boxed, Traveller};
use self::waiting::Number;
use self::wakeups::{AcceptorWakeup, Poll};
use self::write::Writer;
use super::common::STACK;
use super::common::failing::{AbortIfPanicking, fail};
use super::common::listener_handles::ListenerHandle;
use super::common::token::{Kind, Token};
use crate::allotment::Allotment;
use crate::config::{Sends, Settings, StageThreads, Stages};
use crate::control::Control;
use crate::counters::{Counters, Stage};
use crate::listeners::Share;
use crate::memory;
use crate::placement;
use crate::sends::BlockingSends;
use crate::service::{Clock, Service};

/// What all stages share.
struct Pipeline {
    control: Arc<Control>,
    lanes: Box<[Lane]>,
    /// There are four stages: Read Poll also reads, and Write Poll alternates with the writers.
    takes_turns: bool,
    read_poll: Poll,
    write_poll: Poll,
    acceptors: Box<[AcceptorWakeup]>,
    /// Listeners that are not closed yet: the number of each, and whether it retires.
    open_listeners: Mutex<Vec<(usize, bool)>>,
    /// Open connections, and the most that are allowed.
    open: AtomicU32,
    most_open: u32,
    /// An acceptor waits for a connection to end.
    is_crowded: AtomicBool,
    /// Each connection ends with its next reply.
    closes: AtomicBool,
    /// All threads are to end.
    is_over: AtomicBool,
    /// The largest number of connections in a batch.
    batch: AtomicUsize,
    /// The number of readers in each lane. `writers` is the number of writers.
    readers: usize,
    writers: usize,
    /// Controllers set how many readers and writers are in use.
    is_steered: bool,
    /// Tokens that new connections need for admission. `target_ns` is the response target, which the rate
    /// of the tokens follows from.
    tokens: Tokens,
    target_ns: Option<u64>,
    /// The counters of the acceptors. `workers` has those of the readers and writers, and `threads` the
    /// kernel's numbers of these threads.
    accepting: Box<[&'static Counters]>,
    workers: Box<[&'static Counters]>,
    threads: Box<[AtomicU32]>,
}

/// Many times as long as a batch takes when nothing makes it wait.
const LONG_NS: u64 = 1_000_000;

/// Serves until drained, retired or stopped. `services` has one service for each thread of the stages.
///
/// # Errors
///
/// The kernel does not provide an epoll instance.
///
/// # Panics
///
/// There are fewer services than threads.
pub fn run(
    services: Vec<Service>,
    listeners: Share,
    settings: &Settings,
    control: &Arc<Control>,
) -> io::Result<()> {
    let threads = settings.stage_threads();
    let handles = ListenerHandle::all(listeners);
    let blocks: Vec<_> = services.iter().map(|service| service.counters).collect();
    let pipeline = &Pipeline::new(settings, control, &handles, threads, &blocks)?;
    let others = blocks.iter().enumerate().filter(|(at, _)| *at != threads.accept).map(|(_, block)| *block);
    let keeper = Keeper::new(settings, Arc::clone(control), others.collect());
    let mut services = services.into_iter();
    let mut service = || services.next().expect("there is a service for each thread");

    thread::scope(|scope| {
        for (number, handles) in deal_out(handles, settings, threads.accept).into_iter().enumerate() {
            let service = service();
            start(scope, control, &format!("accept-{number}"), None, move || {
                Acceptor::new(pipeline, number as u16, service, handles, settings)?.run()
            });
        }
        let (mut of_read_poll, of_write_poll) = (service(), service());
        of_read_poll.tells_of_table = true;
        let cpus = pipeline.cpus(settings);
        let of_reader = pipeline.takes_turns.then(&mut service);
        let mut starts = Starts::default();
        let readers = if pipeline.takes_turns { 0 } else { pipeline.readers };
        for (reader, (lane, number)) in pipeline.places(readers).enumerate() {
            let (service, cpus, name) = (service(), cpus[lane].clone(), format!("read-{reader}"));
            starts.add(lane, Stage::Read, move || {
                spawn(scope, control, &name, Some(cpus), move || {
                    process::break_nobody_off();
                    watch_wakeup(&pipeline.read_poll, &service, reader)?;
                    pipeline.threads[reader].store(process::thread_id(), Ordering::Relaxed);
                    Reader::new(pipeline, lane, number, service).run();
                    Ok(())
                })
            });
        }
        for (writer, (lane, number)) in pipeline.places(pipeline.writers).enumerate() {
            let (mut service, cpus, name) = (service(), cpus[lane].clone(), format!("write-{writer}"));
            starts.add(lane, Stage::Write, move || {
                spawn(scope, control, &name, Some(cpus), move || {
                    if settings.send == Sends::Blocking {
                        service.sends =
                            Some(BlockingSends::of_many_clients(settings, &service.counters.alarm_rings)?);
                    }
                    process::break_nobody_off();
                    pipeline.threads[threads.read + writer].store(process::thread_id(), Ordering::Relaxed);
                    Writer::new(pipeline, lane, number, service).run();
                    Ok(())
                })
            });
        }
        let controllers = Controllers::new(pipeline, settings, &cpus, &mut starts);
        starts.all();
        let of_polls = pipeline.takes_turns.then(|| cpus[0].clone());
        start(scope, control, "read-poll", of_polls.clone(), move || {
            let reader = match of_reader {
                Some(service) => {
                    watch_wakeup(&pipeline.read_poll, &service, 0)?;
                    Some(Reader::new(pipeline, 0, 0, service))
                }
                None => None,
            };
            PollStage::read(pipeline, of_read_poll, keeper, controllers, reader).run()
        });
        start(scope, control, "write-poll", of_polls, move || {
            PollStage::write(pipeline, of_write_poll, pipeline.takes_turns).run()
        });
        note_start_memory(&blocks);
        control.expect_one_less();
    });
    Ok(())
}

/// For `sluice memory`: records the process's own memory before it serves, divided equally among its
/// threads. The threads' stacks are a part of it.
fn note_start_memory(blocks: &[&'static Counters]) {
    if let Ok(bytes) = memory::own_bytes() {
        for block in blocks {
            block.start_memory_bytes.set(bytes / blocks.len() as u64);
        }
    }
}

/// Starts a thread that the pipeline cannot do without.
fn start<'s, 'e: 's>(
    scope: &'s Scope<'s, 'e>,
    control: &Control,
    name: &str,
    cpus: Option<Vec<usize>>,
    run: impl FnOnce() -> io::Result<()> + Send + 's,
) {
    let started = spawn(scope, control, name, cpus, run);
    started.unwrap_or_else(|error| fail(&format!("cannot start thread {name}: {error}")));
}

/// Starts a thread, on these CPUs if any are given. If the thread fails, the process ends too, because the
/// other threads cannot replace it; the process is started again.
///
/// # Errors
///
/// The thread cannot be started.
fn spawn<'s, 'e: 's>(
    scope: &'s Scope<'s, 'e>,
    control: &Control,
    name: &str,
    cpus: Option<Vec<usize>>,
    run: impl FnOnce() -> io::Result<()> + Send + 's,
) -> io::Result<()> {
    let (own_name, thread) = (name.to_owned(), Builder::new().name(name.to_owned()).stack_size(STACK));
    control.expect_one_more();
    let started = thread.spawn_scoped(scope, move || {
        let _guard = AbortIfPanicking;
        let placed = cpus.map_or(Ok(()), |cpus| process::pin_to_cpus(&cpus));
        if let Err(error) = placed.and_then(|()| run()) {
            fail(&format!("thread {own_name} ends: {error}"));
        }
    });
    if let Err(error) = started {
        control.expect_one_less();
        return Err(error);
    }
    Ok(())
}

/// Assigns the listeners to the acceptors: one each, or round-robin if there are more listeners. Each
/// listener comes with its number, and with its lane if addresses belong to lanes.
fn deal_out(
    handles: Vec<ListenerHandle>,
    settings: &Settings,
    acceptors: usize,
) -> Vec<Vec<(ListenerHandle, usize, Option<u16>)>> {
    let mut shares: Vec<_> = (0..acceptors).map(|_| Vec::new()).collect();
    let each = (handles.len() / settings.workers).max(1);
    for (number, handle) in handles.into_iter().enumerate() {
        let lane = settings.placement.partition.then(|| (number / each).min(settings.workers - 1) as u16);
        shares[number % acceptors].push((handle, number, lane));
    }
    shares
}

impl Pipeline {
    fn new(
        settings: &Settings,
        control: &Arc<Control>,
        handles: &[ListenerHandle],
        threads: StageThreads,
        blocks: &[&'static Counters],
    ) -> io::Result<Self> {
        let now = Clock::now().tick;
        let bound = settings.pipeline.queue.get() as usize;
        let (readers, writers) = (threads.read / settings.workers, threads.write / settings.workers);
        let takes_turns = settings.pipeline.stages == Stages::Four;
        let (read_poll, write_poll) = (Poll::new()?, Poll::new()?);
        let (polling, workers) = blocks[threads.accept..].split_at(2);
        let gauge = |block: &'static Counters, stage| &block.stage_queue[stage as usize];
        let lane = |lane: usize| {
            // Each queue reports its length in the counters of the first thread that takes from it.
            let first_writer = workers[threads.read + lane * writers];
            let written = gauge(first_writer, Stage::Write);
            if takes_turns {
                let polls = (&read_poll, &write_poll);
                let read = gauge(polling[0], Stage::Read);
                let planned = gauge(polling[1], Stage::WritePoll);
                Lane::of_four(polls, writers, bound, now, [read, planned, written])
            } else {
                let read = gauge(workers[lane * readers], Stage::Read);
                Lane::of_five((readers, writers), bound, now, [read, written])
            }
        };
        let lanes = (0..settings.workers).map(lane).collect();
        let supervisor = Token::of(Kind::Supervisor).number();
        read_poll.epoll.add(&**control, supervisor, Interest::READABLE)?;
        Ok(Self {
            control: Arc::clone(control),
            lanes,
            takes_turns,
            read_poll,
            write_poll,
            acceptors: (0..threads.accept).map(|_| AcceptorWakeup::new()).collect::<io::Result<_>>()?,
            open_listeners: Mutex::new(handles.iter().map(ListenerHandle::is_retiring).enumerate().collect()),
            open: AtomicU32::new(0),
            most_open: Allotment::of(settings).connections,
            is_crowded: AtomicBool::new(false),
            closes: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            batch: AtomicUsize::new(settings.pipeline.batch.get() as usize),
            readers,
            writers,
            is_steered: settings.pipeline.controllers,
            tokens: Tokens::default(),
            target_ns: settings.pipeline.response_target.map(|target| target.as_nanos() as u64),
            accepting: blocks[..threads.accept].into(),
            workers: workers.into(),
            threads: (0..threads.read + threads.write).map(|_| AtomicU32::new(0)).collect(),
        })
    }

    /// The CPUs of each lane.
    fn cpus(&self, settings: &Settings) -> Vec<Vec<usize>> {
        let usable = process::allowed_cpus().unwrap_or_default();
        (0..self.lanes.len()).map(|lane| placement::of_stages(lane, settings, &usable)).collect()
    }

    /// The lane of a reader, and its number there. `reader` counts the readers of all lanes.
    fn reader_at(&self, reader: usize) -> (usize, usize) {
        (reader / self.readers, reader % self.readers)
    }

    /// The largest number of connections in a batch.
    fn batch(&self) -> usize {
        self.batch.load(Ordering::Relaxed)
    }

    /// How many connections a thread takes from its stage's queue at once. If there are several threads,
    /// each takes one at a time: it may have to wait for the disk while others could go on.
    fn at_once(&self, stage: Stage) -> usize {
        let threads = if stage == Stage::Read { self.readers } else { self.writers };
        if threads == 1 { self.batch() } else { 1 }
    }

    /// Takes a connection slot, if one is left.
    fn take_place(&self) -> bool {
        let more = |open: u32| (open < self.most_open).then_some(open + 1);
        self.open.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_ok()
    }

    /// The connection's slot among the waiting connections. The connection keeps it for all waits.
    fn number(&self, traveller: &mut Traveller) -> Number {
        let waiting = &self.lanes[usize::from(traveller.lane)].waiting;
        *traveller.number.get_or_insert_with(|| waiting.lock().enter())
    }

    /// How many connections readers and writers have worked on.
    fn connections_worked_on(&self) -> u64 {
        let of = |block: &&Counters| {
            [Stage::Read, Stage::Write].map(|stage| block.stage_connections[stage as usize].get())
        };
        self.workers.iter().flat_map(of).fold(0, u64::wrapping_add)
    }

    /// How many times the stages still have to work on queued connections. A connection that is to be read
    /// from counts twice, because both stages will work on it.
    fn left_over(&self) -> usize {
        self.lanes.iter().map(|lane| 2 * lane.reads.len() + lane.writes.len() + lane.turn.len()).sum()
    }

    /// The connection has passed through the stages for as long as it could go on. It no longer holds back
    /// new connections.
    fn had_a_turn(&self, traveller: &mut Traveller) {
        if let Some(acceptor) = traveller.acceptor.take() {
            self.acceptors[usize::from(acceptor)].served();
        }
    }

    /// Releases a listener.
    fn shut(&self, handle: ListenerHandle, number: usize, service: &Service) {
        let mut open = self.open_listeners.lock().expect("nobody panics with the lock");
        open.retain(|&(other, _)| other != number);
        handle.let_go(service, &self.control, open.iter().map(|&(_, retires)| retires));
    }

    /// Whether all listeners are closed.
    fn all_listeners_are_closed(&self) -> bool {
        self.open_listeners.lock().expect("nobody panics with the lock").is_empty()
    }

    /// Ends all threads.
    fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        for lane in &self.lanes {
            lane.reads.close();
            lane.writes.close();
            lane.turn.close();
        }
        self.write_poll.wake();
        self.acceptors.iter().for_each(AcceptorWakeup::wake);
    }
}

/// Takes connections from a stage's queue, and waits for some if there are none.
fn take(
    (stage, number, at_once): (Stage, u16, usize),
    queue: &Queue<Boxed>,
    timeout: Option<Duration>,
    service: &mut Service,
    batch: &mut Vec<Boxed>,
) -> Taken {
    let taken = queue.take(number.into(), at_once, Some(Duration::ZERO), batch);
    if !batch.is_empty() || taken.is_closed || taken.is_poked {
        return taken;
    }
    service.rest();
    let began_ns = sys::clock::monotonic_ns();
    let has_room = taken.has_room;
    let taken = queue.take(number.into(), at_once, timeout, batch);
    let idle_ns = sys::clock::monotonic_ns().saturating_sub(began_ns);
    service.counters.stage_idle_ns[stage as usize].add(idle_ns);
    Taken { has_room: has_room || taken.has_room, ..taken }
}

/// Whether a thread has worked on its unfinished batch for so long that it should hand on the finished
/// part. Then it has waited for the disk, or for a client.
fn takes_long(service: &Service) -> bool {
    sys::clock::monotonic_ns().saturating_sub(service.clock.ns) >= LONG_NS
}

/// Counts what was taken.
fn note(stage: Stage, taken: Taken, count: usize, service: &Service) {
    if count > 0 {
        let now_ns = service.clock.ns.wrapping_mul(count as u64);
        // Connections that arrived after the clock was read have not waited.
        let wait_ns = now_ns.saturating_sub(taken.since_ns);
        service.counters.phases.add(1);
        service.counters.stage_batch(stage, count as u64, wait_ns);
    }
}
