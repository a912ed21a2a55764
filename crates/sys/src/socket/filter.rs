//! Classic BPF programs that decide which listener gets a connection, and whether any does. The kernel
//! runs them for each segment (`linux/filter.h`, `Documentation/networking/filter.rst`).

use std::io;
use std::os::fd::AsFd;

use super::option;

/// Makes the kernel choose among the sockets of an `SO_REUSEPORT` group by the CPU that receives a
/// handshake. `places` has pairs of a CPU and the socket's index in the group, which is the order in
/// which the sockets began to listen. For other CPUs, the hash decides.
///
/// This attaches a classic BPF program (`SO_ATTACH_REUSEPORT_CBPF`, socket(7)) that compares the CPU with
/// each of them. A program has at most 4,096 instructions: `EINVAL` for more than 2,000 pairs. Attaching
/// it to one socket of the group is enough.
pub fn steer_by_cpu(listener: impl AsFd, places: &[(usize, usize)]) -> io::Result<()> {
    // The value is negative: an offset into the kernel's metadata of a packet, not into the packet.
    const CPU: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_CPU) as u32;
    // An index that no socket has.
    const NONE: u32 = u32::MAX;
    const MOST: usize = 2_000;
    if places.len() > MOST {
        return Err(rustix::io::Errno::INVAL.into());
    }
    let mut program = vec![instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, CPU, 0, 0)];
    for &(cpu, place) in places {
        program.push(instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, cpu as u32, 0, 1));
        program.push(instruction(libc::BPF_RET | libc::BPF_K, place as u32, 0, 0));
    }
    program.push(instruction(libc::BPF_RET | libc::BPF_K, NONE, 0, 0));
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    option::set(listener, libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, &program)
}

/// Makes a listening TCP socket answer no further connection attempts. Handshakes in progress can finish,
/// and connections in the accept queue can still be accepted.
///
/// Closing a listener resets all connections that wait in its queue. So a server that exits first calls
/// this, accepts until the queue is empty and no handshake is left, and then closes. A client whose
/// attempt is dropped tries again by itself, a second later, and finds the successor or a refusal.
///
/// This attaches a classic BPF program (`SO_ATTACH_FILTER`, socket(7)) that drops segments with SYN set.
/// The program sees a segment from the TCP header on, with the flags in byte 13 (RFC 9293, 3.1).
/// Connections accepted later inherit the program, and do not receive such segments.
///
/// The program belongs to the socket, not to the descriptor. It applies to every process that has the
/// socket open, even after the end of the process that called this, until the socket is closed. So call
/// this only if no process will accept from this socket any more.
pub fn refuse_new_handshakes(listener: impl AsFd) -> io::Result<()> {
    const FLAGS_AT: u32 = 13;
    const SYN: u32 = 0x02;
    let mut program = [
        instruction(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, FLAGS_AT, 0, 0),
        instruction(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, SYN, 0, 1),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
        instruction(libc::BPF_RET | libc::BPF_K, u32::MAX, 0, 0),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    option::set(listener, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// Prevents any process from attaching a filter to a socket or removing one. Otherwise, every process
/// with a copy of the descriptor could do so. `SO_LOCK_FILTER`, socket(7).
pub fn lock_filter(socket: impl AsFd) -> io::Result<()> {
    option::set(socket, libc::SOL_SOCKET, libc::SO_LOCK_FILTER, &1)
}

fn instruction(code: u32, operand: u32, if_true: u8, if_false: u8) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: if_true, jf: if_false, k: operand }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;
    use crate::socket::tests::{begin_connecting, is_connected, listen, listen_at, would_block};
    use crate::socket::{ListenOptions, accept, recv, send};

    #[test]
    fn a_listener_that_refuses_new_handshakes_keeps_those_it_has() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let (listener, address) = listen_at(address, ListenOptions::default());
            let mut queued = TcpStream::connect(address).unwrap();
            queued.write_all(b"early").unwrap();
            refuse_new_handshakes(&listener).unwrap();

            let late = begin_connecting(address);
            assert!(!is_connected(&late, 200));
            let accepted = accept(&listener).unwrap();
            assert_eq!(recv(&accepted, &mut [0; 8]).unwrap(), 5);
            assert!(would_block(accept(&listener)), "the late one is not in the queue");

            send(&accepted, b"reply").unwrap();
            drop(listener);
            assert_eq!(send(&accepted, b" and more").unwrap(), 9, "closing resets nobody");
            drop(accepted);
            let mut reply = String::new();
            queued.read_to_string(&mut reply).unwrap();
            assert_eq!(reply, "reply and more");
        }
    }

    #[test]
    fn refusing_outlives_who_refused() {
        let (listener, address) = listen(ListenOptions::default());
        let _holder = listener.try_clone().unwrap();
        refuse_new_handshakes(&listener).unwrap();
        drop(listener);
        assert!(!is_connected(&begin_connecting(address), 200));
    }

    #[test]
    fn a_handshake_under_way_finishes_after_new_ones_are_refused() {
        // The kernel keeps a deferred connection as a handshake in progress, which ends with the first
        // data.
        let (listener, address) = listen(ListenOptions { defer_accept: Some(5), ..Default::default() });
        let mut client = TcpStream::connect(address).unwrap();
        refuse_new_handshakes(&listener).unwrap();
        assert!(would_block(accept(&listener)));
        assert!(!is_connected(&begin_connecting(address), 50));
        client.write_all(b"request").unwrap();
        let accepted = accept(&listener).unwrap();
        assert_eq!(recv(&accepted, &mut [0; 8]).unwrap(), 7);
        send(&accepted, b"reply").unwrap();
        client.write_all(b"again").unwrap();
        assert_eq!(recv(&accepted, &mut [0; 8]).unwrap(), 5);
        drop(accepted);
        let mut reply = String::new();
        client.read_to_string(&mut reply).unwrap();
        assert_eq!(reply, "reply");
    }
}
