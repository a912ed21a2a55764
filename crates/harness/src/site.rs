//! The files of the standard site: one of each kind that makes a difference, in `root`, and a secret next
//! to it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// What must never be served: this is outside the root.
pub const SECRET: &str = "the secret outside the root\n";

/// The largest body that is sent from memory by default.
pub const SMALL: usize = 16 << 10;
/// The size of `large.bin`, which is well above [`SMALL`].
pub const LARGE: usize = 300_000;

/// The content of `index.html`.
pub const INDEX: &str = "<!DOCTYPE html><title>index</title>\n";
/// The content of `hello.txt`.
pub const HELLO: &str = "hello, world\n";

/// Bytes in which every group of eight shows its position, so that a piece from another position is
/// noticed.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut random = crate::Random(seed);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&random.draw().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// The content of `large.bin`.
pub fn large() -> Vec<u8> {
    pattern(1, LARGE)
}

/// Creates `directory/root` and `directory/outside`.
pub fn make(directory: &Path) {
    let root = directory.join("root");
    let outside = directory.join("outside");
    for directory in [&root, &outside, &root.join("dir"), &root.join("bare"), &root.join(".hidden-dir")] {
        fs::create_dir(directory).expect("a directory can be made");
    }
    for (path, content) in [
        ("outside/secret.txt", SECRET.as_bytes()),
        ("root/index.html", INDEX.as_bytes()),
        ("root/hello.txt", HELLO.as_bytes()),
        ("root/empty.txt", b""),
        ("root/large.bin", &large()),
        ("root/dir/index.html", b"<!DOCTYPE html><title>dir</title>\n"),
        ("root/dir/file.txt", b"a file in dir\n"),
        ("root/bare/a.txt", b"a\n"),
        ("root/bare/b <&>\"'.txt", b"b\n"),
        ("root/bare/.hidden", b"hidden\n"),
        ("root/.hidden", b"hidden\n"),
        ("root/.hidden-dir/file.txt", b"hidden\n"),
        ("root/with space.txt", b"space\n"),
        ("root/a+b.txt", b"plus\n"),
        ("root/100%.txt", b"percent\n"),
        ("root/question?.txt", b"question\n"),
        ("root/\u{fc}ber.txt", b"umlaut\n"),
    ] {
        fs::write(directory.join(path), content).expect("a file can be written");
    }
    for (to, link) in [
        ("hello.txt", "link.txt"),
        ("dir", "link-dir"),
        ("../outside/secret.txt", "link-outside.txt"),
        ("../outside", "link-outside-dir"),
        ("nowhere", "link-dangling"),
        ("link-loop", "link-loop"),
    ] {
        symlink(to, root.join(link)).expect("a link can be made");
    }
    symlink(outside.join("secret.txt"), root.join("link-absolute.txt")).expect("a link can be made");
}
