//! Bytes that are changed on their way, as TLS changes them. There is no cipher in it, and all that makes TLS
//! awkward: a handshake; input that is nothing until a record is whole; output that is longer than what it
//! carries, and that has been sent when the last byte of its record has; writes that wait for a read; and an
//! end that both sides say.
//!
//! A record is its kind, the length of what follows in two bytes, and that: the bytes of [`DATA`], each
//! changed, and their sum.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use server::conversation::Conversation;
use server::service::Service;

use crate::front::Channel;
use crate::turn::{self, Brought, Bytes, Ended};
use harness::Random;

const HELLO: u8 = 1;
const DATA: u8 = 2;
/// Asks for new keys: nothing more is written until the other side has said [`KEYS`].
const REKEY: u8 = 3;
const KEYS: u8 = 4;
const CLOSE: u8 = 5;

/// Bytes in a record at most.
const MOST: usize = 1000;
/// Records between two changes of keys.
const PER_KEY: u32 = 5;
/// Bytes that leave at a time at most.
const LEAVING: usize = 900;
const CHANGE: u8 = 0x5a;
/// How long the other side may take to say its end.
const LONGEST_CLOSE: Duration = Duration::from_secs(1);

fn record(kind: u8, bytes: &[u8]) -> Vec<u8> {
    let sum = bytes.iter().fold(0_u8, |sum, &byte| sum.wrapping_add(byte));
    let [high, low] = ((bytes.len() + 1) as u16).to_be_bytes();
    let changed = bytes.iter().map(|byte| byte ^ CHANGE);
    [kind, high, low].into_iter().chain(changed).chain([sum]).collect()
}

/// Takes a record from the front, if it is whole.
fn take_record(bytes: &mut VecDeque<u8>) -> Option<(u8, Vec<u8>)> {
    let [kind, high, low] = [*bytes.front()?, *bytes.get(1)?, *bytes.get(2)?];
    let len = usize::from(u16::from_be_bytes([high, low]));
    if bytes.len() < 3 + len {
        return None;
    }
    let mut content: Vec<u8> = bytes.drain(..3 + len).skip(3).collect();
    let sum = content.pop().expect("a sum");
    for byte in &mut content {
        *byte ^= CHANGE;
    }
    assert_eq!(sum, content.iter().fold(0, |sum: u8, &byte| sum.wrapping_add(byte)), "a record is whole");
    Some((kind, content))
}

/// A conversation whose bytes travel in records.
pub(crate) struct Records {
    conversation: Conversation,
    layer: Layer,
    /// When the end was said, if it was.
    closing_since: Option<Instant>,
}

/// What lies between the conversation's bytes and those that travel.
#[derive(Default)]
struct Layer {
    /// What has come, up to a record that is not whole.
    arrived: VecDeque<u8>,
    /// What it came to.
    plain: VecDeque<u8>,
    /// The other side has said its end.
    has_ended: bool,
    /// What is to leave.
    leaving: VecDeque<u8>,
    /// Bytes of the reply in the record that is leaving, until all of it has left.
    under_way: usize,
    is_greeted: bool,
    records: u32,
    awaits_keys: bool,
}

impl Layer {
    /// Makes what it can of what has arrived.
    fn open_records(&mut self) {
        while let Some((kind, content)) = take_record(&mut self.arrived) {
            match kind {
                HELLO => {
                    assert!(!self.is_greeted, "it is said once");
                    self.is_greeted = true;
                    self.leaving.extend(record(HELLO, b""));
                }
                DATA => self.plain.extend(content),
                KEYS => self.awaits_keys = false,
                CLOSE => self.has_ended = true,
                kind => panic!("no client sends a record of kind {kind}"),
            }
        }
    }

    /// Some of what is to leave.
    fn leave(&mut self, most: usize) -> Vec<u8> {
        let count = self.leaving.len().min(most);
        self.leaving.drain(..count).collect()
    }
}

impl Bytes for Layer {
    fn bring(&mut self, room: &mut [u8]) -> Brought {
        let count = self.plain.len().min(room.len());
        if count == 0 {
            return if self.has_ended { Brought::End } else { Brought::Nothing };
        }
        for (place, byte) in room.iter_mut().zip(self.plain.drain(..count)) {
            *place = byte;
        }
        Brought::Bytes(count)
    }

    /// One record at a time, and none before the other side is known and has the keys.
    fn room(&mut self) -> usize {
        if self.is_greeted && self.leaving.is_empty() && self.under_way == 0 && !self.awaits_keys {
            MOST
        } else {
            0
        }
    }

    /// Nothing is sent before all of the record has left.
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.leaving.extend(record(DATA, bytes));
        self.under_way = bytes.len();
        self.records += 1;
        if self.records.is_multiple_of(PER_KEY) {
            self.leaving.extend(record(REKEY, b""));
            self.awaits_keys = true;
        }
        Ok(0)
    }
}

impl Records {
    pub(crate) fn new(conversation: Conversation) -> Self {
        Self { conversation, layer: Layer::default(), closing_since: None }
    }

    fn comes(&mut self, bytes: &[u8]) {
        self.layer.arrived.extend(bytes);
        self.layer.open_records();
    }

    fn work(&mut self, service: &mut Service) -> Ended {
        if self.layer.leaving.is_empty() && self.layer.under_way > 0 {
            let sent = std::mem::take(&mut self.layer.under_way);
            if self.conversation.is_replying() {
                self.conversation.sent(service, sent as u64);
            }
        }
        let ended = turn::turn(&mut self.conversation, service, &mut self.layer);
        match ended {
            Ended::Waits | Ended::Reset => ended,
            Ended::ShutDown | Ended::Close => {
                if self.closing_since.is_none() {
                    self.layer.leaving.extend(record(CLOSE, b""));
                }
                // It is over when the other side has said the same, or does not for a while.
                let since = *self.closing_since.get_or_insert_with(Instant::now);
                let is_answered = self.layer.has_ended || since.elapsed() > LONGEST_CLOSE;
                let waits = !self.layer.leaving.is_empty() || ended == Ended::Close && !is_answered;
                if waits { Ended::Waits } else { ended }
            }
        }
    }
}

/// The other end of the records, in front of a client that knows nothing of them. It cuts what it brings
/// anywhere.
pub(crate) struct Peer {
    records: Records,
    arrived: VecDeque<u8>,
    cuts: Random,
    has_ended: bool,
    /// The other side has said its end.
    is_told: bool,
}

impl Peer {
    pub(crate) fn new(records: Records, seed: u64) -> Self {
        let mut this =
            Self { records, arrived: VecDeque::new(), cuts: Random(seed), has_ended: false, is_told: false };
        this.bring(&record(HELLO, b""));
        this
    }

    fn bring(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (piece, rest) = bytes.split_at(1 + self.cuts.below(bytes.len()));
            self.records.comes(piece);
            bytes = rest;
        }
    }
}

impl Channel for Peer {
    fn comes(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (piece, rest) = bytes.split_at(1 + self.cuts.below(bytes.len().min(MOST)));
            self.bring(&record(DATA, piece));
            bytes = rest;
        }
    }

    fn input_ends(&mut self) {
        if !std::mem::replace(&mut self.has_ended, true) {
            self.bring(&record(CLOSE, b""));
        }
    }

    fn work(&mut self, service: &mut Service) -> Ended {
        self.records.work(service)
    }

    fn goes(&mut self) -> Vec<u8> {
        let mut plain = Vec::new();
        while plain.is_empty() && !self.records.layer.leaving.is_empty() {
            let most = 1 + self.cuts.below(LEAVING);
            self.arrived.extend(self.records.layer.leave(most));
            while let Some((kind, content)) = take_record(&mut self.arrived) {
                match kind {
                    HELLO => {}
                    DATA => plain.extend(content),
                    REKEY => self.bring(&record(KEYS, b"")),
                    CLOSE => self.is_told = true,
                    kind => panic!("no server sends a record of kind {kind}"),
                }
            }
        }
        plain
    }

    fn is_told_the_end(&self) -> bool {
        self.is_told
    }

    fn output_is_shut(&mut self, service: &Service) {
        self.records.conversation.output_is_shut(service);
    }

    fn end(self: Box<Self>, service: &mut Service) {
        self.records.conversation.end(service);
    }
}
