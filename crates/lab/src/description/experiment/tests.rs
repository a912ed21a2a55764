use super::*;
use crate::description::setting::{Receive, Rules};

const SMALL: &str = "
    title = 'Two'
    servers = ['nginx', 'four = sluice: --workers=4']
    rounds = 6
    timeout = '1.1 s'
    [[points]]
    workload = ['one-packet', 'specweb99: directories=3']
    load = ['64 sessions', '2x']
    [[points]]
    name = 'disk'
    workload = 'specweb99'
    load = '500 requests/s'
    memory = '100 MB'
    disk = '50 MB/s'
    warm_up = '3s'
";

fn error(text: &str) -> String {
    Experiment::parse(text).unwrap_err()
}

/// One point with these servers and keys.
fn with_keys(servers: &str, keys: &str) -> String {
    format!("title = 't'\nservers = [{servers}]\n[[points]]\nworkload = 'single'\nload = '1x'\n{keys}")
}

#[test]
fn tls_is_set_for_all_points_or_for_one() {
    let text = "title = 't'\nservers = ['nginx', 'sluice']\ntls = true\ntls_version = '1.2'\n\
                [[points]]\nworkload = 'single'\nload = '64 sessions'\n\
                [[points]]\nname = 'full'\nworkload = 'single'\nload = '64 sessions'\n\
                tls_version = '1.3'\ntls_group = 'SECP256R1'\ntls_resumption = false\n\
                [[points]]\nname = 'plain'\nworkload = 'single'\nload = '64 sessions'\ntls = false\n";
    let points = Experiment::parse(text).unwrap().points;
    let told: Vec<Option<String>> =
        points.iter().map(|point| point.setting.tls.map(|tls| tls.to_string())).collect();
    let old = "TLS 1.2, x25519, TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, sessions are resumed";
    let new = "TLS 1.3, secp256r1, TLS_AES_256_GCM_SHA384, all handshakes are full";
    assert_eq!(told, [Some(old.to_owned()), Some(new.to_owned()), None]);
    let written = serde_json::to_value(&points[1].setting).unwrap();
    assert_eq!(written["tls"]["cipher"], "TLS_AES_256_GCM_SHA384", "a reader of the journal knows it");
    // Journals from before there was TLS have the same settings.
    assert!(serde_json::to_value(&points[2].setting).unwrap().get("tls").is_none());
}

#[test]
fn tls_that_cannot_be_is_refused_with_what_is_allowed() {
    for (servers, keys, told) in [
        ("'nginx'", "tls = 'yes'", "expected a boolean"),
        ("'nginx'", "tls = true\ntls_version = '1.1'", "\"1.1\" is not allowed; allowed: 1.2, 1.3"),
        (
            "'nginx'",
            "tls = true\ntls_group = 'x448'",
            "line 7: points[0]: \"x448\" is not allowed; allowed: x255",
        ),
        (
            "'nginx'",
            "tls = true\ntls_cipher = 'AES'",
            "\"AES\" is not allowed; allowed: TLS_AES_256_GCM_SHA384",
        ),
        (
            "'nginx'",
            "tls = true\ntls_version = '1.2'\ntls_cipher = 'TLS_AES_128_GCM_SHA256'",
            "line 8: points[0]: tls_cipher: TLS_AES_128_GCM_SHA256 is not in TLS 1.2; allowed: TLS_ECDHE_",
        ),
        ("'nginx'", "tls_group = 'x25519'", "line 6: points[0]: tls_group: x25519 is set, and tls is not"),
        ("'nginx'", "tls_resumption = false", "tls_resumption: false is set, and tls is not; allowed: with"),
        ("'nginx'", "tls_key = 'rsa'", "tls_key: rsa is set, and tls is not; allowed: with tls = true"),
        (
            "'nginx'",
            "tls = true\ntls_version = '1.2'\ntls_key = 'rsa'",
            "tls_key: rsa is not allowed with TLS 1.2, whose cipher suites here are for ECDSA; allowed:",
        ),
        ("'ceiling'", "tls = true", "tls: ceiling: it cannot speak TLS; allowed with tls: sluice, nginx, "),
        ("'mine = ./a {port}'", "tls = true", "tls: mine: it cannot speak TLS; allowed"),
        ("'mine = ./a {port} {certificate}'", "", "servers: mine names {certificate}, and there is none"),
        ("'http://127.0.0.1:1/'", "tls = true", "is already running, and the lab cannot change it"),
        (
            "'nginx'",
            "tls = true\nclients = ['--tls-group=x25519']",
            "clients: \"--tls-group=x25519\" is not allowed; allowed: the keys tls, tls_version",
        ),
        ("'nginx'", "compare = ['full handshakes/s']", "compare: full handshakes/s is of TLS handshakes;"),
        ("'nginx'", "tls_verson = '1.3'", "\"tls_verson\" is no key of a point (is it tls_version?)"),
    ] {
        let workload =
            if servers.contains("http:") { "workload = 'paths: path=/'" } else { "workload = 'single'" };
        let text = with_keys(servers, keys).replace("workload = 'single'", workload);
        let error = error(&text);
        assert!(error.contains(told), "{keys}: {error}");
    }
    let by_wrk = with_keys("'nginx'", "tls = true\ngenerator = 'wrk'").replace("1x", "64 sessions");
    assert!(error(&by_wrk).contains("generator: wrk does not support tls; allowed with tls: the generator"));
    let idle = with_keys("'nginx'", "tls = true").replace("'single'", "'single: idle=3'");
    assert!(error(&idle).contains("workload: idle=3, and idle clients make no handshake"));
    let mine = with_keys("'mine = ./a {port} {certificate}'", "tls = true\ncompare = ['handshake p99 ms']");
    assert!(Experiment::parse(&mine).is_ok());
    let alone = with_keys("'haproxy: behind=nothing'", "tls = true");
    assert!(Experiment::parse(&alone).is_ok());
    let many = alone.replace("'single'", "'specweb99'");
    assert!(error(&many).contains("answers every request with one file, and the workload is specweb99"));
}

#[test]
fn points_are_each_workload_under_each_load() {
    let experiment = Experiment::parse(SMALL).unwrap();
    let names: Vec<&str> = experiment.points.iter().map(|point| point.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "one-packet, 64 sessions",
            "one-packet, 2x",
            "specweb99, 64 sessions",
            "specweb99, 2x",
            "specweb99, 500 requests/s, disk"
        ]
    );
    let disk = &experiment.points[4].setting;
    assert_eq!((disk.memory, disk.disk, disk.cold), (Some(100_000_000), Some(50_000_000), true));
    assert_eq!(disk.lengths.timeout, Duration::from_millis(1_100));
    assert_eq!((disk.lengths.warm_up, experiment.points[0].setting.lengths.warm_up).0.as_secs(), 3);
    assert_eq!(experiment.points[0].compare.len(), 2);
}

const GRID: &str = "\
title = 'Grid'
servers = [
  'w{workers} = sluice: --workers={workers}',
  'nginx',
]
[vary]
workers = [75, 100]
connections = ['10', '20']
[[points]]
workload = 'single'
load = '2x'
[[points]]
id = 'few'
workload = 'single'
load = '4 sessions'
servers = ['c{connections} = sluice: --max-connections={connections}', 'w{workers} = nginx']
[judge]
server = 'w75'
rounds = 6
[[findings]]
paper = 'p'
says = 's'
expect = 'c20 > w75 in replies/s at few'
";

#[test]
fn what_is_varied_makes_servers_of_lines() {
    let experiment = Experiment::parse(GRID).unwrap();
    let names = |point: &PointSpec| {
        point.servers.iter().map(|server| server.name.clone()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(&experiment.points[0]), "w75 w100 nginx");
    assert_eq!(names(&experiment.points[1]), "c10 c20 w75 w100");
    assert_eq!(experiment.points[0].servers[1].settings, ["--workers=100"]);
}

#[test]
fn errors_name_the_line_of_what_they_are_about() {
    let wrong = [
        ("={workers}'", "={worker}'", "line 3: servers[0]: {worker} is not in [vary] (is it workers?)"),
        ("'nginx'", "'ngnix'", "line 4: servers[1]: \"ngnix\": \"ngnix\" is no server (is it nginx?)"),
        ("['10'", "[[1]", "line 8: vary.connections: allowed: numbers and words"),
        ("['10'", "['10', '10'", "line 8: vary.connections: 10 is listed twice"),
        ("\n[[points]]", "\nidle = [1]\n[[points]]", "line 9: vary.idle: no server uses {idle}"),
        (
            "'4 sessions'",
            "['2x', '4 sessions']",
            "line 13: points[1]: id: an id names one point, and here are 2",
        ),
        ("'w{workers} = nginx'", "'c{connections} = nginx'", "line 16: points[1]: \"single, 4 sessions\": s"),
        ("single'\nload = '2x'", "specweb99'\nload = '1 people'", "line 11"),
        ("'single'\nload = '2x'", "'constant: bytes=32KiB'\nload = '2x'", "line 10: points[0]: "),
        ("'w75'\nrounds", "'w7'\nrounds", "line 18: judge.server: no server is called \"w7\""),
        ("at few", "at fewer", "line 23: findings[0]: expect: no point is called \"fewer\""),
        ("rounds = 6", "rounds = 0", "line 19: judge.rounds: 0 is not allowed"),
    ];
    for (right, wrong, expected) in wrong {
        assert!(GRID.contains(right), "{right}");
        let said = error(&GRID.replacen(right, wrong, 1));
        assert!(said.contains(expected), "{said}");
    }
    let said = error(&GRID.replacen("[[points]]\n", "[[points]]\nid = 'few'\n", 1));
    assert!(said.contains("id: another point has the id \"few\""), "{said}");
    // A command has no file in which a user could look up the line.
    let said = Experiment::of_options(&GRID.replace("'w75'\n", "'w7'\n"));
    assert!(said.unwrap_err().starts_with("server: no server is called \"w7\""));
}

#[test]
fn points_have_cpus_receivers_and_rules() {
    let text = |keys: &str| {
        format!(
            "title = 't'\nservers = ['sluice']\n[[points]]\nworkload = 'single'\nload = '4 sessions'\n\
             {keys}"
        )
    };
    let setting = |keys: &str| Experiment::parse(&text(keys)).unwrap().points.remove(0).setting;
    let set = setting("cpus = 2\nreceive = 'one'\nrules = 'P07'");
    assert_eq!((set.cpus, set.receive, set.rules), (Some(2), Receive::One, Rules::P07));
    assert_eq!(setting("rules = 'none'").rules, Rules::None);
    // Defaults are not written into results, so that older results read the same.
    let usual = serde_json::to_value(setting("")).unwrap();
    assert!(["cpus", "rules"].iter().all(|key| usual.get(key).is_none()));
    let receive = |load: &str, keys: &str| {
        Experiment::parse(&text(keys).replace("4 sessions", load)).unwrap().points[0].setting.receive
    };
    assert_eq!(receive("4 sessions", ""), Receive::Sender);
    assert_eq!(receive("500 requests/s", ""), Receive::Sender);
    assert_eq!(receive("500 requests/s", "receive = 'receiver'"), Receive::Receiver);
    // Otherwise clients would pay for the packets that the server drops.
    assert_eq!(receive("2x", ""), Receive::Receiver);
    assert_eq!(receive("4 sessions", "both_cpus = true"), Receive::Receiver);
    // It was once the only choice, so older results read the same.
    let once = serde_json::to_value(setting("receive = 'receiver'")).unwrap();
    assert!(once.get("receive").is_none());
    for (keys, expected) in [
        ("receive = 'sender'\nboth_cpus = true", "receive: with both_cpus each CPU receives for its own"),
        ("slow_cpu = '9 of 10'", "\"9 of 10\": allowed: a part of a period, such as '300 us of 400 us'"),
        ("slow_cpu = '3 us of 90 us'\nshare = 10", "slow_cpu: '3 us of 90 us' is for one CPU of one server;"),
        ("slow_cpu = '3 us of 90 us'\ncpus = 2", "allowed: without cpus above 1"),
        ("cpus = 2\nshare = 10", "cpus: 2, and a share is a part of one CPU"),
        ("rules = 'none'\ngenerator = 'wrk'", "generator: wrk does not support rules"),
    ] {
        let said = error(&text(keys));
        assert!(said.contains(expected), "{said}");
    }
    let running = text("receive = 'spread'").replace("'sluice'", "'http://127.0.0.1:80/'");
    assert!(error(&running).contains("is already running, and the lab cannot change it"));
}

#[test]
fn what_a_server_or_confirmatory_rounds_cannot_tell_is_refused() {
    let text = |server: &str, compare: &str| {
        format!(
            "title = 't'\nservers = ['sluice', '{server}']\n[[points]]\nworkload = 'single'\n\
             load = '2x'\ncompare = ['{compare}']"
        )
    };
    let amped = "amped = sluice: --architecture=amped";
    assert!(Experiment::parse(&text(amped, "accepts/phase")).is_ok());
    assert!(Experiment::parse(&text("nginx", "switches/s")).is_ok());
    let said = error(&text("nginx", "accepts/phase"));
    assert!(said.contains("accepts/phase comes from sluice's status endpoint, and nginx has none"), "{said}");
    let said = error(&text("sluice: replicas=direct", "event waits/s"));
    assert!(said.contains("sluice replicas direct has none"), "{said}");
    let confirmation = "\n[judge]\nserver = 'sluice'\nrounds = 6";
    let said = error(&(text("nginx", "switches/s") + confirmation));
    assert!(said.contains("in switches/s neither more nor less is better"), "{said}");
    let by_wrk = text("nginx", "Mbit/s").replace("2x", "64 sessions") + "\ngenerator = 'wrk'";
    assert!(error(&by_wrk).contains("wrk does not report Mbit/s"));
    assert!(Experiment::parse(&by_wrk.replace("Mbit/s", "timeouts %")).is_ok());
}

#[test]
fn a_comparison_takes_rounds() {
    let said =
        |rounds: &str| Experiment::parse(&SMALL.replace("rounds = 6", rounds)).unwrap().too_few_rounds();
    assert!(said("rounds = 5").unwrap().starts_with("rounds = 5 is too few for any"));
    assert_eq!((said("rounds = 6"), said("")), (None, None));
}

#[test]
fn an_application_is_for_servers_that_hand_requests_on() {
    let php = |server| {
        format!(
            "title = 'PHP'\nservers = ['{server}']\napplication = 'php-fpm: workers=4'\n\
             [[points]]\nworkload = 'mine: root=. sessions=log'\nload = '4 sessions'"
        )
    };
    for server in ["sluice", "nginx", "haproxy: behind=sluice", "mine = ./s {port} {socket}"] {
        let experiment = Experiment::parse(&php(server)).unwrap();
        let application = experiment.points[0].setting.application.clone();
        assert_eq!(application, Some("php-fpm: workers=4".parse().unwrap()));
    }
    let said = error(&php("mine = ./s {port}"));
    assert!(said.contains("cannot pass requests to an application over FastCGI; allowed: "), "{said}");
    let http = |server| php(server).replace("php-fpm: workers=4", "standard: time=50ms workers=4");
    for server in ["sluice", "nginx", "caddy", "haproxy: behind=application", "mine = ./s {port} {socket}"] {
        assert!(Experiment::parse(&http(server)).is_ok(), "{server}");
    }
    for server in ["lighttpd", "haproxy: behind=nginx", "mine = ./s {port}"] {
        assert!(error(&http(server)).contains("over HTTP; allowed: sluice, nginx, caddy"), "{server}");
    }
    assert!(error(&php("nginx").replace("php-fpm", "php")).contains("allowed: 'php-fpm'"));
}

#[test]
fn a_finding_is_about_what_the_experiment_has() {
    let finding = |expect: &str| {
        let text = format!("{SMALL}[[findings]]\npaper = 'p'\nsays = 's'\nexpect = '{expect}'\n");
        Experiment::parse(&text)
    };
    for fits in [
        "nginx > four in replies/s at one-packet, 2x",
        "best of (nginx; four) at one-packet, 2x > nginx at specweb99, 2x in replies/s",
    ] {
        assert!(finding(fits).is_ok(), "{:?}", finding(fits));
    }
    for (expect, said) in [
        ("nginx > five in replies/s at one-packet, 2x", "is called \"five\"; allowed: \"nginx\", \"four\""),
        ("nginx > four in replies/s at one, 2x", "no point is called \"one, 2x\"; allowed: \"one-packet, 64"),
        ("best of (four; six) > nginx in replies/s at one-packet, 2x", "is called \"six\""),
        ("peak of four at (one-packet, 2x; three) > nginx at one-packet, 2x in replies/s", "\"three\""),
        (
            "area of four at (one-packet, 2x; specweb99, 2x) > area of nginx at (one-packet, 2x; \
             specweb99, 2x) in replies/s",
            "the loads are 2x, 2x; allowed: rates",
        ),
    ] {
        let error = finding(expect).expect_err(expect);
        assert!(error.contains("findings[0]: expect: ") && error.contains(said), "{error}");
    }
    // SMALL has the default margin, and the claimed size does not exceed it.
    let small = format!(
        "{SMALL}[[findings]]\npaper = 'p'\nsays = 's'\nexpect = 'nginx > four in replies/s at one-packet, \
         2x'\nsize = 1.02\n"
    );
    assert!(
        error(&small).contains("findings[0]: size: 1.02 is within the margin of 0.02"),
        "{}",
        error(&small)
    );
}

#[test]
fn errors_name_the_place_the_value_and_what_is_allowed() {
    let said = error(&SMALL.replace("'2x'", "'twice'"));
    assert!(
        said.contains("line 8") && said.contains("\"twice\"") && said.contains("allowed: loads"),
        "{said}"
    );
    let said = error(&SMALL.replace("nginx", "ngnix"));
    assert!(said.contains("is it nginx?"), "{said}");
    let said = error(&SMALL.replace("rounds = 6", "rounds = 0"));
    assert!(said.contains("rounds: 0 is not allowed; allowed: 1 to 1000"), "{said}");
    let said = error(&SMALL.replace("rounds", "round"));
    assert!(said.contains("round"), "{said}");
    let said = error(&SMALL.replace("disk = '50 MB/s'", ""));
    assert!(said.contains("points[1]: memory and disk must be set together"), "{said}");
    let said = error(&SMALL.replace("name = 'disk'", "nam = 'disk'"));
    assert!(said.contains("nam"), "{said}");
    let said = error(&SMALL.replace("'four = ", "'nginx = "));
    assert!(said.contains("are called \"nginx\""), "{said}");
    let said = error(&format!("clients = ['retry']\n{SMALL}"));
    assert!(said.contains("clients: \"retry\" is not allowed; allowed: options"), "{said}");
    let said = error(&format!("clients = ['--class=a: rate=5']\n{SMALL}"));
    assert!(said.contains("points[0]: clients: each class has its own rate"), "{said}");
    assert!(error("title = 'none'").contains("no points"));
    let said = error(&format!("order = 'abreast'\n{SMALL}"));
    assert!(said.contains("need a share"), "{said}");
}

#[test]
fn classes_of_clients_have_their_own_rates() {
    let text = |load: &str, class: &str, compare: &str| {
        format!(
            "title = 't'\nservers = ['nginx']\n[[points]]\nworkload = 'single'\nload = '{load}'\n\
             clients = ['{class}']\ncompare = ['{compare}']"
        )
    };
    let kept = "--class=kept: connections=4 rate=0.6x";
    let experiment = Experiment::parse(&text("classes", kept, "2xx/s of class 1")).unwrap();
    assert_eq!(experiment.points[0].name, "single, classes");
    for (load, class, compare, told) in [
        ("classes", "--rules", "2xx/s", "load: classes, and clients has none; allowed: with '--class=...'"),
        ("9 requests/s", kept, "2xx/s", "the rate of kept is a multiple, and the load is 9 requests/s;"),
        ("2x", "--class=a: rate=9", "2xx/s", "each class has its own rate, and the load is 2x; allowed"),
        ("classes", "--class=a: rate=2x", "2xx/s", "clients: a: rate=2x is a multiple of what a closed loop"),
        (
            "classes",
            kept,
            "p99 ms of class 2",
            "compare: p99 ms of class 2, and there are 1 classes of clients; allowed: with more",
        ),
    ] {
        let error = error(&text(load, class, compare));
        assert!(error.contains(told), "{load}, {class}: {error}");
    }
}
