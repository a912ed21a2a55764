//! Reading one value. Each reader takes an item of what was typed, and otherwise says what is allowed; the
//! setters put what it read into the settings.

use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::address::ListenAddress;
use super::error::Problem;
use super::names::Named;
use super::settings::{AcceptLimit, ErrorLog, LogTarget};
use super::typed::{Item, Value};
use super::units;

/// Whether a key could be read; otherwise nothing has been set.
pub(super) type Read = Result<(), Vec<Problem>>;

/// Sets what `parse` makes of the item.
pub(super) fn set<T>(field: &mut T, item: &Item, parse: impl Fn(&Item) -> Result<T, String>) -> Read {
    *field = parse(item).map_err(|what| vec![item.problem(what)])?;
    Ok(())
}

/// Sets what need not be set.
pub(super) fn set_some<T>(
    field: &mut Option<T>,
    item: &Item,
    parse: impl Fn(&Item) -> Result<T, String>,
) -> Read {
    set(field, item, |item| parse(item).map(Some))
}

/// Sets what `parse` makes of each item of a list; one alone needs no brackets.
pub(super) fn set_each<T>(
    field: &mut Vec<T>,
    item: &Item,
    parse: impl Fn(&Item) -> Result<T, String>,
) -> Read {
    let items = match &item.value {
        Value::List(items) => items.as_slice(),
        _ => std::slice::from_ref(item),
    };
    *field = all(items.iter().map(|item| (item, parse(item))))?;
    Ok(())
}

/// Sets what `parse` makes of each key and value of a table whose keys are the operator's own.
pub(super) fn set_pairs<T, C: FromIterator<T>>(
    field: &mut C,
    item: &Item,
    parse: impl Fn(&str, &Item) -> Result<T, String>,
) -> Read {
    let Value::Table(table) = &item.value else {
        return Err(vec![item.problem(format!("must be a table, [{}]", item.key))]);
    };
    *field = all(table.iter().map(|(key, entry)| (&entry.item, parse(key, &entry.item))))?;
    Ok(())
}

/// All values, or the problems of all that are wrong.
fn all<'a, T, C: FromIterator<T>>(
    parsed: impl Iterator<Item = (&'a Item, Result<T, String>)>,
) -> Result<C, Vec<Problem>> {
    let mut problems = Vec::new();
    let right =
        parsed.filter_map(|(item, value)| value.map_err(|what| problems.push(item.problem(what))).ok());
    let values = right.collect();
    if problems.is_empty() { Ok(values) } else { Err(problems) }
}

/// Any text.
pub(super) fn text(item: &Item) -> Result<String, String> {
    match &item.value {
        Value::Text(text) => Ok(text.clone()),
        _ => Err("must be text in quotes".to_owned()),
    }
}

/// `true` or `false`.
pub(super) fn flag(item: &Item) -> Result<bool, String> {
    match &item.value {
        Value::Flag(flag) => Ok(*flag),
        // The command line knows only text.
        Value::Text(text) if text == "true" => Ok(true),
        Value::Text(text) if text == "false" => Ok(false),
        _ => Err("allowed: true, false".to_owned()),
    }
}

/// One of the names of `T`.
pub(super) fn one_of<T: Named>(item: &Item) -> Result<T, String> {
    T::parse(&text(item).unwrap_or_default())
}

/// A whole number within bounds.
pub(super) fn count<T: TryFrom<u64>>(range: RangeInclusive<u64>) -> impl Fn(&Item) -> Result<T, String> {
    move |item| {
        let number = match &item.value {
            Value::Integer(number) => u64::try_from(*number).ok(),
            Value::Text(text) => units::parse_number(text),
            _ => None,
        };
        let allowed = || format!("allowed: a whole number from {} to {}", range.start(), range.end());
        number
            .filter(|number| range.contains(number))
            .and_then(|number| number.try_into().ok())
            .ok_or_else(allowed)
    }
}

/// A size in bytes within bounds.
pub(super) fn size<T: TryFrom<u64>>(range: RangeInclusive<u64>) -> impl Fn(&Item) -> Result<T, String> {
    move |item| {
        let allowed = || {
            let (least, most) = (units::size(*range.start()), units::size(*range.end()));
            format!("allowed: a size from {least} to {most}, such as 4096, \"16 KiB\", \"1 MB\"")
        };
        let bytes = match &item.value {
            Value::Integer(bytes) => u64::try_from(*bytes).map_err(|_| allowed())?,
            Value::Text(text) => units::parse_size(text)?,
            _ => return Err(allowed()),
        };
        Some(bytes).filter(|bytes| range.contains(bytes)).and_then(|n| n.try_into().ok()).ok_or_else(allowed)
    }
}

/// A time within bounds.
pub(super) fn time(range: RangeInclusive<Duration>) -> impl Fn(&Item) -> Result<Duration, String> {
    move |item| {
        let allowed = || {
            let (least, most) = (units::time(*range.start()), units::time(*range.end()));
            format!("allowed: a time from {least} to {most}, such as \"500 ms\", \"20 s\", \"5 min\"")
        };
        match &item.value {
            Value::Text(text) => {
                Some(units::parse_time(text)?).filter(|t| range.contains(t)).ok_or_else(allowed)
            }
            _ => Err(allowed()),
        }
    }
}

/// A list of CPUs.
pub(super) fn cpus(item: &Item) -> Result<Vec<usize>, String> {
    match &item.value {
        Value::Integer(cpu) => units::parse_cpus(&cpu.to_string()),
        Value::Text(text) => units::parse_cpus(text),
        _ => Err("allowed: numbers and ranges in quotes, such as \"0-3,8\"".to_owned()),
    }
}

/// A path, made absolute.
pub(super) fn path(item: &Item) -> Result<PathBuf, String> {
    item.absolute(&text(item)?)
}

/// `off`, or what `parse` takes.
pub(super) fn unless_off<T>(
    parse: impl Fn(&Item) -> Result<T, String>,
) -> impl Fn(&Item) -> Result<Option<T>, String> {
    move |item| match &item.value {
        Value::Text(text) if text == "off" => Ok(None),
        _ => parse(item).map(Some).map_err(|what| format!("{what}; or \"off\"")),
    }
}

/// All addresses that a text stands for.
pub(super) fn addresses(item: &Item) -> Result<Vec<ListenAddress>, String> {
    ListenAddress::parse_all(&text(item)?, |path| item.absolute(path))
}

/// Of these the first.
pub(super) fn address(item: &Item) -> Result<ListenAddress, String> {
    Ok(addresses(item)?.swap_remove(0))
}

pub(super) fn log_target(item: &Item) -> Result<LogTarget, String> {
    match text(item)?.as_str() {
        "-" => Ok(LogTarget::Stdout),
        "terminal" => Ok(LogTarget::Terminal),
        path => item.absolute(path).map(LogTarget::File),
    }
}

pub(super) fn error_log(item: &Item) -> Result<ErrorLog, String> {
    match text(item)?.as_str() {
        "stderr" => Ok(ErrorLog::Stderr),
        path => item.absolute(path).map(ErrorLog::File),
    }
}

pub(super) fn accept_limit(item: &Item) -> Result<AcceptLimit, String> {
    const ALLOWED: &str = "allowed: \"inf\", \"auto\", or a whole number from 1 to 4294967295";
    match &item.value {
        Value::Text(text) if text == "inf" => Ok(AcceptLimit::Unlimited),
        Value::Text(text) if text == "auto" => Ok(AcceptLimit::Auto),
        _ => up_to(u32::MAX)(item).map(AcceptLimit::Limit).map_err(|_| ALLOWED.to_owned()),
    }
}

/// A whole number from 1 to `most`.
pub(super) fn up_to(most: u32) -> impl Fn(&Item) -> Result<NonZeroU32, String> {
    move |item| {
        let number = count(1..=u64::from(most))(item)?;
        NonZeroU32::new(number).ok_or_else(|| "must not be 0".to_owned())
    }
}

/// A name of the system's user or group database.
pub(super) fn account(item: &Item) -> Result<String, String> {
    let name = text(item)?;
    let usual = |c: char| c.is_ascii_alphanumeric() || "_-.$".contains(c);
    if name.is_empty() || !name.chars().all(usual) || name.starts_with('-') {
        return Err("allowed: a name of the system's user or group database".to_owned());
    }
    Ok(name)
}

pub(super) fn file_name(item: &Item) -> Result<String, String> {
    let name = text(item)?;
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) {
        return Err("allowed: file names, without a directory".to_owned());
    }
    Ok(name)
}

pub(super) fn charset(item: &Item) -> Result<String, String> {
    let name = text(item)?;
    if !is_token(&name) {
        return Err("allowed: a name such as \"utf-8\"".to_owned());
    }
    Ok(name)
}

/// Permission bits, in the notation of chmod(1).
pub(super) fn mode(item: &Item) -> Result<u32, String> {
    let digits = text(item).unwrap_or_default();
    let is_octal =
        (3..=4).contains(&digits.len()) && digits.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
    let mode = if is_octal { u32::from_str_radix(&digits, 8).ok() } else { None };
    mode.filter(|mode| *mode <= 0o777).ok_or_else(|| {
        "allowed: permission bits in quotes, from \"000\" to \"0777\", such as \"0660\"".to_owned()
    })
}

/// A status, and the file that goes with it as an error's page.
pub(super) fn error_page(root: &Path, status: &str, item: &Item) -> Result<(u16, String), String> {
    let status = units::parse_number(status).filter(|status| (400..=599).contains(status));
    let status = status.ok_or("the key must be a status; allowed: 400 to 599")?;
    let page = text(item)?;
    let inside = page.strip_prefix('/').ok_or("allowed: a path from the root, beginning with /")?;
    if inside.split('/').any(|part| part.is_empty() || part == "." || part == "..") || page.contains('\0') {
        return Err("allowed: a path from the root without empty parts, \".\" and \"..\"".to_owned());
    }
    if !root.join(inside).is_file() {
        return Err(format!("there is no file {}", root.join(inside).display()));
    }
    Ok((status as u16, page))
}

/// RFC 9110 section 5.6.2.
pub(super) fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}
