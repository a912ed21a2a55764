//! What web servers ask applications: however it is cut, it means the same, and parameters stay within their
//! limit.

#![no_main]

use fastcgi::transport::MOST_NAME;
use fastcgi::{Application, Asked, Error};
use libfuzzer_sys::fuzz_target;

const MOST_PARAMS: usize = 300;

fuzz_target!(|input: &[u8]| {
    let whole = asked(input, input.len().max(1));
    for piece in [1, 2, 3, 7, 9] {
        assert_eq!(asked(input, piece), whole, "in pieces of {piece}");
    }
});

#[derive(Debug, PartialEq, Eq)]
enum Told {
    Step(Asked),
    Pairs(Vec<(Vec<u8>, Vec<u8>)>),
    Stdin(Vec<u8>),
    Data(Vec<u8>),
    Error(Error),
}

fn asked(input: &[u8], piece: usize) -> Vec<Told> {
    let mut application = Application::new(MOST_PARAMS);
    let (mut told, mut at) = (Vec::new(), 0_usize);
    loop {
        let lent = &input[at..input.len().min(at.saturating_add(piece))];
        let step = match application.receive(lent) {
            Ok((used, step)) => {
                at += used;
                assert!(step != Asked::NeedInput || used == lent.len(), "input was left over");
                step
            }
            Err(error) => {
                told.push(Told::Error(error));
                return told;
            }
        };
        match step {
            Asked::NeedInput if at == input.len() => return told,
            Asked::NeedInput => {}
            Asked::Params | Asked::Values => {
                let pairs = if step == Asked::Params { application.params() } else { application.asked() };
                let pairs = pairs.map(|pair| pair.expect("they were checked"));
                let pairs: Vec<_> = pairs.map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
                let length: usize = pairs.iter().map(|(name, value)| name.len() + value.len()).sum();
                assert!(length <= MOST_PARAMS.max(1024));
                told.push(Told::Pairs(pairs));
            }
            Asked::Stdin(range) => match told.last_mut() {
                Some(Told::Stdin(body)) => body.extend_from_slice(&lent[range]),
                _ => told.push(Told::Stdin(lent[range].to_vec())),
            },
            Asked::Data(range) => match told.last_mut() {
                Some(Told::Data(body)) => body.extend_from_slice(&lent[range]),
                _ => told.push(Told::Data(lent[range].to_vec())),
            },
            Asked::Lend => {
                let lent = application.lent().expect("it was told");
                assert!(lent.server.len() <= MOST_NAME);
                told.push(Told::Pairs(vec![(format!("{lent:?}").into_bytes(), Vec::new())]));
            }
            Asked::EndOfStdin => {
                told.push(Told::Step(step));
                application.end();
            }
            step => told.push(Told::Step(step)),
        }
    }
}
