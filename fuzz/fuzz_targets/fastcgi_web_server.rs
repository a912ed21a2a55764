//! What applications say to a web server: however it is cut, it means the same, and nothing is left over.

#![no_main]

use fastcgi::{Error, Output, Role, WebServer};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let whole = told(input, input.len().max(1));
    for piece in [1, 2, 3, 7, 9] {
        assert_eq!(told(input, piece), whole, "in pieces of {piece}");
    }
});

#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    /// What came of each request.
    requests: Vec<Request>,
    error: Option<Error>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Request {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    /// What is said in records of our own.
    others: Vec<Output>,
    exit: Option<u32>,
}

fn told(input: &[u8], piece: usize) -> Told {
    let mut web_server = WebServer::default();
    let mut told = Told::default();
    let mut at = 0_usize;
    // The first is under way, and each that ends is followed by another.
    loop {
        web_server.begin(&mut Vec::new(), Role::Responder, true);
        told.requests.push(Request::default());
        let Some(request) = told.requests.last_mut() else { return told };
        while request.exit.is_none() {
            let lent = &input[at..input.len().min(at.saturating_add(piece))];
            match web_server.receive(lent) {
                Ok((used, output)) => {
                    at += used;
                    match output {
                        Output::NeedInput if at == input.len() => return told,
                        Output::NeedInput => assert_eq!(used, lent.len(), "input was left over"),
                        Output::Stdout(range) => request.stdout.extend_from_slice(&lent[range]),
                        Output::Stderr(range) => request.stderr.extend_from_slice(&lent[range]),
                        Output::End { exit } => request.exit = Some(exit),
                        other => request.others.push(other),
                    }
                }
                Err(error) => {
                    told.error = Some(error);
                    return told;
                }
            }
        }
    }
}
