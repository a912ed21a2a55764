//! All access logs of a worker: the common one, and those that sites have of their own. Each has a writer and
//! buffers of its own, so that one whose disk stands still holds up no other.

use super::{AccessLog, Writer};
use crate::config::{AccessLogSettings, Settings};
use crate::counters::Counters;

/// A worker's ends of all access logs.
#[derive(Debug, Default)]
pub struct AccessLogs {
    logs: Vec<AccessLog>,
    /// By the number of a site: its log, if it has one.
    of_sites: Vec<Option<LogNumber>>,
    /// Not all sites have the same.
    differ: bool,
}

/// One of a worker's logs.
pub type LogNumber = u16;

impl AccessLogs {
    /// Those that the settings ask for and that have a writer. Lines that are lost are counted in `counters`.
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

    /// Whether it takes the site to know the log.
    pub fn differ(&self) -> bool {
        self.differ
    }

    /// The log of the site of that number, if it has one. The default site's, 0, is the common one.
    pub fn of_site(&self, site: u16) -> Option<LogNumber> {
        self.of_sites.get(usize::from(site)).copied().flatten()
    }

    /// The log of that number, which came from [`of_site`](Self::of_site).
    pub fn at(&mut self, number: LogNumber) -> &mut AccessLog {
        &mut self.logs[usize::from(number)]
    }

    /// As of [`AccessLog::tick`].
    #[inline]
    pub fn tick(&mut self, now_ms: u64) {
        self.logs.iter_mut().for_each(|log| log.tick(now_ms));
    }

    /// The shortest of [`AccessLog::wait_at_most_ms`].
    #[inline]
    pub fn wait_at_most_ms(&self, now_ms: u64) -> Option<u64> {
        // Every get-events phase asks.
        if self.are_off() {
            return None;
        }
        self.logs.iter().filter_map(|log| log.wait_at_most_ms(now_ms)).min()
    }

    /// Has all files opened anew by their names, as after they were renamed. Returns at once.
    pub fn reopen(&self) {
        self.logs.iter().for_each(AccessLog::reopen);
    }
}
