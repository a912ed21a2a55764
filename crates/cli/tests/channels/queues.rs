//! Two queues of bytes, without a socket. What comes is cut anywhere, and so is what goes.

use std::collections::VecDeque;
use std::io;

use server::conversation::Conversation;
use server::service::Service;

use crate::front::Channel;
use crate::turn::{self, Brought, Bytes, Ended};
use harness::Random;

/// Bytes that wait to be taken by the client at most.
const ROOM: usize = 3000;
/// Bytes in one piece at most.
const PIECE: usize = 700;

/// A conversation over two queues.
pub(crate) struct Queues {
    conversation: Conversation,
    bytes: Pair,
}

/// The two queues, and where they cut.
struct Pair {
    input: VecDeque<u8>,
    has_ended: bool,
    output: Vec<u8>,
    cuts: Random,
}

impl Queues {
    pub(crate) fn new(conversation: Conversation, seed: u64) -> Self {
        let bytes = Pair { input: VecDeque::new(), has_ended: false, output: Vec::new(), cuts: Random(seed) };
        Self { conversation, bytes }
    }
}

impl Pair {
    /// A piece of so many bytes at most: often one byte, where most that is cut wrong shows.
    fn piece(&mut self, most: usize) -> usize {
        match self.cuts.below(4) {
            0 => 1,
            1 => 1 + self.cuts.below(8),
            _ => 1 + self.cuts.below(PIECE),
        }
        .min(most)
    }
}

impl Bytes for Pair {
    fn bring(&mut self, room: &mut [u8]) -> Brought {
        let count = self.piece(room.len().min(self.input.len()));
        if count == 0 {
            return if self.has_ended { Brought::End } else { Brought::Nothing };
        }
        for (place, byte) in room.iter_mut().zip(self.input.drain(..count)) {
            *place = byte;
        }
        Brought::Bytes(count)
    }

    fn room(&mut self) -> usize {
        self.piece(ROOM - self.output.len())
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.extend_from_slice(bytes);
        Ok(bytes.len())
    }
}

impl Channel for Queues {
    fn comes(&mut self, bytes: &[u8]) {
        self.bytes.input.extend(bytes);
    }

    fn input_ends(&mut self) {
        self.bytes.has_ended = true;
    }

    fn work(&mut self, service: &mut Service) -> Ended {
        turn::turn(&mut self.conversation, service, &mut self.bytes)
    }

    fn goes(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes.output)
    }

    fn output_is_shut(&mut self, service: &Service) {
        self.conversation.output_is_shut(service);
    }

    fn end(self: Box<Self>, service: &mut Service) {
        self.conversation.end(service);
    }
}
