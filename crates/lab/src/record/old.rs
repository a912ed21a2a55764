//! Reads journals of schema 1 and 2. It has the old names of figures, and handles the zeros that meant
//! "unknown". No other code knows the old forms.

use serde_json::{Map, Value};

/// Old and new names of the members of a trial's outcome.
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

/// Old and new names within a member, or within each element if the member is a list.
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

/// Figures of processes. Up to schema 2, all of these except memory were 0 if the processes were unknown.
const OF_PROCESSES: [&str; 3] = ["descriptors", "context_switches_per_s", "read_mb_per_s"];

/// Converts an outcome of a journal of that schema to today's form. Other values stay as they are.
pub(super) fn renew(value: &mut Value, schema: u64) {
    if schema == 1 {
        rename(value);
    }
    if schema <= 2 {
        forget(value);
    }
}

/// Removes zeros that mean "none".
fn forget(value: &mut Value) {
    let Some(outcome) = value.as_object_mut().filter(|outcome| outcome.contains_key("wait_ms")) else {
        return;
    };
    if outcome.get("memory_mb").is_some_and(Value::is_null) {
        outcome.extend(OF_PROCESSES.map(|name| (name.to_owned(), Value::Null)));
    }
    // No real reply takes zero time.
    let is_empty = |times: &Map<String, Value>| times.get("max").and_then(Value::as_f64) == Some(0.0);
    if let Some(times) = outcome.get_mut("wait_ms").and_then(Value::as_object_mut).filter(|all| is_empty(all))
    {
        times.values_mut().filter(|value| value.is_number()).for_each(|value| *value = Value::Null);
    }
    for list in ["by_size", "parties"] {
        let all = outcome.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for one in all.filter_map(Value::as_object_mut) {
            let times = one.iter_mut().filter(|(name, _)| name.starts_with("reply_time_ms"));
            times.filter(|(_, time)| time.as_f64() == Some(0.0)).for_each(|(_, time)| *time = Value::Null);
        }
    }
}

/// Renames the members of an outcome of schema 1.
fn rename(value: &mut Value) {
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
    // The generator's CPU time moved out of the figures of the server and the machine.
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
