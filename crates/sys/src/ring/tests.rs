use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};

use super::*;

/// Waits until something has completed, and gives it to `see`.
fn next<T>(ring: &mut Ring, see: impl FnOnce(Completion<'_>) -> T) -> T {
    let mut events = Events::default();
    for _ in 0..100 {
        if ring.completed.is_empty() {
            ring.wait(&mut events, Some(100)).unwrap();
        }
        if let Some(completion) = ring.next_completion() {
            return see(completion);
        }
    }
    panic!("nothing has completed: {ring:?}");
}

/// Waits for what was received under `token`.
fn received(ring: &mut Ring, of: u64) -> io::Result<Vec<u8>> {
    next(ring, |completion| match completion {
        Completion::Received { token, result } => {
            assert_eq!(token, of);
            result.map(|bytes| bytes.to_vec())
        }
        other => panic!("{} has completed", other.name()),
    })
}

/// Waits for what was sent under `token`.
fn sent(ring: &mut Ring, of: u64) -> (io::Result<usize>, Vec<u8>) {
    next(ring, |completion| match completion {
        Completion::Sent { token, result, bytes } => {
            assert_eq!(token, of);
            (result, bytes)
        }
        other => panic!("{} has completed", other.name()),
    })
}

const MORE: How = How { more_follows: true, zero_copy: false };

const NO_COPY: How = How { more_follows: false, zero_copy: true };

fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (listener.accept().unwrap().0, far)
}

fn pair() -> (UnixStream, UnixStream) {
    UnixStream::pair().unwrap()
}

#[test]
fn receives_what_has_come_and_what_comes_later() {
    let mut ring = Ring::new().unwrap();
    let (near, mut far) = pair();
    far.write_all(b"first").unwrap();
    ring.receive(near.as_fd(), 7, usize::MAX, false);
    assert_eq!(received(&mut ring, 7).unwrap(), b"first");
    ring.receive(near.as_fd(), 8, 3, true);
    assert_eq!(ring.wait(&mut Events::default(), Some(1)).unwrap(), 0);
    assert!(ring.next_completion().is_none());
    far.write_all(b"second").unwrap();
    assert_eq!(received(&mut ring, 8).unwrap(), b"sec");
    ring.receive(near.as_fd(), 8, 9, true);
    assert_eq!(received(&mut ring, 8).unwrap(), b"ond");
    drop(far);
    ring.receive(near.as_fd(), 9, 9, true);
    assert_eq!(received(&mut ring, 9).unwrap(), b"");
    assert_eq!(ring.in_flight(), 0);
}

#[test]
fn a_buffer_is_used_again_when_its_bytes_are_dropped() {
    let mut ring = Ring::new().unwrap();
    let (near, mut far) = pair();
    for round in 0..1_000_u32 {
        far.write_all(&round.to_ne_bytes()).unwrap();
        ring.receive(near.as_fd(), 1, 4, false);
        assert_eq!(received(&mut ring, 1).unwrap(), round.to_ne_bytes());
    }
}

#[test]
fn without_a_free_buffer_a_receive_says_so() {
    let mut ring = Ring::new().unwrap();
    let (_, count) = ring.buffers.ring();
    let pairs: Vec<_> = (0..=count).map(|_| pair()).collect();
    for (token, (near, far)) in pairs.iter().enumerate() {
        (&*far).write_all(b"x").unwrap();
        ring.receive(near.as_fd(), token as u64, 1, false);
    }
    ring.wait(&mut Events::default(), Some(100)).unwrap();
    for token in 0..count {
        assert_eq!(received(&mut ring, token.into()).unwrap(), b"x");
    }
    let refused = received(&mut ring, count.into()).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::ENOBUFS));
}

#[test]
fn sends_all_however_slowly_it_is_read() {
    let mut ring = Ring::new().unwrap();
    let (near, mut far) = pair();
    near.set_nonblocking(true).unwrap();
    let bytes: Vec<u8> = (0..2_000_000_u32).map(|at| at as u8).collect();
    ring.send(near.as_fd(), 3, (bytes.clone(), None), How::default());
    ring.wait(&mut Events::default(), Some(1)).unwrap();
    assert!(ring.next_completion().is_none(), "the socket is full");
    let mut seen = vec![0; bytes.len()];
    let reader = std::thread::spawn(move || {
        far.read_exact(&mut seen).unwrap();
        seen
    });
    let (result, back) = sent(&mut ring, 3);
    assert_eq!(result.unwrap(), bytes.len());
    assert!(back == bytes && reader.join().unwrap() == bytes);
}

/// The shared bytes may lose their other owners meanwhile.
#[test]
fn shared_bytes_follow_and_stay_until_they_are_sent() {
    let mut ring = Ring::new().unwrap();
    let (near, mut far) = pair();
    let memory: std::sync::Arc<[u8]> = (0..2_000_000_u32).map(|at| at as u8).collect();
    let expected = [&b"head"[..], &memory[1..]].concat();
    let length = memory.len();
    ring.send(near.as_fd(), 3, (b"head".to_vec(), Some((memory, 1..length))), How::default());
    ring.wait(&mut Events::default(), Some(1)).unwrap();
    let reader = std::thread::spawn(move || {
        let mut seen = vec![0; length + 3];
        far.read_exact(&mut seen).unwrap();
        seen
    });
    let (result, back) = sent(&mut ring, 3);
    assert_eq!((result.unwrap(), back.as_slice()), (expected.len(), &b"head"[..]));
    assert!(reader.join().unwrap() == expected);
}

#[test]
fn a_send_to_nobody_fails_and_gives_its_bytes_back() {
    let mut ring = Ring::new().unwrap();
    let (near, far) = pair();
    drop(far);
    ring.send(near.as_fd(), 3, (b"lost".to_vec(), None), MORE);
    let (result, back) = sent(&mut ring, 3);
    assert_eq!(result.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    assert_eq!(back, b"lost");
}

#[test]
fn what_is_cancelled_completes_and_a_closed_socket_is_closed() {
    let mut ring = Ring::new().unwrap();
    let (near, mut far) = pair();
    ring.receive(near.as_fd(), 5, 9, false);
    ring.send(near.as_fd(), 5, (vec![1; 2_000_000], None), How::default());
    ring.wait(&mut Events::default(), Some(1)).unwrap();
    assert_eq!(ring.in_flight(), 2);
    ring.cancel(5);
    ring.close(near.into());
    assert_eq!(received(&mut ring, 5).unwrap_err().raw_os_error(), Some(libc::ECANCELED));
    let (_, back) = sent(&mut ring, 5);
    assert_eq!((back.len(), ring.in_flight()), (2_000_000, 0));
    let mut rest = Vec::new();
    far.read_to_end(&mut rest).unwrap();
    assert!(rest.len() < 2_000_000);
    // Nothing is there to be cancelled.
    ring.cancel(5);
    ring.wait(&mut Events::default(), Some(0)).unwrap();
    assert!(ring.next_completion().is_none());
}

#[test]
fn takes_as_many_connections_as_are_asked_for() {
    let mut ring = Ring::new().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let clients: Vec<_> = (0..7).map(|_| TcpStream::connect(address).unwrap()).collect();
    let mut accepted = Vec::new();
    for _ in 0..5 {
        accepted.push(ring.accept(listener.as_fd(), 5 - accepted.len() as u32).unwrap());
    }
    assert!(!ring.has_accepted(), "the others are in the queue");
    assert_eq!(crate::tcp_info::accept_queue(&listener).unwrap().length, 2);
    while let Ok(client) = ring.accept(listener.as_fd(), u32::MAX) {
        accepted.push(client);
    }
    for ((_, peer), client) in accepted.iter().zip(&clients) {
        assert_eq!(*peer, PeerAddress::Inet(client.local_addr().unwrap()));
    }
    assert_eq!(accepted.len(), 7);
    while ring.has_accepted() {
        assert_eq!(ring.accept(listener.as_fd(), 1).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}

#[test]
fn says_what_is_a_client_over_a_unix_socket() {
    let mut ring = Ring::new().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(directory.path().join("socket")).unwrap();
    let _client = UnixStream::connect(directory.path().join("socket")).unwrap();
    assert_eq!(ring.accept(listener.as_fd(), 1).unwrap().1, PeerAddress::Unix);
}

/// An accept must not keep what completes meanwhile.
#[test]
fn what_completes_during_an_accept_is_told_afterwards() {
    let mut ring = Ring::new().unwrap();
    let mut events = Events::default();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (near, mut far) = pair();
    let (watched, mut writer) = pair();
    far.write_all(b"x").unwrap();
    writer.write_all(b"x").unwrap();
    ring.receive(near.as_fd(), 1, 1, false);
    ring.add(&watched, 2, Interest::READABLE).unwrap();
    assert_eq!(ring.accept(listener.as_fd(), 1).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    assert_eq!(ring.wait(&mut events, None).unwrap(), 1);
    assert_eq!((events.get(0).unwrap().token, events.get(0).unwrap().readable), (2, true));
    assert_eq!(received(&mut ring, 1).unwrap(), b"x");
}

#[test]
fn reports_each_change_once_until_it_is_removed() {
    let mut ring = Ring::new().unwrap();
    let mut events = Events::default();
    let (near, mut far) = pair();
    ring.add(&near, 7, Interest::READABLE).unwrap();
    let twice = ring.add(&near, 8, Interest::READABLE).unwrap_err();
    assert_eq!(twice.kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(ring.wait(&mut events, Some(1)).unwrap(), 0);
    for _ in 0..3 {
        far.write_all(b"x").unwrap();
        assert_eq!(ring.wait(&mut events, None).unwrap(), 1);
        let ready = events.get(0).unwrap();
        assert_eq!((ready.token, ready.readable, ready.hang_up), (7, true, false));
        assert_eq!(ring.wait(&mut events, Some(1)).unwrap(), 0);
    }
    drop(far);
    assert_eq!(ring.wait(&mut events, None).unwrap(), 1);
    assert!(events.get(0).unwrap().hang_up);
    ring.remove(&near).unwrap();
    assert_eq!(ring.remove(&near).unwrap_err().kind(), io::ErrorKind::NotFound);
    assert_eq!(ring.wait(&mut events, Some(1)).unwrap(), 0);
    assert_eq!(ring.in_flight(), 0);
    // What is there already is a change, too.
    ring.add(&near, 9, Interest::READABLE).unwrap();
    assert_eq!(ring.wait(&mut events, None).unwrap(), 1);
    assert_eq!(events.get(0).unwrap().token, 9);
}

#[test]
fn a_full_submission_queue_is_handed_over() {
    let mut ring = Ring::with_room(4, 64).unwrap();
    let pairs: Vec<_> = (0..20).map(|_| pair()).collect();
    for (token, (near, far)) in pairs.iter().enumerate() {
        (&*far).write_all(b"x").unwrap();
        ring.receive(near.as_fd(), token as u64, 1, false);
    }
    for token in 0..20 {
        assert_eq!(received(&mut ring, token).unwrap(), b"x");
    }
}

#[test]
fn a_full_completion_queue_loses_nothing() {
    let mut ring = Ring::with_room(4, 8).unwrap();
    let mut events = Events::default();
    let pairs: Vec<_> = (0..100).map(|_| pair()).collect();
    for (token, (near, far)) in pairs.iter().enumerate() {
        ring.receive(near.as_fd(), token as u64, 1, true);
        ring.add(far, 1_000 + token as u64, Interest::READABLE).unwrap();
    }
    ring.wait(&mut events, Some(0)).unwrap();
    for (near, far) in &pairs {
        (&*far).write_all(b"x").unwrap();
        (&*near).write_all(b"y").unwrap();
    }
    let (mut seen, mut readable) = (vec![0; 100], vec![0; 100]);
    while seen.iter().chain(&readable).any(|count| *count == 0) {
        ring.wait(&mut events, Some(1_000)).unwrap();
        for event in events.iter() {
            readable[event.token as usize - 1_000] += 1;
        }
        while let Some(completion) = ring.next_completion() {
            let Completion::Received { token, result } = completion else { panic!("nothing is sent") };
            assert_eq!(&*result.unwrap(), b"x");
            seen[token as usize] += 1;
        }
    }
    assert!(seen.iter().all(|count| *count == 1));
    // The watches go on, although the kernel may have ended some of them.
    for (near, far) in &pairs {
        (&*far).read_exact(&mut [0]).unwrap();
        (&*near).write_all(b"y").unwrap();
    }
    let mut again = vec![false; 100];
    while !again.iter().all(|seen| *seen) {
        assert!(ring.wait(&mut events, Some(1_000)).unwrap() > 0, "{again:?}");
        events.iter().for_each(|event| again[event.token as usize - 1_000] = true);
    }
}

/// The kernel reads the bytes of a send, and writes to buffers, until the operations are over.
#[test]
fn a_ring_that_is_dropped_leaves_nothing_to_the_kernel() {
    for _ in 0..50 {
        let mut ring = Ring::new().unwrap();
        let pairs: Vec<_> = (0..10).map(|_| pair()).collect();
        for (token, (near, _)) in pairs.iter().enumerate() {
            ring.send(near.as_fd(), token as u64, (vec![1; 1_000_000], None), How::default());
            ring.receive(near.as_fd(), token as u64, 9, true);
            ring.add(near, token as u64, Interest::BOTH).unwrap();
        }
        ring.wait(&mut Events::default(), Some(0)).unwrap();
        drop(ring);
        for (_, far) in pairs {
            far.set_nonblocking(true).unwrap();
            let mut all = Vec::new();
            let _ = (&far).read_to_end(&mut all);
            assert!(all.len() < 1_000_000 && all.iter().all(|byte| *byte == 1));
        }
    }
}

#[test]
fn what_is_sent_without_a_copy_comes_back_when_the_network_has_no_more_use_for_it() {
    let mut ring = Ring::new().unwrap();
    let (near, mut far) = tcp_pair();
    let bytes: Vec<u8> = (0..20_000_u32).map(|at| at as u8).collect();
    let memory: Arc<[u8]> = Arc::from(&bytes[..]);
    for shared in [None, Some((Arc::clone(&memory), 0..memory.len()))] {
        let length = bytes.len() * (1 + usize::from(shared.is_some()));
        ring.send(near.as_fd(), 3, (bytes.clone(), shared), NO_COPY);
        let (result, held) = sent(&mut ring, 3);
        assert_eq!((result.unwrap(), held), (length, Vec::new()));
        // It can't be cancelled any more, and the next send has the same name.
        assert_eq!(ring.sends.give_up(3), None);
        let mut seen = vec![0; length];
        far.read_exact(&mut seen).unwrap();
        assert!(seen == bytes.repeat(length / bytes.len()));
        let back = next(&mut ring, |completion| match completion {
            Completion::Released { token: 3, bytes } => bytes,
            other => panic!("{} has completed", other.name()),
        });
        assert!(back == bytes);
        assert_eq!(
            (ring.in_flight(), Arc::strong_count(&memory)),
            (0, 1 + usize::from(length == bytes.len()))
        );
    }
}

#[test]
fn registered_sockets_are_named_by_their_places_until_they_are_closed() {
    let mut ring = Ring::new().unwrap();
    ring.register_descriptors().unwrap();
    for round in 0..3 {
        let (near, mut far) = pair();
        let near = OwnedFd::from(near);
        ring.register(near.as_fd());
        far.write_all(b"request").unwrap();
        ring.receive(near.as_fd(), round, usize::MAX, false);
        assert_eq!(received(&mut ring, round).unwrap(), b"request");
        ring.send(near.as_fd(), round, (b"reply".to_vec(), None), How::default());
        assert_eq!(sent(&mut ring, round).0.unwrap(), 5);
        ring.close(near);
        ring.wait(&mut Events::default(), Some(0)).unwrap();
        // The end shows that the kernel's table has the socket no more.
        let mut seen = Vec::new();
        far.read_to_end(&mut seen).unwrap();
        assert_eq!(seen, b"reply");
    }
    assert_eq!((ring.counts().registrations, ring.in_flight()), (6, 0));
}

#[test]
fn loads_files_into_memory() {
    let mut ring = Ring::new().unwrap();
    let path = std::env::temp_dir().join(format!("sluicegate-load-{}", std::process::id()));
    std::fs::write(&path, vec![7; 300_000]).unwrap();
    let file = Arc::new(OwnedFd::from(std::fs::File::open(&path).unwrap()));
    std::fs::remove_file(&path).unwrap();
    let second = 1 << 18;
    for (token, range) in [(1, 0..second), (2, second..2 * second), (3, 2 * second..3 * second)] {
        ring.load(Arc::clone(&file), token, range.clone());
        next(&mut ring, |completion| {
            assert!(matches!(completion, Completion::Loaded { token: t } if t == token));
        });
        assert!(crate::residency::is_resident(&*file, range.start, second));
    }
    assert_eq!((ring.in_flight(), ring.counts().reads, Arc::strong_count(&file)), (0, 3, 1));
}

#[test]
fn what_the_kernel_has_no_memory_to_pin_is_sent_with_a_copy() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

    let mut sets = capabilities(None).unwrap();
    sets.effective.remove(CapabilitySet::IPC_LOCK);
    set_capabilities(None, sets).unwrap();
    let mut ring = Ring::new().unwrap();
    let maximum = getrlimit(Resource::Memlock).maximum;
    setrlimit(Resource::Memlock, Rlimit { current: Some(4096), maximum }).unwrap();
    let (near, mut far) = tcp_pair();
    let bytes: Vec<u8> = (0..20_000_u32).map(|at| at as u8).collect();
    let memory: Arc<[u8]> = Arc::from(&bytes[..]);
    ring.send(near.as_fd(), 3, (bytes.clone(), Some((Arc::clone(&memory), 0..memory.len()))), NO_COPY);
    // It comes back with its first completion, as what was copied does.
    assert_eq!(sent(&mut ring, 3).0.unwrap(), 2 * bytes.len());
    let mut seen = vec![0; 2 * bytes.len()];
    far.read_exact(&mut seen).unwrap();
    assert!(seen == bytes.repeat(2));
    assert_eq!((ring.in_flight(), Arc::strong_count(&memory)), (0, 1));
}
