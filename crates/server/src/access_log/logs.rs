//! All access logs of a worker: the common log and the sites' own logs. Each has its own writer and
//! buffers, so that a log whose disk hangs does not delay the others.

use super::{AccessLog, Writer};
use crate::config::{AccessLogSettings, Settings};
use crate::counters::Counters;

/// A worker's handles for all access logs.
#[derive(Debug, Default)]
pub struct AccessLogs {
    logs: Vec<AccessLog>,
    /// For each site, by its number: its log, if it has one.
    of_sites: Vec<Option<LogNumber>>,
    /// Not all sites have the same log.
    differ: bool,
}

/// One of a worker's logs.
pub type LogNumber = u16;

impl AccessLogs {
    /// The logs in the settings that have a writer. `counters` counts lost lines.
    pub fn new(settings: &Settings, writers: &[Writer], counters: &'static Counters) -> Self {
        let (mut logs, mut numbers) = (Vec::new(), Vec::new());
        for asked in settings.access_logs() {
            if let Some(writer) = writers.iter().find(|writer| *writer.target() == asked.target) {
                logs.push(writer.worker(asked.format, asked.when_full, counters));
                numbers.push(&asked.target);
            }
        }
        let number = |asked: &AccessLogSettings| numbers.iter().position(|&known| *known == asked.target);
        let of_site =
            |log: &Option<AccessLogSettings>| log.as_ref().and_then(number).map(|at| at as LogNumber);
        let all =
            std::iter::once(&settings.access_log).chain(settings.sites.iter().map(|site| &site.access_log));
        let of_sites: Vec<_> = all.map(of_site).collect();
        let differ = of_sites.iter().any(|log| *log != of_sites[0]);
        Self { logs, of_sites, differ }
    }

    /// Whether nothing is logged.
    #[inline]
    pub fn are_off(&self) -> bool {
        self.logs.is_empty()
    }

    /// Whether the log depends on the site.
    pub fn differ(&self) -> bool {
        self.differ
    }

    /// The log of the site with this number, if it has one. The default site, 0, has the common log.
    pub fn of_site(&self, site: u16) -> Option<LogNumber> {
        self.of_sites.get(usize::from(site)).copied().flatten()
    }

    /// The log with this number, which must come from [`of_site`](Self::of_site).
    pub fn at(&mut self, number: LogNumber) -> &mut AccessLog {
        &mut self.logs[usize::from(number)]
    }

    /// Calls [`AccessLog::tick`] on every log.
    #[inline]
    pub fn tick(&mut self, now_ms: u64) {
        self.logs.iter_mut().for_each(|log| log.tick(now_ms));
    }

    /// The shortest of [`AccessLog::wait_at_most_ms`].
    #[inline]
    pub fn wait_at_most_ms(&self, now_ms: u64) -> Option<u64> {
        // Every get-events phase calls this.
        if self.are_off() {
            return None;
        }
        self.logs.iter().filter_map(|log| log.wait_at_most_ms(now_ms)).min()
    }

    /// Reopens all files by name, for example after they were renamed. Returns at once.
    pub fn reopen(&self) {
        self.logs.iter().for_each(AccessLog::reopen);
    }
}
