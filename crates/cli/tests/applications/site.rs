//! A site whose scripts PHP-FPM runs.

use harness::fpm::Fpm;
use harness::server::Setup;
use harness::variant::Variant;

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
