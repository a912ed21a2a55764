//! A worker that serves one client at a time: accept, receive, answer, send, over and over. It is what the
//! architectures with a process or a thread for each connection have many of.
//!
//! Sends block until the client has taken everything ([`sends`](crate::sends)). So does the receive in which
//! the worker awaits the next request of a client that has just asked: such a request takes two system calls,
//! `recv` and `writev`, and a [yield](yielding) where that pays. What else there is to hear of meanwhile (a
//! deadline, the supervisor, others who wait) is heard of as often as these calls are broken off, and once a
//! tick where one request follows the other.
//!
//! They are broken off by an [alarm](sys::alarm) of the thread's own, a timer that interrupts it every 50 ms
//! as long as it sends. Nobody has to know when a call begins: a ring that comes just before one is lost, but
//! the next is not. A single signal would leave that race, between the last look at what it tells of and the
//! call; `shutdown(2)` of the socket would not, but it can't be taken back.
//!
//! A client that has brought nothing by then takes its time. It is awaited by poll(2), which also hears the
//! supervisor, is bounded by the deadline to the millisecond, and costs nothing for as long as it takes. So
//! is whoever is awaited while service ends.
//!
//! A worker that waits for a client to come is woken alone, not together with the others that do (unless
//! `wake` says so). One that has a client looks twice a second whether anybody else is free. If not, and if
//! others wait to be accepted, a client that makes no [`headway`] gives way, and one that goes on and on is
//! told that its next reply is the last.

mod headway;
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

use self::headway::{Headway, Seen, Stage};
use self::yielding::Yielding;
use super::common::doors::{Accepted, Door};
use super::common::ending::{Begins, Census, Ending};
use crate::accept::Gate;
use crate::channel::{Client, Plain};
use crate::config::{Settings, Wake};
use crate::control::{Control, Phase};
use crate::conversation::Turn;
use crate::counters::{ConnectionState, Reset};
use crate::crew::Crew;
use crate::error_log::Limited;
use crate::sends::BlockingSends;
use crate::service::Service;

/// A worker and what it serves with.
pub(super) struct Worker {
    service: Service,
    doors: Vec<Door>,
    /// The listeners and the notifier, for the wait between clients.
    epoll: Epoll,
    ready: Events,
    work_phase_skips_new: bool,
    /// Closed for a while after descriptors ran out.
    gate: Gate,
    ending: Ending,
    /// No end has begun, as far as the supervisor was last heard.
    serves_on: bool,
    control: Arc<Control>,
    notifier: Notifier,
    crew: Crew,
    number: usize,
    yielding: Yielding,
    complaints: Limited,
}

/// What wakes a worker when the supervisor wants something.
pub(super) enum Notifier {
    /// It is the only one of its process, which the supervisor wakes.
    Process,
    /// A thread of its process hears the supervisor, and wakes the others.
    Thread(Arc<wake::Wake>),
}

const LISTENERS: u64 = 0;
const NOTIFIER: u64 = 1;

/// How often a worker that is to end looks how far it is.
const ENDING_TICKS: u32 = 20 / Tick::MS;
/// How often a worker with a client looks whether others wait in vain.
const LOOK_TICKS: u32 = 500 / Tick::MS;

impl Worker {
    /// The worker of that number, to run in the calling thread.
    ///
    /// # Errors
    ///
    /// The kernel gives no epoll or no timer.
    pub(super) fn new(
        mut service: Service,
        doors: Vec<Door>,
        settings: &Settings,
        control: Arc<Control>,
        notifier: Notifier,
        (crew, number): (Crew, usize),
    ) -> io::Result<Self> {
        service.sends_block = true;
        service.sends = Some(BlockingSends::of_one_client(&service.counters.alarm_rings)?);
        crew.set_free(number, false);
        service.counters.connection_bytes.raise_to(size_of::<Plain>() as u64);
        service.counters.connection_places.set(1);
        let this = Self {
            service,
            doors,
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
        // The supervisor may have ended before its end was to be told by a signal.
        this.clear_notifier();
        let alone = settings.event.wake != Wake::All;
        let interest = if alone { Interest::READABLE.alone() } else { Interest::READABLE };
        for door in &this.doors {
            this.epoll.add(&*door.listener, LISTENERS, interest)?;
        }
        Ok(this)
    }

    /// Serves one client after the other until drained, retired or stopped.
    ///
    /// # Errors
    ///
    /// Waiting does not work any more.
    pub(super) fn run(mut self) -> io::Result<()> {
        self.control.arrive_with_all();
        loop {
            self.service.begin_turn();
            // Even at the end: if only this worker was woken for a connection, nobody else would look.
            let accepted = self.accept();
            let is_free = accepted.is_none();
            if let Some(client) = accepted {
                self.serve(client)?;
            }
            // After each client: where there is always another, there is no wait in which the supervisor
            // would be heard.
            self.heed_supervisor(None);
            if is_free {
                if self.has_ended() {
                    break;
                }
                self.await_client()?;
            }
        }
        self.service.publish();
        // Other threads of the process may go on. This one does not answer when its clients are counted.
        for state in &self.service.counters.connections {
            state.set(0);
        }
        Ok(())
    }

    /// The first connection of a queue. Listeners take turns.
    fn accept(&mut self) -> Option<Client> {
        let now = self.service.clock.tick;
        // After the drain timeout whoever is in the queue is cut off as well: each would be sent to for a
        // while.
        let is_over = self.control.phase() == Phase::Stop || self.ending.gives_up(now);
        if is_over || self.gate.room(0, now) == 0 {
            return None;
        }
        let mut at = 0;
        while at < self.doors.len() {
            match self.doors[at].accept(&mut self.service, &mut self.gate, &mut self.complaints) {
                Accepted::Client(client) => {
                    self.doors[at..].rotate_left(1);
                    self.service.counters.accept_phase(1);
                    return Some(client);
                }
                Accepted::Nobody => at += 1,
                Accepted::TryAgain => {}
                Accepted::Paused => return None,
            }
        }
        self.service.counters.accept_phase(0);
        None
    }

    /// Waits until a client comes or the supervisor calls.
    fn await_client(&mut self) -> io::Result<()> {
        self.service.rest();
        let now = self.service.clock.tick;
        if let Some(until) = self.gate.paused_until() {
            // The listeners are not empty: waiting for them would be none.
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
        let mut client = Plain::new(client, &self.service);
        if self.work_phase_skips_new {
            client.await_input();
        }
        if self.ending.has_begun() {
            client.machine().drain();
        }
        let mut headway = Headway::new(stage(&client), self.service.clock.tick);
        let mut heeded = self.service.clock.tick;
        let mut look = heeded.after(LOOK_TICKS);
        // Where a turn has not looked for the request yet, it may be there.
        let mut is_new = !self.work_phase_skips_new;
        let (mut turn, mut due) = (Turn::Unfinished, true);
        let (mut requests, mut in_receive) = (0, false);
        let reset = loop {
            let awaits_input = std::mem::take(&mut in_receive);
            if due {
                // Who has asked but once may never again; and who yields in vain is late for its next client.
                if awaits_input && requests > 1 {
                    self.yielding.before_waiting();
                }
                self.service.awaits_input = awaits_input;
                turn = client.work(&mut self.service);
                self.service.awaits_input = false;
                self.service.counters.phases.add(1);
            }
            if std::mem::take(&mut is_new) && client.is_asking() && self.others_wait() {
                // It could ask while it waited in the queue.
                let now = self.service.clock.tick;
                headway = Headway::new(stage(&client), now.before(waited_ticks(&client)));
                if self.dawdles(&mut headway, &client) {
                    turn = self.let_go(&mut client);
                }
            }
            // An application may come to nobody else until it has seen the end of a connection, and a reply
            // may take its time. Where the client's ends, too, that goes first: who was lent it is not to see
            // the end of its own before.
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
                // Such a worker waits for the disk itself; nobody would take on the job.
                Turn::Reset | Turn::Disk(_) => break true,
                Turn::Blocked => {
                    let has_asked = std::mem::replace(&mut requests, client.requests()) != client.requests();
                    in_receive = has_asked && self.may_await_in_receive(&mut client);
                    in_receive || self.await_event(&mut client, look)?
                }
                Turn::Application => self.await_event(&mut client, look)?,
                Turn::Unfinished => true,
            };
            // Nothing is due that was not within the same tick, and the supervisor can wait for the next.
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
            // Right after a turn it may look idle and have a request waiting.
            if self.ending.closes_idle_ones(now) && !due {
                due = client.machine().close_if_idle();
            }
            if look.reached(now) {
                look = now.after(LOOK_TICKS);
                let mut dawdles = self.dawdles(&mut headway, &client);
                if self.others_wait() {
                    client.machine().drain();
                    if dawdles && due {
                        // What has just come may be what was awaited.
                        (turn, due) = (client.work(&mut self.service), false);
                        dawdles = self.dawdles(&mut headway, &client);
                    }
                    if dawdles {
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
            // A socket that can't be reset is closed by being dropped.
            let _ = socket::reset(socket);
        }
        Ok(())
    }

    /// Closes the sockets of applications' servers that nobody uses any more.
    fn close_retired_links(&mut self) {
        while let Some((socket, _)) = self.service.gateway.take_retired() {
            drop(socket);
        }
    }

    /// Whether the client's next request may be awaited in the call that receives it: that is all that the
    /// client waits for, and there is time until that call is broken off. If so, there is input as far as the
    /// client knows.
    fn may_await_in_receive(&self, client: &mut Plain) -> bool {
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

    /// Waits until the client can go on, its deadline has come, the supervisor calls, or it is time to look
    /// around; says whether the client can go on.
    fn await_event(&mut self, client: &mut Plain, look: Tick) -> io::Result<bool> {
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
        let (event, told, said) = match (client.link_fd(), self.service.gateway.bell()) {
            (None, Some(bell)) if is_queued => {
                let of_bell = (bell, Interest::READABLE);
                let [event, told, rung] = poll::wait_for([of_client, of_supervisor, of_bell], timeout)?;
                if rung.readable {
                    self.service.gateway.clear_bell();
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

    /// Does what the supervisor wants.
    fn heed_supervisor(&mut self, mut client: Option<&mut Plain>) {
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
            Some(Begins::Draining) => self.doors.iter_mut().for_each(|door| door.drain(now, &self.control)),
            None => {}
        }
        if let (Some(client), true) = (&mut client, self.ending.has_begun()) {
            client.machine().drain();
        }
        let control = Arc::clone(&self.control);
        self.close_listeners(|door| door.is_over(now, &control));
        self.serves_on = self.control.phase() == Phase::Run && !self.ends_something();
    }

    fn close_listeners(&mut self, are_over: impl Fn(&mut Door) -> bool) {
        while let Some(at) = self.doors.iter_mut().position(&are_over) {
            let door = self.doors.remove(at);
            // Others have the same socket open, so closing it here would not end its registration. Removing
            // what is registered cannot fail.
            let _ = self.epoll.remove(&*door.listener);
            door.let_go(&self.service, &self.control, self.doors.iter().map(Door::is_retiring));
        }
    }

    /// Whether it is to be looked again and again how far an end has come.
    fn ends_something(&self) -> bool {
        self.ending.is_draining() || self.doors.iter().any(Door::is_retiring)
    }

    /// Whether a worker without a client has nothing more to do: all is accepted, or it has taken too long.
    fn has_ended(&self) -> bool {
        let over = self.doors.is_empty() || self.ending.gives_up(self.service.clock.tick);
        self.ending.has_begun() && over || self.control.phase() == Phase::Stop
    }

    /// Whether clients wait to be accepted and nobody is free.
    fn others_wait(&self) -> bool {
        !self.crew.has_free() && self.doors.iter().any(|door| door.listener.has_queue())
    }

    /// Whether the client takes longer than it may where others wait.
    fn dawdles(&self, headway: &mut Headway, client: &Plain) -> bool {
        if client.waits_for_application() {
            return false;
        }
        let stage = stage(client);
        // What the kernel still keeps for it, it has not taken.
        let kept = match stage.state {
            ConnectionState::Writing => tcp_info::send_queue(client).unwrap_or(0),
            _ => 0,
        };
        let taken = self.service.counters.bytes_sent.get().saturating_sub(kept.into());
        headway.dawdles(
            self.service.clock.tick,
            Seen { stage, taken },
            self.service.limits.timeouts.write_rate,
        )
    }

    /// Has the client give way to those who wait.
    fn let_go(&mut self, client: &mut Plain) -> Turn {
        self.service.counters.connections_closed_under_pressure.add(1);
        client.give_way(&mut self.service)
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

fn stage(client: &Plain) -> Stage {
    Stage { state: client.state(), requests: client.requests() }
}

/// How long a client that was just accepted has waited at least.
fn waited_ticks(client: &Plain) -> u32 {
    // Of a client through a Unix socket it is not known.
    tcp_info::waited_ms(client).unwrap_or(0) / Tick::MS
}
