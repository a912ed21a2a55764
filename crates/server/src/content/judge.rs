//! Access checks: what clients are refused, whichever path leads to it.
//!
//! A request is checked by its own path, which is matched with the site's routes before any lookup
//! (`routes.rs`). That path may lead to a file with another path below the root:
//!
//! - the script before `PATH_INFO`,
//! - the index file of a directory,
//! - the target of a symbolic link,
//! - the original file of a precompressed sibling.
//!
//! If a route refuses clients that file by its own path, the server refuses it by every other path as
//! well. So the file that was found is checked here, but only if its path is not the requested one.
//! Likewise, a script is not run by another path if it would not be run by its own.
//!
//! Redirects do not count here: a redirect only says where an address leads, nothing about the file at
//! that path. Otherwise `/index.html` could not be redirected to `/`, nor `/wiki.php` to
//! `/wiki.php/start`. The next route that matches counts.
//!
//! What the site's owner names is the owner's choice, and not checked. These are error pages, fallbacks,
//! and the files that an application names below a directory of `send_files` (which is a separate site
//! without routes). Such a file has another name in the table of open files, so that no client is sent
//! that entry by its path ([`Variant::of_owner`](super::table::Variant::of_owner)).

use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path as FsPath;

use sys::file::FileKind;

use super::judged::{Bar, Index};
use super::load::Loader;
use super::may_block::{MayBlock, WouldBlock};
use super::numbers::Elsewhere;
use super::path::{self, Path};
use super::routes::{Action, LeadsTo, Routes};
use super::scripts::{Verdict, script_length};

impl Routes {
    /// The route that refuses clients the file at a path.
    pub(super) fn bar(&self, path: &[u8]) -> Option<Elsewhere> {
        let number = self.refuse_some.then(|| self.of_file(path))??;
        matches!(self.all[number].action, Action::Refuse(_)).then_some(Elsewhere(number))
    }

    /// What to do with an index file at that path, which may be a script.
    pub(super) fn judge_index(&self, path: &[u8], is_script: bool) -> Index {
        let number = (is_script || self.lead_elsewhere).then(|| self.of_file(path)).flatten();
        match number.map(|number| (Elsewhere(number), &self.all[number].action)) {
            Some((route, Action::Refuse(_))) => Index::Barred(route),
            Some((route, Action::Program { .. })) => Index::Called(route),
            Some((_, Action::Scripts { .. })) => Index::Sent,
            _ if is_script => Index::Barred(self.not_run()),
            _ => Index::Sent,
        }
    }

    /// The route that runs the script at that path.
    ///
    /// # Errors
    ///
    /// The route that answers clients instead.
    pub(super) fn runner(&self, script: &[u8]) -> Result<usize, Elsewhere> {
        let Some(number) = self.of_file(script) else { return Err(self.not_run()) };
        match &self.all[number].action {
            Action::Scripts { ending, .. } if script_length(script, ending) == Some(script.len()) => {
                Ok(number)
            }
            Action::Refuse(_) => Err(Elsewhere(number)),
            _ => Err(self.not_run()),
        }
    }

    /// The first route that decides about the file at a path.
    fn of_file(&self, path: &[u8]) -> Option<usize> {
        self.matching(path).into_iter().find(|number| {
            !matches!(self.all[*number].action, Action::Redirect(..)) && self.all[*number].takes(path)
        })
    }
}

impl Loader {
    /// Why a file is not served that was requested by one path, but is elsewhere because of symbolic
    /// links. A file outside the root has no path there to check.
    pub(super) fn bar(
        &self,
        asked: Path<'_>,
        file: &OwnedFd,
        as_owner: bool,
        may_block: MayBlock,
    ) -> std::io::Result<Option<Bar>> {
        let (root, path) = (sys::file::path_of(&self.root)?, sys::file::path_of(file)?);
        let is_script = |path: &[u8]| self.scripts.judge(path).is_some();
        let is_run = is_script(asked.bytes());
        if is_script(path.as_os_str().as_bytes()) && !is_run {
            return Ok(Some(Bar::Hidden));
        }
        let judges = (self.routes.refuse_some || is_run) && !as_owner;
        if self.dotfiles && !judges {
            return Ok(None);
        }
        let Ok(inner) = path.strip_prefix(&root) else {
            return Ok((self.symlinks != sys::file::Symlinks::Any).then_some(Bar::Hidden));
        };
        let mut names = inner.iter().enumerate();
        if !self.dotfiles && names.any(|(depth, name)| path::is_hidden(name.as_bytes(), depth == 0)) {
            return Ok(Some(Bar::Hidden));
        }
        if judges { self.bar_below(inner, file, is_run, may_block) } else { Ok(None) }
    }

    /// Why clients are not served a file at that path below the root, or why it is not run for them.
    fn bar_below(
        &self,
        inner: &FsPath,
        file: &OwnedFd,
        is_run: bool,
        may_block: MayBlock,
    ) -> std::io::Result<Option<Bar>> {
        let stat = sys::file::stat(file)?;
        // The file was removed meanwhile, and its path says so.
        if stat.links == 0 {
            return Ok(Some(Bar::Hidden));
        }
        let mut path = [b"/", inner.as_os_str().as_bytes()].concat();
        if stat.kind == FileKind::Directory && !path.ends_with(b"/") {
            path.push(b'/');
        }
        let bar = match self.routes.bar(&path) {
            _ if is_run => self.routes.runner(&path).err(),
            // The target may be a precompressed sibling, too.
            None if stat.kind == FileKind::Regular => {
                let bar = self.bar_of_sibling(Path::known(&path), may_block);
                bar.map_err(|WouldBlock| std::io::ErrorKind::WouldBlock)?
            }
            bar => bar,
        };
        Ok(bar.map(Bar::Barred))
    }

    /// The route that refuses clients the original file of which this path is a precompressed sibling.
    pub(super) fn bar_of_sibling(
        &self,
        path: Path<'_>,
        may_block: MayBlock,
    ) -> Result<Option<Elsewhere>, WouldBlock> {
        let Some(original) = self.original(path.bytes()) else { return Ok(None) };
        let Some(bar) = self.routes.bar(original) else { return Ok(None) };
        // The target is not checked in turn: links from files to siblings may form a loop.
        match self.stat(Path::known(original), true, may_block) {
            Ok(Ok(stat)) => Ok((stat.kind == FileKind::Regular).then_some(bar)),
            Ok(Err(_)) => Ok(Some(bar)),
            Err(error) if may_block.forbade(&error) => Err(WouldBlock),
            Err(_) => Ok(None),
        }
    }

    /// The path below the root of an open directory that was reached by symbolic links, for
    /// [listings](Self::is_shown). `None` if that makes no difference.
    pub(super) fn other_path(
        &self,
        asked: Path<'_>,
        directory: &OwnedFd,
    ) -> std::io::Result<Option<Vec<u8>>> {
        if !self.routes.refuse_some && self.scripts.are_none() {
            return Ok(None);
        }
        let (root, path) = (sys::file::path_of(&self.root)?, sys::file::path_of(directory)?);
        let Ok(inner) = path.strip_prefix(&root) else { return Ok(None) };
        let mut path = [b"/", inner.as_os_str().as_bytes()].concat();
        if !path.ends_with(b"/") {
            path.push(b'/');
        }
        Ok((path != asked.bytes()).then_some(path))
    }

    /// Whether a client would get an answer at the path of a file, or of a directory if it ends with a
    /// slash. This uses the routes alone. `other` is the path at the real location of the listed
    /// directory.
    pub(super) fn may_be_shown(&self, path: &[u8], other: Option<&[u8]>) -> bool {
        let verdict = self.scripts.judge(path);
        let is_let_through = |path: &[u8]| match verdict {
            Some(_) => self.routes.runner(path).is_ok(),
            None => self.routes.bar(path).is_none(),
        };
        match self.routes.leads_to(path, false) {
            _ if verdict == Some(Verdict::Lookalike) => false,
            LeadsTo::Elsewhere(elsewhere) => !self.routes.refuses(elsewhere),
            // For a directory, the path behind a link counts only if there is no index file.
            LeadsTo::File(_) => {
                let other = other.filter(|_| !path.ends_with(b"/"));
                (verdict.is_none() || is_let_through(path)) && other.is_none_or(is_let_through)
            }
        }
    }

    /// Whether a route answers clients, whatever file is at the path.
    pub(super) fn is_answered_elsewhere(&self, path: &[u8]) -> bool {
        matches!(self.routes.leads_to(path, false), LeadsTo::Elsewhere(_))
    }

    /// Whether a client would still get an answer after a check of the files: index files, and the
    /// originals of precompressed siblings.
    pub(super) fn is_shown(&self, path: &[u8], other: Option<&[u8]>, index: &[String]) -> bool {
        if self.is_answered_elsewhere(path) {
            return true;
        }
        if path.ends_with(b"/") {
            return !self.has_barred_index(path, other, index);
        }
        let is_let_through =
            |path: &[u8]| matches!(self.bar_of_sibling(Path::known(path), MayBlock::Always), Ok(None));
        is_let_through(path) && other.is_none_or(is_let_through)
    }

    /// Whether clients are refused the index file of a directory, or the directory if it has none.
    fn has_barred_index(&self, directory: &[u8], other: Option<&[u8]>, index: &[String]) -> bool {
        let paths = |directory| paths_in(directory, index);
        let is_script = |path: &[u8]| self.scripts.judge(path) == Some(Verdict::Script);
        let is_barred =
            |path: &[u8]| matches!(self.routes.judge_index(path, is_script(path)), Index::Barred(_));
        let is_refused = |path: &[u8]| self.routes.bar(path).is_some();
        let may_be_there =
            other.is_some_and(|other| is_refused(other) || paths(other).any(|path| is_barred(&path)));
        if !may_be_there && !paths(directory).any(|path| is_barred(&path)) {
            return false;
        }
        for path in paths(directory) {
            match self.stat(Path::known(&path), false, MayBlock::Always) {
                Ok(Ok(stat)) if stat.kind == FileKind::Regular => return is_barred(&path),
                Ok(Err(Bar::Barred(_))) => return true,
                _ => {}
            }
        }
        other.is_some_and(is_refused)
    }
}

/// The paths of a directory's index files.
fn paths_in<'a>(directory: &'a [u8], index: &'a [String]) -> impl Iterator<Item = Vec<u8>> {
    index.iter().map(move |name| [directory, name.as_bytes()].concat())
}
