//! Values of options that the crate [`units`] does not read.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use http::Uri;
use http::uri::Scheme;
use load::run::Target as Server;
use load::schedule::{Rate, Step};
use load::tls::Name;
use workload::{fields, target};

/// A part of something in percent.
pub(super) fn percent(text: &str) -> Result<f64, String> {
    let allowed = "allowed: 0 to 100";
    let percent: f64 = text.parse().map_err(|_| allowed.to_owned())?;
    if (0.0..=100.0).contains(&percent) { Ok(percent) } else { Err(allowed.to_owned()) }
}

/// A rate: `250`, or steps such as `0-500:30s,500:1min,100` (from and to, for a time; the last may go on).
pub(super) fn rate(text: &str) -> Result<Rate, String> {
    let allowed = "allowed: a number above 0 such as 250, or steps such as 0-500:30s,500:1min,100 \
        (from-to:time; the last goes on)";
    let step = |text: &str| -> Option<Step> {
        let (values, duration) = match text.split_once(':') {
            Some((values, duration)) => (values, Some(units::parse_time(duration).ok()?)),
            None => (text, None),
        };
        let (from, to) = values.split_once('-').unwrap_or((values, values));
        Some(Step { from: from.trim().parse().ok()?, to: to.trim().parse().ok()?, duration })
    };
    let steps = text.split(',').map(|text| step(text.trim())).collect::<Option<Vec<_>>>().ok_or(allowed)?;
    Rate::steps(steps).map_err(|error| format!("{error}; {allowed}"))
}

/// Several values in one option.
#[derive(Clone, Debug)]
pub(super) struct Several<T>(pub(super) Vec<T>);

/// CPUs such as `0-3,8`.
pub(super) fn cpus(text: &str) -> Result<Several<usize>, String> {
    units::parse_cpus(text).map(Several)
}

/// Local addresses such as `127.0.0.2`, `127.0.0.2-127.0.0.9`.
pub(super) fn sources(text: &str) -> Result<Several<IpAddr>, String> {
    let allowed = "allowed: an address or a range of them, such as 127.0.0.2 or 127.0.0.2-127.0.0.9";
    let Some((first, last)) = text.split_once('-') else {
        return text.parse().map(|address| Several(vec![address])).map_err(|_| allowed.to_owned());
    };
    let number = |text: &str| text.trim().parse::<Ipv4Addr>().ok().map(u32::from);
    let (first, last) = number(first)
        .zip(number(last))
        .filter(|(first, last)| first <= last && last - first < 65_536)
        .ok_or(allowed)?;
    Ok(Several((first..=last).map(|address| Ipv4Addr::from(address).into()).collect()))
}

/// A target.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// At the first of the name's addresses.
    pub(super) server: Server,
    /// The other addresses of the name.
    others: Vec<SocketAddr>,
    /// The value of the Host header: the URL's authority (RFC 9110 section 7.2).
    pub(super) host: String,
    /// The path with its query, as it is sent; `/` where there is no path.
    pub(super) path: String,
}

impl Target {
    /// The target at the first of its name's addresses where something listens, or at the first of all if
    /// nothing listens. A name with a single address is not tried. `fits` selects the addresses to use.
    pub(super) fn where_it_answers(self, timeout: Duration, fits: impl Fn(&SocketAddr) -> bool) -> Self {
        let Some(first) = self.server.address().filter(|_| !self.others.is_empty()) else { return self };
        let all: Vec<SocketAddr> = [first].iter().chain(&self.others).copied().filter(fits).collect();
        let answers = |address: &&SocketAddr| TcpStream::connect_timeout(address, timeout).is_ok();
        match all.iter().find(answers).or(all.first()) {
            Some(address) => Self { server: self.server.at(*address), ..self },
            None => self,
        }
    }
}

/// All addresses of a name, each once. `localhost` is this machine with both of its loopback addresses,
/// whatever the resolver says (RFC 6761 section 6.3).
fn addresses(name: &str, port: u16) -> Vec<SocketAddr> {
    let found = (name, port).to_socket_addrs().into_iter().flatten();
    let loopback = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    let is_local = name.eq_ignore_ascii_case("localhost");
    let local = loopback.into_iter().filter(|_| is_local).map(|ip: IpAddr| SocketAddr::new(ip, port));
    let mut all = Vec::new();
    for address in found.chain(local) {
        if !all.contains(&address) {
            all.push(address);
        }
    }
    all
}

/// A target such as `http://127.0.0.1:8080/index.html`, `https://example.org/`, or
/// `unix:/run/server.sock:/index.html`.
pub(super) fn target(text: &str) -> Result<Target, String> {
    let allowed = "allowed: addresses such as http://127.0.0.1:8080/ or https://127.0.0.1:8443/, and \
                   unix:/path/of/socket, or unix:/path/of/socket:/index.html";
    if let Some(rest) = text.strip_prefix("unix:") {
        let (socket, path) = rest.find(":/").map_or((rest, "/"), |at| (&rest[..at], &rest[at + 1..]));
        if !(1..=LONGEST_SOCKET_NAME).contains(&socket.len()) {
            return Err(format!("a socket's name has 1 to {LONGEST_SOCKET_NAME} bytes; {allowed}"));
        }
        return target_of(Server::Unix(socket.into()), "localhost", without_fragment(path), allowed);
    }
    let has_scheme = text
        .find(['/', '?', '#'])
        .is_some_and(|at| text[..at].ends_with(':') && text[at..].starts_with("//"));
    let full = if has_scheme { text.to_owned() } else { format!("http://{text}") };
    let full = without_fragment(&full);
    // Characters that must be percent-encoded are reported before the URL is parsed.
    let authority = full.find("://").map_or(0, |at| at + 3);
    let path = full[authority..].find(['/', '?']).map_or("", |at| &full[authority + at..]);
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    target::check(&path).map_err(|error| format!("{error}; {allowed}"))?;
    let url: Uri = full.parse().map_err(|error| format!("{error}; {allowed}"))?;
    let has_tls = url.scheme() == Some(&Scheme::HTTPS);
    let authority = url.authority().filter(|_| has_tls || url.scheme() == Some(&Scheme::HTTP));
    let authority = authority.ok_or(allowed)?;
    if authority.as_str().contains('@') {
        return Err(format!("a name and a password are sent by --header 'Authorization: ...'; {allowed}"));
    }
    // A port may be empty (RFC 3986 section 3.2.3).
    let host = authority.as_str().strip_suffix(':').unwrap_or(authority.as_str());
    let port = match host.strip_prefix(authority.host()) {
        Some("") if has_tls => 443,
        Some("") => 80,
        Some(port) => {
            let port = port[1..].parse::<u16>().ok().filter(|port| *port != 0);
            port.ok_or_else(|| format!("a port is a number from 1 to 65535; {allowed}"))?
        }
        None => return Err(allowed.to_owned()),
    };
    fields::host(host).map_err(|error| format!("{error}; {allowed}"))?;
    let name = authority.host().trim_start_matches('[').trim_end_matches(']');
    let mut addresses = addresses(name, port).into_iter();
    let address = addresses.next().ok_or_else(|| format!("no such host; {allowed}"))?;
    let server = if has_tls {
        Server::Tls(address, name.parse::<Name>().map_err(|error| format!("{error}; {allowed}"))?)
    } else {
        Server::Inet(address)
    };
    Ok(Target { others: addresses.collect(), ..target_of(server, host, &path, allowed)? })
}

/// A fragment is for the client alone (RFC 9110 section 7.1).
fn without_fragment(url: &str) -> &str {
    url.split_once('#').map_or(url, |(url, _)| url)
}

/// The value of a Host header.
pub(super) fn host(text: &str) -> Result<String, String> {
    fields::host(text).map(|()| text.to_owned())
}

/// What fits into the address of a Unix socket, unix(7).
const LONGEST_SOCKET_NAME: usize = 107;

fn target_of(server: Server, host: &str, path: &str, allowed: &str) -> Result<Target, String> {
    target::check(path).map_err(|error| format!("{error}; {allowed}"))?;
    Ok(Target { server, others: Vec::new(), host: host.to_owned(), path: path.to_owned() })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn parts_and_lists_are_read_or_refused() {
        let percents = ["0", "7.5", "100", "101", "-1", "NaN", "x"].map(|text| percent(text).ok());
        assert_eq!(percents, [Some(0.0), Some(7.5), Some(100.0), None, None, None, None]);
        assert_eq!(cpus("0-2,5,1").unwrap().0, [0, 1, 2, 5]);
        assert_eq!(sources("127.0.0.254-127.0.1.1").unwrap().0.len(), 4);
        for wrong in ["", "a", "3-1", "5000", "1-"] {
            assert!(cpus(wrong).is_err(), "{wrong}");
        }
        assert!(sources("127.0.0.9-127.0.0.2").is_err() && sources("localhost").is_err());
    }

    #[test]
    fn a_name_is_tried_at_all_its_addresses() {
        let listens = TcpListener::bind("[::1]:0").unwrap();
        let port = listens.local_addr().unwrap().port();
        let name = target(&format!("http://localhost:{port}/a")).unwrap();
        let timeout = Duration::from_secs(2);
        let server = |fits: fn(&SocketAddr) -> bool| {
            let found = name.clone().where_it_answers(timeout, fits);
            (found.server.to_string(), found.host)
        };
        let host = format!("localhost:{port}");
        assert_eq!(server(|_| true), (format!("http://[::1]:{port}"), host.clone()));
        assert_eq!(server(SocketAddr::is_ipv4), (format!("http://127.0.0.1:{port}"), host.clone()));
        let with_tls =
            target(&format!("https://localhost:{port}")).unwrap().where_it_answers(timeout, |_| true);
        assert_eq!(with_tls.server.to_string(), format!("https://[::1]:{port}"));
        assert_eq!(with_tls.server.tls_name(), Some(&"localhost".parse().unwrap()));
        drop(listens);
        assert_eq!(server(|_| true), (name.server.to_string(), host), "nothing listens");
    }

    #[test]
    fn rates_have_steps() {
        let at = |text: &str, seconds| rate(text).unwrap().at(Duration::from_secs(seconds));
        assert_eq!((at("250", 0), at("250", 100)), (250.0, 250.0));
        let ramp = "0-500:10s,500:1min,100";
        assert_eq!((at(ramp, 5), at(ramp, 30), at(ramp, 90)), (250.0, 500.0, 100.0));
        for wrong in ["", "0", "-5", "5,6", "1-2", "a:3s", "5:10,6", "nan"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn targets_have_an_address_and_a_path() {
        let of =
            |text: &str| target(text).map(|target| (target.server.to_string(), target.host, target.path));
        let expected = ("http://127.0.0.1:8080".to_owned(), "127.0.0.1:8080".to_owned(), "/a?b".to_owned());
        assert_eq!(of("http://127.0.0.1:8080/a?b"), Ok(expected));
        let (address, host, path) = of("127.0.0.1").unwrap();
        assert_eq!(
            (address.as_str(), host.as_str(), path.as_str()),
            ("http://127.0.0.1:80", "127.0.0.1", "/")
        );
        assert_eq!(of("http://[::1]:80").unwrap().0, "http://[::1]:80");
        let local = |text: &str| of(text).map(|(address, host, path)| format!("{address} {host} {path}"));
        for (text, told) in [
            ("http://127.0.0.1:81?x", "http://127.0.0.1:81 127.0.0.1:81 /?x"),
            ("http://127.0.0.1?x=/y", "http://127.0.0.1:80 127.0.0.1 /?x=/y"),
            ("127.0.0.1:81?u=http://h/", "http://127.0.0.1:81 127.0.0.1:81 /?u=http://h/"),
            ("HTTP://127.0.0.1:81/a", "http://127.0.0.1:81 127.0.0.1:81 /a"),
            ("http://127.0.0.1:/a", "http://127.0.0.1:80 127.0.0.1 /a"),
            ("http://127.0.0.1/a?b#c?d", "http://127.0.0.1:80 127.0.0.1 /a?b"),
            ("http://127.0.0.1#c", "http://127.0.0.1:80 127.0.0.1 /"),
            ("http://[::1]/a", "http://[::1]:80 [::1] /a"),
            ("http://127.0.0.1/../a//%2f", "http://127.0.0.1:80 127.0.0.1 /../a//%2f"),
        ] {
            assert_eq!(local(text).as_deref(), Ok(told), "{text}");
        }
        for (text, address, name) in [
            ("https://127.0.0.1/a", "https://127.0.0.1:443", "127.0.0.1"),
            ("HTTPS://[::1]:8443", "https://[::1]:8443", "::1"),
            ("https://127.0.0.1:", "https://127.0.0.1:443", "127.0.0.1"),
        ] {
            let target = target(text).unwrap();
            assert_eq!(target.server.to_string(), address);
            assert_eq!(target.server.tls_name(), Some(&name.parse().unwrap()), "{text}");
        }
        assert_eq!(target("http://127.0.0.1").unwrap().server.tls_name(), None);
        let unix = |path: &str| Ok(("unix:/run/s".to_owned(), "localhost".to_owned(), path.to_owned()));
        assert_eq!((of("unix:/run/s"), of("unix:/run/s:/a?b:/c")), (unix("/"), unix("/a?b:/c")));
        assert!(of(&format!("unix:/{}", "x".repeat(107))).is_err());
        for wrong in [
            "unix:",
            "unix::/a",
            "unix:/s:/a b",
            "wss://127.0.0.1/",
            "https://",
            "https://127.0.0.1:0/",
            "http://",
            "http://127.0.0.1:x/",
            "http://127.0.0.1/a b",
            "http://127.0.0.1/a|b",
            "http://127.0.0.1/%",
            "http://u:p@127.0.0.1/",
            "http://127.0.0.1:99999/",
            "http://127.0.0.1:+80/",
            "http://[127.0.0.1]:80/",
            "http://[]/",
            "http:///a",
            "ftp://127.0.0.1/",
            "?x",
        ] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
