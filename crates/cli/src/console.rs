//! Prints to standard output. `println!` would panic if standard output is closed or its disk is full.

use std::io::{self, Write as _};

/// Standard output could not be written, for example because a disk is full.
#[derive(Debug)]
pub(crate) struct Unprinted(io::Error);

impl std::fmt::Display for Unprinted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot write to standard output: {}", self.0)
    }
}

impl std::error::Error for Unprinted {}

/// Prints the text at once, and returns whether standard output is still read. A reader that has closed it,
/// as in `| head`, is not an error.
pub(crate) fn print(text: &str) -> Result<bool, Unprinted> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Unprinted(error)),
    }
}
