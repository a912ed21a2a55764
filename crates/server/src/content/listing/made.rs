//! Pages that a process has recently made. If the workers are threads, each has its own table, and all
//! may want the same page at once. Then one of them makes it, and the others wait. That leaves the CPUs
//! to other requests.
//!
//! A page is here as long as a table or a reply has it. This module keeps no page alive.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

/// The most names that are remembered, in addition to those in use.
const MOST: usize = 16;

/// The pages, by their names in the tables.
#[derive(Debug, Default)]
pub(in crate::content) struct Made {
    pages: Mutex<Vec<Arc<NamedPage>>>,
}

#[derive(Debug)]
struct NamedPage {
    name: Box<[u8]>,
    /// Locked while a thread makes the page.
    page: Mutex<Option<Page>>,
}

/// A page that was made.
#[derive(Debug)]
struct Page {
    file: Weak<OwnedFd>,
    /// The request that it was made for.
    request: Request,
    /// When a thread began to make it.
    began: Instant,
}

/// The request for a page.
#[derive(Clone, Copy, Debug)]
pub(in crate::content) struct Request {
    /// When the request was made, in monotonic milliseconds.
    pub(in crate::content) asked_ms: u64,
    /// How old the page may be, in milliseconds.
    pub(in crate::content) validity_ms: u64,
    /// How often the root has become another directory.
    pub(in crate::content) root_changes: u32,
}

impl Request {
    fn until_ms(self) -> u64 {
        self.asked_ms.saturating_add(self.validity_ms)
    }
}

impl Page {
    /// Whether it answers another request: it is young enough, or was begun after that request arrived.
    fn answers(&self, request: Request, there_since: Instant) -> bool {
        self.request.root_changes == request.root_changes
            && (request.asked_ms < self.request.until_ms() || there_since <= self.began)
    }
}

impl Made {
    /// The page of that name, made now if none is usable. Also returns until when it is trusted, in
    /// monotonic milliseconds.
    ///
    /// # Errors
    ///
    /// Those of `make`.
    pub(in crate::content) fn page(
        &self,
        name: &[u8],
        request: Request,
        make: impl FnOnce() -> io::Result<OwnedFd>,
    ) -> io::Result<(Arc<OwnedFd>, u64)> {
        let there_since = Instant::now();
        let named = self.named(name);
        let mut page = lock(&named.page);
        if let Some(page) = page.as_ref().filter(|page| page.answers(request, there_since))
            && let Some(file) = page.file.upgrade()
        {
            return Ok((file, page.request.until_ms()));
        }
        let began = Instant::now();
        let file = Arc::new(make()?);
        *page = Some(Page { file: Arc::downgrade(&file), request, began });
        Ok((file, request.until_ms()))
    }

    fn named(&self, name: &[u8]) -> Arc<NamedPage> {
        let mut pages = lock(&self.pages);
        if let Some(page) = pages.iter().find(|page| *page.name == *name) {
            return Arc::clone(page);
        }
        if pages.len() >= MOST {
            pages.retain(|page| Arc::strong_count(page) > 1);
        }
        let named = Arc::new(NamedPage { name: name.into(), page: Mutex::default() });
        pages.push(Arc::clone(&named));
        named
    }
}

/// What a thread that panicked has left is still usable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::*;

    fn file() -> io::Result<OwnedFd> {
        File::open("/dev/null").map(OwnedFd::from)
    }

    fn request(asked_ms: u64, validity_ms: u64) -> Request {
        Request { asked_ms, validity_ms, root_changes: 0 }
    }

    #[test]
    fn all_who_ask_at_once_get_one_page() {
        let (pages, count) = (Made::default(), AtomicU32::new(0));
        // No page may be older than the request.
        let ask = || {
            let make = || {
                count.fetch_add(1, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(100));
                file()
            };
            pages.page(b"/", request(0, 0), make).unwrap()
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
            let _all: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        });
        // At most one page from before all the other requests arrived, and one for them.
        assert!(count.into_inner() <= 2);
    }

    #[test]
    fn another_is_made_when_it_is_old_or_gone_or_of_another_root() {
        let made = Made::default();
        let (now, until_ms) = (1_000_000, 1_060_000);
        let (first, believed_until_ms) = made.page(b"/", request(now, 60_000), file).unwrap();
        assert_eq!(believed_until_ms, until_ms);
        let is_first = |request| Arc::ptr_eq(&first, &made.page(b"/", request, file).unwrap().0);
        assert!(is_first(request(until_ms - 1, 60_000)));
        assert!(!is_first(Request { root_changes: 1, ..request(now, 60_000) }));
        let (first, _) = made.page(b"/a/", request(now, 60_000), file).unwrap();
        let (later, _) = made.page(b"/a/", request(until_ms, 60_000), file).unwrap();
        assert!(!Arc::ptr_eq(&first, &later));
        drop((first, later));
        let failed = made.page(b"/a/", request(0, 100), || Err(io::ErrorKind::Other.into()));
        assert!(failed.is_err(), "nothing was kept alive");
    }

    #[test]
    fn names_are_bounded_and_failures_are_not_kept() {
        let made = Made::default();
        for number in 0..100 {
            let name = format!("/{number}/");
            assert!(
                made.page(name.as_bytes(), request(0, 100), || Err(io::ErrorKind::Other.into())).is_err()
            );
            made.page(name.as_bytes(), request(0, 100), file).unwrap();
        }
        assert!(lock(&made.pages).len() <= MOST);
    }
}
