//! The progress of a conversation in a turn, or in a stage of a turn.

#[cfg(doc)]
use super::Conversation;
use crate::helpers::Job;

/// How a turn of a conversation ended.
#[derive(Debug)]
pub enum Turn {
    /// It waits for the client, as [`needs`](Conversation::needs) says.
    Blocked,
    /// It waits until this job has been done. Only in a worker whose
    /// [caller](crate::service::Service::may_block) must not block for the disk.
    Disk(Box<Job>),
    /// It waits for the client's socket, and for an application's, as [`Conversation::link`] says.
    Application,
    /// It has used up its quantum and could continue at once.
    Unfinished,
    /// It is over: close the socket.
    Close,
    /// It is over: reset the connection.
    Reset,
}

/// The next thing to do with a conversation after one stage.
#[derive(Debug)]
pub enum Next {
    /// Receive from the client.
    Receive,
    /// Send to the client.
    Send,
    /// Neither now.
    Turn(Turn),
}
