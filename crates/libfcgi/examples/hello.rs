//! An application that says hello: one thread for each of as many requests as it can have at a time.
//!
//! Start it as any FastCGI application, with a listening socket as its standard input:
//!
//! ```sh
//! spawn-fcgi -n -s /run/hello.sock target/debug/examples/hello
//! ```

use std::io::{self, Read, Write};

use fcgi::{Listener, Request, Session};

const THREADS: usize = 8;

fn main() -> io::Result<()> {
    let listener = Listener::inherited()?;
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                if let Err(error) = serve(&listener) {
                    eprintln!("hello: {error}");
                }
            });
        }
    });
    Ok(())
}

fn serve(listener: &Listener) -> io::Result<()> {
    let mut session = Session::new();
    while let Some(mut request) = session.accept(listener)? {
        // A client or a web server that leaves ends its request, and not the thread.
        let _ = answer(&mut request);
    }
    Ok(())
}

fn answer(request: &mut Request<'_>) -> io::Result<()> {
    let mut body = Vec::new();
    // No more of it than the application has use for.
    request.take(1 << 20).read_to_end(&mut body)?;
    let path = request.param("SCRIPT_NAME").unwrap_or(b"/").to_vec();
    request.write_all(b"Content-Type: text/plain\n\nHello from ")?;
    request.write_all(&path)?;
    writeln!(request, ". Your body has {} bytes.", body.len())
}
