//! The options of `sluice serve` and `sluice check`, generated from the table of configuration keys: each key
//! at the top of the TOML file is an option. The values stay text here. The server's configuration parses
//! options and file alike, and reports the mistakes in both.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, value_parser};
use server::config::{self, CommandLine, Key, Settings, Source};

/// Where the settings come from: the file and the command line.
pub(crate) struct Options(pub(crate) Source);

impl Args for Options {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new("config").long("config").short('c').value_name("FILE");
        let config = config.value_parser(value_parser!(PathBuf)).help(
            "A TOML file with settings; options override it. Relative paths in the file start from its \
             directory",
        );
        let port = Arg::new("port").long("port").value_name("PORT").value_parser(value_parser!(u16));
        let port = port.help_heading("Listening").conflicts_with("listen");
        let port = port.help("Short for --listen=127.0.0.1:PORT");
        let defaults = Settings::new(PathBuf::new());
        command.arg(config).arg(port).args(config::options().map(|key| option(key, &defaults)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Options {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut command_line = CommandLine::default();
        let mut file = matches.get_one("config").cloned();
        for key in config::options() {
            let values: Vec<String> = matches.get_many(key.name).unwrap_or_default().cloned().collect();
            match &values[..] {
                // A settings file in place of the directory is the same as --config.
                [one] if key.name == "root" && file.is_none() && is_settings(one) => file = Some(one.into()),
                _ => command_line.set(key.name, values),
            }
        }
        if let Some(port) = matches.get_one::<u16>("port") {
            command_line.set("listen", vec![format!("127.0.0.1:{port}")]);
        }
        Ok(Self(Source { file, command_line }))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Whether an argument names a settings file.
fn is_settings(argument: &str) -> bool {
    let path = Path::new(argument);
    path.extension().is_some_and(|extension| extension == "toml") && path.is_file()
}

fn option(key: &Key, defaults: &Settings) -> Arg {
    let arg = Arg::new(key.name)
        .value_name(key.value)
        .help(format!("{} [default: {}]", key.help, key.usual(defaults)))
        .action(if key.repeats { ArgAction::Append } else { ArgAction::Set })
        .value_parser(Text(key.names))
        // If the help text explains all names, a list is not needed.
        .hide_possible_values((key.names)().iter().all(|name| key.help.contains(name)));
    if key.heading.is_empty() {
        return arg;
    }
    let arg = arg.long(key.name.replace('_', "-")).help_heading(key.heading);
    if key.value == "BOOL" {
        // The option alone means true.
        let arg = arg.num_args(0..=1).require_equals(true).default_missing_value("true");
        return arg.hide_possible_values(true);
    }
    arg
}

/// Accepts any text, and lists the known names for shell completions.
#[derive(Clone)]
struct Text(fn() -> Vec<&'static str>);

impl TypedValueParser for Text {
    type Value = String;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue>>> {
        let names = (self.0)();
        (!names.is_empty()).then(|| Box::new(names.into_iter().map(PossibleValue::new)) as _)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::{CommandFactory as _, Parser};

    use super::*;

    #[derive(Parser)]
    struct Serve {
        #[command(flatten)]
        options: Options,
    }

    /// A value for each option, not its default.
    const VALUES: [(&str, &str); 37] = [
        ("listen", "127.0.0.1:8000"),
        ("listen_tls", "127.0.0.1:9443"),
        ("backlog", "511"),
        ("max_connections", "100"),
        ("certificate", "/site.pem"),
        ("key", "/site.key"),
        ("tls_self_signed", "true"),
        ("redirect_to_https", "true"),
        ("hsts", "365 d"),
        ("architecture", "sped"),
        ("workers", "1000"),
        ("copies", "2"),
        ("copies_by", "cpu"),
        ("cpus", "{cpu}"),
        ("events", "poll"),
        ("wake", "re-adding"),
        ("accept_limit", "7"),
        ("send", "blocking"),
        ("stages", "four"),
        ("readers", "3"),
        ("writers", "7"),
        ("controllers", "true"),
        ("listing", "true"),
        ("php", "127.0.0.1:9000"),
        ("proxy", "127.0.0.1:3000"),
        ("small_file", "4 KiB"),
        ("coalesce", "none"),
        ("access_log", "-"),
        ("log_format", "json"),
        ("log_when_full", "wait"),
        ("error_log", "/errors"),
        ("log_level", "debug"),
        ("status", "127.0.0.1:8001"),
        ("status_hosts", "status.example.org"),
        ("user", "www-data"),
        ("group", "www-data"),
        ("drain_timeout", "1 min"),
    ];

    fn source(arguments: &[String]) -> Source {
        let command = ["sluice".to_owned()].into_iter().chain(arguments.iter().cloned());
        Serve::try_parse_from(command).unwrap_or_else(|error| panic!("{arguments:?}: {error}")).options.0
    }

    #[test]
    fn the_command_line_is_sound() {
        Serve::command().debug_assert();
    }

    #[test]
    fn an_option_does_what_its_key_does() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("sluice.toml");
        let root = dir.path().display();
        let status = fs::read_to_string("/proc/self/status").expect("a status");
        let (_, cpus) = status.split_once("Cpus_allowed_list:").expect("CPUs");
        let cpu = cpus.trim_start().split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        // These have an effect only together with others.
        let beside = |key: &str| match key {
            "group" => vec![("user", "root")],
            "listen_tls" | "redirect_to_https" | "hsts" => vec![("tls_self_signed", "true")],
            "certificate" => vec![("key", "/site.key"), ("listen_tls", "127.0.0.1:8443")],
            "key" => vec![("certificate", "/site.pem"), ("listen_tls", "127.0.0.1:8443")],
            "stages" | "readers" | "writers" | "controllers" => vec![("architecture", "pipeline")],
            "log_format" | "log_when_full" => vec![("access_log", "-")],
            "status_hosts" => vec![("status", "127.0.0.1:8001")],
            _ => vec![],
        };
        let keys = config::options().map(|key| key.name).filter(|key| *key != "root");
        assert!(keys.eq(VALUES.map(|(key, _)| key)));
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
    fn a_file_of_settings_may_stand_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("sluice.toml");
        fs::write(&file, format!("root = '{}'\nbacklog = 77\n", dir.path().display())).expect("a file");
        let file = file.display().to_string();
        for arguments in [vec![file.clone()], vec!["-c".to_owned(), file]] {
            assert_eq!(source(&arguments).load().expect("settings").connections.backlog, 77, "{arguments:?}");
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
