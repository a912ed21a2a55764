//! Interim replies (1xx) to a client that waits for an application's reply (RFC 9110 section 15.2).

use fastcgi::response::Head;
use http1::Status;
use itoa::Buffer;

/// The heads of interim replies that the client has not taken, in order.
#[derive(Debug, Default)]
pub struct Interims {
    heads: Vec<u8>,
    /// How many bytes of them are sent.
    gone: usize,
}

/// Most bytes of heads in memory.
const MOST: usize = 8 << 10;

/// The head that asks for a body (RFC 9110 section 15.2.1).
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

impl Interims {
    /// Asks the client for the request's body.
    pub fn ask_for_body(&mut self) {
        self.heads.extend_from_slice(CONTINUE);
    }

    /// Adds a head of the application. Returns whether there is room for it. An application must not make
    /// the server keep more.
    pub(super) fn add(&mut self, head: &Head<'_>) -> bool {
        let before = self.heads.len();
        let reason = head.reason.unwrap_or_else(|| Status(head.status).reason().as_bytes());
        self.put(&[b"HTTP/1.1 ", Buffer::new().format(head.status).as_bytes(), b" ", reason, b"\r\n"]);
        for (name, value) in head.for_client() {
            self.put(&[name.as_bytes(), b": ", value, b"\r\n"]);
        }
        self.put(&[b"\r\n"]);
        let has_room = self.heads.len() <= MOST;
        if !has_room {
            self.heads.truncate(before);
            self.heads.shrink_to(MOST);
        }
        has_room
    }

    fn put(&mut self, parts: &[&[u8]]) {
        for part in parts {
            self.heads.extend_from_slice(part);
        }
    }

    /// Whether the client has taken all.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// What is to be sent next.
    pub fn unsent(&self) -> &[u8] {
        &self.heads[self.gone..]
    }

    /// Records that `count` more bytes were sent.
    pub fn sent(&mut self, count: usize) {
        self.gone += count;
        if self.gone == self.heads.len() {
            *self = Self::default();
        }
    }

    /// Whether a part has been sent, and the rest has not. Only that rest can follow it.
    pub fn is_cut(&self) -> bool {
        self.gone > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head<'a>(status: u16, reason: Option<&'a [u8]>, fields: &[(&'a [u8], &'a [u8])]) -> Head<'a> {
        Head::of((status, reason), None, fields.iter().copied())
    }

    #[test]
    fn heads_wait_in_order_until_they_are_sent() {
        let mut interims = Interims::default();
        interims.ask_for_body();
        let fields: &[(&[u8], &[u8])] =
            &[(b"Link", b"</a>"), (b"content-length", b"1"), (b"Connection", b"close"), (b"Link", b"</b>")];
        assert!(interims.add(&head(103, Some(b"Hints"), fields)));
        assert!(interims.add(&head(102, None, &[])) && interims.add(&head(199, None, &[])));
        let mut sent = Vec::new();
        while !interims.is_empty() {
            let count = interims.unsent().len().min(7);
            sent.extend_from_slice(&interims.unsent()[..count]);
            interims.sent(count);
            assert_eq!(interims.is_cut(), !interims.is_empty());
        }
        assert_eq!(
            String::from_utf8(sent).unwrap(),
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: </a>\r\nLink: </b>\r\n\r\n\
             HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 199 \r\n\r\n"
        );
    }

    #[test]
    fn heads_take_no_more_room_than_they_may() {
        let mut interims = Interims::default();
        let value = vec![b'x'; MOST];
        assert!(!interims.add(&head(103, None, &[(b"Link", &value)])) && interims.is_empty());
        let hints = head(103, None, &[(b"Link", &value[..1000])]);
        let added = (0..100).filter(|_| interims.add(&hints)).count();
        assert_eq!((added, interims.unsent().len()), (7, 7 * 1036));
        assert!(!interims.add(&head(103, None, &[(b"Link", &value)])));
        assert!(interims.heads.capacity() <= MOST, "{}", interims.heads.capacity());
        assert!(interims.add(&head(102, None, &[])), "a short one fits");
        interims.sent(interims.unsent().len());
        assert!(interims.add(&hints) && interims.heads.capacity() < MOST);
    }
}
