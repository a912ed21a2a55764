//! What the stages owe the supervisor together: a census, and an end in good order. Read Poll sees to it,
//! where most connections are most of the time.
//!
//! One that is on its way between two stages when a census is taken counts as being written to.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Pipeline;
use super::bells::AcceptorBell;
use super::traveller::Boxed;
use crate::architecture::common::ending::{Census, Ending};
use crate::config::Settings;
use crate::control::{Control, Phase};
use crate::counters::{ConnectionState, Counters};
use crate::service::Service;

/// Who hears the supervisor.
pub(super) struct Keeper {
    ending: Ending,
    control: Arc<Control>,
    /// Of the other threads, which have nothing to say of connections.
    others: Vec<&'static Counters>,
    /// How often somebody had come to wait at the last look.
    arrivals: u64,
}

impl Keeper {
    pub(super) fn new(settings: &Settings, control: Arc<Control>, others: Vec<&'static Counters>) -> Self {
        Self { ending: Ending::new(settings, Arc::clone(&control)), control, others, arrivals: 0 }
    }

    /// Whether it is to be looked again and again how far an end has come.
    pub(super) fn is_ending(&self) -> bool {
        self.ending.is_draining()
    }

    /// The supervisor has called.
    pub(super) fn heed_supervisor(&mut self, pipeline: &Pipeline, service: &Service) {
        self.control.heed();
        let mut places = 0;
        for lane in &pipeline.lanes {
            places += lane.waiting.lock().places();
        }
        service.counters.connection_places.set(places.into());
        let begins = self.ending.heed(service, || census(pipeline));
        self.others.iter().for_each(|block| block.answer_census(Census::default));
        if begins.is_some() {
            pipeline.closes.store(true, Ordering::SeqCst);
            // Whoever is with a stage hears of it when it is read from.
            for lane in &pipeline.lanes {
                for traveller in lane.waiting.lock().iter_mut() {
                    traveller.conversation.machine().drain();
                }
            }
        }
        // They look at the phase themselves, and at their listeners.
        pipeline.acceptors.iter().for_each(AcceptorBell::wake);
    }

    /// Goes on with ending. Nothing has come of this turn's look if nothing `has_moved`.
    pub(super) fn see_to_the_end(
        &mut self,
        pipeline: &Pipeline,
        service: &Service,
        has_moved: bool,
        lines: &mut [VecDeque<Boxed>],
    ) {
        if self.control.phase() == Phase::Stop {
            return cut_off(pipeline);
        }
        if !self.ending.has_begun() {
            return;
        }
        let (now, open) = (service.clock.tick, pipeline.open.load(Ordering::SeqCst));
        if self.ending.gives_up(now) {
            tracing::warn!("{open} connections cut off: the drain timeout is over");
            return cut_off(pipeline);
        }
        if !pipeline.doors_are_shut() {
            return;
        }
        if open == 0 {
            return pipeline.end();
        }
        let (mut waiting, mut arrivals) = (0, 0);
        for lane in &pipeline.lanes {
            let counts = lane.waiting.lock().counts();
            (waiting, arrivals) = (waiting + counts.0, arrivals + counts.1);
        }
        // Who has come since the last look may have a request waiting.
        let has_rested = std::mem::replace(&mut self.arrivals, arrivals) == arrivals && !has_moved;
        if self.ending.closes_idle_ones(now) && has_rested && waiting == open {
            close_idle_ones_if_all_are(pipeline, service, lines);
        }
    }
}

/// Has all threads end, whoever is still served.
fn cut_off(pipeline: &Pipeline) {
    for lane in &pipeline.lanes {
        lane.waiting.lock().iter_mut().for_each(|traveller| traveller.conversation.cut_off());
    }
    pipeline.end();
}

/// Idle connections go last: as long as others are served, a request may still come on one of them.
fn close_idle_ones_if_all_are(pipeline: &Pipeline, service: &Service, lines: &mut [VecDeque<Boxed>]) {
    let is_busy = |traveller: &mut Boxed| {
        let machine = traveller.conversation.machine();
        !machine.is_idle() && !machine.is_lingering()
    };
    if pipeline.lanes.iter().any(|lane| lane.waiting.lock().iter_mut().any(is_busy)) {
        return;
    }
    for (lane, line) in pipeline.lanes.iter().zip(lines) {
        let mut waiting = lane.waiting.lock();
        for index in 0..waiting.places() {
            if waiting.at(index).is_some_and(|one| one.conversation.machine().close_if_idle())
                && let Some(traveller) = waiting.take_at(index)
            {
                pipeline.line_up(traveller, service.clock.ns, line);
            }
        }
    }
}

fn census(pipeline: &Pipeline) -> Census {
    let (mut counts, mut waiting) = (Census::default(), 0);
    for lane in &pipeline.lanes {
        for traveller in lane.waiting.lock().iter_mut() {
            counts[traveller.conversation.state() as usize] += 1;
            waiting += 1;
        }
    }
    let open = u64::from(pipeline.open.load(Ordering::SeqCst));
    counts[ConnectionState::Writing as usize] += open.saturating_sub(waiting);
    counts
}
