//! The status endpoint: a few pages over HTTP, served by its own thread, never by a worker.
//!
//! Operators ask for the status exactly when a worker hangs, so nothing here depends on a worker. Each
//! connection uses the same state machine as the public connections ([`http1::Connection`]). A
//! short-lived thread drives it with blocking calls, under one deadline for the whole connection. There
//! are at most [`MOST_CONNECTIONS`] such threads.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use http1::{
    Connection, End, Field, Head, Limits, Method, Plan, ProtocolError, Segment, Sheet, Stamp, Status, Step,
    Terms, Tick, media,
};
use sys::event::{Events, Interest};
use sys::poll::PollSet;
use sys::socket::{ListenOptions, LocalAddress};
use sys::wake::Wake;

use super::hosts::{self, Hosts};
use super::prometheus::Rows;
use super::stream::Stream;
use super::{Exposition, Sources, html, json, prometheus, text};
use crate::config::{SocketFileSettings, StatusAddress};
use crate::listeners;

/// Most connections served at a time. Further connections are closed at once.
const MOST_CONNECTIONS: usize = 16;

/// How long a connection may last, from accepting to closing it.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 16;

/// The limits of a request. They are small, because requests to this endpoint are.
fn limits() -> Limits {
    Limits { request_line: 1 << 10, head: 8 << 10, body: 0, requests: 1, ..Limits::default() }
}

/// The endpoint's socket could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen for status requests on {address}: {source}")]
pub struct BindError {
    address: StatusAddress,
    source: io::Error,
}

impl BindError {
    /// An address, and why it cannot be bound.
    pub(crate) fn new(address: &StatusAddress, source: io::Error) -> Self {
        Self { address: address.clone(), source }
    }

    /// The kind of the error.
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }
}

/// A bound endpoint that does not answer yet. Bind it before privileges are dropped, and call
/// [`serve`](Self::serve) afterwards.
#[derive(Debug)]
pub struct Endpoint {
    listener: OwnedFd,
    address: StatusAddress,
}

/// An endpoint that answers requests.
#[derive(Debug)]
pub struct Serving {
    address: StatusAddress,
    stop: Arc<Stop>,
    /// Returns a reference that each of its connections holds as well.
    thread: JoinHandle<Arc<()>>,
}

impl Endpoint {
    /// Binds the endpoint. A stale socket file is replaced.
    ///
    /// # Errors
    ///
    /// The address is in use, does not belong to this machine, or is not permitted.
    pub fn bind(address: &StatusAddress, file: &SocketFileSettings) -> Result<Self, BindError> {
        let named = |source| BindError::new(address, source);
        let options = ListenOptions { backlog: BACKLOG, ..ListenOptions::default() };
        let listener = listeners::bind(address, &options, file).map_err(named)?;
        let address = match sys::socket::local_address(&listener).map_err(named)? {
            LocalAddress::Inet(chosen) => StatusAddress::Tcp(chosen),
            LocalAddress::Unix(_) => address.clone(),
        };
        Ok(Self { listener, address })
    }

    /// Takes over a socket that is already bound.
    pub fn adopt(listener: OwnedFd, address: StatusAddress) -> Self {
        Self { listener, address }
    }

    /// The address, with the port that the kernel chose for port 0.
    pub fn address(&self) -> &StatusAddress {
        &self.address
    }

    /// Starts to answer in this process, with data from `sources`. The endpoint answers for `hosts` and
    /// for its own address.
    ///
    /// # Errors
    ///
    /// No thread or descriptor is available.
    pub fn serve(&self, sources: Arc<Sources>, hosts: &Hosts) -> io::Result<Serving> {
        let hosts = hosts.clone();
        let stop = Arc::new(Stop { asked: AtomicBool::new(false), wake: Wake::new()? });
        let (listener, stopping) = (self.listener.try_clone()?, Arc::clone(&stop));
        let thread = std::thread::Builder::new()
            .name("status".into())
            .spawn(move || accept_until(&stopping, &listener, &sources, &Arc::new(hosts)))?;
        Ok(Serving { address: self.address.clone(), stop, thread })
    }

    /// Closes the socket in this process, even if other code here still holds it: a worker starts with a
    /// copy of everything that the supervisor has open.
    pub fn close(&self) {
        if let Err(error) = sys::socket::vacate(self) {
            tracing::error!("cannot close the status endpoint: {error}");
        }
    }

    /// Stops listening in a process whose supervisor has gone. This frees the address for a successor,
    /// even if other processes have the socket open.
    pub fn stop_listening(&self) {
        // Another such process may already have done this.
        let _ = sys::socket::stop_listening(self);
    }

    /// Removes the socket file, if this is a Unix socket. After that, no client can connect.
    pub fn remove_socket_file(&self) {
        if let StatusAddress::Unix(path) = &self.address {
            // The file may already be gone.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl AsFd for Endpoint {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Serving {
    /// The address.
    pub fn address(&self) -> &StatusAddress {
        &self.address
    }

    /// Stops the endpoint. Answers in progress may take until `last`.
    pub fn stop(self, last: Instant) {
        self.stop.asked.store(true, Ordering::Release);
        // If the eventfd is too full to be written to, it wakes the thread as well.
        let _ = self.stop.wake.wake();
        // If the thread panicked, the panic hook has reported it.
        if let Ok(connections) = self.thread.join() {
            while Arc::strong_count(&connections) > 1 && Instant::now() < last {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

#[derive(Debug)]
struct Stop {
    asked: AtomicBool,
    wake: Wake,
}

/// Returns a reference that each connection holds while it is served.
fn accept_until(stop: &Stop, listener: &OwnedFd, sources: &Arc<Sources>, hosts: &Arc<Hosts>) -> Arc<()> {
    // Its strong count is the number of connections plus one.
    let connections = Arc::new(());
    let (mut set, mut events) = (PollSet::new(), Events::default());
    if let Err(error) =
        set.add(listener, 0, Interest::READABLE).and_then(|()| set.add(&stop.wake, 1, Interest::READABLE))
    {
        tracing::error!(%error, "cannot serve status requests");
        return connections;
    }
    while !stop.asked.load(Ordering::Acquire) {
        let accepted = match set.wait(&mut events, None) {
            Ok(_) => sys::socket::accept(listener),
            Err(error) => Err(error),
        };
        match accepted {
            Ok(socket) if Arc::strong_count(&connections) <= MOST_CONNECTIONS => {
                let (sources, connection) = (Arc::clone(sources), Arc::clone(&connections));
                let hosts = Arc::clone(hosts);
                let spawned = std::thread::Builder::new().name("status-client".into()).spawn(move || {
                    // A client that disconnected or was too slow needs no report.
                    let _ = serve_one(socket, &sources, &hosts);
                    drop(connection);
                });
                if let Err(error) = spawned {
                    tracing::warn!(%error, "cannot answer a status request");
                }
            }
            Ok(refused) => drop(refused),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            // No descriptors or memory are left. The connection stays in the queue, so pause instead of
            // spinning.
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
    connections
}

/// Serves one connection: one request, or an error reply to a malformed one.
fn serve_one(socket: OwnedFd, sources: &Sources, hosts: &Hosts) -> io::Result<()> {
    let own = match sys::socket::local_address(&socket)? {
        LocalAddress::Inet(address) => Some(address.ip()),
        LocalAddress::Unix(_) => None,
    };
    let mut stream = Stream::accepted(socket, TIMEOUT)?;
    let limits = limits();
    let began = Instant::now();
    let now = || Tick::from_ms(began.elapsed().as_millis() as u64);
    let mut machine = Connection::<()>::new(now(), &limits);
    let mut input = Vec::new();
    let mut eof = false;
    loop {
        let (used, plan) = match machine.receive(&limits, now(), &input, eof) {
            Ok((used, Step::Request(head))) if !hosts.allow(&head, own) => {
                (used, Some(short(Status::MISDIRECTED_REQUEST, head.terms, hosts::REFUSAL)))
            }
            Ok((used, Step::Request(head))) => (used, Some(answer(&head, sources))),
            Ok((_, Step::Refused(_, error))) => (input.len(), Some(refuse(&machine, error))),
            Ok((used, Step::Closed)) => (used.max(input.len()), None),
            Ok((used, _)) => (used, None),
            Err(error) if machine.owes_answer() => (input.len(), Some(refuse(&machine, error))),
            Err(_) => return Ok(()),
        };
        input.drain(..used);
        if let Some(plan) = plan {
            machine.respond(&limits, now(), plan);
            send_reply(&mut stream, &mut machine, &limits, now())?;
        }
        match machine.wants().end {
            End::Open if used > 0 && !input.is_empty() => {}
            End::Open if eof => return Ok(()),
            End::Open => eof = read_more(&mut stream, &mut input)? == 0,
            End::ShutDown => {
                stream.shut_down_writing()?;
                machine.write_side_shut(&limits, now());
            }
            End::Close if !input.is_empty() => {}
            End::Close | End::Reset => return Ok(()),
        }
    }
}

fn refuse(machine: &Connection<()>, error: ProtocolError) -> Plan<()> {
    short(error.status(), machine.error_terms(), &error.to_string())
}

fn send_reply(
    stream: &mut Stream,
    machine: &mut Connection<()>,
    limits: &Limits,
    now: Tick,
) -> io::Result<()> {
    while machine.is_replying() {
        // Nothing is ever pinned here, so all bytes belong to the reply itself.
        let sent = match machine.output().next() {
            Some(Segment::Own(bytes)) => stream.write(bytes)?,
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        machine.sent(limits, now, sent as u64);
    }
    machine.release();
    Ok(())
}

fn read_more(stream: &mut Stream, input: &mut Vec<u8>) -> io::Result<usize> {
    let mut room = [0; 4096];
    let n = stream.read(&mut room)?;
    input.extend_from_slice(&room[..n]);
    Ok(n)
}

fn answer(head: &Head<'_>, sources: &Sources) -> Plan<()> {
    if !matches!(head.method, Method::Get | Method::Head) {
        let mut plan = plan(Status::METHOD_NOT_ALLOWED, head.terms);
        plan.field("Allow", b"GET, HEAD");
        plan.text("text/plain; charset=utf-8", b"Only GET and HEAD are answered here.\n");
        return plan;
    }
    let query = || head.query().unwrap_or_default().split(|&byte| byte == b'&');
    let is_workers = |part: &[u8]| part.split(|&byte| byte == b'=').next() == Some(b"workers");
    let is_known = |part: &[u8]| {
        let formats: [&[u8]; 4] = [b"format=html", b"format=text", b"format=json", b"format=prometheus"];
        part.is_empty() || is_workers(part) || formats.contains(&part)
    };
    if matches!(head.path, b"/" | b"/json" | b"/metrics") && !query().all(is_known) {
        let what = "a query may be format=html, text, json or prometheus, and workers for Prometheus";
        return short(Status::BAD_REQUEST, head.terms, what);
    }
    let format = query().find_map(|part| part.strip_prefix(b"format="));
    let (content_type, body) = match (head.path, format) {
        (b"/", None) if media::prefers(&head.fields.all(Field::Accept), "text/html", "text/plain") => {
            ("text/html; charset=utf-8", html::render(&sources.snapshot()))
        }
        (b"/", Some(b"html")) => ("text/html; charset=utf-8", html::render(&sources.snapshot())),
        (b"/", None | Some(b"text")) => {
            ("text/plain; charset=utf-8", text::render(&sources.snapshot(), None))
        }
        (b"/", Some(b"json")) | (b"/json", _) => ("application/json", json::render(&sources.snapshot())),
        (b"/", Some(b"prometheus")) | (b"/metrics", _) => {
            let exposition = Exposition::accepted(&head.fields.all(Field::Accept));
            let rows = if query().any(is_workers) { Rows::Workers } else { Rows::Totals };
            (exposition.content_type(), prometheus::render(sources.snapshot(), exposition, rows))
        }
        (b"/health", _) if sources.is_draining() => {
            let mut plan = plan(Status::SERVICE_UNAVAILABLE, head.terms);
            plan.text("text/plain; charset=utf-8", b"draining\n");
            return plan;
        }
        (b"/health", _) => ("text/plain; charset=utf-8", "ok\n".to_owned()),
        _ => return short(Status::NOT_FOUND, head.terms, "there are /, /json, /metrics and /health"),
    };
    let mut plan = plan(Status::OK, head.terms);
    plan.field("Cache-Control", b"no-store");
    if head.path == b"/" {
        plan.field("Vary", b"Accept");
    }
    plan.text(content_type, body.as_bytes());
    plan
}

fn short(status: Status, terms: Terms, text: &str) -> Plan<()> {
    let mut plan = plan(status, terms);
    plan.text("text/plain; charset=utf-8", format!("{} {}: {text}\n", status.0, status.reason()).as_bytes());
    plan
}

fn plan(status: Status, terms: Terms) -> Plan<()> {
    let unix_secs = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    Plan::new(Sheet::default(), status, terms.closing(), &Stamp::new("sluice", unix_secs))
}
