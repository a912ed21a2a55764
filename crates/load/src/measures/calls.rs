//! Every call as a line of CSV, written by a thread of its own so that no call waits for a disk.
//!
//! A recorder gathers calls, hands them over by the thousand or every tenth of a second, and gets the emptied
//! buffer back. What is handed over is written at once: should this process be killed, the file has all but
//! the last moment. When all its buffers are with the writer a recorder waits: a log with holes could not be
//! joined with the server's. After a failure to write nothing more is written, and nobody waits.

use std::io::{self, Write as _};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use crate::output::{Output, Unwritten};
use crate::record::{Call, Nanos};

/// Calls that are handed over at once.
const BATCH: usize = 4096;
/// Batches of a recorder.
const BATCHES: usize = 4;

/// The columns, in their order. Times are in nanoseconds since the run began; a time that never came is
/// empty.
const COLUMNS: &str = "session,position,request,connection,client_port,intended,issued,connected,\
                       send_started,sent,first_byte,ended,status,request_bytes,head_bytes,body_bytes,\
                       outcome,resent";

/// A recorder's end.
#[derive(Debug)]
pub struct CallLog {
    batch: Vec<Call>,
    to_writer: SyncSender<Batch>,
    from_writer: Receiver<Vec<Call>>,
    home: Sender<Vec<Call>>,
}

/// A batch, and where its buffer goes.
type Batch = (Vec<Call>, Sender<Vec<Call>>);

/// The file and the thread that writes it.
#[derive(Debug)]
pub struct CallWriter {
    thread: JoinHandle<Result<(), Unwritten>>,
    to_writer: SyncSender<Batch>,
}

impl CallWriter {
    /// Begins the file with its line of names.
    ///
    /// # Errors
    ///
    /// There is no thread to be had.
    pub fn start(mut file: Output) -> io::Result<Self> {
        let (to_writer, batches) = sync_channel::<Batch>(64);
        let thread = std::thread::Builder::new().name("calls".into()).spawn(move || {
            let mut written = file.begin().and_then(|()| file.write(format!("{COLUMNS}\n").as_bytes()));
            let mut lines = Vec::new();
            for (mut batch, home) in batches {
                if written.is_ok() {
                    lines.clear();
                    for call in &batch {
                        add_line(&mut lines, call);
                    }
                    written = file.write(&lines);
                }
                batch.clear();
                // The recorder may be gone.
                let _ = home.send(batch);
            }
            written
        })?;
        Ok(Self { thread, to_writer })
    }

    /// A recorder's end.
    pub fn log(&self) -> CallLog {
        let (home, from_writer) = channel();
        for _ in 1..BATCHES {
            // The receiver is here.
            let _ = home.send(Vec::with_capacity(BATCH));
        }
        CallLog { batch: Vec::with_capacity(BATCH), to_writer: self.to_writer.clone(), from_writer, home }
    }

    /// Waits until everything is written. All logs must have been dropped.
    ///
    /// # Errors
    ///
    /// Writing failed; the file ends where it did.
    ///
    /// # Panics
    ///
    /// When the thread that writes did.
    pub fn finish(self) -> Result<(), Unwritten> {
        drop(self.to_writer);
        self.thread.join().expect("the thread that writes calls panicked")
    }
}

impl CallLog {
    pub(super) fn take(&mut self, call: &Call) {
        self.batch.push(*call);
        if self.batch.len() == BATCH {
            self.hand_over();
        }
    }

    /// Hands over what there is, if the writer has given a buffer back; else there is room for more.
    pub(super) fn tick(&mut self) {
        if !self.batch.is_empty()
            && let Ok(empty) = self.from_writer.try_recv()
        {
            self.send(empty);
        }
    }

    fn hand_over(&mut self) {
        // The writer sends each buffer back, whatever has come of it.
        let Ok(empty) = self.from_writer.recv() else { return self.batch.clear() };
        self.send(empty);
    }

    fn send(&mut self, empty: Vec<Call>) {
        let batch = std::mem::replace(&mut self.batch, empty);
        let _ = self.to_writer.send((batch, self.home.clone()));
    }
}

impl Drop for CallLog {
    fn drop(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        let _ = self.to_writer.send((batch, self.home.clone()));
    }
}

fn add_line(to: &mut Vec<u8>, call: &Call) {
    let time = |time: Option<Nanos>| time.map_or_else(String::new, |time| time.to_string());
    // Writing to a vector can't fail.
    let _ = writeln!(
        to,
        "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
        call.session,
        call.position,
        call.request,
        call.connection,
        call.client_port,
        call.intended,
        call.issued,
        time(call.connected),
        time(call.send_started),
        time(call.sent),
        time(call.first_byte),
        call.ended,
        call.status,
        call.request_bytes,
        call.head_bytes,
        call.body_bytes,
        call.outcome.name(),
        call.resent,
    );
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::tests::call;
    use super::*;
    use crate::record::Outcome;

    #[test]
    fn every_call_becomes_a_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("calls.csv");
        let writer = CallWriter::start(Output::open(&path).unwrap()).unwrap();
        let mut log = writer.log();
        for number in 0..10_000 {
            log.take(&Call { session: number, ..call(Outcome::Reply, 5, 100_000_005) });
        }
        drop(log);
        writer.finish().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!((lines.len(), lines[0]), (10_001, COLUMNS));
        assert_eq!(lines[1], "0,0,0,0,0,0,5,,100005,100005,50050005,100000005,200,60,200,1000,reply,0");
        assert!(lines[10_000].starts_with("9999,"));
        assert!(lines.iter().all(|line| line.split(',').count() == COLUMNS.split(',').count()));
    }

    #[test]
    fn a_full_disk_holds_nobody() {
        let writer = CallWriter::start(Output::open(Path::new("/dev/full")).unwrap()).unwrap();
        let mut log = writer.log();
        for _ in 0..10 * BATCHES * BATCH {
            log.take(&call(Outcome::Reply, 5, 100_000_005));
        }
        drop(log);
        assert_eq!(writer.finish().unwrap_err().path, Path::new("/dev/full"));
    }
}
