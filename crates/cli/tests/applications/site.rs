//! Sites with applications behind them: PHP-FPM, or one that a test has do as it says.

use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::fpm::Fpm;
use crate::scripted::{self, Asked, answer};
use crate::support;
use crate::support::client::request;
use crate::support::server::{Server, Setup};
use crate::support::variant::Variant;

pub(super) const INDEX: &str =
    "<?php echo 'index ', $_SERVER['SCRIPT_NAME'], ' ', $_SERVER['PATH_INFO'] ?? '-';";
pub(super) const ECHO: &str = "<?php
    header('X-Length: ' . ($_SERVER['CONTENT_LENGTH'] ?? ''));
    header('X-Type: ' . ($_SERVER['CONTENT_TYPE'] ?? ''));
    echo md5(file_get_contents('php://input'));";
pub(super) const LARGE: &str =
    "<?php for ($i = 0; $i < 1000; $i++) echo str_repeat(chr(65 + $i % 26), 1000);";

/// A site with scripts, and PHP-FPM to run them.
pub(super) fn php_site(variant: &Variant) -> (Setup, Fpm) {
    let setup = Setup::new(variant)
        .file("index.php", INDEX)
        .file("blog/index.php", INDEX)
        .file("echo.php", ECHO)
        .file("large.php", LARGE)
        .file("gone.php", "<?php header('Location: /x'); http_response_code(410); echo 'gone';");
    let fpm = Fpm::start(setup.directory(), 3);
    let setup = setup.argument(fpm.argument());
    (setup, fpm)
}

/// The standard site with a pool that an application in this process is, for all below `/app/`.
pub(super) fn scripted_site<R>(
    variant: &Variant,
    serve: impl Fn(Asked) -> R + Send + Sync + 'static,
) -> Server {
    scripted_site_with(variant, "", serve)
}

pub(super) fn scripted_site_with<R>(
    variant: &Variant,
    of_pool: &str,
    serve: impl Fn(Asked) -> R + Send + Sync + 'static,
) -> Server {
    let setup = Setup::new(variant);
    let socket = scripted::start(setup.directory(), "app.sock", serve);
    setup.config(&pool(&[&socket], of_pool)).start()
}

/// The same with settings of the gateway.
pub(super) fn gateway_site<R>(
    variant: &Variant,
    of_gateway: &str,
    of_pool: &str,
    serve: impl Fn(Asked) -> R + Send + Sync + 'static,
) -> Server {
    let setup = Setup::new(variant);
    let socket = scripted::start(setup.directory(), "app.sock", serve);
    setup.config(&format!("{}[gateway]\n{of_gateway}\n", pool(&[&socket], of_pool))).start()
}

pub(super) fn pool(sockets: &[&Path], more: &str) -> String {
    let sockets: Vec<_> = sockets.iter().map(|socket| format!("'unix:{}'", socket.display())).collect();
    format!(
        "[[pools]]\nname = 'app'\nservers = [{}]\n{more}\n\
         [[routes]]\npath = '/app/**'\npool = 'app'\nprogram = '/srv/app'\n",
        sockets.join(", ")
    )
}

/// Requests that are with an application now, at most at a time, and in all.
pub(super) type Counts = Arc<Mutex<(usize, usize, usize)>>;

/// An application that takes that long for each request, and counts those that are with it, and the most.
pub(super) fn busy(ms: u64) -> (Counts, impl Fn(Asked) + Send + Sync + 'static) {
    let counts = Counts::default();
    let counted = Arc::clone(&counts);
    let serve = move |mut asked: Asked| {
        {
            let (now, most, all) = &mut *counted.lock().expect("no panic");
            *now += 1;
            *most = (*most).max(*now);
            *all += 1;
        }
        support::sleep_ms(ms);
        // The next may come as soon as this one is over.
        counted.lock().expect("no panic").0 -= 1;
        asked.say(answer("X: y\n\nwell"));
    };
    (counts, serve)
}

pub(super) fn post(target: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len().to_string();
    [request("POST", target, &[("Content-Length", &length)]).as_bytes(), body].concat()
}

/// By the tool that everybody has: the application's word for it must not be ours.
pub(super) fn md5(bytes: &[u8]) -> String {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let mut child =
        Command::new("md5sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("md5sum");
    child.stdin.take().expect("a pipe").write_all(bytes).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    String::from_utf8_lossy(&output.stdout[..32]).into_owned()
}
