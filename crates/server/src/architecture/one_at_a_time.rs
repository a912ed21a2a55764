//! A worker that serves one client at a time: accept, receive, answer, send, over and over. It is what the
//! architectures with a process or a thread for each connection have many of.
//!
//! Sends block until the client has taken everything ([`sends`](crate::sends)), and so does waiting for the
//! next request. That wait is for three things: the client, its deadline, and the supervisor. A send hears of
//! the latter two as often as it is broken off.
//!
//! A worker that waits for a client to come is woken alone, not together with the others that do (unless
//! `wake` says so). One that has a client looks twice a second whether anybody else is free. If not, and if
//! others wait to be accepted, a client that makes no [`headway`] gives way, and one that goes on and on is
//! told that its next reply is the last.

mod headway;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use http1::Tick;
use sys::epoll::Epoll;
use sys::event::{Events, Interest};
use sys::poll;
use sys::socket::{self, PeerAddress};
use sys::tcp_info;
use sys::wake;

use self::headway::{Headway, Seen, Stage};
use crate::accept::Gate;
use crate::config::{Settings, Wake};
use crate::control::{Control, LetGo, Phase};
use crate::conversation::{Conversation, Turn};
use crate::counters::{ConnectionState, Failure, Reset};
use crate::crew::Crew;
use crate::error_log::Limited;
use crate::listeners::{Listener, Share};
use crate::sends::BlockingSends;
use crate::service::Service;

/// A worker and what it serves with.
pub(super) struct Attendant {
    service: Service,
    ports: Vec<Port>,
    /// The listeners and the bell, for the wait between clients.
    epoll: Epoll,
    ready: Events,
    work_phase_skips_new: bool,
    /// Closed for a while after descriptors ran out.
    gate: Gate,
    ending: Ending,
    drain_timeout_ticks: u32,
    control: Arc<Control>,
    bell: Bell,
    crew: Crew,
    number: usize,
    /// How often the logs have been opened anew.
    reopenings: u32,
    complaints: Limited,
}

/// What wakes a worker when the supervisor wants something.
pub(super) enum Bell {
    /// It is the only one of its process: the process's own.
    Own,
    /// Somebody in its process heeds the supervisor, and rings here.
    Rung(Arc<wake::Wake>),
}

/// A listener.
#[derive(Clone)]
pub(super) struct Port {
    listener: Arc<Listener>,
    /// Who lets go of the last of these closes the listener for the process.
    held: Arc<()>,
    /// A reload has removed it: it is to be emptied and closed.
    retires: bool,
    /// It answers no new handshakes any more, if it is this server's alone, and is closed once it is empty
    /// after this.
    retiring: Option<Tick>,
}

/// How far the end of service has come.
#[derive(Clone, Copy)]
enum Ending {
    NotYet,
    /// Others accept now; the client is served to its next reply.
    Retired,
    Drain {
        /// Before this, an idle connection is left open for a request that may be on its way.
        idle_until: Tick,
        /// At this, the client is cut off.
        give_up: Tick,
    },
}

const LISTENERS: u64 = 0;
const BELL: u64 = 1;

/// How long a closing listener goes on accepting after it has refused new handshakes, for those under way to
/// finish.
const RETIRE_TICKS: u32 = 100 / Tick::MS;
/// How long a drain leaves idle connections open, so that a request that is on its way finds somebody.
const DRAIN_IDLE_TICKS: u32 = 500 / Tick::MS;
/// How often a worker that is to end looks how far it is.
const ENDING_TICKS: u32 = 20 / Tick::MS;
/// How often a worker with a client looks whether others wait in vain.
const LOOK_TICKS: u32 = 500 / Tick::MS;

impl Attendant {
    /// The worker of that number, to run in the calling thread.
    ///
    /// # Errors
    ///
    /// The kernel gives no epoll or no timer.
    pub(super) fn new(
        mut service: Service,
        ports: Vec<Port>,
        settings: &Settings,
        control: Arc<Control>,
        bell: Bell,
        (crew, number): (Crew, usize),
    ) -> io::Result<Self> {
        service.sends = Some(BlockingSends::of_one_client()?);
        crew.set_free(number, false);
        service.counters.connection_bytes.raise_to(size_of::<Conversation>() as u64);
        service.counters.connection_places.set(1);
        let mut this = Self {
            service,
            ports,
            epoll: Epoll::new()?,
            ready: Events::with_capacity(1),
            work_phase_skips_new: settings.event.work_phase_skips_new,
            gate: Gate::new(1),
            ending: Ending::NotYet,
            drain_timeout_ticks: http1::Timeouts::ticks(settings.drain_timeout.as_millis() as u64),
            reopenings: control.reopenings(),
            control,
            bell,
            crew,
            number,
            complaints: Limited::default(),
        };
        this.epoll.add(this.bell(), BELL, Interest::READABLE)?;
        // The supervisor may have ended before its end was to be told by a signal.
        this.hush();
        let now = this.service.clock.tick;
        let alone = settings.event.wake != Wake::All;
        let interest = if alone { Interest::READABLE.alone() } else { Interest::READABLE };
        for port in &mut this.ports {
            this.epoll.add(&*port.listener, LISTENERS, interest)?;
            if port.retires {
                port.retire(now);
            }
        }
        Ok(this)
    }

    /// Serves one client after the other until drained, retired or stopped.
    ///
    /// # Errors
    ///
    /// Waiting does not work any more.
    pub(super) fn run(mut self) -> io::Result<()> {
        loop {
            self.service.begin_turn();
            // Even at the end: if only this worker was woken for a connection, nobody else would look.
            let accepted = self.accept();
            let is_free = accepted.is_none();
            if let Some((socket, peer)) = accepted {
                self.serve(socket, peer)?;
            }
            // After each client: where there is always another, there is no wait in which the bell would be
            // heard.
            self.heed_supervisor(None);
            if is_free {
                if self.has_ended() {
                    break;
                }
                self.await_client()?;
            }
        }
        self.service.publish();
        Ok(())
    }

    /// The first connection of a queue. Listeners take turns.
    fn accept(&mut self) -> Option<(OwnedFd, PeerAddress)> {
        // After the drain timeout whoever is in the queue is cut off as well: each would be sent to for a
        // while.
        let is_over = self.control.phase() == Phase::Stop || self.gives_up();
        if is_over || self.gate.room(0, self.service.clock.tick) == 0 {
            return None;
        }
        let mut at = 0;
        while at < self.ports.len() {
            match self.service.accept(&self.ports[at].listener) {
                Ok(accepted) => {
                    self.ports[at..].rotate_left(1);
                    self.service.counters.accept_phase(1);
                    return Some(accepted);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => at += 1,
                Err(error) if socket::is_exhaustion(&error) => {
                    self.service.counters.error(Failure::AcceptExhausted);
                    // Files that are kept open without need make room for clients.
                    if !self.service.content.close_half() {
                        self.gate.back_off(self.service.clock.tick);
                        self.complain(&format!("accepting pauses: {error}"));
                        return None;
                    }
                }
                // The client is gone already, or the network says so (accept(2), "Error handling").
                Err(_) => {
                    self.service.counters.error(Failure::Accept);
                    at += 1;
                }
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
            let [bell] = poll::wait_for([(self.bell(), Interest::READABLE)], Some(pause))?;
            if bell.readable {
                self.hush();
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
        if self.ready.iter().any(|event| event.token == BELL) {
            self.hush();
        }
        Ok(())
    }

    /// Serves a client until its connection ends.
    fn serve(&mut self, socket: OwnedFd, peer: PeerAddress) -> io::Result<()> {
        self.service.counters.connections_opened.add(1);
        let mut client = Conversation::new(socket, peer, &self.service);
        if self.work_phase_skips_new {
            client.await_input();
        }
        if !matches!(self.ending, Ending::NotYet) {
            client.machine().drain();
        }
        let mut headway = Headway::new(stage(&client), self.service.clock.tick);
        let mut look = self.service.clock.tick.after(LOOK_TICKS);
        // Where a turn has not looked for the request yet, it may be there.
        let mut is_new = !self.work_phase_skips_new;
        let (mut turn, mut due) = (Turn::Unfinished, true);
        let reset = loop {
            if due {
                turn = client.work(&mut self.service);
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
            due = match turn {
                Turn::Close => break false,
                // Such a worker waits for the disk itself; nobody would take on the job.
                Turn::Reset | Turn::Disk(_) => break true,
                Turn::Blocked => self.await_event(&mut client, look)?,
                Turn::Unfinished => true,
            };
            self.service.begin_turn();
            self.heed_supervisor(Some(&mut client));
            let now = self.service.clock.tick;
            if client.machine().deadline().is_some_and(|deadline| deadline.reached(now))
                && let Some(next) = client.timeout(&mut self.service)
            {
                (turn, due) = (next, false);
            }
            match self.ending {
                _ if self.control.phase() == Phase::Stop => break false,
                Ending::Drain { give_up, .. } if give_up.reached(now) => {
                    tracing::warn!("a connection cut off: the drain timeout is over");
                    break false;
                }
                // Right after a turn it may look idle and have a request waiting.
                Ending::Drain { idle_until, .. } if idle_until.reached(now) && !due => {
                    due = client.machine().close_if_idle();
                }
                Ending::NotYet | Ending::Retired | Ending::Drain { .. } => {}
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
        self.service.counters.connections_closed.add(1);
        if reset {
            self.service.counters.reset(Reset::Local);
            // A socket that can't be reset is closed by being dropped.
            let _ = socket::reset(socket);
        }
        Ok(())
    }

    /// Waits until the client can go on, its deadline has come, the supervisor calls, or it is time to look
    /// around; says whether the client can go on.
    fn await_event(&mut self, client: &mut Conversation, look: Tick) -> io::Result<bool> {
        self.service.rest();
        let now = self.service.clock.tick;
        let deadline = client.machine().deadline().map(|deadline| deadline.remaining(now));
        let ending = self.ends_something().then_some(ENDING_TICKS);
        let ticks = [deadline, ending, Some(look.remaining(now))].into_iter().flatten().min();
        let ms = ticks.map(|ticks| u64::from(ticks) * u64::from(Tick::MS));
        let timeout =
            [ms, self.log_wait_ms()].into_iter().flatten().min().map(|ms| ms.min(u64::from(u32::MAX)) as u32);
        let (readable, writable) = client.waits_for();
        let interest = Interest { readable, writable, ..Interest::NONE };
        let [event, bell] =
            poll::wait_for([(client.as_fd(), interest), (self.bell(), Interest::READABLE)], timeout)?;
        self.service.counters.event_waits.add(1);
        client.note(event.readable, event.writable, event.hang_up || event.error);
        if bell.readable {
            self.hush();
        }
        Ok(event.readable || event.writable || event.hang_up || event.error)
    }

    /// What the supervisor wants: a census, logs opened anew, an end.
    fn heed_supervisor(&mut self, client: Option<&mut Conversation>) {
        if let Bell::Own = self.bell {
            self.control.heed_signals();
        }
        if self.service.counters.census.pending().is_some() {
            self.service.publish();
            let mut counts = [0; ConnectionState::NAMES.len()];
            if let Some(client) = &client {
                counts[client.state() as usize] = 1;
            }
            self.service.counters.answer_census(|| counts);
        }
        if self.control.reopenings() != self.reopenings {
            self.reopenings = self.control.reopenings();
            self.service.reopen_logs();
        }
        let now = self.service.clock.tick;
        self.ending = match (self.control.phase(), self.ending) {
            (Phase::Retire, Ending::NotYet) => {
                self.close_listeners(|_| true);
                Ending::Retired
            }
            (Phase::Drain, Ending::NotYet | Ending::Retired) => {
                if self.control.is_orphaned() {
                    self.ports.iter().for_each(|port| port.listener.refuse_new_handshakes());
                }
                self.ports.iter_mut().for_each(|port| port.retire(now));
                Ending::Drain {
                    idle_until: now.after(DRAIN_IDLE_TICKS),
                    give_up: now.after(self.drain_timeout_ticks),
                }
            }
            (_, unchanged) => unchanged,
        };
        if let (Some(client), Ending::Retired | Ending::Drain { .. }) = (client, self.ending) {
            client.machine().drain();
        }
        self.close_listeners(|port| port.is_over(now));
    }

    fn close_listeners(&mut self, are_over: impl Fn(&Port) -> bool) {
        let mut last = false;
        for port in self.ports.extract_if(.., |port| are_over(port)) {
            // Others have the same socket open, so closing it here would not end its registration. Removing
            // what is registered cannot fail.
            let _ = self.epoll.remove(&*port.listener);
            if self.control.is_orphaned() {
                port.listener.stop_listening();
            }
            if Arc::into_inner(port.held).is_some() {
                port.listener.close();
                last = true;
            }
        }
        if last && self.ports.is_empty() {
            self.control.tell_let_go(LetGo::All);
        }
    }

    /// Whether it is to be looked again and again how far an end has come.
    fn ends_something(&self) -> bool {
        matches!(self.ending, Ending::Drain { .. }) || self.ports.iter().any(|port| port.retiring.is_some())
    }

    /// Whether a worker without a client has nothing more to do: all is accepted, or it has taken too long.
    fn has_ended(&self) -> bool {
        let over = match self.ending {
            Ending::NotYet => false,
            Ending::Retired => self.ports.is_empty(),
            Ending::Drain { .. } => self.ports.is_empty() || self.gives_up(),
        };
        over || self.control.phase() == Phase::Stop
    }

    /// Whether the time of a drain is over.
    fn gives_up(&self) -> bool {
        matches!(self.ending, Ending::Drain { give_up, .. } if give_up.reached(self.service.clock.tick))
    }

    /// Whether clients wait to be accepted and nobody is free.
    fn others_wait(&self) -> bool {
        !self.crew.has_free() && self.ports.iter().any(|port| port.listener.has_queue())
    }

    /// Whether the client takes longer than it may where others wait.
    fn dawdles(&self, headway: &mut Headway, client: &Conversation) -> bool {
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
    fn let_go(&mut self, client: &mut Conversation) -> Turn {
        self.service.counters.connections_closed_under_pressure.add(1);
        client.give_way(&mut self.service)
    }

    fn log_wait_ms(&self) -> Option<u64> {
        self.service.log.as_ref().and_then(|log| log.wait_at_most_ms(self.service.clock.ms))
    }

    fn bell(&self) -> BorrowedFd<'_> {
        match &self.bell {
            Bell::Own => self.control.as_fd(),
            Bell::Rung(wake) => wake.as_fd(),
        }
    }

    /// The bell has been heard.
    fn hush(&self) {
        match &self.bell {
            Bell::Own => self.control.heed(),
            Bell::Rung(wake) => {
                let _ = wake.clear();
            }
        }
    }

    fn complain(&mut self, message: &str) {
        if let Some(suppressed) = self.complaints.permit(self.service.clock.ms) {
            tracing::warn!(suppressed, "{message}");
        }
    }
}

impl Port {
    /// The listeners of a process. Each worker in it gets a copy.
    pub(super) fn all(share: Share) -> Vec<Self> {
        let port = |listener, retires| Self { listener, held: Arc::new(()), retires, retiring: None };
        let serving = share.serving.into_iter().map(|listener| port(listener, false));
        serving.chain(share.retiring.into_iter().map(|listener| port(listener, true))).collect()
    }

    fn retire(&mut self, now: Tick) {
        if self.retiring.is_none() {
            self.retiring = Some(now.after(RETIRE_TICKS));
        }
    }

    /// Whether it retires and is to be closed now.
    fn is_over(&self, now: Tick) -> bool {
        self.retiring
            .is_some_and(|until| self.listener.is_over(until.reached(now), !self.listener.has_queue()))
    }
}

fn stage(client: &Conversation) -> Stage {
    Stage { state: client.state(), requests: client.requests() }
}

/// How long a client that was just accepted has waited at least.
fn waited_ticks(client: &Conversation) -> u32 {
    // Of a client through a Unix socket it is not known.
    tcp_info::waited_ms(client).unwrap_or(0) / Tick::MS
}
