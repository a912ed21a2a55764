//! Lists of a configuration may be long: reading and checking them takes instructions in proportion.

use std::fs;
use std::path::Path;
use std::process::Command;

/// A list: what stands before all items, each by its number, and what stands behind.
type List = (&'static str, fn(usize) -> String, &'static str);

/// Lists whose items are one value each.
const OF_VALUES: [List; 6] = [
    ("listen = [", |n| format!("'127.1.{}.{}:18080', ", n / 256, n % 256), "]\n"),
    ("[types]\n", |n| format!("x{n} = 'a/b'\n"), ""),
    ("[proxies]\ntrusted = [", |n| format!("'10.0.{}.{}', ", n / 256, n % 256), "]\n"),
    ("[[headers]]\nset = { ", |n| format!("X-{n} = 'a', "), "X = 'a' }\n"),
    ("[[sites]]\nroot = '.'\nhosts = [", |n| format!("'h{n}', "), "]\n"),
    ("[[pools]]\nname = 'a'\nservers = [", |n| format!("'10.0.{}.{}:9', ", n / 256, n % 256), "]\n"),
];

/// Lists of tables.
const OF_TABLES: [List; 6] = [
    ("", |n| format!("[[routes]]\npath = '/old/{n}'\nredirect = '/new/{n}'\n"), ""),
    ("", |n| format!("[[routes]]\npath = '/**/x{n}/*.q'\nstatus = 404\n"), ""),
    ("", |n| format!("[[headers]]\npath = '**/*.x{n}'\nset = {{ X-A = '{n}' }}\n"), ""),
    ("", |n| format!("[[pools]]\nname = 'p{n}'\nservers = '127.0.0.1:9'\n"), ""),
    ("", |n| format!("[[sites]]\nhosts = 'h{n}'\nroot = '.'\nphp = '127.0.0.1:{}'\n", n + 1), ""),
    ("", |n| format!("[[sites]]\nhosts = 'l{n}'\nroot = '.'\naccess_log = 'x/{n}'\n"), ""),
];

/// Lists that are wrong.
const WRONG: [List; 2] = [
    ("", |n| format!("[[routes]]\npath = 'old/{n}'\npol = '{n}'\n"), ""),
    ("", |n| format!("[[sites]]\nhosts = 'h'\nroot = 'x{n}'\n[[sites.routes]]\npool = '{n}'\n"), ""),
];

/// Instructions of `sluice check` with lists of that length.
fn instructions(directory: &Path, lists: &[List], length: usize) -> u64 {
    let mut text = String::new();
    for (before, item, behind) in lists {
        text.push_str(before);
        for number in 0..length {
            text.push_str(&item(number));
        }
        text.push_str(behind);
    }
    let (config, counts) = (directory.join("sluice.toml"), directory.join("counts"));
    fs::write(&config, text).expect("a file");
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--error-exitcode=0"]);
    command.arg(format!("--callgrind-out-file={}", counts.display()));
    command.args([env!("CARGO_BIN_EXE_sluice"), "check", "--quiet", "--config"]).arg(&config);
    command.output().expect("valgrind runs");
    let counts = fs::read_to_string(&counts).expect("counts");
    let total = counts.lines().find_map(|line| line.strip_prefix("totals: "));
    total.and_then(|total| total.trim().parse().ok()).expect("a number")
}

#[test]
fn twice_as_many_items_take_twice_as_many_instructions() {
    let directory = tempfile::tempdir().expect("a directory");
    let none = instructions(directory.path(), &[], 0);
    for (lists, length) in [(&OF_VALUES[..], 1000), (&OF_TABLES[..], 250), (&WRONG[..], 250)] {
        let [some, twice] = [length, 2 * length].map(|length| instructions(directory.path(), lists, length));
        let ratio = (twice - none) as f64 / (some - none) as f64;
        println!("{} instructions for each item, ratio {ratio:.3}", (twice - none) / (2 * length) as u64);
        assert!(ratio < 2.05, "{}...: {none}, {some}, {twice}", lists[0].1(0));
    }
}
