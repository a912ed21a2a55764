//! Settings that cannot take full effect here, because the kernel or a sandbox around the server refuses
//! what they need.
//!
//! The server warns of each at its start, and so does `sluice check`. A warning names the setting and what
//! is missing.

use std::borrow::Cow;

use sys::features::Feature;
use sys::stacks::Guards;

use crate::config::{AcceptLimit, Architecture, Role, Settings, Transport};

/// The settings that cannot take full effect here, and why: one sentence for each.
pub fn of(settings: &Settings) -> Vec<String> {
    let default = Settings::new(settings.files.root.clone()).connections;
    let connections = &settings.connections;
    let mut all: Vec<_> = Feature::ALL
        .into_iter()
        .filter_map(|feature| Some((feature, effect(feature, settings)?)))
        .filter_map(|(feature, effect)| {
            let refusal = feature.probe().err()?;
            Some(format!("{} is not available here ({refusal}): {effect}", feature.name()))
        })
        .collect();
    let send_buffer = connections.send_buffer.map(|bytes| ("tcp.send_buffer", u64::from(bytes)));
    let backlog = (connections.backlog != default.backlog).then_some(connections.backlog);
    let backlog = backlog.map(|backlog| ("backlog", u64::from(backlog)));
    let bounds = [("net.core.wmem_max", send_buffer), ("net.core.somaxconn", backlog)];
    if let (Some(asked), Some(most)) = (settings.user_threads.threads, Guards::best().most_stacks()) {
        all.extend(bounded("user_threads.threads", asked.get().into(), "vm.max_map_count", most as u64));
    }
    all.extend(bounds.into_iter().filter_map(|(bound, asked)| {
        let (key, asked) = asked?;
        bounded(key, asked, bound, allowed(bound)?)
    }));
    all
}

/// The consequence of a missing feature, as text for people. `None`: these settings do not need it.
fn effect(feature: Feature, settings: &Settings) -> Option<Cow<'static, str>> {
    let has_helpers = settings.layout().threads(Role::AwaitDisk) > 0;
    let passes = settings.all_pools().any(|pool| pool.transport == Transport::PassFd);
    let measures =
        settings.architecture.is_event_driven() && settings.event.accept_limit == AcceptLimit::Auto;
    let text = match feature {
        Feature::Openat2 | Feature::ResolveCached if has_helpers => {
            "helpers look up the name of every file that is not in the open-file table, not only of those \
             that wait for the disk"
        }
        Feature::ReadNowait if has_helpers => {
            "helpers read all parts of files that are sent, not only those that are not in memory"
        }
        Feature::TcpInfo if passes => "transport = \"pass-fd\" is not used, and replies come by the stream",
        Feature::TcpInfo if measures => {
            "accept_limit = \"auto\" can't see how long clients wait to be accepted"
        }
        Feature::GuardInstall if settings.architecture == Architecture::UserThreads => {
            return Some(few_threads().into());
        }
        // Without the calls that look up names, the server's own path walk gives the same guarantees.
        _ => return None,
    };
    Some(text.into())
}

/// How many user-level threads there can be without `MADV_GUARD_INSTALL`.
fn few_threads() -> String {
    let most = Guards::Mappings.most_stacks().unwrap_or(0);
    format!("a worker has room for {most} user-level threads (vm.max_map_count)")
}

/// The kernel's value of such a bound.
fn allowed(bound: &str) -> Option<u64> {
    let path = format!("/proc/sys/{}", bound.replace('.', "/"));
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn bounded(key: &str, asked: u64, bound: &str, allowed: u64) -> Option<String> {
    (asked > allowed)
        .then(|| format!("{key} = {asked} is more than {bound} allows: {allowed} is used instead"))
}

/// All features that are missing here, whatever the settings: one line for each.
pub fn of_kernel() -> Vec<String> {
    let missing = |feature: Feature| Some((feature, feature.probe().err()?));
    let line = |(feature, refusal): (Feature, std::io::Error)| {
        let effect = match feature {
            Feature::Openat2 => {
                "symbolic links are followed step by step, equally safe but slower; amped, user-threads and \
                 uring have their helpers look up every name"
            }
            Feature::ResolveCached => "amped, user-threads and uring have their helpers look up every name",
            Feature::ReadNowait => {
                "amped, user-threads and uring have their helpers read all that is sent from files"
            }
            Feature::TcpInfo => {
                "accept_limit = \"auto\" can't see how long clients wait, and transport = \"pass-fd\" is not \
                 used"
            }
            Feature::GuardInstall => &few_threads(),
        };
        format!("{} is not available here ({refusal}): {effect}", feature.name())
    };
    Feature::ALL.into_iter().filter_map(missing).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_feature_is_of_the_settings_that_need_it() {
        let mut settings = Settings::new("/".into());
        let needed = |settings: &Settings| Feature::ALL.map(|feature| effect(feature, settings).is_some());
        assert_eq!(needed(&settings), [false, false, false, true, false]);
        settings.event.accept_limit = AcceptLimit::Unlimited;
        assert_eq!(needed(&settings), [false; 5]);
        settings.architecture = Architecture::Amped;
        assert_eq!(needed(&settings), [true, true, true, false, false]);
        settings.architecture = Architecture::UserThreads;
        assert_eq!(needed(&settings), [true, true, true, false, true]);
    }

    #[test]
    fn what_the_kernel_bounds_is_told_by_key_and_bound() {
        assert_eq!(bounded("backlog", 128, "net.core.somaxconn", 128), None);
        let told = bounded("backlog", 500, "net.core.somaxconn", 128);
        let told = told.expect("a shortfall");
        assert_eq!(told, "backlog = 500 is more than net.core.somaxconn allows: 128 is used instead");
        assert!(allowed("net.core.somaxconn").is_some_and(|connections| connections > 0));
        let mut settings = Settings::new("/".into());
        assert_eq!(of(&settings), [""; 0]);
        settings.connections.backlog = i32::MAX as u32;
        assert!(of(&settings)[0].starts_with("backlog = 2147483647 is more than net.core.somaxconn"));
    }
}
