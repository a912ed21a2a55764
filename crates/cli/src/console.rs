//! Standard output, which may be closed or full: `println!` panics then.

use std::io::{self, Write as _};

/// What was to be printed could not be, because a disk is full perhaps.
#[derive(Debug)]
pub(crate) struct Unprinted(io::Error);

impl std::fmt::Display for Unprinted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot write to standard output: {}", self.0)
    }
}

impl std::error::Error for Unprinted {}

/// Prints it at once, and tells whether anybody reads on. A reader that has seen enough, as in `| head`, is
/// no failure.
pub(crate) fn print(text: &str) -> Result<bool, Unprinted> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Unprinted(error)),
    }
}
