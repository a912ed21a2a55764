//! Taking over sockets from a parent process, in processes that have a single thread, as `inherited::take`
//! wants it.
//!
//! The first process starts itself once per case, by a shell that puts a listening socket under descriptor 3
//! and sets the variables, as systemd would; the case's name is in another variable.

use std::env;
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::process::Command;

use libtest_mimic::{Arguments, Failed, Trial};
use sys::inherited::take;
use sys::socket::{LocalAddress, is_listening, local_address};

struct Case {
    name: &'static str,
    /// What the shell does with the descriptors; the listening socket is its standard input.
    descriptors: &'static str,
    variables: &'static str,
    /// Runs in the started process.
    check: fn(),
}

static CASES: [Case; 7] = [
    Case {
        name: "takes the sockets with their names, once",
        descriptors: "3<&0 4<&0",
        variables: "LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=web:",
        check: takes_them_once,
    },
    Case {
        name: "takes nothing where nothing is handed over",
        descriptors: "",
        variables: "",
        check: takes_nothing,
    },
    Case {
        name: "takes nothing that is meant for another process",
        descriptors: "3<&0",
        variables: "LISTEN_PID=1 LISTEN_FDS=1",
        check: takes_nothing,
    },
    Case {
        name: "refuses a number that makes no sense",
        descriptors: "3<&0",
        variables: "LISTEN_PID=$$ LISTEN_FDS=-1",
        check: || {
            refuses(io::ErrorKind::InvalidData, "environment variable LISTEN_FDS has a bad value: `-1`");
        },
    },
    Case {
        name: "refuses a process number that makes no sense",
        descriptors: "3<&0",
        variables: "LISTEN_PID=me LISTEN_FDS=1",
        check: || {
            refuses(io::ErrorKind::InvalidData, "environment variable LISTEN_PID has a bad value: `me`");
        },
    },
    Case {
        name: "refuses a descriptor that is not open",
        descriptors: "3<&0 4<&-",
        variables: "LISTEN_PID=$$ LISTEN_FDS=2",
        check: || assert_eq!(take().unwrap_err().raw_os_error(), Some(libc::EBADF)),
    },
    Case {
        name: "refuses to change the environment of other threads",
        descriptors: "3<&0",
        variables: "LISTEN_PID=$$ LISTEN_FDS=1",
        check: beside_another_thread,
    },
];

fn main() {
    if let Ok(name) = env::var("CASE") {
        let case =
            CASES.iter().find(|case| case.name == name).expect("the parent takes names from the same table");
        return (case.check)();
    }
    let trials = CASES.iter().map(|case| Trial::test(case.name, || passes(case))).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn passes(case: &Case) -> Result<(), Failed> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let status = Command::new("sh")
        .arg("-c")
        .arg(format!("{} exec \"$0\" {}", case.variables, case.descriptors))
        .arg(env::current_exe()?)
        .env("CASE", case.name)
        .env("ADDRESS", listener.local_addr()?.to_string())
        .stdin(OwnedFd::from(listener))
        .status()?;
    if status.success() { Ok(()) } else { Err(Failed::from(status)) }
}

fn takes_them_once() {
    let taken = take().unwrap();
    let names: Vec<_> = taken.iter().map(|inherited| inherited.name.as_deref()).collect();
    assert_eq!(names, [Some("web"), None]);
    let expected = LocalAddress::Inet(env::var("ADDRESS").unwrap().parse().unwrap());
    for inherited in &taken {
        assert!(is_listening(&inherited.descriptor).unwrap());
        assert_eq!(local_address(&inherited.descriptor).unwrap(), expected);
        let flags = rustix::io::fcntl_getfd(&inherited.descriptor).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
    }
    assert!(env::vars_os().all(|(name, _)| !name.to_string_lossy().starts_with("LISTEN_")));
    takes_nothing();
}

fn takes_nothing() {
    assert!(take().unwrap().is_empty());
}

fn refuses(kind: io::ErrorKind, message: &str) {
    let error = take().unwrap_err();
    assert_eq!((error.kind(), error.to_string().as_str()), (kind, message));
}

fn beside_another_thread() {
    let (end, wait) = std::sync::mpsc::channel::<()>();
    let other = std::thread::spawn(move || wait.recv());
    assert_eq!(take().unwrap_err().kind(), io::ErrorKind::ResourceBusy);
    drop(end);
    assert!(other.join().unwrap().is_err());
}
