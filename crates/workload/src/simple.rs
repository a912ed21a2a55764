//! Sessions for sets of one file, or of a few, each of which a session of its own asks for.

use crate::fileset::FileSet;
use crate::session::{Builder, Request, SessionLog};

/// One session for each file of the set, of so many requests for it, one after the other.
pub fn sessions(set: &FileSet, calls: u32) -> SessionLog {
    let mut log = Builder::new();
    for file in set.files() {
        let uri = format!("/{}", file.path);
        let request = log.request(Request { uri: uri.into(), ..Request::default() });
        for _ in 0..calls {
            log.call_again(request);
            log.end_of_burst(None);
        }
        log.end_of_session();
    }
    log.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_asked_for() {
        let log = sessions(&FileSet::fixed(), 1);
        assert_eq!((log.len(), log.calls()), (8, 8));
        assert_eq!(&*log.requests()[0].uri, "/32768.bin");
        assert_eq!(&*log.requests()[7].uri, "/4194304.bin");
        let log = sessions(&FileSet::OnePacket, 100);
        assert_eq!((log.len(), log.calls(), log.requests().len()), (1, 100, 1));
        assert_eq!(log.session(0).len(), 100, "one after the other");
    }
}
