//! What `SPECweb99` has computed: pages with rotating advertisements, as Yeung's thesis (2010, section 4.2)
//! asks a `FastCGI` application for them, `experiments/applications/specweb99.c`.
//!
//! A request names a file, a user, and the advertisement that this user saw last. The application reads the
//! file, chooses the next advertisement that suits the user, and writes it into each [`PLACE`]. The
//! substitute has the same length, so a reply is as long as its file. The thesis has replies of one size at a
//! time ([`sessions`]); as a part of the benchmark's whole mix they are drawn by [`specweb99`].
//!
//! [`specweb99`]: crate::specweb99

use rand::{Rng, RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

use crate::file::{FileSpec, Holds};
use crate::session::{Builder, Request, SessionLog};

/// Where an advertisement goes: a line, in which the application replaces the path of the picture.
pub const PLACE: &[u8; 64] = b"<!WEB99CAD><IMG SRC=\"/file_set/dir00000/class0_0\"><!/WEB99CAD> \n";

/// The sizes of the thesis, 32 KiB to 4 MiB (section 4.1.1).
pub const SIZES: [u64; 8] = [32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20];

/// How many users the application knows, and how many advertisements.
pub const USERS: u32 = 10_000;
/// See above.
pub const ADVERTISEMENTS: u32 = 360;

/// What sessions are to be like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sessions {
    /// The size of all replies.
    pub bytes: u64,
    /// How many sessions.
    pub count: u32,
    /// How many requests each has, one after the other on a connection.
    pub calls: u32,
    /// What users and advertisements are drawn from.
    pub seed: u64,
    /// Whether the application tells the length of its replies. It does not in the thesis, so that its
    /// library sends them in chunks (section 3.3).
    pub with_length: bool,
}

/// A page for each size.
pub(crate) fn files(sizes: &[u64]) -> Vec<FileSpec> {
    let page = |&bytes| FileSpec { path: path(bytes), bytes, holds: Holds::Places };
    sizes.iter().map(page).collect()
}

fn path(bytes: u64) -> String {
    format!("dynamic/{bytes}.html")
}

/// A request for a file's page, for a user and an advertisement that are drawn.
pub(crate) fn request(path: &str, with_length: bool, random: &mut impl Rng) -> Request {
    let (user, last) = (random.random_range(0..USERS), random.random_range(0..ADVERTISEMENTS));
    let length = if with_length { "&length=1" } else { "" };
    let uri = format!("/fcgi/specweb99?file={path}&user={user}&last={last}{length}");
    Request { uri: uri.into(), ..Request::default() }
}

/// Draws sessions that ask for pages of one size.
pub fn sessions(of: Sessions) -> SessionLog {
    let mut random = Pcg64Mcg::seed_from_u64(of.seed);
    let mut log = Builder::new();
    for _ in 0..of.count {
        for _ in 0..of.calls {
            log.call(request(&path(of.bytes), of.with_length, &mut random));
            log.end_of_burst(None);
        }
        log.end_of_session();
    }
    log.finish()
}

/// A session that asks the application that computes nothing, `experiments/applications/constant.c`, for so
/// many bytes, `calls` times.
pub fn constant(bytes: u64, calls: u32, with_length: bool) -> SessionLog {
    let length = if with_length { "&length=1" } else { "" };
    let uri = format!("/fcgi/constant?bytes={bytes}{length}");
    let mut log = Builder::new();
    let request = log.request(Request { uri: uri.into(), ..Request::default() });
    for _ in 0..calls {
        log.call_again(request);
        log.end_of_burst(None);
    }
    log.finish()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fileset::FileSet;

    #[test]
    fn pages_have_the_sizes_of_the_thesis() {
        let files = FileSet::dynamic_fixed().files();
        assert_eq!(files.len(), 8);
        assert_eq!((files[0].path.as_str(), files[0].bytes), ("dynamic/32768.html", 32_768));
        assert_eq!(files[7].bytes, 4 << 20);
    }

    #[test]
    fn constant_replies_are_asked_for_by_one_request() {
        let log = constant(32_768, 100, false);
        assert_eq!((log.len(), log.session(0).len(), log.requests().len()), (1, 100, 1));
        assert_eq!(&*log.requests()[0].uri, "/fcgi/constant?bytes=32768");
        assert_eq!(&*constant(9, 1, true).requests()[0].uri, "/fcgi/constant?bytes=9&length=1");
    }

    proptest! {
        /// The application refuses numbers that it does not know, and files that are not there.
        #[test]
        fn requests_are_for_a_page_a_user_and_an_advertisement_that_there_are(
            size in 0..SIZES.len(), count in 1_u32..100, calls in 1_u32..5, seed: u64, with_length: bool,
        ) {
            let bytes = SIZES[size];
            let log = sessions(Sessions { bytes, count, calls, seed, with_length });
            prop_assert_eq!(log.len(), count as usize);
            prop_assert_eq!(log.calls(), (count * calls) as usize);
            prop_assert!(log.session(0).all(|burst| burst.calls.len() == 1), "each waits for the one before");
            let paths: Vec<_> = FileSet::dynamic_fixed().files().into_iter().map(|file| file.path).collect();
            for request in log.requests() {
                let query = request.uri.strip_prefix("/fcgi/specweb99?").expect("it is the application's");
                let mut pairs = query.split('&').map(|pair| pair.split_once('=').expect("a pair"));
                let (_, file) = pairs.next().expect("a file");
                prop_assert!(paths.iter().any(|path| path == file));
                let page = format!("/{bytes}.html");
                prop_assert!(file.ends_with(&page));
                let user: u32 = pairs.next().expect("a user").1.parse().expect("a number");
                let last: u32 = pairs.next().expect("an advertisement").1.parse().expect("a number");
                prop_assert!(user < USERS && last < ADVERTISEMENTS);
                prop_assert_eq!(pairs.next(), with_length.then_some(("length", "1")));
            }
        }

        #[test]
        fn a_seed_says_everything(seed: u64) {
            let of = |seed| {
                let mut text = Vec::new();
                let of = Sessions { bytes: SIZES[0], count: 20, calls: 1, seed, with_length: false };
                crate::wsesslog::write(&mut text, &sessions(of)).expect("memory");
                text
            };
            prop_assert_eq!(of(seed), of(seed));
            prop_assert_ne!(of(seed), of(seed.wrapping_add(1)));
        }
    }
}
