//! A request's body that is passed on as it comes, because the pool streams uploads.
//!
//! ```text
//! client -- body --> Link's output --> server
//! ```
//!
//! The request waits for its turn first. Until a server takes it, nothing of the body is received, so an
//! upload that waits occupies no memory and no disk here. After that, no more is received than the server
//! takes soon. What has been passed on is gone, so the request can't be sent once more.

use http1::Tick;

use super::super::Gateway;
use super::super::failure::Failure;
use super::super::http_request::BodyLength;
use super::super::link::Setup;
use super::{Relay, Stage};

/// A body that is passed on as it comes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Upload {
    pub(super) length: BodyLength,
    /// The client has sent all of it.
    is_over: bool,
}

impl Relay {
    /// The client is to send a body, of this length if it is known. If the pool streams uploads, the request
    /// goes to the queue now.
    ///
    /// # Errors
    ///
    /// The queue has no room.
    pub fn begin_body(
        &mut self,
        gateway: &mut Gateway,
        length: Option<u64>,
        now: Tick,
    ) -> Result<(), Failure> {
        if !gateway.pools[self.pool].http.as_ref().is_some_and(|terms| terms.streams_uploads) {
            return Ok(());
        }
        let length = length.map_or(BodyLength::Unknown, BodyLength::Known);
        self.upload = Some(Upload { length, is_over: false });
        // A body would come before what is said in the other protocol.
        (self.is_repeatable, self.offers_upgrade) = (false, false);
        self.end_body(gateway, now)
    }

    /// Whether some of the client's body is still to be passed on as it comes.
    pub fn streams_body(&self) -> bool {
        self.upload.is_some_and(|upload| !upload.is_over)
    }

    /// Whether a server takes more of the client's body now.
    pub(super) fn takes_body(&self) -> bool {
        let takes =
            matches!(&self.stage, Stage::Asking(link) if link.setup == Setup::Ready && link.takes_body());
        takes && self.streams_body()
    }

    /// Passes a piece of the body on.
    pub(super) fn pass_body(&mut self, bytes: &[u8]) {
        if let Stage::Asking(link) = &mut self.stage {
            link.pass_body(bytes);
        }
    }

    /// All of the body has come.
    pub(super) fn end_upload(&mut self) {
        if let Some(upload) = &mut self.upload {
            upload.is_over = true;
        }
        if let Stage::Asking(link) = &mut self.stage {
            link.ends_body();
        }
    }
}
