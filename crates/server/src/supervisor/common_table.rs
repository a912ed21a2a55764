//! The descriptor table that supervisor and workers have in common, and what is done about it when a worker
//! ends.
//!
//! A process of a common table takes nothing with it. So when one has ended, its locks and pins are dropped
//! and what it owned is closed. What it had opened and not recorded yet, or was about to close, is found by
//! looking twice: whatever nobody claims now and after every living worker has been between two turns is
//! nobody's ([`sys::descriptors`]).

use std::collections::{HashMap, HashSet};
use std::io;

use sys::descriptors::{self, Claim, Ledger, Suspects};
use sys::process;

use crate::allotment::Allotment;
use crate::common::{Common, MOST_DESCRIPTORS};
use crate::config::Settings;
use crate::content::SharedFiles;

/// The supervisor's end of a common table.
#[derive(Debug)]
pub(super) struct CommonTable {
    pub(super) ledger: Ledger,
    last_owner: u32,
    last_keeper: u32,
    /// Open files of each generation that somebody still uses.
    in_use: Vec<SharedFiles>,
    /// Of generations that are gone: addresses, for they take no memory.
    spare: Vec<SharedFiles>,
    /// A second look is due when all living workers have heard this round.
    round: u32,
    suspects: Option<Suspects>,
}

impl CommonTable {
    /// Before the first worker is in it. What is open now is the supervisor's.
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

    /// What a worker that is about to start gets.
    pub(super) fn join(&mut self, place: usize) -> Common {
        self.last_owner += 1;
        Common { ledger: self.ledger, owner: self.last_owner, place }
    }

    /// Closes and drops what a worker of these files had that has ended. A round is to be called then: its
    /// number.
    pub(super) fn clean_up(&mut self, worker: &Common, files: &SharedFiles, living: &HashSet<u32>) -> u32 {
        files.forget_worker(worker.place);
        let closed = self.ledger.close_owned(worker.owner);
        tracing::debug!("closed {closed} descriptors of a worker that has ended");
        self.forget_suspects();
        self.round += 1;
        match self.ledger.suspects(self.is_valid(living)) {
            Ok(suspects) => self.suspects = Some(suspects),
            Err(error) => tracing::error!("cannot look for descriptors that nobody owns: {error}"),
        }
        self.round
    }

    /// Looks no second time at what nobody seemed to own, and takes the marks away.
    pub(super) fn forget_suspects(&mut self) {
        if let Some(before) = self.suspects.take() {
            self.ledger.close_suspects(before, |_, _| true);
        }
    }

    /// The round that has been called and not been used yet.
    pub(super) fn pending_round(&self) -> Option<u32> {
        self.suspects.as_ref().map(|_| self.round)
    }

    /// All living workers have heard the round.
    pub(super) fn look_again(&mut self, living: &HashSet<u32>) {
        if let Some(suspects) = self.suspects.take() {
            let closed = self.ledger.close_suspects(suspects, self.is_valid(living));
            tracing::debug!("closed {closed} descriptors that nobody owned");
        }
    }

    /// Closes the files of generations that nobody uses any more, and gives their memory back.
    pub(super) fn close_unused(&mut self, is_used: impl Fn(u32) -> bool) {
        let (used, unused): (_, Vec<_>) = self.in_use.drain(..).partition(|files| is_used(files.keeper()));
        self.in_use = used;
        for files in unused {
            self.ledger.close_all_kept(files.keeper());
            match files.empty() {
                Ok(()) => self.spare.push(files),
                Err(error) => tracing::error!("cannot give memory of open files back: {error}"),
            }
        }
    }

    /// Whether whoever claims a descriptor is there.
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
