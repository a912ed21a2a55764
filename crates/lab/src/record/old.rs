//! Journals of schema 1: what they called figures, which have other names now. Nothing else knows them.

use serde_json::{Map, Value};

/// Members of a trial's outcome, before and now.
const OF_OUTCOMES: [(&str, &str); 10] = [
    ("asked_per_s", "asked_requests_per_s"),
    ("good_per_s", "replies_2xx_per_s"),
    ("served_per_s", "served_replies_per_s"),
    ("body_mbps", "replies_body_mbps"),
    ("timeouts", "calls_timeouts_part"),
    ("errors", "calls_errors_part"),
    ("refused", "replies_4xx_5xx_part"),
    ("times", "wait_ms"),
    ("switches_per_s", "context_switches_per_s"),
    ("seconds", "replies_each_second"),
];

/// Members of its members, or of each of these where there are several.
const OF_MEMBERS: [(&str, &[(&str, &str)]); 8] = [
    (
        "cpu",
        &[
            ("server", "server_cpus"),
            ("server_softirq", "server_softirq_cpus"),
            ("server_io_wait", "server_io_wait_cpus"),
            ("server_idle", "server_idle_cpus"),
            ("client_softirq", "client_softirq_cpus"),
            ("client_idle", "client_idle_cpus"),
        ],
    ),
    (
        "drops_per_s",
        &[
            ("ListenOverflows", "listen_overflows"),
            ("ListenDrops", "listen_drops"),
            ("TCPReqQFullDrop", "req_queue_full_drops"),
            ("TCPReqQFullDoCookies", "req_queue_full_cookies"),
            ("SyncookiesSent", "syn_cookies_sent"),
            ("SyncookiesRecv", "syn_cookies_received"),
            ("SyncookiesFailed", "syn_cookies_failed"),
            ("TCPAbortOnTimeout", "aborts_on_timeout"),
            ("softnet", "softnet_drops"),
        ],
    ),
    ("by_size", &[("mean_ms", "reply_time_ms_mean"), ("p99_ms", "reply_time_ms_p99")]),
    ("parties", &[("good_per_s", "replies_2xx_per_s"), ("p99_ms", "reply_time_ms_p99")]),
    ("work", &[("busy", "busy_processes"), ("in_vain", "in_vain_processes")]),
    ("accepting", &[("shares", "accepts_parts")]),
    ("slices", &[("server_us_per_reply", "cpu_server_us_per_reply")]),
    ("probes", &[("rate", "asked_requests_per_s"), ("ms", "found_ms")]),
];

/// Gives the members of an outcome the names that they have now. Other values stay as they are.
pub(super) fn rename(value: &mut Value) {
    let Some(outcome) = value.as_object_mut().filter(|outcome| outcome.contains_key("times")) else { return };
    rename_all(outcome, &OF_OUTCOMES);
    for (member, renamed) in OF_MEMBERS {
        match outcome.get_mut(member) {
            Some(Value::Object(member)) => rename_all(member, renamed),
            Some(Value::Array(all)) => {
                all.iter_mut().filter_map(Value::as_object_mut).for_each(|one| rename_all(one, renamed));
            }
            _ => {}
        }
    }
    // It moved: the generator's CPU time is not where the server's and the machine's are.
    let cost = outcome.get_mut("cpu").and_then(Value::as_object_mut);
    if let Some(cost) = cost.and_then(|cpu| cpu.remove("client_us_per_call")) {
        outcome.insert("generator_cpu_us_per_call".to_owned(), cost);
    }
}

fn rename_all(members: &mut Map<String, Value>, renamed: &[(&str, &str)]) {
    for (before, now) in renamed {
        if let Some(value) = members.remove(*before) {
            members.insert((*now).to_owned(), value);
        }
    }
}
