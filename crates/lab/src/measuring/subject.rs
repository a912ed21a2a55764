//! A server as a trial runs it: all its processes, in a namespace or control group of the trial.

use std::fs;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use machine::process;
use results::status::{SCHEMA, Snapshot};

use crate::measuring::network::Network;
use crate::programs::child::output;
use crate::programs::interrupt;
use crate::programs::launcher::{Place, Server, TIMEOUT};
use crate::servers::spec::{Kind, Spec};
use crate::servers::{self, Constant, Endpoint, Ground, Running, Secured, Tls, certificate, script};

/// A running server. Dropping it ends it, first the processes in front, then those behind.
#[derive(Debug)]
pub(crate) struct Subject {
    /// The server's programs; clients talk to the first. Empty if the server was already running.
    running: Vec<Server>,
    /// The process of a server that was already running, if it is known.
    known: Option<u32>,
    /// The file in which its application logs its work.
    work: PathBuf,
    /// The program to ask for the status, and the address. `None` for several replicas, since each has its
    /// own status.
    status: Option<(PathBuf, String)>,
}

impl Subject {
    /// Starts the server, and waits until it listens everywhere. `wrapper` goes before each command.
    pub(crate) fn start(
        spec: &Spec,
        ground: &Ground<'_>,
        network: &Network,
        cpus: &[usize],
        wrapper: &[String],
    ) -> Result<Self> {
        let work = ground.directory.join(servers::WORK);
        if let Some(running) = spec.running() {
            is_there(&running)?;
            return Ok(Self { running: Vec::new(), known: running.pid, work, status: None });
        }
        let parts = servers::parts(spec, ground)?;
        script::write(spec, &parts, ground, cpus, wrapper)?;
        let mut running = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            let last = number + 1 == parts.len();
            let log =
                ground.directory.join(if last { STDERR.to_owned() } else { format!("{STDERR}-{number}") });
            let cpus = part.cpu.map_or(cpus, |cpu| &cpus[cpu..=cpu]);
            let place = Place { cpus, wrapper, log: &log };
            let server = Server::start(&part.words, place, |_| {
                let is_up = |endpoint: &Endpoint| match endpoint {
                    Endpoint::Tcp(address) => network.has_listener(*address),
                    Endpoint::Unix(path) => UnixStream::connect(path).is_ok(),
                };
                part.listens.iter().all(is_up).then(|| ground.listen[0])
            })?;
            running.insert(0, server);
        }
        let status = (spec.kind == Kind::Sluice && !servers::is_replicated(spec)).then(|| {
            let at = ground.sockets.join(servers::STATUS);
            (
                spec.program.clone().unwrap_or_else(|| ground.sluice.to_owned()),
                format!("unix:{}", at.display()),
            )
        });
        Ok(Self { running, known: None, work, status })
    }

    /// The process that was started last. If the server was already running, a process in its network.
    pub(crate) fn id(&self) -> u32 {
        self.running.first().map(Server::id).or(self.known).unwrap_or_else(std::process::id)
    }

    /// All its processes; none if they are unknown.
    pub(crate) fn processes(&self) -> Result<Vec<u32>> {
        if let Some(known) = self.known {
            return process::tree(known).context("cannot list processes");
        }
        let all = self.running.iter().map(Server::processes).collect::<Result<Vec<_>>>()?;
        Ok(all.concat())
    }

    /// All their threads.
    pub(crate) fn threads(&self) -> Result<Vec<u32>> {
        // A process may end in between.
        Ok(self.processes()?.into_iter().flat_map(|pid| process::threads(pid).unwrap_or_default()).collect())
    }

    /// Whether a program of the server has ended by itself.
    pub(crate) fn has_ended(&self) -> Result<bool> {
        if let Some(known) = self.known {
            return Ok(process::name(known).is_err());
        }
        let ended: Vec<bool> = self.running.iter().map(Server::has_ended).collect::<Result<_>>()?;
        Ok(ended.contains(&true))
    }

    /// The process that reports the status, if the server is sluice.
    pub(crate) fn status_process(&self) -> Result<Option<u32>> {
        if self.status.is_none() {
            return Ok(None);
        }
        let is_it = |pid: &u32| process::name(*pid).is_ok_and(|name| name == "sluice:status");
        // The process takes that name only once it runs.
        let found = interrupt::wait_for(TIMEOUT, || Ok(self.processes()?.into_iter().find(is_it)))?;
        found.context("its status process has not started").map(Some)
    }

    /// The number of requests that its application has computed so far, and the seconds that these took.
    /// `None` if the application does not log the microseconds of each request in [`servers::WORK`].
    pub(crate) fn work(&self) -> Option<(f64, f64)> {
        let noted = std::fs::read_to_string(&self.work).ok()?;
        let each = noted.lines().filter_map(|line| line.trim().parse::<f64>().ok());
        Some(each.fold((0.0, 0.0), |(count, seconds), us| (count + 1.0, seconds + us / 1e6)))
    }

    /// The server's counters, see docs/status.md; `None` for other servers than sluice.
    pub(crate) fn status(&self) -> Result<Option<Snapshot>> {
        let Some((sluice, at)) = &self.status else { return Ok(None) };
        let told = output(Command::new(sluice).args(["status", at, "--json"]), "")?;
        let status: Snapshot =
            serde_json::from_str(&told).context("cannot parse the output of sluice status")?;
        ensure!(status.schema == SCHEMA, "sluice status has schema {}, not {SCHEMA}", status.schema);
        Ok(Some(status))
    }
}

/// Checks that a server that should already be running does run.
pub(crate) fn is_there(running: &Running) -> Result<()> {
    let Running { address, pid, .. } = running;
    TcpStream::connect_timeout(address, TIMEOUT)
        .with_context(|| format!("no server at http://{address}/"))?;
    match pid {
        Some(pid) => process::name(*pid).map(drop).with_context(|| format!("no process has the id {pid}")),
        None => Ok(()),
    }
}

/// The file in the server's directory with its standard error.
const STDERR: &str = "stderr";

/// A file to serve, for servers that are only started.
const FILE: &str = "file";

/// The options with which a server only checks its configuration.
fn checking(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Nginx => &["-t", "-q"],
        Kind::Lighttpd => &["-tt"],
        Kind::Apache | Kind::ApacheWorker => &["-t"],
        Kind::Haproxy => &["-c"],
        Kind::Sluice | Kind::Caddy | Kind::Ceiling | Kind::Command | Kind::Running => &[],
    }
}

/// A server's objection to its settings, if it has one and can be asked. A server without an option to
/// check its configuration is started for a moment, without any request.
pub(crate) fn objection(
    spec: &Spec,
    tls: Option<Tls>,
    sluice: &Path,
    cpus: &[usize],
) -> Result<Option<String>> {
    let scratch = tempfile::tempdir()?;
    if spec.kind == Kind::Sluice {
        return refusal(spec, tls, sluice, 1, scratch.path());
    }
    let behind = servers::behind(spec)?;
    if let Some(behind) = &behind
        && let Some(why) = objection(behind, None, sluice, cpus)?
    {
        return Ok(Some(format!("the server behind it: {why}")));
    }
    // A server that only works in front of an application has none here.
    let wants_application = match spec.kind {
        Kind::Haproxy => behind.is_none() && !servers::has_one_file(spec),
        Kind::Command => {
            spec.settings.iter().any(|word| word.contains("{socket}") || word.contains("{besim}"))
        }
        _ => false,
    };
    if spec.kind == Kind::Running || wants_application {
        return Ok(None);
    }
    let network = Network::loopback(1)?;
    let root = scratch.path().join("root");
    fs::create_dir(&root)?;
    fs::write(root.join(FILE), "x")?;
    let constant = servers::has_one_file(spec).then_some(Constant { target: FILE, closes: false });
    let pem = tls.map(|tls| certificate::keep(scratch.path(), tls.key)).transpose()?;
    let secured = secured(tls, pem.as_deref());
    let plain = Ground::plain(&root, &network.addresses, scratch.path(), sluice);
    let ground = Ground { constant, secured, ..plain };
    let words = checking(spec.kind);
    if words.is_empty() {
        let why = |error: anyhow::Error| {
            let said = fs::read_to_string(scratch.path().join(STDERR)).unwrap_or_default();
            let last = said.lines().rfind(|line| !line.trim().is_empty()).map(str::to_owned);
            format!("it does not start: {}", last.unwrap_or_else(|| error.root_cause().to_string()))
        };
        return Ok(Subject::start(spec, &ground, &network, cpus, &[]).err().map(why));
    }
    let part = servers::parts(spec, &ground)?.pop().context("a server without a program")?;
    let output = Command::new(&part.words[0]).args(&part.words[1..]).args(words).output();
    let output = output.with_context(|| format!("cannot run {}", part.words[0]))?;
    let said = String::from_utf8_lossy(&output.stderr);
    // These files are gone when a user reads the message.
    let said = said.replace(&format!("{}/", scratch.path().display()), "");
    // nginx's last line only says that there was an error above.
    let lines = said.lines().map(str::trim).filter(|line| !line.is_empty() && !line.ends_with("test failed"));
    let why: Vec<&str> = lines.collect();
    Ok((!output.status.success()).then(|| why.join(" ")))
}

/// What a server needs for this TLS, with the certificate in that file.
fn secured(tls: Option<Tls>, pem: Option<&Path>) -> Option<Secured<'_>> {
    tls.zip(pem).map(|(tls, pem)| Secured { tls, pem })
}

/// The reason why sluice refuses these settings with this many addresses, if it does. An experiment's
/// networks do not exist yet, so the check uses other addresses. Other servers have no such check.
pub(crate) fn refusal(
    spec: &Spec,
    tls: Option<Tls>,
    sluice: &Path,
    addresses: usize,
    scratch: &Path,
) -> Result<Option<String>> {
    if spec.kind != Kind::Sluice {
        return Ok(None);
    }
    let listen: Vec<_> =
        (1..=addresses).map(|host| std::net::SocketAddr::from(([127, 0, 0, host as u8], 0))).collect();
    let pem = tls.map(|tls| certificate::keep(scratch, tls.key)).transpose()?;
    let secured = secured(tls, pem.as_deref());
    let ground = Ground { secured, ..Ground::plain(scratch, &listen, scratch, sluice) };
    let mut words = servers::parts(spec, &ground)?.remove(0).words;
    "check".clone_into(&mut words[1]);
    words.retain(|word| !word.starts_with("--status="));
    let output = Command::new(&words[0])
        .args(&words[1..])
        .output()
        .with_context(|| format!("cannot run {}", words[0]))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    match output.status.code() {
        Some(0) => Ok(None),
        Some(2) => Ok(Some(said.lines().next().unwrap_or("no reason given").to_owned())),
        _ => anyhow::bail!("{} ended with {}: {said}", words.join(" "), output.status),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::SocketAddr;

    use tempfile::TempDir;

    use super::*;
    use crate::programs::child::Process;
    use crate::programs::ports::free_port;
    use crate::servers::tls::Group;
    use crate::servers::{Application, Version};

    /// A server that was started for a test, on two addresses at once.
    struct Started {
        server: Result<Subject>,
        addresses: Vec<SocketAddr>,
        _directory: TempDir,
    }

    fn start(text: &str, application: Option<&str>) -> Option<Started> {
        start_with(text, application, None)
    }

    /// `None` if a program is not installed. Our own exists once it was built.
    fn start_with(text: &str, application: Option<&str>, tls: Option<Tls>) -> Option<Started> {
        let spec: Spec = text.parse().unwrap();
        let sluice = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("sluice");
        let program = servers::executable(&spec, &sluice)?;
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("site");
        fs::create_dir(&root).unwrap();
        fs::write(root.join("file.html"), "a file").unwrap();
        fs::write(root.join("page.php"), "<?php echo 'PHP says ', $_GET['n'] * 6;").unwrap();
        let networks = [Network::loopback(1).unwrap(), Network::loopback(1).unwrap()];
        let addresses: Vec<SocketAddr> =
            networks.iter().flat_map(|network| network.addresses.clone()).collect();
        let application = application.map(|text| text.parse::<Application>().unwrap());
        if let Some(application) = &application {
            application.prepare(directory.path()).unwrap();
        }
        let plain = Ground::plain(&root, &addresses, directory.path(), &sluice);
        let pem = tls.map(|tls| certificate::keep(directory.path(), tls.key).unwrap());
        let secured = secured(tls, pem.as_deref());
        let constant = Some(Constant { target: "/file.html", closes: false });
        let application = application.as_ref();
        let ground = Ground { cpus: 2, capacity: 200, application, constant, secured, ..plain };
        let server = program.is_file().then(|| Subject::start(&spec, &ground, &networks[0], &[0, 0], &[]))?;
        Some(Started { server, addresses, _directory: directory })
    }

    fn get(address: SocketAddr, target: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply
    }

    #[test]
    fn each_server_answers_with_a_file_at_all_its_addresses() {
        for text in [
            "sluice",
            "nginx",
            "nginx: aio=threads thread_pool=\"default threads=4\" worker_processes=3",
            "lighttpd",
            "lighttpd: server.max-worker=3 server.network-backend=writev",
            "apache",
            "apache-worker: ThreadsPerChild=4 ServerLimit=2",
            "haproxy",
            "haproxy: behind=apache tune.bufsize=32768 option=splice-auto",
            "haproxy: behind=sluice",
            "haproxy: behind=nothing",
            "caddy",
            "caddy: encode=gzip",
        ] {
            let Some(Started { server, addresses, _directory }) = start(text, None) else {
                continue;
            };
            let server = server.unwrap();
            for address in addresses {
                let reply = get(address, "/file.html");
                assert!(
                    reply.starts_with("HTTP/1.1 200 OK\r\n") && reply.ends_with("\r\na file"),
                    "{text}: {reply}"
                );
            }
            assert!(server.processes().unwrap().contains(&server.id()));
        }
    }

    /// The reply to curl, which trusts exactly the lab's certificate, or curl's reason for none.
    fn get_over_tls(address: SocketAddr, pem: &Path, options: &[&str]) -> Result<String, String> {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--include", "--http1.1", "--cacert"]).arg(pem);
        curl.args(["--connect-to", &format!("localhost:443:{address}")]).args(options);
        let output = curl.arg("https://localhost/file.html").output().expect("curl runs");
        let told = if output.status.success() { Ok(output.stdout) } else { Err(output.stderr) };
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        told.map(text).map_err(text)
    }

    /// The lab tells all servers but sluice what they may speak. sluice takes what clients offer.
    #[test]
    fn each_server_speaks_the_tls_that_is_set() {
        let new = Tls::of(None, None, None, None, None).unwrap();
        let old = Tls::of(Some(Version::V12), Some(Group::Secp256r1), None, None, None).unwrap();
        let of_new = ["--tlsv1.3", "--curves", "X25519", "--tls13-ciphers", "TLS_AES_256_GCM_SHA384"];
        let of_old = ["--tls-max", "1.2", "--curves", "P-256", "--ciphers", "ECDHE-ECDSA-AES256-GCM-SHA384"];
        for text in [
            "sluice",
            "nginx",
            "lighttpd",
            "apache",
            "apache-worker: ThreadsPerChild=4 ServerLimit=2",
            "caddy",
            "haproxy",
            "haproxy: behind=sluice",
            "haproxy: behind=nothing",
        ] {
            for (tls, right, wrong) in [(new, &of_new[..], &of_old[..]), (old, &of_old, &of_new)] {
                let Some(Started { server, addresses, _directory: directory }) =
                    start_with(text, None, Some(tls))
                else {
                    continue;
                };
                let _server = match server {
                    Err(error) if format!("{error:#}").contains("mod_openssl") => continue,
                    server => server.unwrap(),
                };
                let pem = certificate::file(directory.path(), tls.key);
                for address in addresses {
                    let reply = get_over_tls(address, &pem, right).unwrap();
                    assert!(
                        reply.starts_with("HTTP/1.1 200 ") && reply.ends_with("\r\na file"),
                        "{text}, {tls}: {reply}"
                    );
                    let refused = get_over_tls(address, &pem, wrong);
                    assert!(refused.is_err() || text == "sluice", "{text}, {tls}: {refused:?}");
                }
            }
        }
    }

    #[test]
    fn a_setting_that_a_server_does_not_know_is_told_in_its_own_words() {
        for (text, told) in [
            ("sluice: --colour=red", "--colour"),
            ("nginx: worker_proceses=2", "unknown directive \"worker_proceses\""),
            ("lighttpd: server.max-wrker=2", "unknown config-key: server.max-wrker"),
            ("apache: KeepAlife=On", "Invalid command 'KeepAlife'"),
            ("haproxy: tune.bufsiz=1", "tune.bufsiz"),
            ("haproxy: behind=ngnix", "is it nginx?"),
            ("haproxy: behind=haproxy", "a server other than haproxy is allowed"),
        ] {
            let Some(Started { server, _directory, .. }) = start(text, None) else { continue };
            let error = format!("{:#}", server.unwrap_err());
            assert!(error.contains(told), "{text}: {error}");
        }
    }

    #[test]
    fn servers_without_words_for_it_are_asked_as_well() {
        let none = Path::new("/nonexistent");
        for (text, told) in [
            ("haproxy: tune.bufsiz=1", Some("tune.bufsiz")),
            ("haproxy: behind=\"nginx: sendfil=on\"", Some("behind it: ")),
            ("haproxy", None),
            ("mine = false {port}", Some("it does not start: it ended with exit status: 1")),
            ("mine = python3 -m http.server {port} --bind {host}", None),
        ] {
            let spec: Spec = text.parse().unwrap();
            let both = [Some(spec.clone()), servers::behind(&spec).unwrap()];
            if both.iter().flatten().any(|spec| servers::executable(spec, none).is_none()) {
                continue;
            }
            let said = objection(&spec, None, none, &[0]).unwrap();
            let is_it =
                told.map_or(said.is_none(), |told| said.as_ref().is_some_and(|said| said.contains(told)));
            assert!(is_it, "{text}: {said:?}");
        }
    }

    #[test]
    fn haproxy_asks_php_itself_and_what_that_does_is_noted() {
        let php = "php-fpm: workers=2 access.log={directory}/application.log access.format=%{microseconds}d";
        let text = "haproxy: behind=application server=\"maxconn 2\" timeout=\"queue 1s\"";
        let Some(Started { server, addresses, _directory }) = start(text, Some(php)) else {
            return;
        };
        let server = match server {
            Err(error) if format!("{error:#}").contains("php-fpm is not installed") => return,
            server => server.unwrap(),
        };
        assert_eq!(server.work(), Some((0.0, 0.0)));
        assert!(get(addresses[0], "/page.php?n=7").contains("PHP says 42"));
        // The log has the request once the reply is sent.
        let noted =
            interrupt::wait_for(TIMEOUT, || Ok(server.work().filter(|(requests, _)| *requests > 0.0)));
        let (requests, seconds) = noted.unwrap().unwrap();
        assert!(
            (requests - 1.0).abs() < 1e-9 && seconds > 0.0 && seconds < 20.0,
            "{requests} in {seconds} s"
        );
        assert!(start(text, None).unwrap().server.is_err(), "there is nothing behind it");
    }

    #[test]
    fn an_application_is_there_before_its_server_and_answers_through_it() {
        let php = "php-fpm: workers=2 pm.max_requests=500";
        for text in ["nginx", "lighttpd", "apache", "apache-worker", "haproxy: behind=lighttpd"] {
            let Some(Started { server, addresses, _directory }) = start(text, Some(php)) else {
                continue;
            };
            let server = match server {
                Err(error) if format!("{error:#}").contains("php-fpm is not installed") => return,
                server => server.unwrap(),
            };
            for address in addresses {
                let reply = get(address, "/page.php?n=7");
                assert!(
                    reply.starts_with("HTTP/1.1 200 OK\r\n") && reply.contains("PHP says 42"),
                    "{text}: {reply}"
                );
                assert!(get(address, "/file.html").ends_with("\r\na file"), "{text}");
            }
            // A master and two workers.
            let named = |pid: &&u32| process::name(**pid).is_ok_and(|name| name.starts_with("php-fpm"));
            assert_eq!(server.processes().unwrap().iter().filter(named).count(), 3, "{text}");
        }
    }

    #[test]
    fn a_server_and_its_application_are_started_again_by_their_script() {
        for text in ["nginx", "haproxy: behind=application"] {
            let Some(Started { server, _directory: directory, .. }) = start(text, Some("php-fpm: workers=2"))
            else {
                continue;
            };
            match server {
                Err(error) if format!("{error:#}").contains("php-fpm is not installed") => return,
                server => drop(server.unwrap()),
            }
            let script = directory.path().join(script::name(&text.parse().unwrap()));
            let address = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
            let mut command = Command::new("sh");
            command
                .arg(script)
                .env("port", address.port().to_string())
                .env("run", directory.path().join("again"));
            let started = Process::start(&mut command).unwrap();
            let is_up = || Ok(TcpStream::connect(address).is_ok().then_some(()));
            interrupt::wait_for(TIMEOUT, is_up).unwrap().expect("it listens");
            assert!(get(address, "/page.php?n=7").contains("PHP says 42"), "{text}");
            let all = process::tree(started.id()).unwrap();
            assert!(all.len() > 4, "{text}: a shell, a server, PHP-FPM and two workers: {all:?}");
            started.stop(TIMEOUT).unwrap();
            // Dropping the server ends all its processes.
            assert!(all.iter().all(|pid| process::name(*pid).is_err()), "{text}");
        }
    }

    #[test]
    fn an_application_may_be_over_tcp() {
        let php = "php-fpm: workers=2";
        for text in [
            "nginx: application.socket=tcp",
            "lighttpd: application.socket=tcp",
            "apache: application.socket=tcp",
            "haproxy: behind=application application.socket=tcp",
        ] {
            let Some(Started { server, addresses, _directory }) = start(text, Some(php)) else {
                continue;
            };
            let server = match server {
                Err(error) if format!("{error:#}").contains("php-fpm is not installed") => return,
                server => server.unwrap(),
            };
            let reply = get(addresses[0], "/page.php?n=7");
            assert!(reply.contains("PHP says 42"), "{text}: {reply}");
            drop(server);
        }
    }

    #[test]
    fn each_replica_has_an_address_and_an_application() {
        let php = "php-fpm: workers=4";
        for text in ["nginx: replicas=direct", "lighttpd: replicas=indirect"] {
            let Some(Started { server, addresses, _directory }) = start(text, Some(php)) else {
                continue;
            };
            let server = match server {
                Err(error) if format!("{error:#}").contains("php-fpm is not installed") => return,
                server => server.unwrap(),
            };
            for address in addresses {
                assert!(get(address, "/page.php?n=7").contains("PHP says 42"), "{text}");
                assert!(get(address, "/file.html").ends_with("\r\na file"), "{text}");
            }
            // Each has a master, and its part of the workers.
            let named = |pid: &&u32| process::name(**pid).is_ok_and(|name| name.starts_with("php-fpm"));
            assert_eq!(server.processes().unwrap().iter().filter(named).count(), 2 * (1 + 2), "{text}");
            assert!(!server.has_ended().unwrap());
        }
    }

    #[test]
    fn a_program_in_c_is_compiled_and_has_its_environment() {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/applications");
        let application = format!("c: {}/constant.c workers=3 COLOUR=red SIZE=small", sources.display());
        for text in [
            "nginx: application.COLOUR=blue",
            "lighttpd: application.socket=tcp application.COLOUR=blue",
            "sluice: application.COLOUR=blue",
        ] {
            let Some(Started { server, addresses, _directory }) = start(text, Some(&application)) else {
                continue;
            };
            let server = server.unwrap();
            let reply = get(addresses[0], "/fcgi/constant?bytes=100000&length=1");
            let (head, body) = reply.split_once("\r\n\r\n").unwrap();
            assert!(head.contains("ontent-") && body.len() == 100_000, "{text}: {head}");
            assert!(get(addresses[0], "/fcgi/constant?bytes=many").contains(" 400 "), "{text}");
            // The first process, and three that answer, once it has started all of them.
            let told = interrupt::wait_for(TIMEOUT, || {
                let of = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/environ")).unwrap_or_default();
                let all: Vec<String> = server.processes()?.iter().map(of).collect();
                let told: Vec<String> = all.into_iter().filter(|all| all.contains("SIZE=small\0")).collect();
                Ok((told.len() == 4).then_some(told))
            });
            let told = told.unwrap().expect("four processes");
            assert!(told.iter().all(|all| all.contains("COLOUR=blue\0")), "{text}: {told:?}");
        }
    }
}
