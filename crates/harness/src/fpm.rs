//! The distribution's PHP-FPM, with a pool for the test.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::eventually;

/// A running PHP-FPM.
pub struct Fpm {
    child: Child,
    /// The socket that it listens on.
    pub socket: PathBuf,
}

impl Fpm {
    /// Starts one with this many children. Its files are in `directory`.
    pub fn start(directory: &Path, children: u32) -> Self {
        let path = |name: &str| directory.join(name);
        let socket = path("php.sock");
        let config = format!(
            "[global]\nerror_log = {}\ndaemonize = no\n[www]\nlisten = {}\npm = static\n\
             pm.max_children = {children}\ncatch_workers_output = no\n\
             php_admin_value[post_max_size] = 64M\nphp_admin_value[upload_max_filesize] = 64M\n{}",
            path("php.log").display(),
            socket.display(),
            // As root, it requires a user.
            if rustix::process::getuid().is_root() { "user = root\ngroup = root\n" } else { "" }
        );
        fs::write(path("php-fpm.conf"), config).expect("a file");
        let child = Command::new(program())
            .args(["--nodaemonize", "--allow-to-run-as-root", "--fpm-config"])
            .arg(path("php-fpm.conf"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("php-fpm starts");
        let fpm = Self { child, socket };
        eventually("PHP-FPM listens", || UnixStream::connect(&fpm.socket).is_ok());
        fpm
    }

    /// The option for `sluice`'s command line.
    pub fn argument(&self) -> String {
        format!("--php=unix:{}", self.socket.display())
    }
}

impl Drop for Fpm {
    fn drop(&mut self) {
        // SIGKILL would leave its children behind.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
    }
}

/// Finds the program. Debian adds the version to its name: `php-fpm8.2`.
fn program() -> PathBuf {
    let directories = std::env::var_os("PATH").unwrap_or_default();
    let mut all = std::env::split_paths(&directories).chain(["/usr/sbin".into()]);
    let found = all.find_map(|directory| {
        let entries = fs::read_dir(directory).ok()?.filter_map(Result::ok).map(|entry| entry.path());
        entries
            .filter(|path| path.is_file())
            .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("php-fpm")))
    });
    found.expect("php-fpm is installed: scripts/install-test-tools")
}
