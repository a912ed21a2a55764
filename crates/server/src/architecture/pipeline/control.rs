//! The controllers of the stages, after SEDA (Welsh, Culler and Brewer 2001; Welsh and Culler 2003). They
//! set how many [`threads`] of a stage are in use, how large a [`batch`] is, and at which rate the Accept
//! stage [admits] new connections. The control laws themselves know neither the clock nor the stages. Read
//! Poll drives them from here: every [`INTERVAL_NS`] it wakes up, samples all stages, and applies the
//! results.
//!
//! A thread is [started](super::starts) when it is first used. If it cannot be started, the existing
//! threads have to be enough. A thread that is no longer in use takes nothing from its stage's common queue
//! (see [`Queue::use_takers`]). It still takes what is bound to it. So a reader may rest while it has
//! requests with applications, whose links are its own.
//!
//! A request's time, which has a target, is the time that it spends in the server:
//!
//! - It begins when the connection is accepted, or when Read Poll learns of the request's first bytes.
//! - It includes all queues and stages, until a writer has sent the last byte of the reply.
//! - It excludes the time that the connection [waits](super::waiting), because that depends on the client.
//! - Requests that readers answer themselves (applications) are left out: pools have their own queues.
//!
//! Admission and the accept limit are separate bounds, and both hold. The accept limit bounds how many
//! connections come in ahead of the existing ones, in one accept phase. Admission bounds how many come in
//! over the long run. A client that is not admitted waits in the accept queue. `auto` sees a lasting delay
//! there, so its limit falls to the batch that costs least. The limit recovers when all clients are
//! admitted again. A drain admits all.
//!
//! [admits]: admission

mod admission;
mod batch;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
mod threads;

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use machine::process::RunTime;
use results::Label as _;

use self::admission::Admission;
use self::batch::Batch;
use self::threads::{Threads, Times};
use super::lane::Lane;
use super::queue::Queue;
use super::starts::{Start, Starts};
use super::traveller::Boxed;
use super::{Pipeline, fail};
use crate::config::Settings;
use crate::counters::{Counters, InTime, Stage};
use crate::service::Clock;

/// How often the stages are sampled.
const INTERVAL_NS: u64 = 50_000_000;

/// The controllers of a pipeline.
pub(super) struct Controllers<'s> {
    looked_ns: u64,
    crews: Vec<Crew<'s>>,
    batches: Option<Batches>,
    admission: Option<AdmissionControl>,
}

/// The threads of a stage in a lane.
struct Crew<'s> {
    lane: usize,
    stage: Stage,
    law: Threads,
    /// The index of the first one among all readers and writers.
    first: usize,
    /// For each thread, the kernel's account at the last sample, and how long the thread had been idle.
    seen: Vec<(RunTime, u64)>,
    /// Threads that have not been started yet.
    starts: VecDeque<Start<'s>>,
}

/// The size of all batches.
struct Batches {
    law: Batch,
    /// Connections worked on, and CPU time, at the last sample.
    seen: (u64, u64),
}

/// Admission to the Accept stage.
struct AdmissionControl {
    law: Admission,
    /// Connections accepted, and replies in time and late, at the last sample.
    seen: [u64; 3],
}

impl<'s> Controllers<'s> {
    /// The controllers that the settings request, with this many CPUs for each lane; `None` if the settings
    /// request none. They start the threads whose number they control.
    pub(super) fn new(
        pipeline: &Pipeline,
        settings: &Settings,
        cpus: &[Vec<usize>],
        starts: &mut Starts<'s>,
    ) -> Option<Self> {
        let steers = settings.pipeline.controllers;
        let mut crews = if steers { crews(pipeline, cpus, starts) } else { Vec::new() };
        let batches = steers.then(|| Batches { law: Batch::new(pipeline.batch() as u32), seen: (0, 0) });
        let admission = pipeline.target_ns.map(|target_ns| AdmissionControl {
            law: Admission::new(target_ns),
            seen: AdmissionControl::counts(pipeline),
        });
        for crew in &mut crews {
            crew.come();
            crew.queue(pipeline).use_takers(crew.law.in_use());
        }
        (steers || admission.is_some()).then(|| Self {
            looked_ns: Clock::now().ns,
            crews,
            batches,
            admission,
        })
    }

    /// Milliseconds until the next sample.
    pub(super) fn due_in_ms(&self, now_ns: u64) -> u32 {
        INTERVAL_NS.saturating_sub(now_ns.saturating_sub(self.looked_ns)).div_ceil(1_000_000) as u32
    }

    /// Takes a sample if it is time, and applies the result. Writes the counters of the calling thread,
    /// which is the only thread that calls this.
    pub(super) fn look(&mut self, pipeline: &Pipeline, now_ns: u64, counters: &Counters) {
        let ns = now_ns.saturating_sub(self.looked_ns);
        if ns < INTERVAL_NS {
            return;
        }
        self.looked_ns = now_ns;
        let mut in_use = [0; Stage::NAMES.len()];
        for crew in &mut self.crews {
            crew.look(pipeline, ns, counters);
            in_use[crew.stage as usize] += crew.law.in_use() as u64;
        }
        for stage in [Stage::Read, Stage::Write] {
            counters.stage_threads[stage as usize].set(in_use[stage as usize]);
        }
        if let Some(batches) = &mut self.batches {
            batches.look(pipeline, counters);
        }
        if let Some(admission) = &mut self.admission {
            admission.look(pipeline, ns, counters);
        }
    }
}

/// The stages of each lane that have their own threads.
fn crews<'s>(pipeline: &Pipeline, cpus: &[Vec<usize>], starts: &mut Starts<'s>) -> Vec<Crew<'s>> {
    let mut crews = Vec::new();
    let all_readers = pipeline.readers * pipeline.lanes.len();
    for (lane, cpus) in cpus.iter().enumerate() {
        let readers = (Stage::Read, pipeline.readers, lane * pipeline.readers);
        let writers = (Stage::Write, pipeline.writers, all_readers + lane * pipeline.writers);
        let stages = if pipeline.takes_turns { vec![writers] } else { vec![readers, writers] };
        for (stage, most, first) in stages {
            let law = Threads::new(most, cpus.len());
            let seen = vec![(RunTime::default(), 0); most];
            crews.push(Crew { lane, stage, law, first, seen, starts: starts.take(lane, stage) });
        }
    }
    crews
}

impl Crew<'_> {
    fn queue<'p>(&self, pipeline: &'p Pipeline) -> &'p Queue<Boxed> {
        let lane: &Lane = &pipeline.lanes[self.lane];
        match self.stage {
            Stage::Read => &lane.reads,
            _ if pipeline.takes_turns => &lane.turn,
            _ => &lane.writes,
        }
    }

    fn look(&mut self, pipeline: &Pipeline, ns: u64, counters: &Counters) {
        let before = self.law.in_use();
        let (queue, asleep) = self.queue(pipeline).state();
        let times = self.times(pipeline, &asleep, ns);
        self.law.sampled(threads::Sample { queue, idle: asleep.len(), times });
        self.come();
        let in_use = self.law.in_use();
        if in_use != before {
            self.queue(pipeline).use_takers(in_use);
            counters.stage_threads_changed[self.stage as usize].add(1);
        }
    }

    /// Starts the threads that are in use and not started yet.
    fn come(&mut self) {
        let most = self.seen.len();
        while most - self.starts.len() < self.law.in_use() {
            let there = most - self.starts.len();
            let Some(Err(error)) = self.starts.pop_front().map(|start| start()) else { continue };
            let stage = Stage::NAMES[self.stage as usize];
            let message = format!("cannot start a thread of stage {stage}, which has {there}: {error}");
            if there == 0 {
                fail(&message);
            }
            tracing::warn!("{message}");
            self.starts.clear();
            self.law.limit(there);
        }
    }

    /// What the threads in use did. If a thread was not in use at the last sample, its numbers cover a
    /// longer time. That is why the law lets the averages settle after it grew.
    fn times(&mut self, pipeline: &Pipeline, asleep: &[usize], ns: u64) -> Option<Times> {
        let (mut running, mut delayed, mut idle) = (0, 0, 0);
        for (at, seen) in self.seen.iter_mut().enumerate().take(self.law.in_use()) {
            let thread = pipeline.threads[self.first + at].load(Ordering::Relaxed);
            if thread == 0 {
                // It has been started, and has done nothing yet.
                idle += ns;
                continue;
            }
            let (now, counters) = (RunTime::of_thread(thread)?, pipeline.workers[self.first + at]);
            let idle_ns = counters.stage_idle_ns[self.stage as usize].get();
            let (before, idle_before) = std::mem::replace(seen, (now, idle_ns));
            running += now.ran.saturating_sub(before.ran).min(ns);
            delayed += now.waited.saturating_sub(before.waited).min(ns);
            idle += match idle_ns.wrapping_sub(idle_before) {
                // A thread reports idle time only when that time is over.
                0 if asleep.contains(&at) => ns,
                rest => rest.min(ns),
            };
        }
        let [running, delayed, idle] = [running, delayed, idle].map(|sum| sum as f64 / ns as f64);
        Some(Times { running, delayed, idle })
    }
}

impl Batches {
    fn look(&mut self, pipeline: &Pipeline, counters: &Counters) {
        let now = (pipeline.connections_worked_on(), sys::clock::process_cpu_ns());
        let seen = std::mem::replace(&mut self.seen, now);
        let before = self.law.size();
        let size = self.law.sampled(now.0.wrapping_sub(seen.0), now.1.saturating_sub(seen.1));
        pipeline.batch.store(size as usize, Ordering::Relaxed);
        if self.law.size() != before {
            counters.stage_batch_limit.set(self.law.size().into());
            counters.stage_batch_limit_changed.add(1);
        }
    }
}

impl AdmissionControl {
    fn look(&mut self, pipeline: &Pipeline, ns: u64, counters: &Counters) {
        let now = Self::counts(pipeline);
        let seen = std::mem::replace(&mut self.seen, now);
        let [accepted, timely, late] = [0, 1, 2].map(|at| now[at].wrapping_sub(seen[at]));
        let has_held = pipeline.tokens.has_refused();
        let before = self.law.rate();
        let rate = self.law.sampled(admission::Sample { ns, accepted, timely, late, has_held });
        if rate != before {
            pipeline.tokens.fill_at(rate);
            counters.admission_rate.set(rate.unwrap_or(0.0) as u64);
            counters.admission_rate_changed.add(1);
        }
    }

    fn counts(pipeline: &Pipeline) -> [u64; 3] {
        let replies = |time: InTime| {
            let of = |block: &&Counters| block.admission_replies[time as usize].get();
            pipeline.workers.iter().map(of).fold(0, u64::wrapping_add)
        };
        let accepted = pipeline.accepting.iter().map(|block| block.accepts.get());
        [accepted.fold(0, u64::wrapping_add), replies(InTime::Timely), replies(InTime::Late)]
    }
}
