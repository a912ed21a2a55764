//! How far a turn, or a stage of one, has brought a conversation.

#[cfg(doc)]
use super::Conversation;
use crate::helpers::Job;

/// How a turn of a conversation ended.
#[derive(Debug)]
pub enum Turn {
    /// It waits for what it [needs](Conversation::needs) of its client.
    Blocked,
    /// It waits until somebody has done this for it. Only in a worker without
    /// [patience](crate::service::Service::patience).
    Disk(Box<Job>),
    /// It waits for the socket, and for an application's, as [`Conversation::link`] says.
    Application,
    /// It has used up its share and could go on at once.
    Unfinished,
    /// It is over: close the socket.
    Close,
    /// It is over: reset the connection.
    Reset,
}

/// What is to be done next with a conversation, as far as one stage has brought it.
#[derive(Debug)]
pub enum Next {
    /// To receive from it.
    Receive,
    /// To send to it.
    Send,
    /// Neither now.
    Turn(Turn),
}
