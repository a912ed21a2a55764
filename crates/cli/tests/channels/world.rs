//! What a connection is served with.

use std::path::Path;
use std::sync::Arc;

use server::access_log::AccessLogs;
use server::config::{Settings, Source};
use server::content::{Content, Resolvers};
use server::counters::Counters;
use server::queues::{Lines, Queues};
use server::service::Service;

/// The settings of a file, for that root.
pub(crate) fn settings(root: &Path, text: &str) -> Settings {
    let text = format!("root = '{}'\n{text}", root.display());
    Source::default().load_text(&text).unwrap_or_else(|error| panic!("{error}"))
}

/// A service of these settings. It waits for the disk itself.
pub(crate) fn service(settings: &Settings) -> Service {
    let sites = settings.all_sites();
    let resolvers = Arc::new(Resolvers::new(&sites).expect("the roots can be opened"));
    let content = Content::new(resolvers, &sites, 100, settings.limits.ranges);
    let counters: &'static Counters = Box::leak(Box::default());
    let queue_handle = Queues::new(settings, 1, 0, &mut Lines::default()).expect("memory").queue_handle(0);
    Service::new(content, settings, counters, AccessLogs::default(), None, queue_handle).expect("memory")
}
