//! The chunked decoder: however the input is cut, the same data, the same end and the same refusal come out.

#![no_main]

use http1::chunked::{ChunkDecoder, ChunkError, Chunked};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let whole = decode(input, input.len().max(1));
    for piece in [1, 2, 3, 7] {
        assert_eq!(decode(input, piece), whole, "in pieces of {piece}");
    }
    if let Outcome::Ended { data, used } = whole {
        assert!(data.len() < used, "more data came out than went in");
        assert_eq!(decode(&input[..used - 1], used), Outcome::Unfinished, "the end was seen too early");
        let again = decode(&encode(&data), usize::MAX);
        assert!(matches!(again, Outcome::Ended { data: same, .. } if same == data));
    }
});

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Ended { data: Vec<u8>, used: usize },
    Unfinished,
    Refused(ChunkError),
}

fn decode(input: &[u8], piece: usize) -> Outcome {
    let mut decoder = ChunkDecoder::new();
    let (mut data, mut at) = (Vec::new(), 0);
    while at < input.len() {
        let lent = &input[at..input.len().min(at.saturating_add(piece))];
        match decoder.decode(lent) {
            Ok((used, Chunked::NeedInput)) => {
                assert_eq!(used, lent.len(), "input was left over");
                at += used;
            }
            Ok((used, Chunked::Data(range))) => {
                assert!(!range.is_empty() && range.end == used);
                data.extend_from_slice(&lent[range]);
                at += used;
            }
            Ok((used, Chunked::End)) => return Outcome::Ended { data, used: at + used },
            Err(error) => {
                assert_eq!(decoder.decode(lent), Err(error), "a refusal stays");
                return Outcome::Refused(error);
            }
        }
    }
    Outcome::Unfinished
}

fn encode(data: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    for chunk in data.chunks(100) {
        message.extend(format!("{:x}\r\n", chunk.len()).bytes());
        message.extend_from_slice(chunk);
        message.extend_from_slice(b"\r\n");
    }
    message.extend_from_slice(b"0\r\n\r\n");
    message
}
