//! The chunked transfer coding, decoded without storing a byte (RFC 9112 section 7.1).
//!
//! The caller passes whatever input it has. [`ChunkDecoder::decode`] reads the control lines (chunk
//! sizes, extensions, trailer section), and returns the range of the input that is data. Both roles use
//! it: the server for request bodies, the client for responses.
//!
//! The decoder is strict, as lenient parsers have allowed request smuggling where two parsers disagreed.
//! Every line ends in CRLF. A size is hexadecimal digits and nothing else. White space is allowed only
//! where the grammar has "bad white space": around the delimiters of an extension (section 7.1.1).
//!
//! Neither role needs extensions or trailer fields. They are checked, counted against a limit, and
//! skipped.

use std::ops::Range;

use thiserror::Error;

use crate::syntax::{is_text, is_token};

/// The most bytes of chunk extensions in one message, over all its chunks (RFC 9112 section 7.1.1
/// requires a limit on the total).
pub const MAX_EXTENSION_BYTES: u16 = 4096;

/// The most bytes of trailer section in one message, line endings included (RFC 9112 section 7.1.2).
pub const MAX_TRAILER_BYTES: u16 = 8192;

/// The most hexadecimal digits in a chunk size: what a `u64` holds, leading zeros included.
pub const MAX_SIZE_DIGITS: u8 = 16;

/// The decoder's state within one chunked message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkDecoder {
    /// In a size line, the size read so far. In data, the bytes still to come.
    left: u64,
    extension_budget: u16,
    trailer_budget: u16,
    size_digits: u8,
    state: State,
}

/// The result of a call to [`ChunkDecoder::decode`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chunked {
    /// The input is used up, and the message continues.
    NeedInput,
    /// This range of the input is data; it is never empty, and ends where the consumed input ends.
    Data(Range<usize>),
    /// The message is complete, including its trailer section. The rest of the input is not part of it.
    End,
}

/// Why a chunked message was refused. No recovery is possible, as the end of the message is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ChunkError {
    /// Something other than hexadecimal digits where a chunk size must be.
    #[error("chunk size is not a hexadecimal number")]
    Size,
    /// More than [`MAX_SIZE_DIGITS`] digits.
    #[error("chunk size has too many digits")]
    SizeTooLong,
    /// An extension without a name or value where one is required, or with something else after it.
    #[error("malformed chunk extension")]
    Extension,
    /// More than [`MAX_EXTENSION_BYTES`] in one message.
    #[error("chunk extensions are too long")]
    ExtensionTooLong,
    /// A CR without LF, an LF without CR, or data that is longer than its chunk size.
    #[error("chunk line does not end in CRLF")]
    LineEnding,
    /// A line of the trailer section that is not a field line: no name, no colon, folded, control characters.
    #[error("malformed trailer field")]
    Trailer,
    /// More than [`MAX_TRAILER_BYTES`] in one message.
    #[error("trailer section is too long")]
    TrailerTooLong,
}

/// What the next byte is expected to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Size,
    Extension(Extension),
    SizeLf,
    Data,
    DataCr,
    DataLf,
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLf,
    EndLf,
    Ended,
    Failed(ChunkError),
}

/// The position in a size line after the size: `BWS ; BWS name BWS = BWS value`, any number of times (RFC
/// 9112 section 7.1.1). The value is optional. It is a token or quoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extension {
    /// White space after the size or a value; only an extension may follow.
    Blank,
    /// After the semicolon.
    Start,
    Name,
    NameBlank,
    /// After the equals sign.
    ValueStart,
    Value,
    Quoted,
    /// After a backslash within quotes.
    QuotedPair,
    /// After the second quote.
    QuoteEnd,
}

impl Extension {
    /// Whether the line may end here.
    fn may_end(self) -> bool {
        matches!(self, Self::Name | Self::Value | Self::QuoteEnd)
    }

    /// The position after one more byte.
    fn then(self, byte: u8) -> Result<Self, ChunkError> {
        match (self, byte) {
            (Self::Quoted, b'"') => Ok(Self::QuoteEnd),
            (Self::Quoted, b'\\') => Ok(Self::QuotedPair),
            (Self::Quoted | Self::QuotedPair, _) if is_text(byte) => Ok(Self::Quoted),
            (Self::Start | Self::ValueStart | Self::Blank | Self::NameBlank, b' ' | b'\t') => Ok(self),
            (Self::Name, b' ' | b'\t') => Ok(Self::NameBlank),
            (Self::Value | Self::QuoteEnd, b' ' | b'\t') => Ok(Self::Blank),
            (Self::Blank | Self::Name | Self::NameBlank | Self::Value | Self::QuoteEnd, b';') => {
                Ok(Self::Start)
            }
            (Self::Name | Self::NameBlank, b'=') => Ok(Self::ValueStart),
            (Self::ValueStart, b'"') => Ok(Self::Quoted),
            (Self::Start | Self::Name, _) if is_token(byte) => Ok(Self::Name),
            (Self::ValueStart | Self::Value, _) if is_token(byte) => Ok(Self::Value),
            _ => Err(ChunkError::Extension),
        }
    }
}

impl ChunkDecoder {
    /// A decoder at the first byte of a chunked message.
    pub const fn new() -> Self {
        Self {
            left: 0,
            extension_budget: MAX_EXTENSION_BYTES,
            trailer_budget: MAX_TRAILER_BYTES,
            size_digits: 0,
            state: State::Size,
        }
    }

    /// Decodes more of the message. Returns how many bytes of `input` were used, and what they were.
    ///
    /// Call it again with the rest of the input after [`Chunked::Data`], and with new input after
    /// [`Chunked::NeedInput`]. After the end or an error, it repeats that result and uses nothing.
    pub fn decode(&mut self, input: &[u8]) -> Result<(usize, Chunked), ChunkError> {
        let mut used = 0;
        loop {
            match self.state {
                State::Data if used < input.len() => {
                    let length = self.left.min((input.len() - used) as u64) as usize;
                    self.skip_data(length as u64);
                    return Ok((used + length, Chunked::Data(used..used + length)));
                }
                State::Ended => return Ok((used, Chunked::End)),
                State::Failed(error) => return Err(error),
                _ => {}
            }
            let Some(&byte) = input.get(used) else { return Ok((used, Chunked::NeedInput)) };
            used += 1;
            self.state = self.control(byte).unwrap_or_else(State::Failed);
        }
    }

    /// How many of the next bytes are certainly data: the rest of the current chunk.
    pub fn data_left(&self) -> u64 {
        if self.state == State::Data { self.left } else { 0 }
    }

    /// Skips `count` bytes of data that the caller did not pass, at most [`data_left`](Self::data_left).
    pub fn skip_data(&mut self, count: u64) {
        debug_assert!(count <= self.data_left(), "skipping past the end of a chunk");
        self.left = self.left.saturating_sub(count);
        if self.left == 0 && self.state == State::Data {
            self.state = State::DataCr;
        }
    }

    /// The state after one byte outside the data.
    fn control(&mut self, byte: u8) -> Result<State, ChunkError> {
        use State::{
            Data, DataCr, DataLf, EndLf, Ended, Failed, Size, SizeLf, TrailerLf, TrailerName, TrailerStart,
            TrailerValue,
        };
        match (self.state, byte) {
            (Size, b'\r' | b';' | b' ' | b'\t') if self.size_digits == 0 => Err(ChunkError::Size),
            (Size, b'\r') => Ok(SizeLf),
            (Size, b';') => self.extension(Extension::Start),
            (Size, b' ' | b'\t') => self.extension(Extension::Blank),
            (Size, _) if byte != b'\n' => self.size_digit(byte),
            (State::Extension(at), b'\r') if at.may_end() => Ok(SizeLf),
            (State::Extension(at), _) if byte != b'\n' => self.extension(at.then(byte)?),
            (SizeLf, b'\n') => Ok(if self.left == 0 { TrailerStart } else { Data }),

            (DataCr, b'\r') => Ok(DataLf),
            (DataLf, b'\n') => {
                self.size_digits = 0;
                Ok(Size)
            }

            (TrailerStart, b'\r') => Ok(EndLf),
            (EndLf, b'\n') => Ok(Ended),
            (TrailerStart | TrailerName, _) if is_token(byte) => self.trailer(TrailerName),
            (TrailerName, b':') => self.trailer(TrailerValue),
            (TrailerValue, b'\r') => self.trailer(TrailerLf),
            (TrailerValue, _) if is_text(byte) => self.trailer(TrailerValue),
            (TrailerStart | TrailerName | TrailerValue, _) if byte != b'\n' => Err(ChunkError::Trailer),
            (TrailerLf, b'\n') => self.trailer(TrailerStart),

            (state @ (Data | Ended | Failed(_)), _) => Ok(state),
            _ => Err(ChunkError::LineEnding),
        }
    }

    fn size_digit(&mut self, byte: u8) -> Result<State, ChunkError> {
        let digit = char::from(byte).to_digit(16).ok_or(ChunkError::Size)?;
        if self.size_digits == 0 {
            self.left = 0;
        } else if self.size_digits == MAX_SIZE_DIGITS {
            return Err(ChunkError::SizeTooLong);
        }
        self.size_digits += 1;
        self.left = self.left << 4 | u64::from(digit);
        Ok(State::Size)
    }

    fn extension(&mut self, next: Extension) -> Result<State, ChunkError> {
        self.extension_budget = self.extension_budget.checked_sub(1).ok_or(ChunkError::ExtensionTooLong)?;
        Ok(State::Extension(next))
    }

    fn trailer(&mut self, next: State) -> Result<State, ChunkError> {
        self.trailer_budget = self.trailer_budget.checked_sub(1).ok_or(ChunkError::TrailerTooLong)?;
        Ok(next)
    }
}

impl Default for ChunkDecoder {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const _: () = assert!(size_of::<ChunkDecoder>() <= 24);

    /// Data, bytes used, and whether the message ended, if the input comes in pieces of these sizes.
    fn run(
        input: &[u8],
        pieces: impl IntoIterator<Item = usize>,
    ) -> Result<(Vec<u8>, usize, bool), ChunkError> {
        let mut decoder = ChunkDecoder::new();
        let (mut data, mut at, mut pieces) = (Vec::new(), 0, pieces.into_iter());
        while at < input.len() {
            let end = (at + pieces.next().unwrap_or(usize::MAX).clamp(1, input.len())).min(input.len());
            while at < end {
                let lent = &input[at..end];
                let (used, chunked) = decoder.decode(lent)?;
                at += used;
                match chunked {
                    Chunked::NeedInput => assert_eq!(used, lent.len()),
                    Chunked::Data(range) => {
                        assert!(!range.is_empty() && range.end == used);
                        data.extend_from_slice(&lent[range]);
                    }
                    Chunked::End => {
                        assert_eq!(decoder.decode(b"0"), Ok((0, Chunked::End)));
                        return Ok((data, at, true));
                    }
                }
            }
        }
        Ok((data, at, false))
    }

    fn whole(input: &[u8]) -> Result<(Vec<u8>, usize, bool), ChunkError> {
        run(input, [])
    }

    #[test]
    fn reads_the_data_of_all_chunks() {
        let input = b"4\r\nWiki\r\nA\r\npedia in\r\n\r\n000\r\n\r\nGET";
        assert_eq!(whole(input), Ok((b"Wikipedia in\r\n".to_vec(), input.len() - 3, true)));
    }

    #[test]
    fn skips_extensions_and_trailers() {
        let input = b"3;a=b;c=\"d e\"\r\nabc\r\n0;z\r\nX-Sum: 1\r\nEmpty:\r\n\r\n";
        assert_eq!(whole(input), Ok((b"abc".to_vec(), input.len(), true)));
        // White space is allowed around the delimiters, and anything printable within quotes.
        for extensions in
            [" ; a = b", "\t;\ta", ";a ;b", ";a =b ;c", ";a=\"\"", ";a= \"; \\\" \\\\ \u{e9}\" ; b"]
        {
            let input = format!("3{extensions}\r\nabc\r\n0\r\n\r\n");
            assert_eq!(whole(input.as_bytes()), Ok((b"abc".to_vec(), input.len(), true)), "{extensions:?}");
        }
    }

    #[test]
    fn refuses_sizes_that_are_not_hexadecimal() {
        for size in ["", "+4", "-4", "0x4", " 4", "\t4", " ;a", "g", "4_", ";a", "\u{664}"] {
            let input = format!("{size}\r\nWiki\r\n0\r\n\r\n");
            assert_eq!(whole(input.as_bytes()), Err(ChunkError::Size), "{size:?}");
        }
    }

    #[test]
    fn takes_the_largest_size_and_no_larger() {
        let mut decoder = ChunkDecoder::new();
        assert_eq!(decoder.decode(b"ffffFFFFffffFFFF\r\n"), Ok((18, Chunked::NeedInput)));
        assert_eq!(decoder.data_left(), u64::MAX);
        decoder.skip_data(u64::MAX - 1);
        assert_eq!(decoder.decode(b"xy"), Ok((1, Chunked::Data(0..1))));
        assert_eq!(decoder.decode(b"y"), Err(ChunkError::LineEnding));
        assert_eq!(decoder.decode(b"\r"), Err(ChunkError::LineEnding), "an error stays");
        assert_eq!(whole(b"10000000000000000\r\n"), Err(ChunkError::SizeTooLong));
        assert_eq!(whole(b"00000000000000001\r\n"), Err(ChunkError::SizeTooLong));
    }

    #[test]
    fn demands_crlf_everywhere() {
        for input in [
            "4\nWiki\r\n0\r\n\r\n",
            "4\rWiki\r\n0\r\n\r\n",
            "4;a\nWiki\r\n0\r\n\r\n",
            "4;a\rb\r\nWiki\r\n0\r\n\r\n",
            "4\r\nWiki\n0\r\n\r\n",
            "4\r\nWiki0\r\n\r\n",
            "4\r\nWikip\r\n0\r\n\r\n",
            "4\r\nWiki\rX0\r\n\r\n",
            "0\r\n\n",
            "0\r\n\rX",
            "0\r\nA: b\n\r\n",
            "0\r\nA: b\rc\r\n\r\n",
        ] {
            assert_eq!(whole(input.as_bytes()), Err(ChunkError::LineEnding), "{input:?}");
        }
    }

    #[test]
    fn refuses_malformed_extensions_and_trailers() {
        for extensions in [
            " ",
            "\t",
            " a",
            ";",
            "; ",
            " ;",
            ";;a",
            ";a;",
            ";a=",
            ";a= ",
            ";=b",
            ";a b",
            ";a=b c",
            ";a ",
            ";a=b ",
            ";a=\"b",
            ";a=\"b\\\"",
            ";a=\"b\"c",
            ";a=\"b\" ",
            ";a==b",
            ";a(=b",
            ";a=\u{e9}",
            ";a\0",
            ";a=\"\0\"",
            ";a=\"\\\0\"",
        ] {
            let input = format!("4{extensions}\r\nWiki\r\n0\r\n\r\n");
            assert_eq!(whole(input.as_bytes()), Err(ChunkError::Extension), "{extensions:?}");
        }
        for line in [": x", " a: b", "a b: c", "a : b", "a", "a: b\0", "a: b\r\n folded"] {
            let input = format!("0\r\n{line}\r\n\r\n");
            assert_eq!(whole(input.as_bytes()), Err(ChunkError::Trailer), "{line:?}");
        }
    }

    #[test]
    fn bounds_extensions_over_the_whole_message() {
        let extension = "x".repeat(usize::from(MAX_EXTENSION_BYTES) / 2 - 1);
        let chunk = format!("1;{extension}\r\na\r\n");
        let within = format!("{chunk}{chunk}0\r\n\r\n");
        assert!(whole(within.as_bytes()).is_ok_and(|(data, _, ended)| ended && data == b"aa"));
        let beyond = format!("{chunk}{chunk}0 ;x\r\n\r\n");
        assert_eq!(whole(beyond.as_bytes()), Err(ChunkError::ExtensionTooLong));
    }

    #[test]
    fn bounds_the_trailer_section() {
        let line = format!("a: {}\r\n", "x".repeat(usize::from(MAX_TRAILER_BYTES) - 5));
        assert!(whole(format!("0\r\n{line}\r\n").as_bytes()).is_ok_and(|(_, _, ended)| ended));
        assert_eq!(whole(format!("0\r\n{line}b").as_bytes()), Err(ChunkError::TrailerTooLong));
    }

    /// Mostly well-formed messages, with some bytes overwritten.
    fn messages() -> impl Strategy<Value = Vec<u8>> {
        let extension =
            "([ \t]{0,2};[ \t]?[a-z]{1,5}([ ]?=[ ]?([a-z]{1,3}|\"([ -!#-\\[\\]-~]|\\\\[ -~]){0,6}\"))?)?";
        let chunk = (prop::collection::vec(any::<u8>(), 1..40), extension);
        let trailer = prop::collection::vec("[A-Za-z-]{1,8}:[ -~]{0,10}\r\n", 0..3);
        let damage = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3);
        (prop::collection::vec(chunk, 0..6), trailer, damage).prop_map(|(chunks, trailer, damage)| {
            let mut message = Vec::new();
            for (data, extension) in chunks {
                message.extend(format!("{:x}{extension}\r\n", data.len()).bytes());
                message.extend(data);
                message.extend(b"\r\n");
            }
            message.extend(format!("0\r\n{}\r\nrest", trailer.concat()).bytes());
            for (index, byte) in damage {
                let index = index.index(message.len());
                message[index] = byte;
            }
            message
        })
    }

    proptest! {
        #[test]
        fn cutting_the_input_changes_nothing(
            message in messages(),
            pieces in prop::collection::vec(1usize..12, 0..80),
        ) {
            let uncut = whole(&message);
            prop_assert_eq!(run(&message, pieces), uncut.clone());
            prop_assert_eq!(run(&message, std::iter::repeat(1)), uncut);
        }

        #[test]
        fn gives_back_what_was_encoded(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..50), 0..8),
        ) {
            let mut message = Vec::new();
            for chunk in &chunks {
                message.extend(format!("{:X}\r\n", chunk.len()).bytes());
                message.extend(chunk);
                message.extend(b"\r\n");
            }
            message.extend(b"0\r\n\r\n");
            prop_assert_eq!(whole(&message), Ok((chunks.concat(), message.len(), true)));
        }

        /// Whatever this decoder accepts as a size line, httparse reads as the same size. httparse is
        /// more lenient.
        #[test]
        fn agrees_with_httparse_on_sizes(line in "[0-9a-fA-F]{0,17}[ ;+gx\t\r]{0,2}[a-z=\" ]{0,4}\r\n") {
            let mut decoder = ChunkDecoder::new();
            if let Ok((used, Chunked::NeedInput)) = decoder.decode(line.as_bytes())
                && matches!(decoder.state, State::Data | State::TrailerStart)
            {
                prop_assert_eq!(httparse::parse_chunk_size(line.as_bytes()),
                    Ok(httparse::Status::Complete((used, decoder.left))));
            }
        }
    }
}
