//! What a session file says is said again by what is written of it.

use workload::session::SessionLog;
use workload::wsesslog;

/// Writes sessions, and reads them again.
pub fn written_and_read(log: &SessionLog) -> SessionLog {
    let mut written = Vec::new();
    wsesslog::write(&mut written, log).expect("a vector takes everything");
    let again = wsesslog::parse(&written).expect("what was written is a session file");
    assert_eq!(again.requests(), log.requests());
    assert_eq!(again.len(), log.len());
    for session in 0..log.len() {
        assert!(again.session(session).eq(log.session(session)));
    }
    again
}
