//! What is wrong with a request to `sluicelab compare`, `run` or `tune` is found before anything is written:
//! exit code 2, one message about what was named, and nothing left behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

/// A directory with an experiment's file, files that are served, and sessions for them.
struct Place(tempfile::TempDir);

const EXPERIMENT: &str = "title = 'A test'
rounds = 1
warm_up = '100ms'
measured = '400ms'
timeout = '2 s'
slices = 2
servers = [
  'nginx',
]

[[points]]
workload = 'mine: root=www sessions=log'
load = '4 sessions'
";

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().expect("a directory"));
        fs::create_dir(place.path("www")).expect("a root");
        for (name, text) in [
            ("www/f.bin", "some bytes"),
            ("log", "/f.bin\n"),
            ("empty", "# no session\n"),
            ("wrong", "/f.bin\n/f.bin thinks=3\n"),
            ("e.toml", EXPERIMENT),
        ] {
            fs::write(place.path(name), text).expect("a file");
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluicelab"));
        command.current_dir(self.0.path()).args(words);
        if !words.contains(&"--check") {
            command.args(["--loopback", "--data=data"]);
        }
        command.output().expect("sluicelab runs")
    }

    /// Everything below it.
    fn all(&self) -> Vec<PathBuf> {
        let mut all = Vec::new();
        let mut left = vec![self.0.path().to_owned()];
        while let Some(directory) = left.pop() {
            for entry in fs::read_dir(directory).expect("a directory").flatten() {
                let path = entry.path();
                if path.is_dir() {
                    left.push(path.clone());
                }
                all.push(path);
            }
        }
        all.sort();
        all
    }

    /// Has a request refused, which has to say `expected` and nothing else.
    fn refuses(&self, words: &[&str], expected: &str) {
        let before = self.all();
        let output = self.run(words);
        let told = String::from_utf8_lossy(&output.stderr);
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {told}{said}");
        let flat = told.split_whitespace().collect::<Vec<_>>().join(" ").replace(" sluicelab: ", " ");
        assert!(flat.contains(expected), "{words:?}: {told}");
        // One message, and none of a program that was started for it.
        let messages = told.matches("error: ").count() + usize::from(told.starts_with("sluicelab: "));
        assert_eq!((messages, said.as_ref()), (1, ""), "{words:?}: {told}");
        let is_its = |line: &str| told.starts_with("error: ") || line.starts_with("sluicelab: ");
        assert!(told.lines().all(is_its), "{words:?}: {told}");
        assert!(!told.contains("ended with") && !told.contains("--fileset"), "{words:?}: {told}");
        assert_eq!(self.all(), before, "{words:?} leaves something behind");
    }
}

/// Workloads of `compare`, and what is said of each.
const WORKLOADS: &[(&str, &str)] = &[
    ("spec", "\"spec\" is no workload; allowed: one-packet, single, fixed, specweb99"),
    ("specweb9", "\"specweb9\" is no workload (is it specweb99?)"),
    ("", "\"\" is no workload"),
    ("single: call=3", "\"call\" is no setting of single (is it calls?); allowed: calls= (1 to 10000)"),
    ("single: calls=0", "calls=0 is not allowed; allowed: 1 to 10000"),
    ("single: calls=10001", "calls=10001 is not allowed"),
    ("single: calls=1 calls=2", "calls is set twice"),
    ("single: bytes=3", "\"bytes\" is no setting of single"),
    ("fixed: bytes=many", "bytes=many is not allowed; allowed: a size such as 10KiB"),
    ("fixed: bytes=0", "bytes=0 is not allowed"),
    ("fixed: bytes", "bytes= is not allowed"),
    ("specweb99: directories=0", "directories=0 is not allowed; allowed: 1 to 1000000"),
    ("specweb99: directories=-1", "directories=-1 is not allowed"),
    ("specweb99: sessions=0", "sessions=0 is not allowed; allowed: 1 to 10000000"),
    ("specweb99: dynamic=2", "dynamic=2 is not allowed; allowed: 0 to 1"),
    ("specweb99: dynamic=0.3", "specweb99 dynamic=0.3 needs an application"),
    ("specweb99: idle=1000000", "idle=1000000 is not allowed; allowed: 0 to 20000"),
    ("support: replaced=0.2", "\"replaced\" is no setting of support"),
    ("support: think=5", "think=5 is not allowed; allowed: a time such as 5s"),
    ("support-modified: replaced=20%", "replaced=20% is not allowed; allowed: 0 to 1"),
    ("constant", "workload \"constant\": constant needs bytes"),
    ("constant: bytes=33KiB", "bytes=33KiB is not allowed; allowed: 32KiB, 64KiB"),
    ("constant: bytes=32KiB", "constant bytes=32KiB needs an application"),
    ("dynamic-fixed: bytes=32KiB length=maybe", "length=maybe is not allowed; allowed: yes, no"),
    ("mine", "mine needs root"),
    ("mine: root=www", "mine needs sessions"),
    ("mine: root=nowhere sessions=log", "root=nowhere: there is no such directory"),
    ("mine: root=www sessions=nowhere", "sessions=nowhere: No such file or directory"),
    ("mine: root=www sessions=empty", "/empty: the file contains no session"),
    ("mine: root=www sessions=wrong", "/wrong: line 2: unknown thinks=; allowed: method"),
    ("mine: root=www sessions=log calls=3", "\"calls\" is no setting of mine"),
    ("paths: path=/f.bin", "the lab starts nginx to serve files, so set root=DIR (--root)"),
    ("paths: root=www", "paths needs path"),
    ("paths: root=www path=f.bin", "path=f.bin is not allowed; allowed: a path such as /f.bin"),
    ("paths: root=www path=\"/f.bin 0\"", "path=/f.bin 0 is not allowed; allowed: a path such as /f.bin"),
    ("paths: root=www path=/g.bin", "path=/g.bin: there is no file /"),
    ("paths: root=www path=/f.bin calls=3", "\"calls\" is no setting of paths"),
];

#[test]
fn a_wrong_workload_costs_nothing_and_says_one_thing() {
    let place = Place::new();
    for (workload, expected) in WORKLOADS {
        place.refuses(&["compare", "nginx", "sluice", "--workload", workload, "--out=out"], expected);
    }
}

/// Words of command lines, and what is said of each.
const COMMANDS: &[(&[&str], &str)] = &[
    (&["compare", "nginx", "apachee"], "is it apache?"),
    (&["compare", "nginx"], "2 values required by"),
    (&["compare", "nginx", "mine = ./server"], "as a command it lacks {port}"),
    (&["compare", "nginx", "mine = ./nowhere {port}"], "there is no program for ./nowhere {port}"),
    (&["compare", "nginx", "old = sluice@nowhere"], "there is no program for sluice@nowhere"),
    (&["compare", "nginx", "sluice: --workers=x"], "--workers"),
    (&["compare", "nginx", "nginx: sendfil=off"], "unknown directive \"sendfil\""),
    (&["compare", "nginx", "nginx: sendfile=sideways"], "invalid value \"sideways\" in \"sendfile\""),
    (&["compare", "nginx", "apache: Keepalives=Off"], "Keepalives"),
    (&["compare", "nginx", "sluice", "--load=5"], "allowed: loads such as '64 sessions'"),
    (&["compare", "nginx", "sluice", "--load=-5 requests/s"], "allowed: loads such as '64 sessions'"),
    (&["compare", "nginx", "sluice", "--rounds=0"], "0 is not in 1..=1000"),
    (&["compare", "nginx", "sluice", "--measured=2"], "a time needs a unit"),
    (&["compare", "nginx", "sluice", "--measured=1ms"], "measured must be at least 200ms"),
    (&["compare", "nginx", "sluice", "--margin=60"], "margin: 0.6 is not allowed; allowed: 0 to 0.5"),
    (&["compare", "nginx", "sluice", "--round=3"], "unexpected argument '--round'"),
    (&["compare", "nginx", "sluice", "--server-cpus=x"], "not a list of CPUs"),
    (&["compare", "nginx", "sluice", "--server-cpus=0", "--client-cpus=0"], "have a CPU in common"),
    (&["compare", "nginx", "sluice", "--out=e.toml"], "e.toml is no directory"),
    (&["compare", "nginx", "sluice", "--root=nowhere", "--path=/f.bin"], "there is no such directory"),
    (&["compare", "nginx", "sluice", "--root=www", "--path=/g.bin"], "there is no file"),
    (&["compare", "nginx", "sluice", "--root=www", "--path=f.bin"], "--path: "),
    (&["compare", "nginx", "sluice", "--root=www"], "--path <PATH>"),
    (&["compare", "nginx", "sluice", "--path=/f.bin"], "set root=DIR (--root)"),
    (&["compare", "http://127.0.0.1:1/", "http://127.0.0.1:2/"], "no server at http://127.0.0.1:1/"),
    (&["compare", "http://127.0.0.1:1/a", "http://127.0.0.1:2/b"], "URLs have the paths /a and /b"),
    (&["compare", "http://192.0.2.1/", "http://127.0.0.1:2/"], "is not on the loopback interface"),
    (&["compare", "http://127.0.0.1:1/ pid=x", "http://127.0.0.1:2/"], "pid=x"),
    (&["compare", "http://127.0.0.1:1/", "nginx"], "set root=DIR (--root)"),
    (&["compare", "https://127.0.0.1:1/", "nginx"], "is no server"),
    (&["tune", "http://127.0.0.1:1/"], "only servers that the lab starts are tuned"),
    (&["compare", "nginx", "sluice", "--rate=0"], "allowed: a number above 0, such as 500"),
    (&["compare", "nginx", "sluice", "--connections=0"], "allowed: a number from 1, such as 64"),
    (&["compare", "nginx", "sluice", "--rate=5", "--connections=6"], "cannot be used with"),
    (&["compare", "a = nginx", "a = sluice"], "two servers of"),
    (&["run", "nowhere.toml"], "nowhere.toml: No such file or directory"),
    (&["run", "--resume=nowhere"], "nowhere/experiment.toml: No such file or directory"),
    (&["tune", "nginx", "--workload=spec"], "\"spec\" is no workload"),
    (&["tune", "nginx", "--workload=mine: root=www sessions=nowhere"], "sessions=nowhere: No such file"),
    (&["tune", "nginx", "--budget=1s"], "--budget: 0.0 minutes are too few"),
    (&["tune", "sluice: --workers=4", "--vary=--workers=1,2"], "--workers: it is set as well (--workers=4)"),
    (&["tune", "nginx", "--vary=sendfile=on,off", "--vary=sendfile=on,off"], "sendfile: it is there twice"),
    (&["tune", "nginx", "--vary=sendfil=on,off", "--workload=one-packet"], "unknown directive \"sendfil\""),
    (&["tune", "sluice", "--vary=--workers=1,x", "--workload=one-packet"], "--workers"),
    (
        &["compare", "nginx", "mine = sh -c \"echo no such port >&2; exit 3\" {port}"],
        "does not start: no such port",
    ),
    (&["load", "http://127.0.0.1:1/", "--speed-up=60"], "is an option of `sluicelab sessions replay`"),
    (&["compare", "nginx", "sluice", "--session-count=3"], "is an option of `sluicelab load`"),
];

#[test]
fn a_wrong_command_costs_nothing_and_says_one_thing() {
    let place = Place::new();
    for (words, expected) in COMMANDS {
        place.refuses(words, expected);
    }
}

/// What of the experiment's file is replaced by what, and what is said then.
const FILES: &[(&str, &str, &str)] = &[
    ("title", "tilte", "line 1: \"tilte\" is no key of an experiment (is it title?)"),
    ("rounds", "round", "line 2: \"round\" is no key of an experiment (is it rounds?)"),
    ("slices", "slice", "line 6: \"slice\" is no key of an experiment (is it slices?)"),
    ("\nload =", "\nlaod =", "line 13: \"laod\" is no key of a point (is it load?)"),
    ("\nload =", "\nseed = 3\nload =", "line 13: seed is a key of the whole file, and is in a point"),
    ("rounds = 1", "rounds = 0", "line 2: rounds: 0 is not allowed; allowed: 1 to 1000"),
    ("rounds = 1", "rounds = 'x'", "line 2, column 10"),
    ("'100ms'", "'soon'", "line 3: \"soon\": not a time; allowed: a number and a unit"),
    ("'100ms'", "'20'", "line 3: \"20\": a time needs a unit; allowed: us, ms, s"),
    ("'400ms'", "'1ms'", "measured must be at least 200ms"),
    ("slices = 2", "slices = 0", "line 6: points[0]: slices: 0 is not allowed; allowed: 1 to 100"),
    ("'nginx'", "'ngnix'", "is it nginx?"),
    ("'nginx'", "'nginx', 'nginx'", "two servers of"),
    ("'nginx'", "'nginx: replicas=sideways'", "replicas"),
    ("[[points]]", "[[point]]", "line 11: \"point\" is no key of an experiment (is it points?)"),
    ("root=www", "root=nowhere", "root=nowhere: there is no such directory"),
    ("sessions=log", "sessions=nowhere", "sessions=nowhere: No such file"),
    ("'4 sessions'", "'4 people'", "\"4 people\": allowed: loads such as '64 sessions'"),
    ("\nload =", "\nshare = 90\nload =", "line 13: points[0]: share: 90 is not allowed; allowed: 3 to 50"),
    ("\nload =", "\nshare = 30\nload =", "has share, which needs control groups"),
    ("\nload =", "\nreceive = 'one'\nload =", "has receive, which needs control groups"),
    (
        "\nload =",
        "\nreceive = 'all'\nload =",
        "unknown variant `all`, expected one of `sender`, `receiver`, `one`",
    ),
    ("\nload =", "\ncpus = 0\nload =", "line 13: points[0]: cpus: 0 is not allowed; allowed: 1 to 1024"),
    (
        "\nload =",
        "\nrules = 'H13'\nload =",
        "line 13: points[0]: unknown variant `H13`, expected one of `H12`",
    ),
    ("\nload =", "\norder = 'abreast'\nload =", "line 13: points[0]: order: concurrent servers need a share"),
    ("\nload =", "\nmemory = '1MB'\nload =", "memory and disk must be set together"),
    ("\nload =", "\nclients = ['--on-timout=retry']\nload =", "unexpected argument '--on-timout' found"),
    ("\nload =", "\napplication = 'php'\nload =", "allowed: 'php-fpm'"),
    ("\nload =", "\napplication = 'c: nowhere.c'\nload =", "nowhere.c"),
    ("\nload =", "\ncompare = ['speed']\nload =", "\"speed\" is no quantity; allowed: CPU us/reply"),
    ("\nload =", "\ngenerator = 'ab'\nload =", "\"ab\" is no generator"),
    ("\nload =", "\ngenerator = 'wrk'\nload =", "wrk requests one file repeatedly"),
    ("[[points]]", "[judge]\nserver = 'x'\nrounds = 3\n[[points]]", "no server is called \"x\""),
    ("[[points]]", "[vary]\nn = [1]\n[[points]]", "line 12: vary.n: no server uses {n}"),
    ("'A test'", "'A test", "line 1, column"),
];

#[test]
fn a_wrong_file_costs_nothing_and_says_one_thing() {
    let place = Place::new();
    for (right, wrong, expected) in FILES {
        fs::write(place.path("e.toml"), EXPERIMENT.replace(right, wrong)).expect("it is written");
        place.refuses(&["run", "e.toml", "--out=out"], expected);
        // What takes the machine is not the file's fault.
        if !expected.contains("which needs control groups") {
            place.refuses(&["run", "--check", "e.toml"], expected);
        }
    }
    assert!(WORKLOADS.len() + COMMANDS.len() + FILES.len() >= 60);
}

#[test]
fn a_corrected_request_is_no_other_experiment() {
    let place = Place::new();
    fs::write(place.path("e.toml"), EXPERIMENT.replace("sessions=log", "sessions=nowhere")).expect("written");
    place.refuses(&["run", "e.toml", "--out=out"], "sessions=nowhere: No such file");
    fs::write(place.path("e.toml"), EXPERIMENT).expect("it is written");
    let begun = Instant::now();
    let output = place.run(&["run", "e.toml", "--out=out"]);
    let took = begun.elapsed().as_secs_f64();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    // That is what it takes if no trial has to be repeated, give or take a factor of two.
    let is_quick = took > TAKES / 2.0 && (took < TAKES * 2.0 || told.contains("not valid: "));
    assert!(is_quick, "{took} s: {told}");
    // Whoever runs it.
    assert!(told.contains("on the loopback interface: --loopback\n") && !told.contains("root"), "{told}");
    assert!(place.path("out/report.html").is_file());
    // Another one is, and leaves what is there as it is.
    let before = fs::read_to_string(place.path("out/experiment.toml")).expect("an experiment");
    fs::write(place.path("e.toml"), EXPERIMENT.replace("rounds = 1", "rounds = 2")).expect("it is written");
    place.refuses(&["run", "e.toml", "--out=out"], "out/experiment.toml is another experiment");
    assert_eq!(fs::read_to_string(place.path("out/experiment.toml")).expect("an experiment"), before);
}

/// How many seconds the experiment takes, as `run --check` says. Where it is run this is held against the
/// clock.
const TAKES: f64 = 4.0;

#[test]
fn a_check_says_how_long_it_takes() {
    let place = Place::new();
    let output = place.run(&["run", "--check", "e.toml"]);
    let said = String::from_utf8_lossy(&output.stdout);
    let expected =
        format!("e.toml: 1 points, 1 rounds, about {TAKES} seconds if no trial has to be repeated");
    assert!(output.status.success() && said.contains(&expected), "{said}");
    assert!(!Path::new("results").exists());
}
