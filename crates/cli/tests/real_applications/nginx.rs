//! nginx, as the distribution has it, with a configuration of its own.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use harness::eventually;

/// A running nginx.
pub(super) struct Nginx {
    child: Child,
    pub(super) address: SocketAddr,
}

impl Nginx {
    /// One that serves a root and has PHP-FPM run its scripts, with Debian's `fastcgi_params` and what its
    /// `fastcgi-php.conf` says, in the location that nginx's manual has for `fastcgi_split_path_info`. Its
    /// files are in that directory.
    pub(super) fn start(directory: &Path, root: &Path, fpm: &Path) -> Self {
        // An address of this process alone, so that the port is free.
        let [.., high, low] = std::process::id().to_be_bytes();
        let address = SocketAddr::from(([127, 77, high, low], 8080));
        let own = directory.join("nginx");
        fs::create_dir(&own).expect("a directory");
        let temporary = ["client_body", "fastcgi", "proxy", "scgi", "uwsgi"]
            .map(|of| format!("{of}_temp_path {};\n", own.join(of).display()))
            .concat();
        let config = format!(
            "daemon off; worker_processes 1; pid {own}/pid; error_log {own}/error.log;\n{user}\
             events {{}}\n\
             http {{\n{temporary}access_log off;\n\
             server {{\nlisten {address};\nroot {root};\nindex index.php index.html;\n\
             location / {{ try_files $uri $uri/ =404; }}\n\
             location ~ [^/]\\.php(/|$) {{\n\
             fastcgi_split_path_info ^(.+?\\.php)(/.*)$;\n\
             try_files $fastcgi_script_name =404;\n\
             set $path_info $fastcgi_path_info;\nfastcgi_param PATH_INFO $path_info;\n\
             fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;\n\
             include /etc/nginx/fastcgi_params;\nfastcgi_pass unix:{fpm};\n}}\n}}\n}}\n",
            own = own.display(),
            // As root it would be somebody who can't read what belongs to the test.
            user = if rustix::process::getuid().is_root() { "user root;\n" } else { "" },
            root = root.display(),
            fpm = fpm.display(),
        );
        fs::write(own.join("nginx.conf"), config).expect("a file");
        let child = Command::new("nginx")
            .env("PATH", format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default()))
            .arg("-c")
            .arg(own.join("nginx.conf"))
            .stdin(Stdio::null())
            .spawn()
            .expect("nginx is installed: scripts/install-test-tools");
        eventually("nginx listens", || TcpStream::connect(address).is_ok());
        Self { child, address }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Killed, it would leave its worker behind.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
    }
}
