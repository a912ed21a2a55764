//! The parameters of a request: CGI's meta-variables (RFC 3875 section 4.1), and those that PHP and its
//! users know from other servers.

use fastcgi::{Params, TooLong};
use http1::{Field, Head, host_name};
use itoa::Buffer;
use sys::socket::{LocalAddress, PeerAddress};

use super::asker::Asker;
use crate::content::Call;
use crate::ip_text::IpText;
use crate::proxies::AsksFor;
use crate::proxies::origin::Origin;

/// The name of this server for applications.
const SOFTWARE: &str = concat!("sluice/", env!("CARGO_PKG_VERSION"));

/// Fields about the client's connection with this server, those that are written from other sources, and
/// those that could forge something else. No application gets them as they came.
const DROPPED: [&str; 13] = [
    "content-length",
    "connection",
    // If the target is absolute, the host is in the target.
    "host",
    "keep-alive",
    "proxy",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    // These tell an application which files it may name, and how.
    "x-accel-mapping",
    "x-sendfile-type",
];

/// Fields in which proxies report the client and the target. Names that begin with `X-Forwarded-` belong
/// here, too.
const TOLD: [&str; 5] = [Field::Forwarded.name(), "x-real-ip", "front-end-https", "x-url-scheme", "x-scheme"];

/// Writes all parameters of a request with a body of length `body`.
pub(super) fn write(
    params: &mut Params<'_>,
    head: &Head<'_>,
    call: &Call,
    asker: &Asker,
    body: u64,
    own: &[(String, String)],
) -> Result<(), TooLong> {
    // The path after the script, as if it were a path below the root (RFC 3875 section 4.1.6).
    if !call.info.is_empty() {
        params.pair(b"PATH_INFO", &call.info)?;
        params.joined(b"PATH_TRANSLATED", &[&call.root, &call.info])?;
    }
    params.pair(b"SCRIPT_FILENAME", &call.file)?;
    params.pair(b"SCRIPT_NAME", &call.name)?;
    params.joined(b"DOCUMENT_URI", &[&call.name, &call.info])?;
    params.pair(b"DOCUMENT_ROOT", &call.root)?;
    params.pair(b"REQUEST_METHOD", head.method.name().as_bytes())?;
    // An absolute target has its origin in Host (RFC 9112 section 3.2.2).
    match (head.target.starts_with(b"/"), head.query()) {
        (false, Some(query)) => params.joined(b"REQUEST_URI", &[head.path, b"?", query])?,
        (false, None) => params.pair(b"REQUEST_URI", head.path)?,
        (true, _) => params.pair(b"REQUEST_URI", head.target)?,
    }
    params.pair(b"QUERY_STRING", head.query().unwrap_or_default())?;
    // A proxy that is believed knows better than this server how its client has come.
    let is_https = asker.origin.is_https.unwrap_or(asker.secured.is_some());
    params.pair(b"REQUEST_SCHEME", if is_https { b"https" } else { b"http" })?;
    if is_https {
        params.pair(b"HTTPS", b"on")?;
    }
    if let Some(facts) = &asker.secured {
        params.pair(b"SSL_PROTOCOL", facts.version.as_bytes())?;
        params.pair(b"SSL_CIPHER", facts.cipher.as_bytes())?;
        if let Some(name) = &facts.server_name {
            params.pair(b"SSL_SERVER_NAME", name.as_bytes())?;
        }
    }
    params.pair(b"SERVER_PROTOCOL", head.terms.version.name().as_bytes())?;
    params.pair(b"GATEWAY_INTERFACE", b"CGI/1.1")?;
    params.pair(b"SERVER_SOFTWARE", SOFTWARE.as_bytes())?;
    // PHP may be built to run nothing that comes without this parameter (cgi.force_redirect).
    params.pair(b"REDIRECT_STATUS", b"200")?;
    write_addresses(params, head, asker)?;
    // Collected once, because each field is looked at several times. Each search would have to find the
    // line ends again.
    let fields: Vec<_> = head.fields.pairs().collect();
    // A body of no bytes is still a body, if the client has announced it.
    let announces = |(name, _): &(&[u8], &[u8])| {
        [&b"content-length"[..], b"transfer-encoding"].iter().any(|other| name.eq_ignore_ascii_case(other))
    };
    let mut digits = Buffer::new();
    let has_body = body > 0 || fields.iter().any(announces);
    params.pair(b"CONTENT_LENGTH", if has_body { digits.format(body).as_bytes() } else { b"" })?;
    let media_type = fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(b"content-type"));
    params.pair(b"CONTENT_TYPE", media_type.map_or(&b""[..], |(_, value)| value))?;
    if let Some(host) = asker.origin.host.as_deref().or(head.host()) {
        params.pair(b"HTTP_HOST", host)?;
    }
    write_fields(params, &fields)?;
    write_told(params, asker)?;
    for (name, value) in own {
        params.pair(name.as_bytes(), value.as_bytes())?;
    }
    Ok(())
}

/// Writes the client's address and this server's.
fn write_addresses(params: &mut Params<'_>, head: &Head<'_>, asker: &Asker) -> Result<(), TooLong> {
    if let PeerAddress::Inet(address) = asker.client {
        params.pair(b"REMOTE_ADDR", IpText::of(address.ip()).as_bytes())?;
        params.pair(b"REMOTE_PORT", Buffer::new().format(address.port()).as_bytes())?;
    } else {
        params.pair(b"REMOTE_ADDR", b"unix:")?;
    }
    let local = match &asker.local {
        Some(LocalAddress::Inet(address)) => Some((IpText::of(address.ip()), address.port())),
        _ => None,
    };
    if let Some((address, _)) = &local {
        params.pair(b"SERVER_ADDR", address.as_bytes())?;
    }
    let authority = asker.origin.host.as_deref().or(head.host()).unwrap_or_default();
    let port = asker.origin.port_of(authority).or(local.as_ref().map(|(_, port)| *port));
    params.pair(b"SERVER_PORT", Buffer::new().format(port.unwrap_or(80)).as_bytes())?;
    let named = Some(host_name(authority)).filter(|name| !name.is_empty());
    let unnamed = local.as_ref().map_or(&b"localhost"[..], |(address, _)| address.as_bytes());
    params.pair(b"SERVER_NAME", named.unwrap_or(unnamed))
}

/// Writes what the server believes of what proxies report. It uses the field names that proxies use most
/// often, with one value in each. The proxies' own fields contain what their clients wrote.
fn write_told(params: &mut Params<'_>, asker: &Asker) -> Result<(), TooLong> {
    match asker.asks_for {
        AsksFor::Client(client) => params.pair(b"HTTP_X_FORWARDED_FOR", IpText::of(client).as_bytes())?,
        // Applications take a client for local if it has a local address and there is no such field. The
        // proxy may have a local address. Also, the client must not decide whether the field is there.
        AsksFor::Unknown => params.pair(b"HTTP_X_FORWARDED_FOR", b"unknown")?,
        AsksFor::Itself => {}
    }
    let Origin { host, port, .. } = &asker.origin;
    if let Some(scheme) = asker.origin.scheme() {
        params.pair(b"HTTP_X_FORWARDED_PROTO", scheme.as_bytes())?;
    }
    if let Some(host) = host {
        params.pair(b"HTTP_X_FORWARDED_HOST", host)?;
    }
    if let Some(port) = port {
        params.pair(b"HTTP_X_FORWARDED_PORT", Buffer::new().format(*port).as_bytes())?;
    }
    Ok(())
}

/// Writes the fields of the request, each once.
fn write_fields(params: &mut Params<'_>, fields: &[(&[u8], &[u8])]) -> Result<(), TooLong> {
    for (at, (name, first)) in fields.iter().enumerate() {
        let is_same = |other: &&(&[u8], &[u8])| other.0.eq_ignore_ascii_case(name);
        // CONTENT_TYPE has it.
        let is_type = name.eq_ignore_ascii_case(b"content-type");
        if is_type || !is_passed_on(name) || fields[..at].iter().any(|other| is_same(&other)) {
            continue;
        }
        if fields[at + 1..].iter().any(|other| is_same(&other)) {
            // One list on several lines (RFC 9110 section 5.3; RFC 6265 section 5.4 for Cookie).
            let between: &[u8] = if name.eq_ignore_ascii_case(b"cookie") { b"; " } else { b", " };
            let all: Vec<_> = fields.iter().filter(is_same).map(|(_, value)| *value).collect();
            params.field(name, &all.join(between))?;
        } else {
            params.field(name, first)?;
        }
    }
    Ok(())
}

/// Whether an application may get a field. Many turn `_` and `.` into `_`, as they do `-`, so a field whose
/// name has those could pose as another one. No application gets fields in which proxies report the client
/// and the target as they came, because anyone may have written their values.
pub(super) fn is_passed_on(name: &[u8]) -> bool {
    let is_plain = name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-');
    let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
    let speaks_for_others = TOLD.iter().any(|told| is(told))
        || name.get(..12).is_some_and(|start| start.eq_ignore_ascii_case(b"x-forwarded-"));
    is_plain && !DROPPED.iter().any(|dropped| is(dropped)) && !speaks_for_others
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use fastcgi::Pairs;
    use fastcgi::record::HEADER_LENGTH;
    use http1::{Method, Terms, Version};

    use super::*;

    const TERMS: Terms = Terms { version: Version::Http11, persistent: true, body: true };

    fn call() -> Call {
        Call {
            site: 0,
            pool: "php".into(),
            file: b"/srv/a.php"[..].into(),
            name: b"/a.php"[..].into(),
            info: b"/b c"[..].into(),
            root: b"/srv"[..].into(),
        }
    }

    fn parameters(target: &str, fields: &str) -> BTreeMap<String, String> {
        parameters_for(target, fields, AsksFor::Itself, Origin::default())
    }

    fn parameters_for(
        target: &str,
        fields: &str,
        asks_for: AsksFor,
        origin: Origin,
    ) -> BTreeMap<String, String> {
        let consumed = format!("POST {target} HTTP/1.1\r\nHost: example.org:8080\r\n{fields}\r\n");
        let head = Head::again(consumed.as_bytes(), TERMS).unwrap();
        assert_eq!(head.method, Method::Post);
        let address = |text: &str| text.parse().unwrap();
        let asker = Asker {
            client: PeerAddress::Inet(address("[::ffff:192.0.2.7]:1234")),
            asks_for,
            origin,
            secured: None,
            local: Some(LocalAddress::Inet(address("127.0.0.1:80"))),
        };
        told(&head, &call(), &asker, 12)
    }

    /// The parameters of a request with a body of length `body`.
    fn told(head: &Head<'_>, call: &Call, asker: &Asker, body: u64) -> BTreeMap<String, String> {
        let mut out = Vec::new();
        let mut params = Params::new(&mut out, 1);
        let own = [("APP_ENV".to_owned(), "test".to_owned())];
        write(&mut params, head, call, asker, body, &own).unwrap();
        params.finish();
        let content = u16::from_be_bytes([out[4], out[5]]).into();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let pairs = Pairs::of(&out[HEADER_LENGTH..][..content]).map(Result::unwrap);
        let mut found = BTreeMap::new();
        for (name, value) in pairs {
            assert_eq!(found.insert(text(name), text(value)), None, "{} is there twice", text(name));
        }
        found
    }

    #[test]
    fn what_cgi_defines_is_there() {
        let found = parameters("/%61.php/b%20c?x=1&y", "Content-Type: text/plain\r\nCookie: a=1\r\n");
        for (name, value) in [
            ("AUTH_TYPE", None),
            ("APP_ENV", Some("test")),
            ("CONTENT_LENGTH", Some("12")),
            ("CONTENT_TYPE", Some("text/plain")),
            ("DOCUMENT_ROOT", Some("/srv")),
            ("DOCUMENT_URI", Some("/a.php/b c")),
            ("GATEWAY_INTERFACE", Some("CGI/1.1")),
            ("HTTP_CONTENT_LENGTH", None),
            ("HTTP_CONTENT_TYPE", None),
            ("HTTP_COOKIE", Some("a=1")),
            ("HTTP_HOST", Some("example.org:8080")),
            ("PATH_INFO", Some("/b c")),
            ("PATH_TRANSLATED", Some("/srv/b c")),
            ("QUERY_STRING", Some("x=1&y")),
            ("REMOTE_ADDR", Some("192.0.2.7")),
            ("REMOTE_PORT", Some("1234")),
            ("REQUEST_METHOD", Some("POST")),
            ("REQUEST_URI", Some("/%61.php/b%20c?x=1&y")),
            ("SCRIPT_FILENAME", Some("/srv/a.php")),
            ("SCRIPT_NAME", Some("/a.php")),
            ("SERVER_ADDR", Some("127.0.0.1")),
            ("SERVER_NAME", Some("example.org")),
            ("SERVER_PORT", Some("80")),
            ("SERVER_PROTOCOL", Some("HTTP/1.1")),
        ] {
            assert_eq!(found.get(name).map(String::as_str), value, "{name}");
        }
    }

    #[test]
    fn a_body_that_is_announced_has_a_length_and_a_local_client_a_name() {
        let length = |method: &str, fields: &str| {
            let consumed = format!("{method} / HTTP/1.1\r\nHost: x\r\n{fields}\r\n");
            let head = Head::again(consumed.as_bytes(), TERMS).unwrap();
            let (client, origin) = (PeerAddress::Unix, Origin::default());
            let asker = Asker { client, asks_for: AsksFor::Itself, origin, secured: None, local: None };
            let found = told(&head, &call(), &asker, 0);
            assert_eq!(found["REMOTE_ADDR"], "unix:");
            found["CONTENT_LENGTH"].clone()
        };
        assert_eq!(length("GET", ""), "");
        assert_eq!(length("POST", "content-length: 0\r\n"), "0");
        assert_eq!(length("PUT", "Transfer-Encoding: chunked\r\n"), "0");
    }

    #[test]
    fn fields_that_would_be_taken_for_something_else_are_dropped() {
        let fields = "Proxy: http://evil\r\nX-Sendfile-Type: X-Accel-Redirect\r\nX-Accel-Mapping: /=/\r\n\
                      X_Forwarded_For: 1.2.3.4\r\nX.Real.IP: 1.2.3.4\r\n\
                      X-Forwarded-For: 1.2.3.4\r\nx-forwarded-Host: evil\r\nForwarded: for=1.2.3.4\r\n\
                      X-Real-IP: 1.2.3.4\r\nTransfer-Encoding: chunked\r\nX-Forwarder: a\r\n\
                      Front-End-Https: on\r\nX-Url-Scheme: https\r\nX-Scheme: https\r\n";
        let found = parameters("/a.php", fields).into_keys().filter(|name| name.starts_with("HTTP_"));
        assert_eq!(found.collect::<Vec<_>>(), ["HTTP_HOST", "HTTP_X_FORWARDER"]);
    }

    #[test]
    fn what_is_believed_of_proxies_is_told_in_every_place() {
        let raw = "X-Forwarded-For: 6.6.6.6, 1.2.3.4\r\nX-Forwarded-Proto: http, https\r\n\
                   Forwarded: for=x\r\nX-Forwarded-Host: evil\r\nX-Forwarded-Port: 1\r\n\
                   X-Forwarded-Prefix: /evil\r\n";
        let told = |is_https: Option<bool>, host: Option<&str>, port| {
            let host = host.map(|host| host.as_bytes().into());
            let asks_for = AsksFor::Client([192, 0, 2, 7].into());
            parameters_for("/a.php", raw, asks_for, Origin { is_https, host, port })
        };
        let names = [
            "HTTPS",
            "REQUEST_SCHEME",
            "SERVER_NAME",
            "SERVER_PORT",
            "HTTP_HOST",
            "HTTP_X_FORWARDED_PROTO",
            "HTTP_X_FORWARDED_HOST",
            "HTTP_X_FORWARDED_PORT",
            "HTTP_X_FORWARDED_FOR",
            "HTTP_FORWARDED",
            "HTTP_X_FORWARDED_PREFIX",
        ];
        let is = |found: BTreeMap<String, String>, expected: [&str; 11]| {
            let found = names.map(|name| found.get(name).map_or("-", String::as_str));
            assert_eq!(found, expected);
        };
        let own = "example.org:8080";
        let client = "192.0.2.7";
        is(told(None, None, None), ["-", "http", "example.org", "80", own, "-", "-", "-", client, "-", "-"]);
        is(
            told(Some(true), None, None),
            ["on", "https", "example.org", "8080", own, "https", "-", "-", client, "-", "-"],
        );
        is(
            told(Some(false), None, Some(81)),
            ["-", "http", "example.org", "81", own, "http", "-", "81", client, "-", "-"],
        );
        is(
            told(Some(true), Some("b.example"), None),
            ["on", "https", "b.example", "443", "b.example", "https", "b.example", "-", client, "-", "-"],
        );
    }

    /// Applications take a client for local if it has a local address and there is no such field.
    #[test]
    fn a_client_who_is_unknown_is_not_taken_for_the_proxy() {
        let told = |asks_for| {
            let found = parameters_for("/a.php", "Forwarded: for=_x\r\n", asks_for, Origin::default());
            found.get("HTTP_X_FORWARDED_FOR").cloned()
        };
        assert_eq!(told(AsksFor::Unknown).as_deref(), Some("unknown"));
        assert_eq!(told(AsksFor::Itself), None);
    }

    #[test]
    fn a_field_on_several_lines_is_one() {
        let found = parameters("/a.php", "A: 1\r\ncookie: x=1\r\na: 2\r\nCookie: y=2\r\nA:\r\n");
        assert_eq!((&*found["HTTP_A"], &*found["HTTP_COOKIE"]), ("1, 2, ", "x=1; y=2"));
    }
}
