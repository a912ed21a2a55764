//! Sessions for sets of one file, or of a few that are asked for in turn: one request each.

use crate::fileset::FileSet;
use crate::session::{Builder, Request, SessionLog};

/// One session for each file of the set, of a single request.
pub fn sessions(set: &FileSet) -> SessionLog {
    let mut log = Builder::new();
    for file in set.files() {
        log.call(Request { uri: format!("/{}", file.path).into(), ..Request::default() });
        log.end_of_session();
    }
    log.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_asked_for() {
        let log = sessions(&FileSet::fixed());
        assert_eq!((log.len(), log.calls()), (8, 8));
        assert_eq!(&*log.requests()[0].uri, "/32768.bin");
        assert_eq!(&*log.requests()[7].uri, "/4194304.bin");
        assert_eq!(sessions(&FileSet::OnePacket).len(), 1);
    }
}
