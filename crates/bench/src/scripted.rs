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
        let numbers: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
        let number = |place: usize| numbers.get(place).copied().unwrap_or(0);
        let wait = || thread::sleep(Duration::from_millis(number(0)));
        match what {
            "ok" => answer(&mut client, number(0), "")?,
            "absent" => {
                let reply = head(number(0), "").replace("200 OK", "404 Not Found");
                client.write_all(reply.as_bytes())?;
                send_body(&mut client, number(0))?;
            }
            "last" => {
                answer(&mut client, number(0), "Connection: close\r\n")?;
                return Ok(());
            }
            "delay" => {
                wait();
                answer(&mut client, number(1), "")?;
            }
            "slow" => {
                let bytes = number(1);
                send_head(&mut client, bytes, "")?;
                send_body(&mut client, bytes / 2)?;
                wait();
                send_body(&mut client, bytes - bytes / 2)?;
            }
            "cut" => {
                send_head(&mut client, number(1), "")?;
                return send_body(&mut client, number(0));
            }
            "more" => {
                let mut reply = head(number(1), "").into_bytes();
                reply.resize(reply.len() + (number(0) + number(1)) as usize, b'x');
                client.write_all(&reply)?;
            }
            "garbage" => return client.write_all(b"this is not HTTP\r\n\r\n"),
            "reset" => {
                // Closing a socket with input that was not read resets its connection: read_request leaves
                // the last bytes.
                return Ok(());
            }
            "silent" => {
                thread::sleep(Duration::from_mins(2));
                return Ok(());
            }
            _ => {
                finish_request(&mut client)?;
                return Ok(());
            }
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
            if path == "/reset" || path == "/close" {
                return Ok(Some(path));
            }
            client.read_exact(&mut seen[..end + 4])?;
            return Ok(Some(path));
        }
        if there == 0 {
            return Ok(None);
        }
        // The rest of the request has yet to come.
        thread::sleep(Duration::from_millis(1));
    }
}

/// Takes what is left of a request, so that closing is closing and no reset.
fn finish_request(client: &mut TcpStream) -> io::Result<()> {
    client.set_nonblocking(true)?;
    while client.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {}
    Ok(())
}

fn head(bytes: u64, more: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nServer: scripted\r\nContent-Type: text/plain\r\n{more}Content-Length: \
         {bytes}\r\n\r\n"
    )
}

fn answer(client: &mut TcpStream, bytes: u64, more: &str) -> io::Result<()> {
    let mut reply = head(bytes, more).into_bytes();
    reply.resize(reply.len() + bytes as usize, b'x');
    client.write_all(&reply)
}

fn send_head(client: &mut TcpStream, bytes: u64, more: &str) -> io::Result<()> {
    client.write_all(head(bytes, more).as_bytes())
}

fn send_body(client: &mut TcpStream, bytes: u64) -> io::Result<()> {
    client.write_all(&vec![b'x'; bytes as usize])
}
