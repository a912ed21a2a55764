//! The process that [looks up the names](crate::names) of applications for all workers. It reads what name
//! servers send, so it has nothing of the workers': no listener, no client, no log of requests.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use super::aide;
use crate::control::Control;
use crate::names::{Watch, Watched};

/// Looks these names up until the server ends, or is about to have another such process.
pub(super) fn look_up(
    names: Vec<Watched>,
    servers: Vec<SocketAddr>,
    control: &Arc<Control>,
) -> io::Result<()> {
    // Its threads end with the process, even those that wait for a name server.
    aide::work_until_the_end(control, || Watch::begin(names, servers), || {})
}
