//! Request methods (RFC 9110 section 9, RFC 5789).

/// A method that HTTP defines. Names are case-sensitive; anything else is answered 501.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Transfer the current representation.
    Get,
    /// What GET would answer, without the content (RFC 9110 section 9.3.2).
    Head,
    /// Process the request's content.
    Post,
    /// Replace the representation.
    Put,
    /// Remove the resource.
    Delete,
    /// Establish a tunnel.
    Connect,
    /// Describe the options for the target.
    Options,
    /// Loop the request back.
    Trace,
    /// Modify in part (RFC 5789).
    Patch,
}

impl Method {
    /// Whether a request has the same effect, however often it is sent (RFC 9110 section 9.2.2).
    pub fn is_idempotent(self) -> bool {
        !matches!(self, Self::Post | Self::Connect | Self::Patch)
    }

    /// The method of that name, or none when HTTP does not define it.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"GET" => Self::Get,
            b"HEAD" => Self::Head,
            b"POST" => Self::Post,
            b"PUT" => Self::Put,
            b"DELETE" => Self::Delete,
            b"CONNECT" => Self::Connect,
            b"OPTIONS" => Self::Options,
            b"TRACE" => Self::Trace,
            b"PATCH" => Self::Patch,
            _ => return None,
        })
    }

    /// The name as sent.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
            Self::Options => "OPTIONS",
            Self::Trace => "TRACE",
            Self::Patch => "PATCH",
        }
    }
}
