//! What the stages together owe the supervisor: a census, and an orderly end. Read Poll handles both,
//! because it has most connections most of the time.
//!
//! If a connection is between two stages during a census, it counts as being written to.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Pipeline;
use super::traveller::Boxed;
use super::wakeups::AcceptorWakeup;
use crate::architecture::common::ending::{Census, Ending};
use crate::config::Settings;
use crate::control::{Control, Phase};
use crate::counters::{ConnectionState, Counters};
use crate::service::Service;

/// Receives the supervisor's requests.
pub(super) struct Keeper {
    ending: Ending,
    control: Arc<Control>,
    /// The counters of the other threads, which report no connections.
    others: Vec<&'static Counters>,
    /// How many times a connection had begun to wait, at the last check.
    arrivals: u64,
}

impl Keeper {
    pub(super) fn new(settings: &Settings, control: Arc<Control>, others: Vec<&'static Counters>) -> Self {
        Self { ending: Ending::new(settings, Arc::clone(&control)), control, others, arrivals: 0 }
    }

    /// Whether the progress of an end has to be checked again and again.
    pub(super) fn is_ending(&self) -> bool {
        self.ending.is_draining()
    }

    /// The supervisor has sent a request.
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
            // A connection that is with a stage learns of it when the stage reads from it.
            for lane in &pipeline.lanes {
                for traveller in lane.waiting.lock().iter_mut() {
                    traveller.conversation.machine().drain();
                }
            }
        }
        // They read the phase themselves, and check their listeners.
        pipeline.acceptors.iter().for_each(AcceptorWakeup::wake);
    }

    /// Continues an end of service. `has_moved`: this turn has found events or expired deadlines.
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
        if !pipeline.all_listeners_are_closed() {
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
        // A connection that began to wait since the last check may have a request waiting.
        let has_rested = std::mem::replace(&mut self.arrivals, arrivals) == arrivals && !has_moved;
        if self.ending.closes_idle_ones(now) && has_rested && waiting == open {
            close_idle_ones_if_all_are(pipeline, service, lines);
        }
    }
}

/// Ends all threads, and cuts off the clients that are still being served.
fn cut_off(pipeline: &Pipeline) {
    for lane in &pipeline.lanes {
        lane.waiting.lock().iter_mut().for_each(|traveller| traveller.conversation.cut_off());
    }
    pipeline.end();
}

/// Idle connections are closed last. While others are served, a request may still arrive on an idle one.
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
            if waiting.at(index).is_some_and(|one| one.conversation.close_if_done(service.clock.tick))
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
