//! Lines for an operator who watches the server on a terminal. They are shown as requests come, and have
//! no use later.
//!
//! The lines go to standard output, if that is a terminal. The writer's thread waits for the terminal as
//! it would for a disk. While output is stopped (Ctrl-S), lines gather in the buffers, and are lost when
//! these are full. If another program has the terminal, lines would disturb that program. So a server in
//! the background writes none.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

/// How long an exiting server waits for a terminal, which may be stopped permanently.
pub(super) const LAST_LINES_TO_WATCH: Duration = Duration::from_millis(100);

/// Whether standard output is a terminal.
pub(super) fn is_there() -> bool {
    io::stdout().is_terminal()
}

/// Whether this process is in the foreground of its terminal. Always false once the terminal has been
/// closed.
pub(super) fn is_watched() -> bool {
    sys::process::is_in_foreground(io::stdout())
}
