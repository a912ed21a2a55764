//! Encodes and decodes parameters: names and values, each preceded by its length (FastCGI 1.0, section 3.4).

use thiserror::Error;

use crate::record::{self, HEADER_LENGTH, Kind, MOST_CONTENT};

/// Writes the stream of a request's parameters in one pass, and starts a new record when one is full.
///
/// Call [finish](Params::finish), or the stream is invalid. No pair is divided between records. The
/// specification would allow that, but PHP reads each record for itself.
#[derive(Debug)]
#[must_use = "the stream is ended by finish()"]
pub struct Params<'a> {
    out: &'a mut Vec<u8>,
    request: u16,
    /// The start of the current record.
    record: usize,
}

/// A pair that is longer than a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a parameter is longer than a FastCGI record may be")]
pub struct TooLong;

impl<'a> Params<'a> {
    /// Begins the stream of a request, after the contents of `out`.
    pub fn new(out: &'a mut Vec<u8>, request: u16) -> Self {
        let record = out.len();
        out.extend_from_slice(&[0; HEADER_LENGTH]);
        Self { out, request, record }
    }

    /// Adds a pair.
    ///
    /// # Errors
    ///
    /// It is longer than a record.
    pub fn pair(&mut self, name: &[u8], value: &[u8]) -> Result<(), TooLong> {
        self.begin_pair(name.len(), value.len())?;
        self.out.extend_from_slice(name);
        self.out.extend_from_slice(value);
        Ok(())
    }

    /// Adds a pair whose value is the concatenated parts.
    ///
    /// # Errors
    ///
    /// It is longer than a record.
    pub fn joined(&mut self, name: &[u8], parts: &[&[u8]]) -> Result<(), TooLong> {
        self.begin_pair(name.len(), parts.iter().map(|part| part.len()).sum())?;
        self.out.extend_from_slice(name);
        for part in parts {
            self.out.extend_from_slice(part);
        }
        Ok(())
    }

    /// Adds a field of the request's head by its CGI name: `HTTP_`, and the name in capitals, with `_` for
    /// `-` (RFC 3875 section 4.1.18).
    ///
    /// # Errors
    ///
    /// It is longer than a record.
    pub fn field(&mut self, name: &[u8], value: &[u8]) -> Result<(), TooLong> {
        const PREFIX: &[u8] = b"HTTP_";
        self.begin_pair(PREFIX.len() + name.len(), value.len())?;
        self.out.extend_from_slice(PREFIX);
        let in_capitals = |byte: &u8| if *byte == b'-' { b'_' } else { byte.to_ascii_uppercase() };
        self.out.extend(name.iter().map(in_capitals));
        self.out.extend_from_slice(value);
        Ok(())
    }

    /// Ends the stream.
    pub fn finish(mut self) {
        self.end_record();
        record::end_of_stream(self.out, Kind::Params, self.request);
    }

    /// Makes room for a pair in the current record, or in a new one, and writes its lengths.
    fn begin_pair(&mut self, name: usize, value: usize) -> Result<(), TooLong> {
        let length = width(name) + width(value) + name + value;
        if length > MOST_CONTENT {
            return Err(TooLong);
        }
        let filled = self.out.len() - self.record - HEADER_LENGTH;
        if filled + length > MOST_CONTENT {
            self.end_record();
            self.record = self.out.len();
            self.out.extend_from_slice(&[0; HEADER_LENGTH]);
        }
        for length in [name, value] {
            match width(length) {
                1 => self.out.push(length as u8),
                _ => self.out.extend_from_slice(&(length as u32 | LONG).to_be_bytes()),
            }
        }
        Ok(())
    }

    /// Writes the header of the current record, or removes the record if it is empty.
    fn end_record(&mut self) {
        let content = self.out.len() - self.record - HEADER_LENGTH;
        if content == 0 {
            self.out.truncate(self.record);
        } else {
            let header = record::header(Kind::Params, self.request, content);
            self.out[self.record..self.record + HEADER_LENGTH].copy_from_slice(&header);
        }
    }
}

/// The bit that marks a length of four bytes.
const LONG: u32 = 1 << 31;

/// Bytes that encode a length.
fn width(length: usize) -> usize {
    if length < 128 { 1 } else { 4 }
}

/// An iterator over encoded pairs, in order.
#[derive(Clone, Debug)]
pub struct Pairs<'a>(&'a [u8]);

/// Bytes that are not pairs: the last pair is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl<'a> Pairs<'a> {
    /// The pairs in the content of a whole stream, or of one management record.
    pub fn of(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn take_length(&mut self) -> Option<usize> {
        let &[first, ref rest @ ..] = self.0 else { return None };
        if first < 128 {
            self.0 = rest;
            return Some(first.into());
        }
        let (length, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        usize::try_from(u32::from_be_bytes(*length) & !LONG).ok()
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn take_pair(&mut self) -> Option<(&'a [u8], &'a [u8])> {
        let (name, value) = (self.take_length()?, self.take_length()?);
        Some((self.take(name)?, self.take(value)?))
    }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = Result<(&'a [u8], &'a [u8]), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let pair = self.take_pair().ok_or(Malformed);
        if pair.is_err() {
            self.0 = &[];
        }
        Some(pair)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The content of each record.
    fn records(mut stream: &[u8]) -> Vec<&[u8]> {
        let mut records = Vec::new();
        while let Some((header, rest)) = stream.split_first_chunk::<HEADER_LENGTH>() {
            let (content, rest) = rest.split_at(u16::from_be_bytes([header[4], header[5]]).into());
            assert_eq!(header[..4], [1, 4, 0, 7]);
            records.push(content);
            stream = rest;
        }
        records
    }

    #[test]
    fn pairs_are_read_as_they_were_written() {
        let long = vec![b'v'; 200];
        let mut out = b"before".to_vec();
        let mut params = Params::new(&mut out, 7);
        params.pair(b"A", b"").unwrap();
        params.pair(b"", &long).unwrap();
        params.field(b"Accept-Language", b"de").unwrap();
        params.joined(b"J", &[b"x", b"", b"yz"]).unwrap();
        params.finish();
        let records = records(&out[6..]);
        assert_eq!((records.len(), records[1].len()), (2, 0));
        let pairs: Vec<_> = Pairs::of(records[0]).map(Result::unwrap).collect();
        let expected: [(&[u8], &[u8]); 4] =
            [(b"A", b""), (b"", &long), (b"HTTP_ACCEPT_LANGUAGE", b"de"), (b"J", b"xyz")];
        assert_eq!(pairs, expected);
    }

    #[test]
    fn no_parameters_are_an_empty_stream() {
        let mut out = Vec::new();
        Params::new(&mut out, 7).finish();
        assert_eq!(records(&out), [b""]);
    }

    #[test]
    fn a_pair_is_never_divided_and_may_fill_a_record() {
        let fills = vec![b'x'; MOST_CONTENT - 1 - 4 - 1];
        let mut out = Vec::new();
        let mut params = Params::new(&mut out, 7);
        params.pair(b"A", b"1").unwrap();
        params.pair(b"B", &fills).unwrap();
        assert_eq!(params.pair(b"BB", &fills), Err(TooLong));
        params.pair(b"C", b"3").unwrap();
        params.finish();
        let records = records(&out);
        assert_eq!(records.iter().map(|record| record.len()).collect::<Vec<_>>(), [4, MOST_CONTENT, 4, 0]);
        assert!(records.iter().all(|record| Pairs::of(record).all(|pair| pair.is_ok())));
    }

    #[test]
    fn what_ends_too_early_is_malformed() {
        for bytes in [&[1][..], &[1, 1, b'a'], &[128, 0, 0], &[255, 255, 255, 255, 0, b'a'], &[0, 128]] {
            assert_eq!(Pairs::of(bytes).collect::<Vec<_>>(), [Err(Malformed)], "{bytes:?}");
        }
    }
}
