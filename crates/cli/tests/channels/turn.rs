//! A turn of a conversation whose bytes a channel of these tests moves at once, or not at all.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use server::conversation::{Conversation, Follows, Input, Operation, Runs, Unsent, Want};
use server::line::Line;
use server::service::Service;

/// Where a turn's bytes come from and go to.
pub(crate) trait Bytes {
    /// Puts some of what has come where there is room.
    fn bring(&mut self, room: &mut [u8]) -> Brought;
    /// How many bytes can be taken now. 0: none before the next turn.
    fn room(&mut self) -> usize;
    /// Takes so many bytes at most, and says of how many it is known now that they are sent.
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize>;
}

/// What has come.
#[derive(Debug)]
pub(crate) enum Brought {
    Bytes(usize),
    Nothing,
    End,
    Broken(io::Error),
}

/// How a turn has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It waits for more.
    Waits,
    /// The output is to be ended.
    ShutDown,
    Close,
    Reset,
}

/// Goes on as far as can be.
pub(crate) fn turn(conversation: &mut Conversation, service: &mut Service, bytes: &mut impl Bytes) -> Ended {
    service.begin_turn();
    if conversation.deadline().is_some_and(|deadline| deadline.reached(service.clock.tick)) {
        let _ = conversation.expire(service, Line::NONE);
    }
    conversation.begins_turn(service);
    let mut scratch = std::mem::take(&mut service.scratch);
    let mut input = Input::new(&mut scratch);
    let ended = loop {
        if conversation.is_replying() {
            let most = bytes.room();
            if most == 0 {
                conversation.carry_over();
                break Ended::Waits;
            }
            match next_bytes(conversation, service, most) {
                Err(unsent) => conversation.not_sent(service, unsent),
                Ok(run) => match bytes.send(&run) {
                    Ok(sent) => conversation.sent(service, sent as u64),
                    Err(error) => conversation.not_sent(service, Unsent::Broken(error)),
                },
            }
            continue;
        }
        conversation.release(service);
        let wanted = match conversation.wants(&input, || true) {
            Want::Nothing => break Ended::Waits,
            Want::Close => break Ended::Close,
            Want::Reset => break Ended::Reset,
            Want::ShutDown => break Ended::ShutDown,
            Want::Take(wanted) => {
                conversation.take_up(&mut input);
                wanted
            }
            Want::Input(wanted) => {
                conversation.take_up(&mut input);
                match bytes.bring(input.room()) {
                    Brought::Bytes(count) => input.filled(count),
                    Brought::End => conversation.input_ends(),
                    Brought::Broken(error) => conversation.not_received(service, &error),
                    Brought::Nothing if wanted.is_behind() => {}
                    Brought::Nothing => break Ended::Waits,
                }
                wanted
            }
        };
        if !conversation.take(service, || Line::NONE, &mut input, wanted) {
            break Ended::Close;
        }
    };
    conversation.keep(service, &input);
    service.scratch = scratch;
    ended
}

/// The next bytes of a reply, that many at most.
pub(crate) fn next_bytes(
    conversation: &Conversation,
    service: &Service,
    most: usize,
) -> Result<Vec<u8>, Unsent> {
    let mut runs = Runs::new();
    match conversation.next_send(&service.content, &mut runs) {
        None => Err(Unsent::Changed),
        Some(Operation::Gather { follows }) => {
            assert!(!runs.is_empty() || follows == Follows::Nothing || follows == Follows::End);
            let mut bytes: Vec<u8> = runs.iter().flat_map(|run| run.to_vec()).collect();
            bytes.truncate(most);
            Ok(bytes)
        }
        Some(Operation::File { pin, offset, len }) => {
            let file = service.content.file(pin).ok_or(Unsent::Changed)?;
            let file = File::from(file.try_clone_to_owned().map_err(Unsent::Broken)?);
            let mut bytes = vec![0; most.min(len as usize)];
            let count = file.read_at(&mut bytes, offset).map_err(Unsent::Broken)?;
            bytes.truncate(count);
            if count == 0 { Err(Unsent::Changed) } else { Ok(bytes) }
        }
    }
}
