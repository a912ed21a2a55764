//! The request under way, as far as its streams need it.

use std::ffi::c_int;
use std::io;

use fastcgi::Role;

use crate::connection::Connection;
use crate::session::Session;

/// A session, and how its request ends.
pub(super) struct Exchange {
    pub(super) session: Session,
    /// What a CGI program would exit with.
    pub(super) exit: c_int,
    /// Writers that were closed.
    closed: u8,
}

impl Exchange {
    pub(super) fn new() -> Self {
        Self { session: Session::new(), exit: 0, closed: 0 }
    }

    /// For the next request.
    pub(super) fn begin(&mut self) {
        (self.exit, self.closed) = (0, 0);
    }

    /// A writer of the request is closed. The request has ended when both are.
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
