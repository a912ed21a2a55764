//! nginx. Settings are directives: those below replace what is generated, others go to the `http` block.

use std::fmt::Write as _;

use anyhow::Result;

use super::{Ground, Settings, peer, words, write};
use crate::spec::Spec;

pub(super) fn commands(
    spec: &Spec,
    mut settings: Settings<'_>,
    ground: &Ground<'_>,
) -> Result<Vec<Vec<String>>> {
    let directory = ground.directory.display();
    let mut set = |name: &str, usual: &dyn ToString| format!("{name} {};\n", settings.take(name, usual));
    let mut text = format!("daemon off;\npid {directory}/nginx.pid;\nerror_log stderr error;\n");
    // Its workers read the files as whoever reads them here.
    if rustix::process::geteuid().is_root() {
        text += "user root;\n";
    }
    text += &set("master_process", &"on");
    text += &set("worker_processes", &ground.cpus);
    text += &set("worker_rlimit_nofile", &(ground.capacity * 2 + 1_000));
    text += "events {\n";
    text += &set("use", &"epoll");
    text += &set("worker_connections", &(ground.capacity + 100));
    text += &set("multi_accept", &"off");
    text += &set("accept_mutex", &"off");
    text += "}\nhttp {\ntypes { text/html html; }\n";
    for (name, usual) in [
        ("access_log", "off"),
        ("sendfile", "on"),
        ("tcp_nopush", "on"),
        ("tcp_nodelay", "on"),
        ("keepalive_requests", "1000000000"),
        ("keepalive_timeout", "3600s"),
        ("client_header_timeout", "3600s"),
        ("send_timeout", "3600s"),
        ("reset_timedout_connection", "on"),
        ("open_file_cache", "max=100000"),
        ("open_file_cache_valid", "60s"),
    ] {
        text += &set(name, &usual);
    }
    for name in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        let _ = writeln!(text, "{name}_temp_path {directory}/{name};");
    }
    text += "server {\n";
    let more = settings.take("listen", &"");
    let backlog = settings.take("backlog", &4_096);
    for address in ground.listen {
        let _ = writeln!(text, "listen {address} backlog={backlog} {more};");
    }
    let _ = writeln!(text, "root {};\n}}", ground.root.display());
    text += &settings.rest(|name, value| format!("{name} {value};\n"));
    text += "}\n";
    let config = write(ground, "nginx.conf", &text)?;
    Ok(vec![words([&peer(spec, "nginx-light")?, "-c", &config, "-e", "stderr"])])
}
