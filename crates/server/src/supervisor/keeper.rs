//! The process that reads certificates and keys, at a reload and when their files change. So a renewed
//! certificate needs no signal.
//!
//! Keys are often for root only, and the server gives up root. The keeper gives up all of it but one
//! privilege: to read files whatever their permissions. A service manager can give the server this privilege
//! instead of root, and then only the keeper keeps it. It reads the files that the configuration names, and
//! takes no name from another process. A filter of system calls leaves it no network, no other program, and
//! nothing else that it does not need. What it reads goes into the [`Vault`], if it is a certificate with its
//! key, and nowhere else.
//!
//! Tools renew files in any order, and some write them in place. So files that have changed are used when
//! they have been the same for two looks, and belong together.

use std::cell::Cell;
use std::collections::HashSet;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sys::event::Interest;
use sys::signal::{Signal, SignalSet};
use sys::{confinement, poll, process};

use super::exit_code;
use crate::config::{PairFiles, Settings, Source};
use crate::error_log;
use crate::tls::{Pair, PairError, Texts, Vault};

/// How often to look at the files: as often as this, and with many files as often as takes little time.
const LOOK: Duration = Duration::from_millis(500);
const LOOK_FOR_EACH: Duration = Duration::from_millis(2);

/// How long files may not belong together before that is logged.
const PATIENCE: Duration = Duration::from_mins(1);

/// How long the keeper may take to answer.
const ANSWER: Duration = Duration::from_secs(10);

/// What the keeper is asked to do.
const READ_ALL: u8 = b'r';
const CONFIRM: u8 = b'c';
const REOPEN_LOG: u8 = b'l';

/// The keeper, as seen by the supervisor.
pub(super) struct Keeper {
    pub(super) pid: u32,
    channel: Arc<UnixStream>,
    /// The number of the last question.
    asked: Cell<u8>,
}

impl Keeper {
    /// Starts the keeper. In a server that root starts for another user, this must come before it becomes
    /// that user, and before it opens anything that the keeper must not have. `close` closes what else it
    /// must not have.
    pub(super) fn start(
        source: &Source,
        settings: &Settings,
        vault: &Arc<Vault>,
        close: impl FnOnce(),
    ) -> io::Result<Self> {
        let (channel, of_keeper) = UnixStream::pair()?;
        let parent = std::process::id();
        let pid = process::fork(|| {
            process::set_name("sluice:keeper");
            close();
            exit_code("the keeper", serve(&of_keeper, source, settings, vault, parent))
        })?;
        Ok(Self { pid, channel: Arc::new(channel), asked: Cell::new(0) })
    }

    /// The keeper of the program before.
    pub(super) fn adopt(pid: u32, channel: OwnedFd) -> Self {
        Self { pid, channel: Arc::new(channel.into()), asked: Cell::new(0) }
    }

    /// The channel to it. Other processes must not have it.
    pub(super) fn channel(&self) -> Arc<UnixStream> {
        Arc::clone(&self.channel)
    }

    /// Has the keeper read the configuration and all files that it names. What cannot be used is the error.
    pub(super) fn read_all(&self) -> Result<(), String> {
        let ask = || -> io::Result<String> {
            let mut channel = &*self.channel;
            self.asked.set(self.asked.get().wrapping_add(1));
            channel.set_read_timeout(Some(ANSWER))?;
            channel.write_all(&[READ_ALL, self.asked.get()])?;
            loop {
                let mut head = [0; 5];
                channel.read_exact(&mut head)?;
                let [number, length @ ..] = head;
                let mut answer = vec![0; u32::from_le_bytes(length) as usize];
                channel.read_exact(&mut answer)?;
                // Another number: the answer to a question that was not waited for.
                if number == self.asked.get() {
                    return Ok(String::from_utf8_lossy(&answer).into_owned());
                }
            }
        };
        match ask() {
            Ok(answer) if answer.is_empty() => Ok(()),
            Ok(answer) => Err(answer),
            Err(error) => Err(format!("the process that reads certificates does not answer: {error}")),
        }
    }

    /// The settings that were read last are in use. What they do not name is needed no more.
    pub(super) fn confirm(&self) {
        self.tell(CONFIRM);
    }

    /// Has the keeper open the error log again.
    pub(super) fn reopen_log(&self) {
        self.tell(REOPEN_LOG);
    }

    fn tell(&self, what: u8) {
        // A keeper that has ended is noticed.
        let _ = (&*self.channel).write_all(&[what]);
    }

    /// Ends the keeper.
    pub(super) fn end(&self) {
        let _ = process::kill(self.pid);
    }
}

impl AsFd for Keeper {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

/// Serves until the supervisor ends.
fn serve(
    mut channel: &UnixStream,
    source: &Source,
    settings: &Settings,
    vault: &Arc<Vault>,
    parent: u32,
) -> io::Result<()> {
    // The supervisor ends it. A terminal or a service manager signals all processes of the server at once.
    let of_others =
        [Signal::Hangup, Signal::Interrupt, Signal::Quit, Signal::User1, Signal::User2, Signal::Child];
    SignalSet::new(&of_others).block()?;
    match settings.user.as_ref().filter(|_| process::is_root()) {
        Some(user) => process::drop_privileges_but_reading(user, settings.group.as_deref())?,
        None => process::keep_only_reading()?,
    }
    // A change of user undoes this, so it comes now.
    process::signal_at_end_of_parent(Signal::Terminate)?;
    if process::parent() != parent {
        return Ok(());
    }
    process::forgo_new_privileges()?;
    confinement::leave_only_reading()?;
    let mut keeping = Keeping::new(source, vault);
    loop {
        let [event] = poll::wait_for(
            [(channel.as_fd(), Interest::READABLE)],
            keeping.pause().map(|pause| pause.as_millis() as u32),
        )?;
        if event.readable || event.hang_up {
            let mut asked = [0];
            match channel.read(&mut asked)? {
                0 => return Ok(()),
                _ if asked == [READ_ALL] => {
                    let mut number = [0];
                    channel.read_exact(&mut number)?;
                    let answer = keeping.read_all().err().unwrap_or_default();
                    channel.write_all(&number)?;
                    channel.write_all(&(answer.len() as u32).to_le_bytes())?;
                    channel.write_all(answer.as_bytes())?;
                }
                _ if asked == [CONFIRM] => keeping.confirm(),
                _ => {
                    if let Err(error) = error_log::reopen() {
                        tracing::error!("cannot reopen the error log: {error}");
                    }
                }
            }
        }
        keeping.look();
    }
}

/// What tells one state of a file from another: device, inode, size, and when it was last changed.
type Stamp = Option<(u64, u64, u64, i64, i64)>;

fn stamp(path: Option<&Path>) -> Stamp {
    let file = fs::metadata(path?).ok()?;
    Some((file.dev(), file.ino(), file.size(), file.ctime(), file.ctime_nsec()))
}

/// A certificate and its key that are looked after.
struct Kept {
    texts: Texts,
    /// The files when they were last read. Not known at first: they may have changed since.
    read: [Stamp; 2],
    /// The files at the last look, if they have changed since they were read.
    seen: Option<[Stamp; 2]>,
    /// Since when the files cannot be used, and whether that was logged.
    useless: Option<(Instant, bool)>,
    /// The configuration named it when it was last read.
    is_named: bool,
    /// The settings that serve name it.
    is_used: bool,
}

impl Kept {
    fn new(texts: Texts) -> Self {
        Self { texts, read: [None; 2], seen: None, useless: None, is_named: true, is_used: false }
    }

    /// Looks at the files. Returns whether there is another certificate.
    fn look(&mut self) -> bool {
        let now = stamps(&self.texts.files);
        if now == self.read {
            self.seen = None;
            return false;
        }
        if self.seen.replace(now) != Some(now) {
            return false;
        }
        let texts = Texts::read(&self.texts.files).and_then(|texts| {
            let pair = Pair::parse(&texts)?;
            Ok((texts, pair))
        });
        // They may have changed while they were read.
        if stamps(&self.texts.files) != now {
            return false;
        }
        match texts {
            Ok((texts, pair)) => {
                self.read = now;
                (self.seen, self.useless) = (None, None);
                let is_other = texts != self.texts;
                if is_other {
                    tracing::info!("renewed: {}", pair.description(sys::clock::realtime_secs() as i64));
                }
                self.texts = texts;
                is_other
            }
            Err(error) => {
                self.complain(&error);
                false
            }
        }
    }

    /// Logs once that the files cannot be used, if they have not been for a while.
    fn complain(&mut self, error: &PairError) {
        let (since, is_logged) = self.useless.get_or_insert((Instant::now(), false));
        if since.elapsed() >= PATIENCE && !std::mem::replace(is_logged, true) {
            tracing::error!("the certificate in use stays: {error}");
        }
    }
}

fn stamps(files: &PairFiles) -> [Stamp; 2] {
    [stamp(files.certificate.as_deref()), stamp(files.key.as_deref())]
}

/// All certificates that are looked after.
struct Keeping<'a> {
    source: &'a Source,
    vault: &'a Arc<Vault>,
    all: Vec<Kept>,
}

impl<'a> Keeping<'a> {
    /// Begins with those that are in the vault.
    fn new(source: &'a Source, vault: &'a Arc<Vault>) -> Self {
        let all = vault.contents().1.into_iter().map(Kept::new).collect();
        let mut this = Self { source, vault, all };
        this.confirm();
        this
    }

    /// How long to wait before the next look. `None`: there is nothing to look at.
    fn pause(&self) -> Option<Duration> {
        (!self.all.is_empty()).then(|| LOOK.max(LOOK_FOR_EACH * self.all.len() as u32))
    }

    /// Puts certificates to use whose files have changed.
    fn look(&mut self) {
        let mut has_changed = false;
        for kept in &mut self.all {
            has_changed |= kept.look();
        }
        if has_changed && let Err(error) = self.publish() {
            tracing::error!("renewed certificates are not used: {error}");
        }
    }

    /// The configuration that was read last is in use.
    fn confirm(&mut self) {
        self.all.iter_mut().for_each(|kept| kept.is_used = kept.is_named);
    }

    /// Reads the configuration, and all files that it names. Certificates that it does not name any more stay
    /// as long as the settings that serve name them.
    fn read_all(&mut self) -> Result<(), String> {
        let settings = self.source.unchecked().map_err(|error| error.to_string())?;
        let named = crate::tls::read_all(&settings).map_err(|error| error.to_string())?;
        let known: HashSet<_> = named.iter().map(|texts| texts.files.clone()).collect();
        let used: HashSet<_> =
            self.all.iter().filter(|kept| kept.is_used).map(|kept| kept.texts.files.clone()).collect();
        self.all.retain(|kept| kept.is_used && !known.contains(&kept.texts.files));
        self.all.iter_mut().for_each(|kept| kept.is_named = false);
        self.all.extend(named.into_iter().map(|texts| {
            let is_used = used.contains(&texts.files);
            Kept { is_used, ..Kept::new(texts) }
        }));
        self.publish().map_err(|error| error.to_string())
    }

    fn publish(&self) -> io::Result<()> {
        let all: Vec<_> = self.all.iter().map(|kept| kept.texts.clone()).collect();
        self.vault.publish(&all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A certificate with its key.
    fn made() -> Texts {
        let mut settings = Settings::new("/".into());
        settings.tls.self_signed = true;
        settings.tls.listen = settings.listen.clone();
        crate::tls::read_all(&settings).unwrap().swap_remove(0)
    }

    #[test]
    fn files_are_used_when_they_rest_and_belong_together() {
        let directory = tempfile::tempdir().unwrap();
        let [certificate, key] = ["chain.pem", "key.pem"].map(|name| directory.path().join(name));
        let [old, new] = [made(), made()];
        let write = |path: &Path, text: &[u8]| fs::write(path, text).unwrap();
        write(&certificate, &old.chain);
        write(&key, &old.key);
        let files = PairFiles { certificate: Some(certificate.clone()), key: Some(key.clone()) };
        let mut kept = Kept::new(Texts::read(&files).unwrap());
        // Before the first look.
        write(&certificate, &new.chain);
        write(&key, &new.key);
        assert_eq!((0..3).filter(|_| kept.look()).count(), 1);
        write(&certificate, &old.chain);
        write(&key, &old.key);
        assert_eq!((0..3).filter(|_| kept.look()).count(), 1);
        let mut looks = |times| (0..times).filter(|_| kept.look()).count();
        assert_eq!(looks(3), 0, "nothing has changed");
        // In place, and half of it.
        write(&certificate, &new.chain[..new.chain.len() / 2]);
        assert_eq!(looks(3), 0);
        write(&certificate, &new.chain);
        assert_eq!(looks(3), 0, "the key is still the old one");
        write(&key, &new.key);
        assert_eq!(looks(1), 0, "it may still be written to");
        assert_eq!(looks(1), 1);
        assert_eq!(looks(3), 0);
        // By rename, the key first.
        for (path, text) in [(&key, &old.key), (&certificate, &old.chain)] {
            let other = directory.path().join("other");
            write(&other, text);
            assert_eq!(looks(3), 0);
            fs::rename(other, path).unwrap();
        }
        assert_eq!(looks(3), 1);
        fs::remove_file(&key).unwrap();
        assert_eq!(looks(3), 0);
        write(&key, &old.key);
        assert_eq!(looks(3), 0, "it is the same again");
    }
}
