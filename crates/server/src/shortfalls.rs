//! Settings that cannot take full effect here, because the kernel or a sandbox around the server refuses
//! what they need.
//!
//! The server warns of each at its start, and so does `sluice check`. A warning names the setting and what
//! is missing.

use sys::features::Feature;

use crate::config::{AcceptLimit, Architecture, Settings, Transport};

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
    all.extend(bounds.into_iter().filter_map(|(bound, asked)| {
        let (key, asked) = asked?;
        bounded(key, asked, bound, allowed(bound)?)
    }));
    all
}

/// The consequence of a missing feature, as text for people. `None`: these settings do not need it.
fn effect(feature: Feature, settings: &Settings) -> Option<&'static str> {
    let is_amped = settings.architecture == Architecture::Amped;
    let passes = || settings.all_pools().any(|pool| pool.transport == Transport::PassFd);
    match feature {
        Feature::Openat2 | Feature::ResolveCached if is_amped => Some(
            "with architecture = \"amped\" helpers look up the name of every file that is not in the \
             open-file table, not only of those that wait for the disk",
        ),
        // The server's own path walk gives the same guarantees.
        Feature::Openat2 | Feature::ResolveCached => None,
        Feature::ReadNowait => is_amped.then_some(
            "with architecture = \"amped\" helpers read all parts of files that are sent, not only those \
             that are not in memory",
        ),
        Feature::TcpInfo if passes() => {
            Some("transport = \"pass-fd\" is not used, and replies come by the stream")
        }
        Feature::TcpInfo => (settings.architecture.is_event_driven()
            && settings.event.accept_limit == AcceptLimit::Auto)
            .then_some("accept_limit = \"auto\" can't see how long clients wait to be accepted"),
    }
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
                "symbolic links are followed step by step, equally safe but slower; amped has its helpers \
                 look \
                 up every name"
            }
            Feature::ResolveCached => "amped has its helpers look up every name",
            Feature::ReadNowait => "amped has its helpers read all that is sent from files",
            Feature::TcpInfo => {
                "accept_limit = \"auto\" can't see how long clients wait, and transport = \"pass-fd\" is not \
                 used"
            }
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
        assert_eq!(needed(&settings), [false, false, false, true]);
        settings.event.accept_limit = AcceptLimit::Unlimited;
        assert_eq!(needed(&settings), [false; 4]);
        settings.architecture = Architecture::Amped;
        assert_eq!(needed(&settings), [true, true, true, false]);
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
