//! Tests of configuration files and command lines. Those of the errors for them are in [`wrong`].

mod wrong;

use std::fs;
use std::time::Duration;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

/// A directory with a root, a file in it, and `sluice.toml`. In the TOML text, `{cpu}` stands for a CPU
/// that this process may use.
pub(super) fn place(toml: &str) -> (TempDir, Source) {
    let cpu = sys::process::allowed_cpus().expect("CPUs")[0];
    let toml = toml.replace("{cpu}", &cpu.to_string());
    let dir = tempfile::tempdir().expect("a directory");
    fs::create_dir(dir.path().join("www")).expect("a root");
    fs::write(dir.path().join("www/404.html"), "lost").expect("an error page");
    let file = dir.path().join("sluice.toml");
    fs::write(&file, toml).expect("a file");
    (dir, Source { file: Some(file), command_line: CommandLine::default() })
}

/// The names of all keys, with their tables (`limits.body`), and of the tables.
pub(super) fn keys() -> impl Iterator<Item = String> {
    let full =
        |(table, key): (&str, &str)| if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") };
    resolve::all_keys().map(full)
}

fn load(toml: &str) -> Result<Settings, ConfigError> {
    place(toml).1.load()
}

/// The settings, or the error with the directory's name taken out.
pub(super) fn problems(toml: &str) -> String {
    let (dir, source) = place(toml);
    let error = source.load().expect_err(toml).to_string();
    error.replace(&format!("{}/", dir.path().display()), "")
}

fn with_options(toml: &str, options: &[(&'static str, &[&str])]) -> Result<Settings, String> {
    let (_dir, mut source) = place(toml);
    for (key, values) in options {
        source.command_line.set(key, values.iter().map(ToString::to_string).collect());
    }
    source.load().map_err(|error| error.to_string())
}

#[test]
fn nothing_typed_gives_the_defaults() {
    let here = std::env::current_dir().expect("a directory");
    assert_eq!(Source::default().load().expect("defaults"), Settings::new(here));
}

#[test]
fn every_key_can_be_typed() {
    let (dir, source) = place(EVERYTHING);
    let settings = source.load().expect("settings");
    let at = |name: &str| dir.path().join(name);

    assert_eq!(settings.files.root, at("www"));
    let listen = [
        ListenAddress::Tcp("0.0.0.0:80".parse().expect("an address")),
        ListenAddress::Tcp("[::]:80".parse().expect("an address")),
        ListenAddress::Unix(at("web.sock")),
    ];
    assert_eq!(settings.plain_addresses(), listen);
    let tls = [
        ListenAddress::Tcp("0.0.0.0:443".parse().expect("an address")),
        ListenAddress::Tcp("[::]:443".parse().expect("an address")),
        ListenAddress::Unix(at("tls.sock")),
    ];
    assert_eq!((&settings.tls.listen[..], settings.listen.len()), (&tls[..], 6));
    assert_eq!(settings.cpus.map(|cpus| cpus.len()), Some(1));
    assert_eq!(settings.event.accept_limit, AcceptLimit::Limit(64.try_into().expect("not 0")));
    assert_eq!(settings.connections.send_buffer, Some(128 << 10));
    assert_eq!(settings.connections.defer_accept, Some(Duration::from_secs(5)));
    assert_eq!(settings.timeouts.header, Duration::from_millis(1500));
    assert_eq!(settings.files.error_pages, [(404, "/404.html".to_owned())].into());
    assert_eq!(settings.files.charset, None);
    assert_eq!(settings.status, Some(ListenAddress::Unix(at("status.sock"))));
    assert_eq!(settings.files.headers[0].set, [("X-Robots-Tag".to_owned(), "none \"at all\"".to_owned())]);
    let path = settings.files.headers[0].path.as_ref().map(Pattern::text);
    assert_eq!(path, Some("/assets/**"));
}

#[test]
fn a_site_begins_as_the_top_of_the_file() {
    let text = "root = 'www'\nphp = '127.0.0.1:1'\nlisting = true\n[files]\nindex = 'a'\n[types]\nx = 'a/b'\n\
                [error_pages]\n404 = '/404.html'\n[[headers]]\nset = { X-A = '1' }\n\
                [[routes]]\nfallback = '/404.html'\n";
    let site = |keys: &str| format!("{text}[[sites]]\nhosts = 'a.example'\nroot = '.'\n{keys}");
    let settings = load(&site("[[sites.headers]]\nset = { X-B = '2' }")).expect("settings");
    let [default, own] = &settings.all_sites()[..] else { panic!("two sites") };
    assert!(default.hosts.is_empty());
    let FileSettings { index, listing, types, php, error_pages, common_headers, headers, routes, .. } =
        &own.files;
    assert_eq!((index, listing, types), (&default.files.index, &true, &default.files.types));
    assert_eq!(php, &default.files.php, "one application, and one line for it");
    assert!(error_pages.is_empty() && routes.is_empty(), "they are about paths of the default site");
    let headers = common_headers.iter().chain(headers);
    let fields: Vec<_> = headers.flat_map(|rule| &rule.set).map(|(name, _)| &**name).collect();
    assert_eq!(fields, ["X-A", "X-B"]);
    let pools = |keys: &str| {
        let settings = load(&site(keys)).expect("settings");
        settings.all_pools().map(|pool| pool.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(pools("php = '127.0.0.1:1'"), ["php"]);
    assert_eq!(pools("php = '127.0.0.1:2'"), ["php", "php 127.0.0.1:2"]);
    assert_eq!(pools("php = 'off'"), ["php"]);
}

#[test]
fn patterns_are_bounded_where_they_are_read() {
    let alternatives: Vec<_> = (0..20_000).map(|number| format!("dir-{number}")).collect();
    let powers = "{a,b}".repeat(14);
    for (pattern, what) in [
        (format!("/{{{}}}/**", alternatives.join(",")), "too large; allowed: 16384 characters, with braces"),
        (format!("/{}", "?".repeat(150_000)), "too large; allowed: 16384 characters"),
        (format!("/{powers}"), "too large; allowed: 16384 characters"),
        (format!("/{}a{}", "{".repeat(126), "}".repeat(126)), "allowed: braces within braces up to 10 deep"),
        (format!("/{}", "{".repeat(200_000)), "allowed: braces within braces up to 10 deep"),
    ] {
        for (list, key) in [("routes", "path"), ("headers", "path"), ("headers", "media_type")] {
            let told = problems(&format!("root = 'www'\n[[{list}]]\n{key} = '{pattern}'\n"));
            let told = told.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("{told}"));
            assert!(
                told.starts_with(&format!("sluice.toml:3:{}: {list}.{key} = '/", key.len() + 4)),
                "{told}"
            );
            assert!(told.len() < 250, "{told}");
        }
    }
    let many = load(&format!(
        "root = 'www'\n[[routes]]\npath = '/{{{}}}'\nstatus = 404",
        alternatives[..1000].join(",")
    ));
    assert_eq!(
        many.expect("settings").files.routes[0].path.as_ref().map(|path| path.ways().count()),
        Some(1000)
    );
}

#[test]
fn every_key_makes_a_difference() {
    let (_dir, source) = place(EVERYTHING);
    let settings = source.load().expect("settings");
    let file = source.file.as_ref().expect("a file");
    // Removing one of these lines alone leaves a file that is wrong or means the same.
    let cannot_go = [
        "root = ",
        "listen = ",
        "listen_tls = ",
        "certificate = ",
        "key = ",
        "tls_self_signed = ",
        "architecture = ",
        "workers = ",
        "user = ",
        "set = ",
        "expires = \"0 s",
        "pool = ",
        "name = ",
        "servers = ",
        "protocol = ",
        "hosts = ",
        "access_log = \"site",
    ];
    let lines: Vec<_> = EVERYTHING.lines().collect();
    let cpu = settings.cpus.as_ref().map_or(String::new(), |cpus| cpus[0].to_string());
    for (i, line) in lines.iter().enumerate() {
        if !line.contains(" = ") || cannot_go.iter().any(|key| line.starts_with(key)) {
            continue;
        }
        let without: Vec<_> =
            lines.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, line)| *line).collect();
        fs::write(file, without.join("\n").replace("{cpu}", &cpu)).expect("a file");
        match source.load() {
            Ok(others) => assert_ne!(others, settings, "{line}"),
            Err(error) => panic!("without {line}: {error}"),
        }
    }
}

#[test]
fn the_test_knows_every_key() {
    for (_, key) in resolve::all_keys() {
        let typed = EVERYTHING
            .lines()
            .any(|line| line.starts_with(&format!("{key} = ")) || line.trim_matches(['[', ']']) == key);
        assert!(typed, "{key}");
    }
}

#[test]
fn printed_settings_are_the_same_settings() {
    for toml in [
        EVERYTHING,
        "root = 'www'",
        "root = 'www'\narchitecture = 'processes'",
        "root = 'www'\narchitecture = 'pipeline'\nstages = 'four'\nwriters = 25\n[pipeline]\nbatch = 1",
        "root = 'www'\naccess_log = '-'\nlog_when_full = 'wait'",
        "root = 'www'\naccess_log = 'off'",
        "root = 'www'\naccess_log = 'stdout'\nerror_log = './none'",
        "root = 'www'\nlog_format = 'json'\nlog_when_full = 'wait'",
        "root = 'www'\naccess_log = 'a'\n[[sites]]\nhosts = 'a'\nroot = 'www'\naccess_log = 'off'",
        "root = 'www'\naccess_log = 'off'\n[[sites]]\nhosts = 'a'\nroot = 'www'\naccess_log = 'b'",
        "root = 'www'\nphp = '127.0.0.1:1'\n[[sites]]\nhosts = 'a'\nroot = 'www'\nphp = 'off'",
    ] {
        let (dir, source) = place(toml);
        let settings = source.load().expect("settings");
        let printed = settings.to_toml();
        // The file is now in another directory, so this checks that all printed paths are absolute.
        fs::create_dir(dir.path().join("elsewhere")).expect("a directory");
        let file = dir.path().join("elsewhere/again.toml");
        fs::write(&file, &printed).expect("a file");
        let again = Source { file: Some(file), command_line: CommandLine::default() };
        assert_eq!(again.load().map_err(|error| error.to_string()), Ok(settings), "{printed}");
    }
}

#[test]
fn the_command_line_wins() {
    let toml = "root = 'www'\nlisten = ['0.0.0.0:80', '[::]:80']\naccept_limit = 5\nlisting = true";
    let options: &[(&str, &[&str])] = &[
        ("listen", &["127.0.0.1:8000", "127.0.0.1:0", "127.0.0.1:0"]),
        ("accept_limit", &["inf"]),
        ("listing", &["false"]),
        ("workers", &["1"]),
    ];
    let settings = with_options(toml, options).expect("settings");
    assert_eq!(settings.listen.len(), 3);
    assert_eq!(settings.event.accept_limit, AcceptLimit::Unlimited);
    assert!(!settings.files.listing);
}

#[test]
fn relative_paths_start_from_the_file_or_from_the_current_directory() {
    let here = std::env::current_dir().expect("a directory");
    let settings =
        with_options("root = 'www'\nerror_log = 'errors'", &[("access_log", &["log"])]).expect("settings");
    assert_eq!(settings.access_log.map(|log| log.target), Some(LogTarget::File(here.join("log"))));
    assert!(
        matches!(settings.error_log, ErrorLog::File(path) if path.is_absolute() && !path.starts_with(here))
    );
}

#[test]
fn what_is_not_said_follows_from_the_architecture() {
    let settings = |toml: &str| load(&format!("root = 'www'\n{toml}")).expect("settings");
    let cpus = sys::process::allowed_cpus().expect("CPUs").len();
    assert_eq!(settings("").workers, cpus);
    assert_eq!(settings("cpus = '{cpu}'").workers, 1);
    assert_eq!(settings("copies = 1024\narchitecture = 'amped'").workers, 1);
    assert_eq!(settings("architecture = 'n-copy'").copies, cpus);
    let sped = settings("architecture = 'sped'\nmax_connections = 10");
    assert_eq!((sped.workers, sped.send), (1, Sends::NonBlocking));
    let processes = settings("architecture = 'processes'");
    assert_eq!((processes.workers, processes.send), (64, Sends::Blocking));
    let few = settings("architecture = 'processes'\nmax_connections = 10\nworkers = 20");
    assert_eq!(few.workers, 10, "one for each connection");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 512 }))]

    #[test]
    fn random_text_never_panics(text: String) {
        let _ = load(&text);
    }

    /// Right and wrong values at right and wrong keys. Random text alone would rarely produce them.
    #[test]
    fn random_toml_never_panics_and_prints_what_it_means(
        lines in prop::collection::vec((key(), value()), 0..8)
    ) {
        let toml: Vec<_> = lines.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        let (_dir, source) = place(&toml.join("\n"));
        match source.load() {
            Ok(settings) => {
                fs::write(source.file.as_ref().expect("a file"), settings.to_toml()).expect("a file");
                let again = source.load().map_err(|error| error.to_string());
                prop_assert_eq!(again, Ok(settings));
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}

fn key() -> impl Strategy<Value = String> {
    let own =
        ["types.md", "error_pages.404", "headers", "nonsense", "files.nonsense", "\"\""].map(str::to_owned);
    prop::sample::select(keys().chain(own).collect::<Vec<_>>())
}

fn value() -> impl Strategy<Value = String> {
    let texts = "[a-z/.:0-9*-]{0,12}|[0-9]{1,5} ?(ms|s|min|KB|KiB|MiB)?|www|/404.html|text/plain|\
                 127.0.0.1:[0-9]{1,4}";
    prop_oneof![
        any::<i64>().prop_map(|n| n.to_string()),
        (0..20_000_u32).prop_map(|n| n.to_string()),
        any::<bool>().prop_map(|flag| flag.to_string()),
        texts.prop_map(|text| format!("'{text}'")),
        texts.prop_map(|text| format!("['{text}', 'b']")),
        texts.prop_map(|text| format!("[{{ set = {{ X-Y = '{text}' }}, path = '/{text}' }}]")),
        prop::sample::select(vec!["inf", "off", "-", "stderr", "json", "poll", "cork", "sped", "any", "0"])
            .prop_map(|name| format!("'{name}'")),
        Just("1.5".to_owned()),
        Just("2026-01-01".to_owned()),
        Just("{ a.b = [] }".to_owned()),
    ]
}

const EVERYTHING: &str = r#"
root = "www"
listen = ["0.0.0.0:80", "[::]:80", "unix:web.sock"]
listen_tls = ["0.0.0.0:443", "[::]:443", "unix:tls.sock"]
certificate = "site.pem"
key = "site.key"
tls_self_signed = false
redirect_to_https = true
hsts = "365 d"
php = "unix:php.sock"
proxy = "127.0.0.1:3000"
architecture = "sped"
workers = 1
copies = 3
copies_by = "address"
cpus = "{cpu}"
events = "epoll-level"
accept_limit = 64
send = "blocking"
stages = "four"
readers = 2
writers = 3
controllers = true
backlog = 511
max_connections = 15_000
wake = "exclusive"
small_file = "8 KiB"
coalesce = "none"
listing = true
access_log = "access.log"
log_format = "json"
log_when_full = "wait"
error_log = "error.log"
log_level = "debug"
status = "unix:status.sock"
status_hosts = ["status.example.org", "*.int"]
user = "www-data"
group = "www-data"
drain_timeout = "1 min"

[placement]
cpus = ["{cpu}"]
mapping = "indirect"
partition = true

[unix_sockets]
mode = "0660"
owner = "www-data"
group = "www-data"

[proxies]
trusted = ["10.0.0.0/8", "::1", "unix"]
believe = ["scheme", "host"]
protocol = ["unix:web.sock"]

[status_socket]
mode = "640"
owner = "root"
group = "www-data"

[event]
work_phase_skips_new = true
quantum = "1 MB"
send_hold = "2 s"

[gateway]
name_servers = ["127.0.0.53:53"]
spool = "/"
spill = "1 MiB"
memory = "2 MiB"
waiting_workers = 3

[pipeline]
batch = 8
queue = 16
response_target = "250 ms"

[user_threads]
threads = 500
stack = "64 KiB"
keep_stack = true
accepting = "threads"
helpers_send = true

[uring]
loads = "ring"
zero_copy = true
registered_sockets = true

[handshakes]
queue = 100
share = 5

[amped]
helpers = 7
disk_timeout = "9 s"
disk_delay = "100 ms"

[tcp]
nodelay = false
send_buffer = "128 KiB"
defer_accept = "5 s"

[limits]
requests_per_connection = 1000
request_line = "4 KiB"
header_size = 16_384
header_count = 50
body = 0
ranges = 5
retry_after = "2 s"

[timeouts]
header = "1500 ms"
body = "30s"
body_min_rate = "1 KB"
write = "2 min"
write_min_rate = 0
idle = "5 s"
linger = "2 s"

[files]
index = ["index.htm", "default.htm"]
listing_names = 100
dotfiles = true
symlinks = "none"
precompressed = false
validity = "10 s"
max_open = 100
header_cache = false
memory = "1 MiB"
charset = "off"

[types]
md = "text/markdown; charset=utf-8"
"wasm.gz" = "application/wasm"
"" = "text/plain"

[encodings]
"wasm.gz" = "gzip"
br = "br"
svgz = "off"

[error_pages]
404 = "/404.html"

[[headers]]
path = "/assets/**"
ignore_case = true
media_type = "text/*"
set = { X-Robots-Tag = 'none "at all"' }
expires = "365 d"

[[headers]]
expires = "0 s"

[[routes]]
path = "/old/**"
redirect = "/new/{rest}"

[[routes]]
path = "/gone"
ignore_case = true
status = 410

[[routes]]
path = "**/*.txt"

[[routes]]
path = "/cgi-bin/**"
pool = "a"
scripts = ".cgi"

[[routes]]
path = "/git/**"
pool = "a"
program = "git-http-backend"
encoded_slashes = true

[[routes]]
path = "/node/**"
pool = "b"
files_first = true

[[routes]]
fallback = "/404.html"

[[pools]]
name = "a"
servers = ["unix:a.sock", "unix:b.sock"]
children = 7
queue = 8
queue_timeout = "9 s"
queue_delay = "off"
transport = "shared-memory"
area = "2 MiB"
area_send = "sendfile"
fair = false
connect_timeout = "3 s"
timeout = "5 s"
total_timeout = "8 s"
keep = 2
keep_timeout = "3 s"
params = { A = "b", "C" = "d \"e\"" }
trace = true
send_files = { "/protected/" = ".", "/a b/" = "/" }

[[pools]]
name = "b"
servers = ["127.0.0.1:3000"]
protocol = "http"
host = "app.example:8080"
strip_prefix = "/node"
add_prefix = "/v1"
rewrite_replies = true
uploads = "stream"
upgrades = 7
upgrade_timeout = "2 h"

[[sites]]
hosts = ["Example.org", "*.example.com", "[::1]"]
root = "www"
php = "unix:site.sock"
proxy = "app.internal:3000"
index = "index.htm"
listing = false
listing_names = 7
dotfiles = false
symlinks = "any"
precompressed = true
charset = "koi8-r"
access_log = "site.log"
log_format = "combined"
log_when_full = "drop"

[sites.types]
md = "text/plain"

[sites.encodings]
zst = "zstd"

[sites.error_pages]
403 = "/404.html"

[[sites.headers]]
set = { X-Site = "a" }

[[sites.routes]]
path = "/a/**"
pool = "a"

[[sites]]
hosts = "b.example"
root = "www"
"#;
