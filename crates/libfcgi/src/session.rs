//! Sequential requests on sequential connections: what each thread of an application uses.

use std::io::{self, BufRead, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use fastcgi::Role;

use crate::connection::{Connection, Source};
use crate::listener::{self, Listener, shuts_down};
use crate::reply::{Reply, ServerStamp};

/// Handles one request at a time. Web servers keep connections: a session that has one waits for the next
/// request on it.
#[derive(Debug, Default)]
pub struct Session {
    connection: Option<Connection>,
    reply: Option<Reply>,
    stamp: ServerStamp,
}

/// A request and its reply. Write the reply as a CGI program does: fields, a blank line, then the body.
/// Dropping the request ends it.
#[derive(Debug)]
pub struct Request<'a>(&'a mut Session);

/// Writes to the web server's error log, for a request.
#[derive(Debug)]
pub struct ErrorLog<'a>(&'a mut Session);

impl Session {
    /// Creates a session without a connection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits for the next request. `None`: the application must [shut down](crate::shut_down).
    ///
    /// # Errors
    ///
    /// No connection can be accepted.
    pub fn accept(&mut self, listener: &Listener) -> io::Result<Option<Request<'_>>> {
        Ok(self.next(listener.as_fd(), false)?.then_some(Request(self)))
    }

    /// Waits for the next request on any listening socket, and returns whether there is one. With
    /// `until_signal`, a handled signal ends the wait with the error `Interrupted`.
    pub(crate) fn next(&mut self, listener: BorrowedFd<'_>, until_signal: bool) -> io::Result<bool> {
        // If the end cannot be sent, the end of the connection shows it.
        let _ = self.conclude(0);
        if shuts_down() {
            if let Some(mut connection) = self.connection.take() {
                let _ = connection.flush();
                connection.close();
            }
            return Ok(false);
        }
        loop {
            let mut connection = match self.connection.take() {
                Some(connection) => connection,
                None => match listener::accept(listener, until_signal)? {
                    Some(connection) => connection,
                    None => return Ok(false),
                },
            };
            match connection.await_request() {
                Ok(()) => {
                    self.begin(connection);
                    return Ok(true);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    if shuts_down() {
                        return Ok(false);
                    }
                    self.connection = Some(connection);
                    if until_signal {
                        return Err(error);
                    }
                }
                // The web server has closed the connection or broken the protocol.
                Err(_) => {}
            }
        }
    }

    fn begin(&mut self, mut connection: Connection) {
        if let Some(begun) = connection.request() {
            self.reply = Some(Reply::new(&mut connection, begun.request, &mut self.stamp));
        }
        self.connection = Some(connection);
    }

    /// Ends the request under way, if there is one.
    pub(crate) fn end(&mut self, exit: u32) -> io::Result<()> {
        self.conclude(exit)?;
        let flushed = self.connection.as_mut().map_or(Ok(()), Connection::flush);
        if flushed.is_err() {
            self.connection = None;
        }
        flushed
    }

    /// Ends the request under way, but on a kept connection leaves the last records unsent. The wait for the
    /// next request sends them.
    pub(crate) fn conclude(&mut self, exit: u32) -> io::Result<()> {
        let Some(reply) = self.reply.take() else { return Ok(()) };
        let Some(mut connection) = self.connection.take() else { return Ok(()) };
        let keeps = connection.request().is_some_and(|begun| begun.keeps);
        reply.end(&mut connection, exit)?;
        connection.end();
        if keeps {
            self.connection = Some(connection);
            return Ok(());
        }
        let flushed = connection.flush();
        connection.close();
        flushed
    }

    /// Drops the request under way without telling the web server that it has ended.
    pub(crate) fn abandon(&mut self) {
        if let (Some(_), Some(connection)) = (self.reply.take(), &mut self.connection) {
            connection.end();
        }
    }

    /// Shuts down sending on the connection, for all processes that have its descriptor.
    pub(crate) fn shut_down(&mut self) {
        if let Some(connection) = &self.connection {
            connection.shut_down();
        }
    }

    /// The connection, if it has one.
    pub(crate) fn connection(&self) -> Option<&Connection> {
        self.connection.as_ref()
    }

    /// Returns the available bytes of a stream of the request; see [`Connection::fill`].
    pub(crate) fn fill(&mut self, source: Source) -> io::Result<&[u8]> {
        match &mut self.connection {
            Some(connection) if self.reply.is_some() => connection.fill(source),
            _ => Ok(&[]),
        }
    }

    pub(crate) fn consume(&mut self, source: Source, count: usize) {
        if let Some(connection) = &mut self.connection {
            connection.consume(source, count);
        }
    }

    pub(crate) fn is_read(&self, source: Source) -> bool {
        self.connection.as_ref().is_none_or(|connection| connection.is_read(source))
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match (&mut self.reply, &mut self.connection) {
            (Some(reply), Some(connection)) => reply.write(connection, &mut self.stamp, bytes),
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match (&mut self.reply, &mut self.connection) {
            (Some(reply), Some(connection)) => reply.flush(connection),
            _ => Ok(()),
        }
    }

    pub(crate) fn complain(&mut self, bytes: &[u8]) -> io::Result<()> {
        match (&mut self.reply, &mut self.connection) {
            (Some(reply), Some(connection)) => reply.complain(connection, bytes),
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    pub(crate) fn flush_errors(&mut self) -> io::Result<()> {
        match (&mut self.reply, &mut self.connection) {
            (Some(reply), Some(connection)) => reply.flush_errors(connection),
            _ => Ok(()),
        }
    }
}

impl Request<'_> {
    /// The role of the application for this request.
    pub fn role(&self) -> Role {
        self.0.connection().and_then(Connection::request).map_or(Role::Responder, |begun| begun.role)
    }

    /// The request's parameters, which CGI programs find in their environment (RFC 3875 section 4.1).
    pub fn params(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.connection().into_iter().flat_map(Connection::params)
    }

    /// The parameter of that name, if there is one.
    pub fn param(&self, name: &str) -> Option<&[u8]> {
        self.params().find(|(other, _)| *other == name.as_bytes()).map(|(_, value)| value)
    }

    /// Whether the web server is known to have given up the request. Output then has no receiver.
    pub fn is_aborted(&self) -> bool {
        self.0.connection().is_none_or(Connection::is_aborted)
    }

    /// The second stream of a filter's request: the file to be changed (FastCGI 1.0, section 6.4). The body
    /// comes before it, so read the body to its end first.
    pub fn data(&mut self) -> impl BufRead {
        Input(self.0, Source::Data)
    }

    /// Returns a writer to the web server's error log.
    pub fn error_log(&mut self) -> ErrorLog<'_> {
        ErrorLog(self.0)
    }

    /// Ends the request. `exit` is the exit status of a CGI program: 0 for success, by convention.
    ///
    /// # Errors
    ///
    /// The web server is gone.
    pub fn finish(self, exit: u32) -> io::Result<()> {
        self.0.end(exit)
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        // If the end cannot be sent, the end of the connection shows it.
        let _ = self.0.end(0);
    }
}

/// One of a request's streams.
struct Input<'a>(&'a mut Session, Source);

impl Read for Input<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for Input<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.0.fill(self.1)
    }

    fn consume(&mut self, count: usize) {
        self.0.consume(self.1, count);
    }
}

/// The body of the request.
///
/// # Errors
///
/// The web server has given up the request (`ConnectionAborted`), is gone, or breaks the protocol.
impl Read for Request<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Input(self.0, Source::Stdin).read(buffer)
    }
}

/// The body of the request, where it was received.
impl BufRead for Request<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.0.fill(Source::Stdin)
    }

    fn consume(&mut self, count: usize) {
        self.0.consume(Source::Stdin, count);
    }
}

/// Writes the reply. Small pieces are combined; flush to send them at once.
///
/// # Errors
///
/// No more can be sent: the web server has given up the request (`ConnectionAborted`), or the client or the
/// web server is gone.
impl Write for Request<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Write for ErrorLog<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.complain(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush_errors()
    }
}
