//! Lists of a configuration may be long: reading and checking them takes instructions in proportion.
//!
//! The suite counts lists that are short enough for its time. `SLUICE_ITEMS=10000,20000,40000 cargo nextest
//! run -p sluicegate --test large_configurations --no-capture` counts each list by itself at these lengths,
//! which takes some minutes.

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
    (
        "[[pools]]\nname = 'q'\nservers = '127.0.0.1:9'\n",
        |n| format!("[[routes]]\npath = '/a/{}'\npool = 'q'\nscripts = '.x{n}'\n", n / 2),
        "",
    ),
    ("", |n| format!("[[headers]]\npath = '**/*.x{n}'\nset = {{ X-A = '{n}' }}\n"), ""),
    ("", |n| format!("[[pools]]\nname = 'p{n}'\nservers = '127.0.0.1:9'\n"), ""),
    ("", |n| format!("[[sites]]\nhosts = 'h{n}'\nroot = '.'\nphp = '127.0.0.1:{}'\n", n + 1), ""),
];

/// Lists that are wrong.
const WRONG: [List; 3] = [
    ("", |n| format!("[[sites]]\nhosts = 'l{n}'\nroot = '.'\naccess_log = 'x/{n}'\n"), ""),
    ("", |n| format!("[[routes]]\npath = 'old/{n}'\npol = '{n}'\n"), ""),
    ("", |n| format!("[[sites]]\nhosts = 'h'\nroot = 'x{n}'\n[[sites.routes]]\npool = '{n}'\n"), ""),
];

/// Lists that warnings are about.
const DOUBTED: [List; 2] = [
    ("", |n| format!("[[routes]]\npath = '/a/{n}'\nredirect = '/a/{}'\n", n ^ 1), ""),
    ("", |n| format!("[[routes]]\npath = '/{{b/*,c}}/{}'\nfallback = '/{n}'\n", n / 2), ""),
];

/// Names that are looked for among patterns, which has a bound. It shows only in lists of thousands: none
/// that the suite counts is that long.
const LOOKED_FOR: List = ("", |n| format!("[[routes]]\npath = '/x*{n}'\nredirect = '/y'\n"), "");

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

/// Sees that each length takes as many instructions more as it is longer than the one before.
fn count(directory: &Path, none: u64, lists: &[List], lengths: &[usize]) {
    let counts: Vec<_> =
        lengths.iter().map(|length| instructions(directory, lists, *length) - none).collect();
    let each: Vec<_> = counts.iter().zip(lengths).map(|(count, length)| count / *length as u64).collect();
    println!("{:?} items, {each:?} instructions each: {:.60}", lengths, lists[0].1(0).replace('\n', " "));
    for (before, after) in each.iter().zip(&each[1..]) {
        assert!(*after as f64 <= *before as f64 * 1.025, "{}...: {counts:?}", lists[0].1(0));
    }
}

#[test]
fn twice_as_many_items_take_twice_as_many_instructions() {
    let directory = tempfile::tempdir().expect("a directory");
    let none = instructions(directory.path(), &[], 0);
    let asked = std::env::var("SLUICE_ITEMS").ok().map(|asked| {
        asked.split(',').map(|length| length.trim().parse().expect("a number")).collect::<Vec<usize>>()
    });
    if let Some(lengths) = asked {
        for list in OF_VALUES.iter().chain(&OF_TABLES).chain(&WRONG).chain(&DOUBTED).chain([&LOOKED_FOR]) {
            count(directory.path(), none, std::slice::from_ref(list), &lengths);
        }
        return;
    }
    for (lists, length) in
        [(&OF_VALUES[..], 800), (&OF_TABLES[..], 200), (&WRONG[..], 200), (&DOUBTED[..], 400)]
    {
        count(directory.path(), none, lists, &[length, 2 * length]);
    }
}
