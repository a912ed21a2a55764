//! A server that does what the path of each request says, good or bad, with known delays: what clients'
//! measures are held against. A thread for each connection: it is for hundreds of them.
//!
//! | path | what it does |
//! |---|---|
//! | `/ok/BYTES` | answers |
//! | `/delay/MS/BYTES` | answers after a while |
//! | `/slow/MS/BYTES` | sends the head and half of the body, and the rest after a while |
//! | `/cut/SENT/BYTES` | promises `BYTES`, sends `SENT`, closes |
//! | `/more/EXTRA/BYTES` | sends more than it promised |
//! | `/garbage` | answers with what is not HTTP |
//! | `/close` | closes without an answer |
//! | `/reset` | resets the connection |
//! | `/silent` | never answers |
//! | `/last/BYTES` | answers, and closes |
//! | `/absent/BYTES` | answers with 404 |
//!
//! Bodies are made of the letter `x`.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

/// Listens on a free port of 127.0.0.1, and serves for as long as the process lives.
pub(crate) fn start() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::Builder::new().spawn(move || {
        for client in listener.incoming().flatten() {
            // A client that goes away is no news.
            let serve = move || drop(serve(client));
            let _ = thread::Builder::new().stack_size(128 << 10).spawn(serve);
        }
    })?;
    Ok(address)
}

/// Serves one connection until somebody closes it.
fn serve(mut client: TcpStream) -> io::Result<()> {
    client.set_nodelay(true)?;
    loop {
        let Some(path) = read_request(&mut client)? else { return Ok(()) };
        let mut words = path.split('/').skip(1);
        let what = words.next().unwrap_or_default();
        let mut numbers = words.map_while(|word| word.parse::<u64>().ok());
        let (first, second) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        let wait = || thread::sleep(Duration::from_millis(first));
        match what {
            "ok" => reply(&mut client, "200 OK", first, first)?,
            "absent" => reply(&mut client, "404 Not Found", first, first)?,
            "last" => return reply(&mut client, "200 OK\r\nConnection: close", first, first),
            "delay" => {
                wait();
                reply(&mut client, "200 OK", second, second)?;
            }
            "slow" => {
                reply(&mut client, "200 OK", second, second / 2)?;
                wait();
                client.write_all(&vec![b'x'; (second - second / 2) as usize])?;
            }
            "cut" => return reply(&mut client, "200 OK", second, first),
            "more" => reply(&mut client, "200 OK", second, first + second)?,
            "garbage" => return client.write_all(b"this is not HTTP\r\n\r\n"),
            "silent" => {
                thread::sleep(Duration::from_mins(2));
                return Ok(());
            }
            // Closing a socket with input that was not read resets its connection: of `/reset` read_request
            // leaves the last bytes.
            _ => return Ok(()),
        }
    }
}

/// The path of the next request; `None` at the end. Of a request for `/reset` the last bytes are left in the
/// socket.
fn read_request(client: &mut TcpStream) -> io::Result<Option<String>> {
    let mut seen = [0; 4096];
    loop {
        let there = client.peek(&mut seen)?;
        let text = String::from_utf8_lossy(&seen[..there]).into_owned();
        if let Some(end) = text.find("\r\n\r\n") {
            let path = text.split(' ').nth(1).unwrap_or_default().to_owned();
            if path != "/reset" {
                client.read_exact(&mut seen[..end + 4])?;
            }
            return Ok(Some(path));
        }
        if there == 0 {
            return Ok(None);
        }
        // The rest of the request has yet to come.
        thread::sleep(Duration::from_millis(1));
    }
}

/// Promises a body of so many bytes, and sends so many.
fn reply(client: &mut TcpStream, status: &str, promised: u64, sent: u64) -> io::Result<()> {
    let mut reply = format!(
        "HTTP/1.1 {status}\r\nServer: scripted\r\nContent-Type: text/plain\r\nContent-Length: \
         {promised}\r\n\r\n"
    )
    .into_bytes();
    reply.resize(reply.len() + sent as usize, b'x');
    client.write_all(&reply)
}
