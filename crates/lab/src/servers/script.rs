//! Writes a script that starts a server as a trial did, beside the trial's results. The script has the
//! configuration, the command lines, and the relevant part of the lab's environment. It needs no other file
//! of the results.
//! Values of one trial are variables there: the address, and the directories of files and sockets. A script
//! cannot recreate a network namespace or control groups; it names them.

use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{Endpoint, Ground, Part};
use crate::programs::child::list;
use crate::programs::shell::{line, quoted};
use crate::servers::spec::Spec;

/// The extensions of the files that are written for a server before it is started.
pub(crate) const CONFIGURATIONS: [&str; 3] = ["conf", "cfg", "toml"];

/// The prefixes of environment variables that affect a server. Other variables may be private.
const ENVIRONMENT: [&str; 10] =
    ["PATH", "LD_", "MALLOC_", "GLIBC_TUNABLES", "LANG", "LC_", "TZ", "PHP", "OPENSSL_", "SSL_"];

/// The file with certificate and key.
const PEM: &str = "$run/tls.pem";

/// The marker for the end of a file within the script.
const END: &str = "END_OF_FILE";

/// The name of a script.
pub(crate) fn name(spec: &Spec) -> String {
    format!("start-{}.sh", spec.plain_name())
}

/// Writes the script of a server with these programs, whose configuration already exists. The server runs
/// on these CPUs, and `wrapper` goes before each command.
pub(crate) fn write(
    spec: &Spec,
    parts: &[Part],
    ground: &Ground<'_>,
    cpus: &[usize],
    wrapper: &[String],
) -> Result<()> {
    let path = ground.directory.join(name(spec));
    let text = text(spec, parts, ground, cpus, wrapper)?;
    let written =
        fs::write(&path, text).and_then(|()| fs::set_permissions(&path, Permissions::from_mode(0o755)));
    written.with_context(|| format!("cannot write {}", path.display()))
}

fn text(
    spec: &Spec,
    parts: &[Part],
    ground: &Ground<'_>,
    cpus: &[usize],
    wrapper: &[String],
) -> Result<String> {
    let variables = &Variables::of(ground);
    let port = ground.listen[0].port();
    let mut text = format!(
        "#!/bin/sh\n\
         # Starts {} ({spec}) as a trial did, in the foreground. Ctrl-C ends it. These variables change it:\n\
         #   host=127.0.0.1, port={port}: where it listens\n\
         #   root=DIR: the files that it serves\n\
         #   run=DIR: for its configuration and its sockets; a new directory by default\n\
         # For example: port=8000 ./{}\n",
        spec.name,
        name(spec)
    );
    if !wrapper.is_empty() {
        let _ = writeln!(
            text,
            "#\n# In the trial these words stood before each command, and entered what the lab had made:\n\
             #   {}",
            line(wrapper)
        );
    }
    let _ = writeln!(text, "set -eu");
    for (name, value) in
        std::env::vars().filter(|(name, _)| ENVIRONMENT.iter().any(|of| name.starts_with(of)))
    {
        let _ = writeln!(text, "export {name}={}", quoted(&value));
    }
    let _ = writeln!(text, "host=${{host-127.0.0.1}} port=${{port-{port}}}");
    for (number, _) in ground.listen.iter().enumerate().skip(1) {
        let _ = writeln!(text, "host{0}=${{host{0}-127.0.0.{0}}}", number + 1);
    }
    let _ = writeln!(text, "root=${{root-{}}}", quoted(&ground.root.display().to_string()));
    let _ = writeln!(text, "run=${{run-$(mktemp -d)}}");
    // File names as typed are relative to this directory.
    let here = quoted(&std::env::current_dir()?.display().to_string());
    let _ = writeln!(text, "[ ! -d {here} ] || cd {here}\nulimit -n \"$(ulimit -Hn)\"");
    configure(&mut text, ground, variables)?;
    if let (Some(besim), Ok(program)) = (ground.besim, std::env::current_exe()) {
        let listen = format!("--listen={besim}");
        let words = [program.display().to_string(), "besim".to_owned(), listen];
        background(&mut text, &variables.line(&words), &[]);
    }
    if let (Some(application), Some(standard)) = (ground.application, ground.standard)
        && let Some(words) = application.beside(standard)
    {
        background(&mut text, &variables.line(&words), &[]);
    }
    if let Some(compiling) = ground.application.and_then(|application| application.compiling(ground.programs))
    {
        let _ = writeln!(text, "{}", variables.line(&compiling));
    }
    let Some((last, before)) = parts.split_last() else { return Ok(text) };
    let command = |part: &Part| {
        let cpus = part.cpu.map_or(cpus, |cpu| &cpus[cpu..=cpu]);
        format!("taskset -c {} {}", list(cpus), variables.line(&part.words))
    };
    for part in before {
        let sockets: Vec<String> = part.listens.iter().map(|at| variables.word(&at.to_string())).collect();
        let is_socket = |at: &Endpoint| matches!(at, Endpoint::Unix(_));
        let sockets = if part.listens.iter().all(is_socket) { sockets } else { Vec::new() };
        background(&mut text, &command(part), &sockets);
    }
    let scheme = ground.scheme();
    let _ = writeln!(text, "echo \"{scheme}://$host:$port/ serves $root; its files are in $run\" >&2");
    let is_alone = !text.contains(BACKGROUND);
    let _ = if is_alone {
        writeln!(text, "exec {}", command(last))
    } else {
        // The shell stays until the end, to stop the other programs.
        writeln!(text, "{} &\nothers=\"$others $!\"\nwait $!", command(last))
    };
    Ok(text)
}

/// Writes the commands that make directories and configuration files.
fn configure(text: &mut String, ground: &Ground<'_>, variables: &Variables) -> Result<()> {
    let mut directories = vec!["$run/sockets".to_owned()];
    let mut files = String::new();
    for path in configurations(ground.directory)? {
        let relative = path.strip_prefix(ground.directory)?.display().to_string();
        if let Some((directory, _)) = relative.rsplit_once('/') {
            directories.extend([format!("$run/{directory}"), format!("$run/sockets/{directory}")]);
        }
        let written = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let written = variables.filled(written.trim_end_matches('\n'), "\\$`");
        let _ = writeln!(files, "cat >\"$run/{relative}\" <<{END}\n{written}\n{END}");
    }
    if ground.secured.is_some() {
        // Reports have this script, and a report should have no private key. So the script makes its own.
        let _ = writeln!(
            files,
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 \\\n  \
             -subj /CN=sluicelab -addext subjectAltName=DNS:localhost \\\n  \
             -keyout \"{PEM}\" -out \"{PEM}\" 2>/dev/null"
        );
    }
    let directories: Vec<String> = directories.iter().map(|directory| format!("\"{directory}\"")).collect();
    let _ = write!(text, "mkdir -p {}\n{files}", directories.join(" "));
    Ok(())
}

/// The configuration files below a directory, in order.
fn configurations(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            all.extend(configurations(&path)?);
        } else if CONFIGURATIONS.iter().any(|end| path.extension() == Some(end.as_ref())) {
            all.push(path);
        }
    }
    all.sort();
    Ok(all)
}

/// A line that every script with more than one program has.
const BACKGROUND: &str = "trap 'kill $others 2>/dev/null || true; wait' EXIT\n";

/// Writes the commands that start a program which the next ones need, and wait until it listens.
fn background(text: &mut String, command: &str, sockets: &[String]) {
    if !text.contains(BACKGROUND) {
        let _ = write!(text, "others=\n{BACKGROUND}trap 'exit 130' INT TERM HUP\n");
    }
    let _ = writeln!(text, "{command} &\nothers=\"$others $!\"");
    for socket in sockets {
        let _ = writeln!(text, "until [ -S {socket} ]; do sleep 0.1; done");
    }
    if sockets.is_empty() {
        let _ = writeln!(text, "sleep 1");
    }
}

/// The values of a trial for which a script has variables, the longest first.
struct Variables(Vec<(String, String)>);

impl Variables {
    fn of(ground: &Ground<'_>) -> Self {
        let paths = [
            (ground.directory, "$run"),
            (ground.sockets, "$run/sockets"),
            (ground.programs, "$run"),
            (ground.root, "$root"),
        ];
        let pem = ground.secured.map(|secured| (secured.pem, PEM));
        let paths = paths.iter().chain(&pem);
        let mut all: Vec<(String, String)> =
            paths.map(|(path, name)| (path.display().to_string(), (*name).to_owned())).collect();
        let mut host = |address: IpAddr, name: String| all.push((address.to_string(), name));
        for (number, address) in ground.listen.iter().enumerate() {
            let name = if number == 0 { "$host".to_owned() } else { format!("$host{}", number + 1) };
            host(address.ip(), name);
        }
        for beside in [ground.besim, ground.standard].into_iter().flatten() {
            host(beside.ip(), "$host".to_owned());
        }
        all.push((ground.listen[0].port().to_string(), "$port".to_owned()));
        // Of equal values the first counts: sockets may be in the same directory as all else.
        all.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
        Self(all)
    }

    /// A text with variables instead of values, and a backslash before each of `special`.
    fn filled(&self, text: &str, special: &str) -> String {
        let mut filled = String::new();
        let mut at = 0;
        while let Some(letter) = text[at..].chars().next() {
            if let Some((value, name)) = self.0.iter().find(|(value, _)| stands(value, text, at)) {
                filled += &braced(name);
                at += value.len();
                continue;
            }
            if special.contains(letter) {
                filled.push('\\');
            }
            filled.push(letter);
            at += letter.len_utf8();
        }
        filled
    }

    /// A word for a shell.
    fn word(&self, word: &str) -> String {
        let filled = self.filled(word, "\\$`\"");
        // A word without a variable stays as it was typed.
        if self.filled(word, "") == word { quoted(word) } else { format!("\"{filled}\"") }
    }

    fn line(&self, words: &[String]) -> String {
        words.iter().map(|word| self.word(word)).collect::<Vec<_>>().join(" ")
    }
}

/// Whether a value at a place of a text is complete: not a part of a longer number or name, and if it is a
/// number, a port and nothing else.
fn stands(value: &str, text: &str, at: usize) -> bool {
    let (before, rest) = text.split_at(at);
    let Some(after) = rest.strip_prefix(value) else { return false };
    let goes_on = |letter: char| letter.is_alphanumeric() || "-_.".contains(letter);
    if after.chars().next().is_some_and(goes_on) {
        return false;
    }
    if value.starts_with('/') {
        return true;
    }
    let line = before.rsplit('\n').next().unwrap_or_default();
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
    let is_port = line.ends_with(':') || line.to_lowercase().contains("port") || text == value;
    !before.chars().next_back().is_some_and(goes_on) && (!is_number || is_port)
}

/// `$run/sockets` as `${run}/sockets`, because a letter may follow.
fn braced(name: &str) -> String {
    let (variable, rest) =
        name.split_once('/').map_or((name, None), |(variable, rest)| (variable, Some(rest)));
    let rest = rest.map_or_else(String::new, |rest| format!("/{rest}"));
    format!("${{{}}}{rest}", variable.trim_start_matches('$'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::{Secured, Tls};

    #[test]
    fn values_of_a_trial_are_variables() {
        let listen = ["10.77.0.1:8080".parse().unwrap(), "10.77.1.1:8080".parse().unwrap()];
        let plain = Ground::plain(Path::new("/srv/www"), &listen, Path::new("/t/0"), Path::new("/bin/true"));
        let ground = Ground { sockets: Path::new("/tmp/lab/0"), programs: Path::new("/tmp/lab"), ..plain };
        let variables = Variables::of(&ground);
        for (word, expected) in [
            ("--listen=10.77.0.1:8080", "\"--listen=${host}:${port}\""),
            ("10.77.1.1", "\"${host2}\""),
            ("10.77.0.11:80801", "10.77.0.11:80801"),
            ("--status=unix:/tmp/lab/0/status", "\"--status=unix:${run}/sockets/status\""),
            ("/tmp/lab/app.program", "\"${run}/app.program\""),
            ("/srv/www/a", "\"${root}/a\""),
            ("/srv/www2", "/srv/www2"),
            ("a $b", "'a $b'"),
            ("/t/0/$b \"c\"", "\"${run}/\\$b \\\"c\\\"\""),
        ] {
            assert_eq!(variables.word(word), expected, "{word}");
        }
        let tls = Tls::of(None, None, None, None, None).unwrap();
        let secured = Some(Secured { tls, pem: Path::new("/results/tls.pem") });
        let variables_of_tls = Variables::of(&Ground { secured, ..ground });
        assert_eq!(variables_of_tls.word("--key=/results/tls.pem"), "\"--key=${run}/tls.pem\"");
        let configuration = "server.port = 8080\nbacklog = 8080\nroot /srv/www; fastcgi_param A $a;";
        let filled = variables.filled(configuration, "\\$`");
        assert_eq!(filled, "server.port = ${port}\nbacklog = 8080\nroot ${root}; fastcgi_param A \\$a;");
    }
}
