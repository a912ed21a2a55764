//! Parses the header with which a proxy begins a connection to name its client. This is the PROXY
//! protocol of `HAProxy`, versions 1 (a line of text) and 2 (binary), from its specification of
//! 2020/03/05.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// What a header says about the client's connection to the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announced {
    /// The client's address.
    pub client: SocketAddr,
    /// The port that the client connected to.
    pub port: u16,
    /// Whether that connection used TLS, if the header says so. Version 1 cannot say it.
    pub is_tls: Option<bool>,
}

/// The input is not a valid header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// A complete header: its length, and the client. There is no client if the proxy speaks for itself, or
/// for a client without an IP address.
pub type Found = Option<(usize, Option<Announced>)>;

const TEXT: &[u8] = b"PROXY ";
/// The longest line of version 1, line end included (section 2.1).
const LONGEST_LINE: usize = 107;

const BINARY: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// The fixed part of version 2, before the part whose length it gives (section 2.2).
const FIXED: usize = 16;
/// An upper limit for the addresses and the usual additions.
const MOST_ADDED: usize = 2048;

/// Parses the header at the beginning of `input`. `None`: it is not complete yet.
///
/// # Errors
///
/// It is not a header, whatever follows.
pub fn parse(input: &[u8]) -> Result<Found, Malformed> {
    let begins = |with: &[u8]| input.iter().zip(with).all(|(one, other)| one == other);
    if begins(TEXT) {
        text(input)
    } else if begins(BINARY) {
        binary(input)
    } else {
        Err(Malformed)
    }
}

fn text(input: &[u8]) -> Result<Found, Malformed> {
    let shown = &input[..input.len().min(LONGEST_LINE)];
    let Some(end) = shown.iter().position(|&byte| byte == b'\n') else {
        return if input.len() < LONGEST_LINE { Ok(None) } else { Err(Malformed) };
    };
    let line =
        input[..end].strip_suffix(b"\r").and_then(|line| str::from_utf8(line).ok()).ok_or(Malformed)?;
    let mut words = line.split(' ').skip(1);
    let client = match words.next() {
        Some("UNKNOWN") => None,
        Some("TCP4") => Some(pair::<Ipv4Addr>(words).ok_or(Malformed)?),
        Some("TCP6") => Some(pair::<Ipv6Addr>(words).ok_or(Malformed)?),
        _ => return Err(Malformed),
    };
    Ok(Some((end + 1, client)))
}

/// Parses source and destination address, source and destination port.
fn pair<'a, A: std::str::FromStr + Into<IpAddr>>(
    mut words: impl Iterator<Item = &'a str>,
) -> Option<Announced> {
    let mut address = || words.next()?.parse::<A>().ok();
    let (source, _) = (address()?, address()?);
    let mut port = || {
        let word = words.next()?;
        let is_number =
            word.bytes().all(|byte| byte.is_ascii_digit()) && (word == "0" || !word.starts_with('0'));
        word.parse::<u16>().ok().filter(|_| is_number)
    };
    let (of_client, port) = (port()?, port()?);
    let client = SocketAddr::new(source.into(), of_client);
    words.next().is_none().then_some(Announced { client, port, is_tls: None })
}

fn binary(input: &[u8]) -> Result<Found, Malformed> {
    const LOCAL: u8 = 0x20;
    const PROXY: u8 = 0x21;
    let Some((fixed, added)) = input.split_first_chunk::<FIXED>() else {
        // Checks the version as soon as its byte is there.
        return if matches!(input.get(12), None | Some(&(LOCAL | PROXY))) {
            Ok(None)
        } else {
            Err(Malformed)
        };
    };
    let (command, family) = (fixed[12], fixed[13]);
    let length = usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    if !matches!(command, LOCAL | PROXY) || length > MOST_ADDED {
        return Err(Malformed);
    }
    let Some(added) = added.get(..length) else { return Ok(None) };
    // The high half is the address family; the low half is stream or datagram.
    let client = match (command, family) {
        (PROXY, 0x11) => {
            let bytes: &[u8; 12] = added.first_chunk().ok_or(Malformed)?;
            let address = Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]);
            Some((IpAddr::from(address), [bytes[8], bytes[9]], [bytes[10], bytes[11]], &added[12..]))
        }
        (PROXY, 0x21) => {
            let bytes: &[u8; 36] = added.first_chunk().ok_or(Malformed)?;
            let mut address = [0; 16];
            address.copy_from_slice(&bytes[..16]);
            Some((IpAddr::from(address), [bytes[32], bytes[33]], [bytes[34], bytes[35]], &added[36..]))
        }
        _ => None,
    };
    let announced = client.map(|(address, of_client, port, more)| Announced {
        client: SocketAddr::new(address, u16::from_be_bytes(of_client)),
        port: u16::from_be_bytes(port),
        is_tls: is_tls(more),
    });
    Ok(Some((FIXED + length, announced)))
}

/// Whether the client connected with TLS, if the additions say so (section 2.2.5).
fn is_tls(mut additions: &[u8]) -> Option<bool> {
    const SSL: u8 = 0x20;
    const CLIENT_SSL: u8 = 1;
    while let Some(([kind, high, low], rest)) = additions.split_first_chunk() {
        let value = rest.get(..usize::from(u16::from_be_bytes([*high, *low])))?;
        if *kind == SSL {
            return value.first().map(|flags| flags & CLIENT_SSL != 0);
        }
        additions = &rest[value.len()..];
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binary_header(command: u8, family: u8, added: &[u8]) -> Vec<u8> {
        let mut header = BINARY.to_vec();
        header.extend([command, family]);
        header.extend((added.len() as u16).to_be_bytes());
        header.extend(added);
        header
    }

    fn v4() -> Vec<u8> {
        binary_header(0x21, 0x11, &[192, 0, 2, 1, 10, 0, 0, 1, 0x12, 0x34, 0, 80])
    }

    #[test]
    fn a_header_says_who_the_client_is_as_soon_as_it_is_there() {
        let mut v6 = vec![0x20, 1, 0xd, 0xb8];
        v6.resize(15, 0);
        v6.push(7);
        v6.extend([0; 16]);
        v6.extend([0, 1, 0, 2]);
        // One addition that nothing reads, and one that says that the client used TLS.
        v6.extend(b"\x02\x00\x01h\x20\x00\x05\x01\0\0\0\0");
        for (header, client) in [
            (b"PROXY TCP4 192.0.2.1 10.0.0.1 4660 80\r\n".to_vec(), Some(("192.0.2.1:4660", 80, None))),
            (b"PROXY TCP6 2001:db8::7 ::1 1 65535\r\n".to_vec(), Some(("[2001:db8::7]:1", 65535, None))),
            (b"PROXY UNKNOWN\r\n".to_vec(), None),
            (b"PROXY UNKNOWN whatever it is\r\n".to_vec(), None),
            (v4(), Some(("192.0.2.1:4660", 80, None))),
            (binary_header(0x21, 0x21, &v6), Some(("[2001:db8::7]:1", 2, Some(true)))),
            (binary_header(0x20, 0x00, b""), None),
            (binary_header(0x20, 0x11, &[0; 12]), None),
            (binary_header(0x21, 0x31, &[b'/'; 216]), None),
        ] {
            let mut input = header.clone();
            input.extend_from_slice(b"GET / HTTP/1.1\r\n");
            for cut in 0..=input.len() {
                let found = parse(&input[..cut]).unwrap();
                let announced = client.map(|(client, port, is_tls)| {
                    let client = client.parse().unwrap();
                    Announced { client, port, is_tls }
                });
                let expected = (header.len(), announced);
                assert_eq!(found, (cut >= header.len()).then_some(expected), "{header:?} at {cut}");
            }
        }
    }

    #[test]
    fn what_is_no_header_is_refused() {
        let line = |line: &str| line.as_bytes().to_vec();
        let mut of_version_3 = v4();
        of_version_3[12] = 0x31;
        for input in [
            line("GET / HTTP/1.1\r\n"),
            line("\r\n\r\nGET"),
            line("proxy UNKNOWN\r\n"),
            line("PROXY TCP4 192.0.2.1 10.0.0.1 1 80\n"),
            line("PROXY TCP4 192.0.2.1 10.0.0.1 1\r\n"),
            line("PROXY TCP4 192.0.2.1 10.0.0.1 1 80 x\r\n"),
            line("PROXY TCP4 192.0.2.1  10.0.0.1 1 80\r\n"),
            line("PROXY TCP4 ::1 10.0.0.1 1 80\r\n"),
            line("PROXY TCP4 192.0.2.1 10.0.0.1 01 80\r\n"),
            line("PROXY TCP4 192.0.2.1 10.0.0.1 +1 80\r\n"),
            line("PROXY TCP4 192.0.2.1 10.0.0.1 65536 80\r\n"),
            line("PROXY TCP5 192.0.2.1 10.0.0.1 1 80\r\n"),
            line("PROXY \r\n"),
            line(&format!("PROXY UNKNOWN {}\r\n", "x".repeat(LONGEST_LINE))),
            of_version_3,
            binary_header(0x21, 0x11, &[0; 11]),
            binary_header(0x21, 0x21, &[0; 35]),
            binary_header(0x21, 0x11, &[0; MOST_ADDED + 1]),
        ] {
            assert_eq!(parse(&input), Err(Malformed), "{:?}", String::from_utf8_lossy(&input));
        }
    }
}
