//! The descriptor table that the supervisor and the workers share, and the clean-up when a worker ends.
//!
//! When a process of a shared table ends, its descriptors stay open. So its locks and pins are dropped,
//! and what it owned is closed. It may also have opened a descriptor that it had not recorded yet, or
//! have been about to close one. Two checks find those. Between the two, every living worker has been
//! between two turns. A descriptor that no process claims in either check belongs to none
//! ([`sys::descriptors`]).

use std::collections::{HashMap, HashSet};
use std::io;

use sys::descriptors::{self, Claim, Ledger, Suspects};
use sys::process;

use crate::allotment::Allotment;
use crate::common::{Common, MOST_DESCRIPTORS};
use crate::config::Settings;
use crate::content::SharedFiles;

/// The supervisor's side of a shared descriptor table.
#[derive(Debug)]
pub(super) struct CommonTable {
    pub(super) ledger: Ledger,
    last_owner: u32,
    last_keeper: u32,
    /// Open files of each generation that is still in use.
    in_use: Vec<SharedFiles>,
    /// Files of generations that are gone. They take address space, but no memory.
    spare: Vec<SharedFiles>,
    /// The number of the last round. A second check is due when all living workers have heard it.
    round: u32,
    suspects: Option<Suspects>,
}

impl CommonTable {
    /// Creates the table before the first worker shares it. What is open now belongs to the supervisor.
    pub(super) fn new() -> io::Result<Self> {
        process::lower_descriptor_limit(MOST_DESCRIPTORS)?;
        let limit = process::descriptor_limit() as u32;
        // Growing it under load would stop all workers at once.
        descriptors::grow_table(limit)?;
        Ok(Self {
            ledger: Ledger::new(limit as usize)?,
            last_owner: 0,
            last_keeper: 0,
            in_use: Vec::new(),
            spare: Vec::new(),
            round: 0,
            suspects: None,
        })
    }

    /// A table of open files for a generation of workers.
    pub(super) fn files(&mut self, settings: &Settings) -> io::Result<SharedFiles> {
        self.last_keeper += 1;
        let (of, workers, keeper) = (&settings.all_sites()[..], settings.workers, self.last_keeper);
        let open = Allotment::of(settings).open_files;
        let fits = self.spare.iter().position(|files| files.fits(of, open, workers));
        let files = match fits {
            Some(at) => self.spare.swap_remove(at).renamed(keeper),
            None => SharedFiles::new(of, open, workers, self.ledger, keeper)?,
        };
        self.in_use.push(files.clone());
        Ok(files)
    }

    /// What a worker that is about to start needs of the table.
    pub(super) fn join(&mut self, place: usize) -> Common {
        self.last_owner += 1;
        Common { ledger: self.ledger, owner: self.last_owner, place }
    }

    /// Closes and drops what an ended worker of these files had. Returns the number of the round that
    /// must be called then.
    pub(super) fn clean_up(&mut self, worker: &Common, files: &SharedFiles, living: &HashSet<u32>) -> u32 {
        files.forget_worker(worker.place);
        let closed = self.ledger.close_owned(worker.owner);
        tracing::debug!("closed {closed} descriptors of a worker that has ended");
        self.forget_suspects();
        self.round += 1;
        match self.ledger.suspects(self.is_valid(living)) {
            Ok(suspects) => self.suspects = Some(suspects),
            Err(error) => tracing::error!("cannot look for descriptors that no process owns: {error}"),
        }
        self.round
    }

    /// Cancels the second check, and takes the marks away.
    pub(super) fn forget_suspects(&mut self) {
        if let Some(before) = self.suspects.take() {
            self.ledger.close_suspects(before, |_, _| true);
        }
    }

    /// The round that has been called and not been used yet.
    pub(super) fn pending_round(&self) -> Option<u32> {
        self.suspects.as_ref().map(|_| self.round)
    }

    /// Makes the second check. All living workers have heard the round.
    pub(super) fn look_again(&mut self, living: &HashSet<u32>) {
        if let Some(suspects) = self.suspects.take() {
            let closed = self.ledger.close_suspects(suspects, self.is_valid(living));
            tracing::debug!("closed {closed} descriptors that no process owned");
        }
    }

    /// Closes the files of generations that are no longer used, and frees their memory.
    pub(super) fn close_unused(&mut self, is_used: impl Fn(u32) -> bool) {
        let (used, unused): (_, Vec<_>) = self.in_use.drain(..).partition(|files| is_used(files.keeper()));
        self.in_use = used;
        for files in unused {
            self.ledger.close_all_kept(files.keeper());
            match files.empty() {
                Ok(()) => self.spare.push(files),
                Err(error) => tracing::error!("cannot free memory of open files: {error}"),
            }
        }
    }

    /// Whether the claimant of a descriptor still exists.
    fn is_valid(&self, living: &HashSet<u32>) -> impl Fn(u32, Claim) -> bool {
        let kept: HashMap<u32, HashSet<u32>> =
            self.in_use.iter().map(|files| (files.keeper(), files.descriptors())).collect();
        move |number, claim| match claim {
            Claim::None => false,
            Claim::First => true,
            Claim::Owned(owner) => living.contains(&owner),
            Claim::Kept(keeper) => kept.get(&keeper).is_some_and(|numbers| numbers.contains(&number)),
        }
    }
}
