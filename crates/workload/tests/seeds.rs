//! What is made from a seed stays the same when a crate that draws random numbers changes: figures of
//! different builds are figures of the same work.

use std::fs;

use base16ct::lower::encode_string;
use sha2::{Digest as _, Sha256};
use workload::fileset::FileSet;
use workload::manifest::FileSetManifest;
use workload::offtimes::OffTimes;
use workload::session::SessionLog;
use workload::{dynamic, specweb99, support, writer, wsesslog};

fn hash(log: &SessionLog) -> String {
    let mut text = Vec::new();
    wsesslog::write(&mut text, log).unwrap();
    encode_string(&Sha256::digest(text))
}

#[test]
fn sessions_stay_the_same() {
    let (specweb99, _) = specweb99::sessions(specweb99::Sessions {
        directories: 3,
        count: 400,
        seed: 7,
        off_times: OffTimes::Surge,
        dynamic: 0.3,
    });
    assert_eq!(hash(&specweb99), "c98b234eddc1418fc663d2358e8a921f903795982fab801eaf93c8057df47755");
    let (support, _) = support::sessions(support::Sessions {
        directories: 1,
        count: 400,
        seed: 7,
        replaced: 0.2,
        think: std::time::Duration::from_secs(4),
    });
    assert_eq!(hash(&support), "8b443602c1e77aa00f48dccf62f019b72e78165b86a76690e3f14270dfbc637c");
    let dynamic = dynamic::sessions(dynamic::Sessions {
        bytes: 64 << 10,
        count: 400,
        calls: 1,
        seed: 7,
        with_length: false,
    });
    assert_eq!(hash(&dynamic), "c8d83a457011d6ec3a5231b16c4b1047c9962b4503a703052b3f66ec44a351ae");
}

#[test]
fn files_stay_the_same() {
    let root = tempfile::tempdir().unwrap();
    let manifest = FileSetManifest::new(FileSet::Specweb99 { directories: 2 }, 7);
    writer::write(root.path(), &manifest, |_| true).unwrap();
    let file = fs::read(root.path().join("file_set/dir00001/class1_5")).unwrap();
    assert_eq!(
        encode_string(&Sha256::digest(file)),
        "13c43e82228686f0a674081510d480499070a079259e32b8cd96f91aabbfc718"
    );
}
