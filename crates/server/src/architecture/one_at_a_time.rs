//! Serves one client at a time: accept, receive, answer, send, repeat. The architectures with a process or
//! a thread for each connection run many of these workers.
//!
//! Sends block until the client has taken everything ([`sends`](crate::sends)). After a reply, the receive
//! that waits for the client's next request blocks too. Such a request takes two system calls, `recv` and
//! `writev`, and a [yield](yielding) where that pays. The worker also has to notice deadlines, the
//! supervisor and waiting clients. It checks for these when a blocking call is interrupted, and once a tick
//! while one request follows the other.
//!
//! An [alarm](sys::alarm) interrupts blocking calls. Each thread has one: a timer that interrupts it every
//! 50 ms as long as it sends. The timer need not know when a call begins: if it rings just before a call,
//! that ring is lost, but the next is not. A single signal would leave a race between the last check and
//! the call. `shutdown(2)` of the socket would leave no race, but it cannot be undone.
//!
//! If a client has sent nothing when the alarm interrupts the receive, it is slow. The worker waits for it
//! in poll(2) instead. That call also receives the supervisor's wake-up, ends at the deadline to the
//! millisecond, and costs nothing however long it takes. While service ends, the worker waits for every
//! client in this way.
//!
//! The kernel wakes one worker for a new connection, not all waiting workers (unless `wake` is set so). A
//! worker that has a client checks twice a second whether another worker is free. If none is free and
//! clients wait to be accepted, a client that makes no [`progress`] is closed for them. A client that keeps
//! sending requests gets `Connection: close` with its next reply.

mod progress;
mod yielding;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use http1::{End, Tick};
use sys::epoll::Epoll;
use sys::event::{Events, Interest, Ready};
use sys::poll;
use sys::socket;
use sys::tcp_info;
use sys::wake;

use self::progress::{Progress, Seen, Stage};
use self::yielding::Yielding;
use super::common::ending::{Begins, Census, Ending};
use super::common::listener_handles::{Accepted, ListenerHandle};
use crate::accept::Gate;
use crate::channel::{Channel, Client};
use crate::config::{Settings, Wake};
use crate::control::{Control, Phase};
use crate::conversation::Turn;
use crate::counters::{ConnectionState, Reset};
use crate::crew::Crew;
use crate::error_log::Limited;
use crate::sends::BlockingSends;
use crate::service::Service;

/// A worker and everything it serves with.
pub(super) struct Worker {
    service: Service,
    handles: Vec<ListenerHandle>,
    /// The listeners and the notifier, for the wait between clients.
    epoll: Epoll,
    ready: Events,
    work_phase_skips_new: bool,
    /// Closed for a while after descriptors ran out.
    gate: Gate,
    ending: Ending,
    /// No end of service has begun, as far as the supervisor's last request says.
    serves_on: bool,
    control: Arc<Control>,
    notifier: Notifier,
    crew: Crew,
    number: usize,
    yielding: Yielding,
    complaints: Limited,
}

/// What wakes a worker when the supervisor has a request.
pub(super) enum Notifier {
    /// This is the only worker of its process. The supervisor wakes the process.
    Process,
    /// Another thread of this process receives the supervisor's requests, and wakes the workers.
    Thread(Arc<wake::Wake>),
}

const LISTENERS: u64 = 0;
const NOTIFIER: u64 = 1;

/// How often a worker that is to end checks its progress.
const ENDING_TICKS: u32 = 20 / Tick::MS;
/// How often a worker with a client checks whether others wait in vain.
const LOOK_TICKS: u32 = 500 / Tick::MS;

impl Worker {
    /// The worker of that number, to run in the calling thread.
    ///
    /// # Errors
    ///
    /// The kernel does not provide an epoll instance or a timer.
    pub(super) fn new(
        mut service: Service,
        handles: Vec<ListenerHandle>,
        settings: &Settings,
        control: Arc<Control>,
        notifier: Notifier,
        (crew, number): (Crew, usize),
    ) -> io::Result<Self> {
        service.sends_block = true;
        service.sends = Some(BlockingSends::of_one_client(&service.counters.alarm_rings)?);
        crew.set_free(number, false);
        service.counters.connection_bytes.raise_to(size_of::<Channel>() as u64);
        service.counters.connection_places.set(1);
        let this = Self {
            service,
            handles,
            epoll: Epoll::new()?,
            ready: Events::with_capacity(1),
            work_phase_skips_new: settings.event.work_phase_skips_new,
            gate: Gate::new(1),
            ending: Ending::new(settings, Arc::clone(&control)),
            serves_on: false,
            control,
            notifier,
            crew,
            number,
            yielding: Yielding::default(),
            complaints: Limited::default(),
        };
        this.epoll.add(this.notifier(), NOTIFIER, Interest::READABLE)?;
        // The supervisor may have ended before a signal could report its end.
        this.clear_notifier();
        let alone = settings.event.wake != Wake::All;
        let interest = if alone { Interest::READABLE.alone() } else { Interest::READABLE };
        for handle in &this.handles {
            this.epoll.add(&*handle.listener, LISTENERS, interest)?;
        }
        Ok(this)
    }

    /// Serves one client after the other until drained, retired or stopped.
    ///
    /// # Errors
    ///
    /// Waiting for events stops working.
    pub(super) fn run(mut self) -> io::Result<()> {
        self.control.arrive_with_all();
        loop {
            self.service.begin_turn();
            // Even at the end: if the kernel woke only this worker for a connection, no other worker would
            // look.
            let accepted = self.accept();
            let is_free = accepted.is_none();
            if let Some(client) = accepted {
                self.serve(client)?;
            }
            // Checked after each client: if there is always another client, the worker never waits, and
            // would never receive the supervisor's requests.
            self.heed_supervisor(None);
            if is_free {
                if self.has_ended() {
                    break;
                }
                self.await_client()?;
            }
        }
        self.service.publish();
        // Other threads of the process may go on. This worker no longer answers a census.
        for state in &self.service.counters.connections {
            state.set(0);
        }
        Ok(())
    }

    /// Accepts the first connection of a queue. Listeners take turns.
    fn accept(&mut self) -> Option<Client> {
        let now = self.service.clock.tick;
        // After the drain timeout, queued clients are cut off as well. Otherwise the worker would send to
        // each one for a while.
        let is_over = self.control.phase() == Phase::Stop || self.ending.gives_up(now);
        if is_over || self.gate.room(0, now) == 0 {
            return None;
        }
        let mut at = 0;
        while at < self.handles.len() {
            match self.handles[at].accept(&mut self.service, &mut self.gate, &mut self.complaints) {
                Accepted::Client(client) => {
                    self.handles[at..].rotate_left(1);
                    self.service.counters.accept_phase(1);
                    return Some(client);
                }
                Accepted::Nobody => at += 1,
                Accepted::TryAgain => {}
                // The supervisor's requests come between two clients, even between two that are refused.
                Accepted::Refused | Accepted::Paused => return None,
            }
        }
        self.service.counters.accept_phase(0);
        None
    }

    /// Waits until a client comes or the supervisor sends a request.
    fn await_client(&mut self) -> io::Result<()> {
        self.service.rest();
        let now = self.service.clock.tick;
        if let Some(until) = self.gate.paused_until() {
            // The accept queues are not empty, so waiting for the listeners would return at once.
            let pause = until.remaining(now).max(1) * Tick::MS;
            let [told] = poll::wait_for([(self.notifier(), Interest::READABLE)], Some(pause))?;
            if told.readable {
                self.clear_notifier();
            }
            return Ok(());
        }
        let ending = self.ends_something().then_some(u64::from(ENDING_TICKS * Tick::MS));
        let timeout = [ending, self.log_wait_ms()].into_iter().flatten().min();
        self.crew.set_free(self.number, true);
        let waited = self.epoll.wait(&mut self.ready, timeout.map(|ms| ms.min(u64::from(u32::MAX)) as u32));
        self.crew.set_free(self.number, false);
        self.service.counters.event_waits.add(1);
        waited?;
        if self.ready.iter().any(|event| event.token == NOTIFIER) {
            self.clear_notifier();
        }
        Ok(())
    }

    /// Serves a client until its connection ends.
    fn serve(&mut self, client: Client) -> io::Result<()> {
        self.service.counters.connections_opened.add(1);
        let mut client = Channel::new(client, &self.service);
        if self.work_phase_skips_new {
            client.await_input();
        }
        if self.ending.has_begun() {
            client.machine().drain();
        }
        let mut progress = Progress::new(stage(&client), self.service.clock.tick);
        let mut heeded = self.service.clock.tick;
        let mut look = heeded.after(LOOK_TICKS);
        // If no turn has looked for the request yet, it may have arrived already.
        let mut is_new = !self.work_phase_skips_new;
        let (mut turn, mut due) = (Turn::Unfinished, true);
        let (mut requests, mut in_receive) = (0, false);
        let reset = loop {
            let awaits_input = std::mem::take(&mut in_receive);
            if due {
                // A client that has sent only one request may never send another. And a worker that yields
                // in vain is late for its next client.
                if awaits_input && requests > 1 {
                    self.yielding.before_waiting();
                }
                self.service.awaits_input = awaits_input;
                turn = client.work(&mut self.service);
                self.service.awaits_input = false;
                self.service.counters.phases.add(1);
            }
            if std::mem::take(&mut is_new) && client.is_asking() && self.others_wait() {
                // It could send its request while it waited in the queue.
                let now = self.service.clock.tick;
                progress = Progress::new(stage(&client), now.before(waited_ticks(&client)));
                if self.is_too_slow(&mut progress, &client) {
                    turn = self.let_go(&mut client);
                }
            }
            // An application may serve no other client until it has seen its connection end, and a reply
            // may take long. If the client's connection ends too, that is closed first. An application that
            // the client was lent to must not see its own connection end before that.
            let goes_on = match turn {
                Turn::Blocked | Turn::Application => true,
                Turn::Unfinished => client.machine().wants_end() == End::Open,
                Turn::Close | Turn::Reset | Turn::Disk(_) => false,
            };
            if goes_on {
                self.close_retired_links();
            }
            due = match turn {
                Turn::Close => break false,
                // Such a worker waits for the disk itself. There is no helper to take the job.
                Turn::Reset | Turn::Disk(_) => break true,
                Turn::Blocked => {
                    let has_asked = std::mem::replace(&mut requests, client.requests()) != client.requests();
                    in_receive = has_asked && self.may_await_in_receive(&mut client);
                    in_receive || self.await_event(&mut client, look)?
                }
                Turn::Application => self.await_event(&mut client, look)?,
                Turn::Unfinished => true,
            };
            // Within the same tick nothing new is due. The supervisor can wait until the next tick.
            if in_receive && heeded == self.service.clock.tick {
                continue;
            }
            if !in_receive {
                self.service.begin_turn();
            }
            let now = self.service.clock.tick;
            heeded = now;
            self.heed_supervisor(Some(&mut client));
            if client.deadline().is_some_and(|deadline| deadline.reached(now))
                && let Some(next) = client.timeout(&mut self.service)
            {
                (turn, due) = (next, false);
            }
            if self.control.phase() == Phase::Stop {
                break false;
            }
            if self.ending.gives_up(now) {
                tracing::warn!("a connection cut off: the drain timeout is over");
                break false;
            }
            // Right after a turn the connection may look idle although a request is waiting.
            if self.ending.closes_idle_ones(now) && !due {
                due = client.close_if_done(now);
            }
            if look.reached(now) {
                look = now.after(LOOK_TICKS);
                // A place in a queue may have become free without a wake-up.
                due |= client.is_queued() && self.service.do_chores();
                let mut is_too_slow = self.is_too_slow(&mut progress, &client);
                if self.others_wait() {
                    client.machine().drain();
                    if is_too_slow && due {
                        // What has just arrived may be what the worker waited for.
                        (turn, due) = (client.work(&mut self.service), false);
                        is_too_slow = self.is_too_slow(&mut progress, &client);
                    }
                    if is_too_slow {
                        (turn, due) = (self.let_go(&mut client), false);
                    }
                }
            }
        };
        let socket = client.end(&mut self.service);
        self.close_retired_links();
        self.service.counters.connections_closed.add(1);
        if reset {
            self.service.counters.reset(Reset::Local);
            // A socket that cannot be reset is closed when it is dropped.
            let _ = socket::reset(socket);
        }
        Ok(())
    }

    /// Closes the sockets to applications' servers that no request uses any more.
    fn close_retired_links(&mut self) {
        while self.service.gateway.take_retired().is_some() {}
    }

    /// Whether the worker may wait for the client's next request in the call that receives it. It may if
    /// the client waits for nothing else, and the alarm interrupts that call in time. If so, marks the
    /// client as having input.
    fn may_await_in_receive(&self, client: &mut Channel) -> bool {
        let sends = self.service.sends.as_ref();
        let Some(within_ms) = sends.and_then(BlockingSends::breaks_off_within_ms) else { return false };
        let left = client.deadline().map(|deadline| deadline.remaining(self.service.clock.tick));
        let may = client.waits_for() == (true, false)
            && left.is_none_or(|ticks| u64::from(ticks * Tick::MS) > within_ms)
            && self.log_wait_ms() != Some(0)
            && self.serves_on;
        if may {
            client.note(true, false, false);
        }
        may
    }

    /// Waits until the client can go on, its deadline passes, the supervisor sends a request, or the next
    /// check is due. Returns whether the client can go on.
    fn await_event(&mut self, client: &mut Channel, look: Tick) -> io::Result<bool> {
        self.service.rest();
        let now = self.service.clock.tick;
        let deadline = client.deadline().map(|deadline| deadline.remaining(now));
        let ending = self.ends_something().then_some(ENDING_TICKS);
        let ticks = [deadline, ending, Some(look.remaining(now))].into_iter().flatten().min();
        let ms = ticks.map(|ticks| u64::from(ticks) * u64::from(Tick::MS));
        let timeout =
            [ms, self.log_wait_ms()].into_iter().flatten().min().map(|ms| ms.min(u64::from(u32::MAX)) as u32);
        let (readable, writable) = client.waits_for();
        let interest = Interest { readable, writable, ..Interest::NONE };
        let (of_client, of_supervisor) = ((client.as_fd(), interest), (self.notifier(), Interest::READABLE));
        let is_queued = client.is_queued();
        let (event, told, said) = match (client.link_fd(), self.service.wakeup()) {
            (None, Some(wakeup)) if is_queued => {
                let of_wakeup = (wakeup, Interest::READABLE);
                let [event, told, rung] = poll::wait_for([of_client, of_supervisor, of_wakeup], timeout)?;
                if rung.readable {
                    self.service.clear_wakeup();
                }
                (event, told, rung.readable)
            }
            (None, _) => {
                let [event, told] = poll::wait_for([of_client, of_supervisor], timeout)?;
                (event, told, false)
            }
            (Some((link, (readable, writable))), _) => {
                let of_link = (link, Interest { readable, writable, ..Interest::NONE });
                let [event, told, said] = poll::wait_for([of_client, of_supervisor, of_link], timeout)?;
                if let Some((link, _)) = client.link() {
                    link.note(said.readable, said.writable, said.hang_up || said.error);
                }
                (event, told, is_something(said))
            }
        };
        self.service.counters.event_waits.add(1);
        client.note(event.readable, event.writable, event.hang_up || event.error);
        if told.readable {
            self.clear_notifier();
        }
        Ok(said || is_something(event))
    }

    /// Does what the supervisor requests.
    fn heed_supervisor(&mut self, mut client: Option<&mut Channel>) {
        if let Notifier::Process = self.notifier {
            self.control.heed_signals();
        }
        let census = || {
            let mut counts = Census::default();
            if let Some(client) = &client {
                counts[client.state() as usize] = 1;
            }
            counts
        };
        let begins = self.ending.heed(&self.service, census);
        let now = self.service.clock.tick;
        match begins {
            Some(Begins::Retiring) => self.close_listeners(|_| true),
            Some(Begins::Draining) => {
                self.handles.iter_mut().for_each(|handle| handle.drain(now, &self.control));
            }
            None => {}
        }
        if let (Some(client), true) = (&mut client, self.ending.has_begun()) {
            client.machine().drain();
        }
        let control = Arc::clone(&self.control);
        self.close_listeners(|handle| handle.is_over(now, &control));
        self.serves_on = self.control.phase() == Phase::Run && !self.ends_something();
    }

    fn close_listeners(&mut self, are_over: impl Fn(&mut ListenerHandle) -> bool) {
        while let Some(at) = self.handles.iter_mut().position(&are_over) {
            let handle = self.handles.remove(at);
            // Other processes have the same socket open, so closing it here would not end its registration.
            // Removing a registered socket cannot fail.
            let _ = self.epoll.remove(&*handle.listener);
            handle.let_go(&self.service, &self.control, self.handles.iter().map(ListenerHandle::is_retiring));
        }
    }

    /// Whether the progress of an end has to be checked again and again.
    fn ends_something(&self) -> bool {
        self.ending.is_draining() || self.handles.iter().any(ListenerHandle::is_retiring)
    }

    /// Whether a worker without a client has nothing more to do: all clients are accepted, or the drain
    /// timeout is over.
    fn has_ended(&self) -> bool {
        let over = self.handles.is_empty() || self.ending.gives_up(self.service.clock.tick);
        self.ending.has_begun() && over || self.control.phase() == Phase::Stop
    }

    /// Whether clients wait to be accepted and no worker is free.
    fn others_wait(&self) -> bool {
        !self.crew.has_free() && self.handles.iter().any(|handle| handle.listener.has_queue())
    }

    /// Whether the client takes longer than it may while others wait.
    fn is_too_slow(&self, progress: &mut Progress, client: &Channel) -> bool {
        if client.waits_for_application() {
            return false;
        }
        let stage = stage(client);
        // Bytes that the kernel still holds have not been taken by the client.
        let kept = match stage.state {
            ConnectionState::Writing => tcp_info::send_queue(client).unwrap_or(0),
            _ => 0,
        };
        let taken = self.service.counters.bytes_sent.get().saturating_sub(kept.into());
        progress.is_too_slow(
            self.service.clock.tick,
            Seen { stage, taken },
            self.service.limits.timeouts.write_rate,
        )
    }

    /// Ends the client's connection because others wait.
    fn let_go(&mut self, client: &mut Channel) -> Turn {
        self.service.counters.connections_closed_under_pressure.add(1);
        client.make_room(&mut self.service)
    }

    fn log_wait_ms(&self) -> Option<u64> {
        self.service.logs.wait_at_most_ms(self.service.clock.ms)
    }

    fn notifier(&self) -> BorrowedFd<'_> {
        match &self.notifier {
            Notifier::Process => self.control.as_fd(),
            Notifier::Thread(wake) => wake.as_fd(),
        }
    }

    fn clear_notifier(&self) {
        match &self.notifier {
            Notifier::Process => self.control.heed(),
            Notifier::Thread(wake) => {
                let _ = wake.clear();
            }
        }
    }
}

fn is_something(event: Ready) -> bool {
    event.readable || event.writable || event.hang_up || event.error
}

fn stage(client: &Channel) -> Stage {
    Stage { state: client.state(), requests: client.requests(), is_shaking_hands: client.is_shaking_hands() }
}

/// How long a client that was just accepted has waited, at least.
fn waited_ticks(client: &Channel) -> u32 {
    // A client that speaks TLS has waited for this server, and could not send its request before.
    if client.speaks_tls() {
        return 0;
    }
    // For a client on a Unix socket this is unknown.
    tcp_info::waited_ms(client).unwrap_or(0) / Tick::MS
}
