//! Sockets passed on by the process that started this one, as systemd does (`sd_listen_fds(3)`).
//!
//! The descriptors start at 3. `LISTEN_FDS` is their number, `LISTEN_PID` the process that they are for,
//! and `LISTEN_FDNAMES` their names.

use std::collections::BTreeSet;
use std::env;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::{FdFlags, fcntl_setfd};

/// The first inherited descriptor (`SD_LISTEN_FDS_START`).
const FIRST: RawFd = 3;
/// A larger number is a mistake.
const MOST: RawFd = 4_096;
const VARIABLES: [&str; 3] = ["LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"];

/// An inherited descriptor.
#[derive(Debug)]
pub struct Inherited {
    /// The descriptor, which this process now owns; closed on exec.
    pub descriptor: OwnedFd,
    /// The name that the parent gave it, if any.
    pub name: Option<String>,
}

/// Takes the inherited descriptors, in order. Removes the variables from the environment, so that the
/// descriptors are not taken twice and no child process reads the variables. Returns an empty list if
/// nothing was passed on, or not to this process.
///
/// # Errors
///
/// `InvalidData` if the variables are invalid, `EBADF` if a descriptor is not open, `ResourceBusy` if the
/// process already has more than one thread (then the environment cannot be changed).
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

    // All or nothing: this checks that all are open before it owns any.
    for number in FIRST..FIRST + count {
        close_on_exec(number)?;
    }
    let mut names = names.into_iter();
    Ok((FIRST..FIRST + count)
        .map(|number| Inherited {
            // SAFETY: it is open, and was given to this process to own. No other code in it can have
            // taken it, because the variables are removed the first time.
            descriptor: unsafe { OwnedFd::from_raw_fd(number) },
            name: names.next().filter(|name| !name.is_empty()),
        })
        .collect())
}

/// Keeps descriptors open across exec(2). Returns the value of a variable with which [`take_handed_on`]
/// finds them afterwards.
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

/// Undoes [`hand_on`], if no program was executed.
///
/// # Errors
///
/// `EBADF` only.
pub fn keep(descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    descriptors.iter().try_for_each(|descriptor| Ok(fcntl_setfd(descriptor, FdFlags::CLOEXEC)?))
}

/// Takes the descriptors that this process passed on to itself before it executed this program, in order,
/// and removes the variable. `None` if the variable is not set.
///
/// # Errors
///
/// As for [`take`].
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
    // SAFETY: they are open, each is named once, and nothing owns them: this program has opened nothing
    // yet that would stay open across exec, and the variable that names them is gone.
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
        // SAFETY: this is the process's only thread, so no other thread reads the environment meanwhile.
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
