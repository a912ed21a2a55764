//! The part of the current request that its streams need.

use std::ffi::c_int;
use std::io;

use fastcgi::Role;

use crate::connection::Connection;
use crate::session::Session;

/// A session, and the state of its request's end.
pub(super) struct Exchange {
    pub(super) session: Session,
    /// The exit status of a CGI program.
    pub(super) exit: c_int,
    /// Writers that were closed.
    closed: u8,
}

impl Exchange {
    pub(super) fn new() -> Self {
        Self { session: Session::new(), exit: 0, closed: 0 }
    }

    /// Resets the state for the next request.
    pub(super) fn begin(&mut self) {
        (self.exit, self.closed) = (0, 0);
    }

    /// Closes a writer of the request. The request ends when both are closed.
    pub(super) fn close_writer(&mut self) -> io::Result<()> {
        self.closed += 1;
        if self.closed < 2 {
            self.session.flush()?;
            self.session.flush_errors()
        } else {
            self.session.end(self.exit.cast_unsigned())
        }
    }

    /// Whether the request is for a filter.
    pub(super) fn is_filter(&self) -> bool {
        self.session
            .connection()
            .and_then(Connection::request)
            .is_some_and(|begun| begun.role == Role::Filter)
    }
}
