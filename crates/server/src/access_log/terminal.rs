//! Lines for whoever watches the server at work: they are shown as requests come, and mean nothing later.
//!
//! The place is standard output, if that is a terminal. The writer's thread waits for it as it would for a
//! disk: while it is stopped (Ctrl-S), lines gather in the buffers, and are lost when these are full. What is
//! shown while another program has the terminal would only disturb that, so the lines of a server in the
//! background are for nobody.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

/// How long a server that ends waits for a terminal, which may be stopped for good.
pub(super) const LAST_LINES_TO_WATCH: Duration = Duration::from_millis(100);

/// Whether there is a terminal.
pub(super) fn is_there() -> bool {
    io::stdout().is_terminal()
}

/// Whether it is this program's turn to write there. Never again once the terminal has been closed.
pub(super) fn is_watched() -> bool {
    sys::process::is_in_foreground(io::stdout())
}
