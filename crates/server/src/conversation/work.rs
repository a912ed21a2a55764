//! A turn: both directions by turns, until something would block or the share is used.

use std::os::fd::AsFd;

use http1::End;

use super::Conversation;
use super::send::Written;
use crate::helpers::Job;
use crate::service::Service;

/// How a turn of a conversation ended.
#[derive(Debug)]
pub enum Turn {
    /// It waits for the socket, as [`Conversation::wants`] says.
    Blocked,
    /// It waits until somebody has done this for it. Only in a worker without [patience](Service::patience).
    Disk(Box<Job>),
    /// It has used up its share and could go on at once.
    Unfinished,
    /// It is over: close the socket.
    Close,
    /// It is over: reset the connection.
    Reset,
}

impl Conversation {
    /// Reads, answers and writes until the socket blocks, the conversation ends, or its share of the turn is
    /// used.
    pub fn work(&mut self, service: &mut Service) -> Turn {
        if self.waits_for_disk().is_some() {
            return self.keep_waiting(service);
        }
        let mut scratch = std::mem::take(&mut service.scratch);
        let mut share = service.quantum;
        self.active = service.clock.tick;
        self.go_on(service, &mut share);
        let turn = self.work_within(service, &mut scratch, &mut share);
        service.scratch = scratch;
        self.carried_over = self.machine.is_replying();
        match self.take_job() {
            Some(job) => Turn::Disk(Box::new(job)),
            None => turn,
        }
    }

    fn work_within(&mut self, service: &mut Service, scratch: &mut [u8], share: &mut u64) -> Turn {
        loop {
            if self.waiting.is_some() {
                return Turn::Blocked;
            }
            if self.machine.is_replying() {
                match self.write(service, share, None) {
                    Written::ShareUsed => return Turn::Unfinished,
                    // A body may still be read behind a reply that would block.
                    Written::Blocked if !self.machine.is_reading_body() => return Turn::Blocked,
                    Written::All | Written::Blocked => {}
                }
            }
            match self.machine.wants().end {
                End::Open => {}
                End::Close if self.may_have_more() => {
                    self.take_what_is_behind(service, scratch, share);
                    if self.machine.wants().end == End::Close {
                        return Turn::Close;
                    }
                    continue;
                }
                End::Close => return Turn::Close,
                End::Reset => return Turn::Reset,
                End::ShutDown => {
                    if sys::socket::shutdown_write(self.socket.as_fd()).is_err() {
                        return Turn::Close;
                    }
                    self.machine.write_side_shut(&service.limits, service.clock.tick);
                    continue;
                }
            }
            let kept = self.rest.len();
            if self.rest_unseen || self.eof {
                scratch[..kept].copy_from_slice(&self.rest);
                self.rest_unseen = false;
                let was = self.machine.wants();
                self.take_input(service, &scratch[..kept], share);
                // With the client's end known, there is no event to wait for: go on as long as that changes
                // anything.
                if self.eof
                    && self.machine.wants() == was
                    && !self.machine.is_replying()
                    && self.waiting.is_none()
                {
                    return Turn::Close;
                }
            } else if self.readable && self.machine.wants().read {
                if *share == 0 {
                    return Turn::Unfinished;
                }
                scratch[..kept].copy_from_slice(&self.rest);
                match self.read(service, &mut scratch[kept..]) {
                    Some(n) => {
                        *share = share.saturating_sub(n as u64);
                        self.take_input(service, &scratch[..kept + n], share);
                    }
                    None if self.machine.wants().end == End::Open => return Turn::Blocked,
                    None => {}
                }
            } else {
                return Turn::Blocked;
            }
        }
    }
}
