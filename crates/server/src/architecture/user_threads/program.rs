//! The program of a user-level thread. It reads like a server that blocks: where a client is not ready, the
//! thread parks, and goes on there when the client is.

#![deny(clippy::disallowed_methods)]

use std::collections::VecDeque;
use std::io;

use sys::coroutine::Context;

use crate::architecture::event_loop::{EventLoop, Name, Step};
use crate::conversation::Turn;
use crate::faults;

/// Serves one client after another until service ends.
fn serve(thread: &mut Thread<'_, '_>) {
    while let Some(client) = thread.accept() {
        while thread.read(client) {
            thread.write(client);
        }
        // The client is silent or gone: from here on the stack serves another.
    }
}

/// What a thread is resumed with.
pub(super) enum Resume {
    /// A client to serve.
    Client(Name),
    /// Clients wait to be accepted.
    Accept,
    /// The client can go on.
    Ready,
    /// The connection has ended.
    Gone,
    /// Service ends.
    End,
}

/// What a thread parks for.
pub(super) enum Park {
    /// Another client.
    Free,
    /// Nothing: whether it has accepted connections, which it serves one after another.
    Accepted(io::Result<bool>),
    /// Nothing: from here on it serves this connection.
    Next(Name),
    /// Its client, which waits for this.
    Busy(Turn),
}

/// A thread, as its program sees it.
struct Thread<'a, 'b> {
    context: &'a mut Context<'b, EventLoop, Resume, Park>,
    /// What it was resumed with to begin.
    first: Option<Resume>,
    /// The connections that it has accepted, and not served yet.
    accepted: VecDeque<Name>,
    keeps_stack: bool,
    /// The client has nothing to say after its last reply.
    is_silent: bool,
    /// Service ends.
    ends: bool,
}

/// Begins a thread that gives its stack back when its client is silent.
pub(super) fn for_requests(context: &mut Context<'_, EventLoop, Resume, Park>, first: Resume) {
    begin(context, first, false);
}

/// Begins a thread that keeps its stack until its client's connection ends.
pub(super) fn for_connections(context: &mut Context<'_, EventLoop, Resume, Park>, first: Resume) {
    begin(context, first, true);
}

fn begin(context: &mut Context<'_, EventLoop, Resume, Park>, first: Resume, keeps_stack: bool) {
    let (first, accepted) = (Some(first), VecDeque::new());
    serve(&mut Thread { context, first, accepted, keeps_stack, is_silent: false, ends: false });
}

impl Thread<'_, '_> {
    /// Parks until there is a client to serve. `None`: service ends.
    fn accept(&mut self) -> Option<Name> {
        self.is_silent = false;
        let mut resumed = self.first.take();
        while !self.ends {
            if let Some(client) = self.accepted.pop_front() {
                self.ends |= matches!(self.context.park(Park::Next(client)), Resume::End);
                return Some(client);
            }
            match resumed.take().unwrap_or_else(|| self.context.park(Park::Free)) {
                Resume::Client(client) => return Some(client),
                Resume::Accept => {
                    let accepted = self.context.with(EventLoop::accept_for_thread);
                    self.accepted.extend(accepted.iter().flatten().copied());
                    let has_some = accepted.map(|accepted| !accepted.is_empty());
                    resumed = Some(self.context.park(Park::Accepted(has_some)));
                }
                Resume::End => return None,
                Resume::Ready | Resume::Gone => {}
            }
        }
        None
    }

    /// Reads a request. `false`: the connection has ended, or the client is silent and needs no stack.
    fn read(&mut self, client: Name) -> bool {
        faults::at("user-thread");
        while !self.ends {
            let is_silent = std::mem::take(&mut self.is_silent);
            let step = if is_silent { Step::Silent } else { self.context.with(|events| events.read(client)) };
            match step {
                Step::Done => return true,
                Step::Ended => return false,
                Step::Silent if !self.keeps_stack => {
                    self.context.with(|events| events.wait(client, Turn::Blocked));
                    return false;
                }
                Step::Silent => {
                    if !self.waits(Turn::Blocked) {
                        return false;
                    }
                }
                Step::Waits(turn) => {
                    if !self.waits(turn) {
                        return false;
                    }
                }
            }
        }
        false
    }

    /// Writes what the client is owed. It may learn that the connection has ended, and so will the next
    /// [`read`](Self::read).
    fn write(&mut self, client: Name) {
        loop {
            match self.context.with(|events| events.write(client)) {
                Step::Done | Step::Ended => return,
                Step::Silent => {
                    self.is_silent = true;
                    return;
                }
                Step::Waits(turn) => {
                    if !self.waits(turn) {
                        return;
                    }
                }
            }
        }
    }

    /// Parks until the client can go on. `false`: the connection has ended.
    fn waits(&mut self, turn: Turn) -> bool {
        match self.context.park(Park::Busy(turn)) {
            Resume::Ready => true,
            Resume::Client(_) | Resume::Accept | Resume::Gone => false,
            Resume::End => {
                self.ends = true;
                false
            }
        }
    }
}
