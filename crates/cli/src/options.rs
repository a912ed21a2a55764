//! What `sluice serve` and `sluice check` take. Every option is the key of the same name in the TOML file, so
//! the values stay text here: the server's configuration reads both, and says what is wrong with either.

use std::path::PathBuf;

use clap::Args;
use server::config::{CommandLine, Source};

/// Options that are settings, and the file that holds the others.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The directory to serve [default: the current one]
    #[arg(value_name = "DIR")]
    root: Option<String>,

    /// A TOML file with settings; the options here win over it. Relative paths in it start from its directory
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Where clients connect; may be repeated. :PORT is every address of this machine, localhost:PORT both
    /// that it has for itself; port 0 picks a free one [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR:PORT|unix:PATH", help_heading = "Listening")]
    listen: Vec<String>,

    /// Short for --listen=127.0.0.1:PORT
    #[arg(long, value_name = "PORT", help_heading = "Listening", conflicts_with = "listen")]
    port: Option<u16>,

    /// How many connections may wait to be accepted, as far as net.core.somaxconn allows [default: 4096]
    #[arg(long, value_name = "N", help_heading = "Listening")]
    backlog: Option<String>,

    /// Most connections at a time; beyond it new ones wait in the backlog [default: what the descriptor limit
    /// allows]
    #[arg(long, value_name = "N", help_heading = "Listening")]
    max_connections: Option<String>,

    /// How concurrency is organised; `sluice architectures` explains [default: symped]
    #[arg(long, value_name = "NAME", help_heading = "Concurrency")]
    architecture: Option<String>,

    /// What the architecture multiplies; sped and n-copy take 1 only [default: one for each CPU; with
    /// processes and threads 64]
    #[arg(long, value_name = "N", help_heading = "Concurrency")]
    workers: Option<String>,

    /// Complete copies of the architecture, each with workers and listeners of its own, pinned [default: 1;
    /// with n-copy one for each CPU]
    #[arg(long, value_name = "N", help_heading = "Concurrency")]
    copies: Option<String>,

    /// How copies come by listeners of their own: address, port, reuseport or cpu [default: reuseport]
    #[arg(long, value_name = "HOW", help_heading = "Concurrency")]
    copies_by: Option<String>,

    /// Run on these CPUs alone, such as 0-3,8 [default: not pinned]
    #[arg(long, value_name = "LIST", help_heading = "Concurrency")]
    cpus: Option<String>,

    /// How to learn what is ready: epoll (edge-triggered), epoll-level, poll or select [default: epoll]
    #[arg(long, value_name = "MECHANISM", help_heading = "Concurrency")]
    events: Option<String>,

    /// Which of several processes at a listener a connection wakes: all, or with epoll exclusive (one) or
    /// re-adding (one, by turns) [default: all]
    #[arg(long, value_name = "POLICY", help_heading = "Concurrency")]
    wake: Option<String>,

    /// Most connections accepted before the others are served again: a number, inf, or auto (as their delay
    /// asks for) [default: auto]
    #[arg(long, value_name = "N|inf|auto", help_heading = "Concurrency")]
    accept_limit: Option<String>,

    /// Whether sends wait for the client: non-blocking, or blocking, when one call sends a whole file
    /// [default: non-blocking]
    #[arg(long, value_name = "HOW", help_heading = "Concurrency")]
    send: Option<String>,

    /// List directories that have no index file [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          help_heading = "Files")]
    listing: Option<String>,

    /// Up to this size a file is sent from memory, such as "16 KiB" [default: 16 KiB]
    #[arg(long, value_name = "SIZE", help_heading = "Files")]
    small_file: Option<String>,

    /// What keeps head and file together in packets: auto, more (a flag of send), cork (a socket option) or
    /// none [default: auto]
    #[arg(long, value_name = "HOW", help_heading = "Files")]
    coalesce: Option<String>,

    /// Log requests to a file, to standard output (-), to the terminal if it is one (terminal), or not at all
    /// (off) [default: terminal]
    #[arg(long, value_name = "FILE|-|terminal|off", help_heading = "Logs and status")]
    access_log: Option<String>,

    /// The format of the access log: combined, json or short [default: combined; on a terminal short]
    #[arg(long, value_name = "FORMAT", help_heading = "Logs and status")]
    log_format: Option<String>,

    /// When the disk cannot keep up with the access log: drop lines and count them, or wait [default: drop]
    #[arg(long, value_name = "drop|wait", help_heading = "Logs and status")]
    log_when_full: Option<String>,

    /// Report errors to a file or to stderr [default: stderr]
    #[arg(long, value_name = "FILE|stderr", help_heading = "Logs and status")]
    error_log: Option<String>,

    /// The least severe errors reported: error, warn, info, debug or trace [default: info]
    #[arg(long, value_name = "LEVEL", help_heading = "Logs and status")]
    log_level: Option<String>,

    /// Serve counters to `sluice status` and to Prometheus at an address of their own [default: off]
    #[arg(long, value_name = "ADDR:PORT|unix:PATH|off", help_heading = "Logs and status")]
    status: Option<String>,

    /// Become this user when the addresses are bound [default: stay who you are]
    #[arg(long, value_name = "NAME", help_heading = "Process")]
    user: Option<String>,

    /// Become this group as well [default: the login group of --user]
    #[arg(long, value_name = "NAME", help_heading = "Process")]
    group: Option<String>,

    /// How long requests in progress may take after TERM, INT or QUIT, such as "500 ms" or "1 min" [default:
    /// 30 s]
    #[arg(long, value_name = "TIME", help_heading = "Process")]
    drain_timeout: Option<String>,
}

impl Options {
    /// Where the settings come from: the file, and what was typed.
    pub(crate) fn source(self) -> Source {
        // Without `..`, so that an option cannot be forgotten.
        let Self {
            root,
            config,
            listen,
            port,
            backlog,
            max_connections,
            architecture,
            workers,
            copies,
            copies_by,
            cpus,
            events,
            wake,
            accept_limit,
            send,
            listing,
            small_file,
            coalesce,
            access_log,
            log_format,
            log_when_full,
            error_log,
            log_level,
            status,
            user,
            group,
            drain_timeout,
        } = self;
        let mut command_line = CommandLine::default();
        let at_port = port.map(|port| format!("127.0.0.1:{port}"));
        command_line.set("listen", listen.into_iter().chain(at_port).collect());
        for (key, value) in [
            ("root", root),
            ("backlog", backlog),
            ("max_connections", max_connections),
            ("architecture", architecture),
            ("workers", workers),
            ("copies", copies),
            ("copies_by", copies_by),
            ("cpus", cpus),
            ("events", events),
            ("wake", wake),
            ("accept_limit", accept_limit),
            ("send", send),
            ("listing", listing),
            ("small_file", small_file),
            ("coalesce", coalesce),
            ("access_log", access_log),
            ("log_format", log_format),
            ("log_when_full", log_when_full),
            ("error_log", error_log),
            ("log_level", log_level),
            ("status", status),
            ("user", user),
            ("group", group),
            ("drain_timeout", drain_timeout),
        ] {
            command_line.set(key, value.into_iter().collect());
        }
        Source { file: config, command_line }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use clap::{CommandFactory as _, Parser};

    use super::*;

    #[derive(Parser)]
    struct Serve {
        #[command(flatten)]
        options: Options,
    }

    /// A value for each option, not its default.
    const VALUES: [(&str, &str); 24] = [
        ("listen", "127.0.0.1:8000"),
        ("backlog", "511"),
        ("max_connections", "100"),
        ("architecture", "sped"),
        ("workers", "1000"),
        ("copies", "2"),
        ("copies_by", "cpu"),
        ("cpus", "{cpu}"),
        ("events", "poll"),
        ("wake", "re-adding"),
        ("accept_limit", "7"),
        ("send", "blocking"),
        ("listing", "true"),
        ("small_file", "4 KiB"),
        ("coalesce", "none"),
        ("access_log", "-"),
        ("log_format", "json"),
        ("log_when_full", "wait"),
        ("error_log", "/errors"),
        ("log_level", "debug"),
        ("status", "127.0.0.1:8001"),
        ("user", "www-data"),
        ("group", "www-data"),
        ("drain_timeout", "1 min"),
    ];

    fn source(arguments: &[String]) -> Source {
        let command = ["sluice".to_owned()].into_iter().chain(arguments.iter().cloned());
        Serve::try_parse_from(command)
            .unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
            .options
            .source()
    }

    fn options() -> BTreeSet<String> {
        let command = Serve::command();
        let names = command.get_arguments().filter_map(|argument| argument.get_long());
        names
            .filter(|name| !["config", "help", "port"].contains(name))
            .map(|name| name.replace('-', "_"))
            .collect()
    }

    #[test]
    fn the_command_line_is_sound() {
        Serve::command().debug_assert();
    }

    #[test]
    fn every_option_is_a_key_of_the_file_and_every_key_at_its_top_an_option() {
        let tables = [
            "placement",
            "unix_sockets",
            "status_socket",
            "event",
            "amped",
            "tcp",
            "limits",
            "timeouts",
            "files",
            "types",
            "error_pages",
            "headers",
        ];
        let keys = server::config::keys().into_iter();
        let keys = keys.filter(|key| !key.contains('.') && !tables.contains(&key.as_str()) && key != "root");
        assert_eq!(options(), keys.collect());
        assert_eq!(options(), VALUES.iter().map(|(key, _)| (*key).to_owned()).collect());
    }

    #[test]
    fn an_option_does_what_its_key_does() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("sluice.toml");
        let root = dir.path().display();
        let status = fs::read_to_string("/proc/self/status").expect("a status");
        let (_, cpus) = status.split_once("Cpus_allowed_list:").expect("CPUs");
        let cpu = cpus.trim_start().split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        // These mean something only beside others.
        let beside = |key: &str| match key {
            "group" => vec![("user", "root")],
            "log_format" | "log_when_full" => vec![("access_log", "-")],
            _ => vec![],
        };
        let default = source(&[root.to_string()]).load().expect("settings");
        for (key, value) in VALUES {
            let value = value.replace("{cpu}", cpu);
            let mut typed = beside(key);
            typed.push((key, &value));
            let arguments = typed.iter().map(|(key, value)| format!("--{}={value}", key.replace('_', "-")));
            let by_option = source(&arguments.chain([root.to_string()]).collect::<Vec<_>>()).load();

            let lines: Vec<_> = typed.iter().map(|(key, value)| format!("{key} = '{value}'")).collect();
            fs::write(&file, format!("root = '{root}'\n{}", lines.join("\n"))).expect("a file");
            let by_key = source(&["--config".to_owned(), file.display().to_string()]).load();

            let by_option = by_option.unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(by_option, by_key.unwrap_or_else(|error| panic!("{error}")), "{key}");
            assert!(by_option != default, "{key} changed nothing");
        }
    }

    #[test]
    fn the_flag_needs_no_value_and_options_repeat() {
        let arguments =
            ["--listing", ".", "--listen", "127.0.0.1:0", "--listen", "[::1]:0"].map(str::to_owned);
        let settings = source(&arguments).load().expect("settings");
        assert!(settings.files.listing);
        assert_eq!(settings.listen.len(), 2);
    }
}
