//! An application that waits 50 ms for each request, as for a database. Five threads answer 100 requests/s at
//! most. `scripts/demo` floods it where there is no PHP.
//!
//! ```sh
//! target/release/examples/slow /tmp/slow.sock
//! ```

use std::io::{self, Write as _};
use std::os::unix::net::UnixListener;
use std::thread;
use std::time::Duration;

use fcgi::{Listener, Session};

const THREADS: usize = 5;
const WAIT: Duration = Duration::from_millis(50);

fn main() -> io::Result<()> {
    let path = std::env::args_os().nth(1).ok_or_else(|| io::Error::other("usage: slow SOCKET"))?;
    let listener = Listener::of(UnixListener::bind(path)?)?;
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                if let Err(error) = serve(&listener) {
                    eprintln!("slow: {error}");
                }
            });
        }
    });
    Ok(())
}

fn serve(listener: &Listener) -> io::Result<()> {
    let mut session = Session::new();
    while let Some(mut request) = session.accept(listener)? {
        thread::sleep(WAIT);
        // The client may have left. The next one has not.
        let _ = request.write_all(b"Content-Type: text/plain\n\ndone\n");
    }
    Ok(())
}
