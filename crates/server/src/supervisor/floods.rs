//! The log lines about floods of TLS handshakes: one when a flood begins, one when it is over.
//!
//! Workers count the handshakes that they refuse. The supervisor looks at the sum every ten seconds. It does
//! not wake for that while no client speaks TLS.

use std::time::{Duration, Instant};

/// How often to look.
const LOOK: Duration = Duration::from_secs(10);

/// What is known of floods.
#[derive(Debug)]
pub(super) struct Floods {
    due: Instant,
    /// How many handshakes had been refused at the last look.
    seen: u64,
    /// How many had been refused when the flood began, if there is one.
    before: Option<u64>,
}

/// What to log.
#[derive(Debug, PartialEq, Eq)]
enum News {
    Begins { refused: u64 },
    Over { refused: u64 },
}

impl Floods {
    pub(super) fn new() -> Self {
        Self { due: Instant::now() + LOOK, seen: 0, before: None }
    }

    /// When to look next.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// Looks, if that is due, and logs what is new. `refused` returns how many handshakes have been refused
    /// since the server has started.
    pub(super) fn look(&mut self, refused: impl FnOnce() -> u64) {
        if self.due > Instant::now() {
            return;
        }
        self.due = Instant::now() + LOOK;
        match self.judge(refused()) {
            Some(News::Begins { refused }) => tracing::warn!(
                "more clients ask for TLS handshakes than there is time for: {refused} were refused in {} s; \
                 networks share what time there is",
                LOOK.as_secs()
            ),
            Some(News::Over { refused }) => {
                tracing::info!("there is time for all TLS handshakes again: {refused} were refused");
            }
            None => {}
        }
    }

    fn judge(&mut self, refused: u64) -> Option<News> {
        // A worker that is replaced takes its counts with it for a moment.
        let before = std::mem::replace(&mut self.seen, refused).min(refused);
        match self.before {
            None if refused > before => {
                self.before = Some(before);
                Some(News::Begins { refused: refused - before })
            }
            Some(begun) if refused == before => {
                self.before = None;
                Some(News::Over { refused: refused.saturating_sub(begun) })
            }
            None | Some(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flood_has_two_lines() {
        let mut floods = Floods::new();
        let said: Vec<_> = [0, 5, 905, 1000, 1000, 1000, 1001, 1001].map(|seen| floods.judge(seen)).into();
        let expected = [
            (1, News::Begins { refused: 5 }),
            (4, News::Over { refused: 1000 }),
            (6, News::Begins { refused: 1 }),
            (7, News::Over { refused: 1 }),
        ];
        for (at, said) in said.into_iter().enumerate() {
            let expected = expected.iter().find(|(of, _)| *of == at).map(|(_, news)| news);
            assert_eq!(said.as_ref(), expected, "look {at}");
        }
    }
}
