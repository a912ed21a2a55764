//! Sockets handed over by the process that started us, as systemd does (`sd_listen_fds(3)`).
//!
//! The descriptors are those from 3 on, `LISTEN_FDS` says how many, `LISTEN_PID` to whom, `LISTEN_FDNAMES`
//! what they are called.

use std::collections::BTreeSet;
use std::env;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::{FdFlags, fcntl_setfd};

/// The first descriptor that is handed over (`SD_LISTEN_FDS_START`).
const FIRST: RawFd = 3;
/// More than this is no hand-over but a mistake.
const MOST: RawFd = 4_096;
const VARIABLES: [&str; 3] = ["LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"];

/// A descriptor that was handed over.
#[derive(Debug)]
pub struct Inherited {
    /// Ours now; closed on exec.
    pub descriptor: OwnedFd,
    /// As its giver calls it, if he does.
    pub name: Option<String>,
}

/// Takes what was handed over, in order, and removes the variables from the environment, so that nobody takes
/// it twice and no child believes it is meant. Empty where nothing was handed over, or not to this process.
///
/// # Errors
///
/// `InvalidData` where the variables make no sense, `EBADF` where a descriptor is not open, `ResourceBusy`
/// where the process has more than one thread already (the environment can then not be changed).
pub fn take() -> io::Result<Vec<Inherited>> {
    let [count, pid, names] = VARIABLES.map(|name| env::var(name).ok());
    let (Some(count), Some(pid)) = (count, pid) else { return Ok(Vec::new()) };
    if parse::<u32>("LISTEN_PID", &pid)? != std::process::id() {
        return Ok(Vec::new());
    }
    let count @ 0..=MOST = parse("LISTEN_FDS", &count)? else {
        return Err(invalid("LISTEN_FDS", &count));
    };
    let names = names.map_or(Vec::new(), |names| names.split(':').map(str::to_owned).collect());
    forget(&VARIABLES)?;

    // All or nothing: whether they are open is seen before any is owned.
    for number in FIRST..FIRST + count {
        close_on_exec(number)?;
    }
    let mut names = names.into_iter();
    Ok((FIRST..FIRST + count)
        .map(|number| Inherited {
            // SAFETY: it is open, and was given to this process to own; nobody else in it can have taken it,
            // since the variables which say so are gone after the first time.
            descriptor: unsafe { OwnedFd::from_raw_fd(number) },
            name: names.next().filter(|name| !name.is_empty()),
        })
        .collect())
}

/// Keeps descriptors open across exec(2), and gives the value of a variable with which [`take_handed_on`]
/// finds them there.
///
/// # Errors
///
/// `EBADF` only.
pub fn hand_on(descriptors: &[BorrowedFd<'_>]) -> io::Result<String> {
    for descriptor in descriptors {
        fcntl_setfd(descriptor, FdFlags::empty())?;
    }
    let numbers: Vec<_> = descriptors.iter().map(|descriptor| descriptor.as_raw_fd().to_string()).collect();
    Ok(numbers.join(","))
}

/// Takes [`hand_on`] back, where nobody was executed.
///
/// # Errors
///
/// `EBADF` only.
pub fn keep(descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    descriptors.iter().try_for_each(|descriptor| Ok(fcntl_setfd(descriptor, FdFlags::CLOEXEC)?))
}

/// Takes the descriptors that this process handed on to itself before it executed this program, in their
/// order, and removes the variable. `None` where there is none.
///
/// # Errors
///
/// As of [`take`].
pub fn take_handed_on(variable: &str) -> io::Result<Option<Vec<OwnedFd>>> {
    let Ok(value) = env::var(variable) else { return Ok(None) };
    forget(&[variable])?;
    let numbers = value.split(',').filter(|number| !number.is_empty());
    let numbers: Vec<RawFd> = numbers.map(|number| parse(variable, number)).collect::<io::Result<_>>()?;
    let distinct: BTreeSet<_> = numbers.iter().collect();
    if distinct.len() != numbers.len() || numbers.iter().any(|&number| number < FIRST) {
        return Err(invalid(variable, &value));
    }
    // All or nothing, as above.
    numbers.iter().try_for_each(|&number| close_on_exec(number))?;
    // SAFETY: they are open, named once each, and owned by nobody: this program has opened nothing yet that
    // would be kept open across exec, and the variable that names them is gone.
    Ok(Some(numbers.into_iter().map(|number| unsafe { OwnedFd::from_raw_fd(number) }).collect()))
}

fn close_on_exec(number: RawFd) -> io::Result<()> {
    // SAFETY: it is not kept; a number that is not open makes the call fail.
    let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
    Ok(fcntl_setfd(descriptor, FdFlags::CLOEXEC)?)
}

fn forget(variables: &[&str]) -> io::Result<()> {
    if !crate::process::is_single_threaded()? {
        let message = "inherited sockets must be taken before threads are started";
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, message));
    }
    for name in variables {
        // SAFETY: this is the process's only thread, so nobody reads the environment meanwhile.
        unsafe { env::remove_var(name) };
    }
    Ok(())
}

fn parse<T: std::str::FromStr>(name: &str, value: &str) -> io::Result<T> {
    value.parse().map_err(|_| invalid(name, value))
}

fn invalid(name: &str, value: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("environment variable {name} has a bad value: `{value}`"),
    )
}
