//! What clients connect to: a socket of TCP whose bytes a channel is brought, and which is sent what it has.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

use server::config::Settings;
use server::conversation::Conversation;
use server::service::Service;
use sys::socket::PeerAddress;

use crate::queues::Queues;
use crate::records::{Peer, Records};
use crate::turn::Ended;
use crate::{completions, world};

/// How long nothing has to come for a channel to have a turn all the same.
const TICK: Duration = Duration::from_millis(2);

/// Who moves the bytes of a conversation, as the front knows it.
pub(crate) trait Channel {
    /// These bytes have come from the client.
    fn comes(&mut self, bytes: &[u8]);
    /// The client sends no more.
    fn input_ends(&mut self);
    /// Goes on as far as can be.
    fn work(&mut self, service: &mut Service) -> Ended;
    /// What the client is to be sent.
    fn goes(&mut self) -> Vec<u8>;
    /// The client is to be told of an end that the channel has told in its own way.
    fn is_told_the_end(&self) -> bool {
        false
    }
    /// The end of the output has been sent.
    fn output_is_shut(&mut self, service: &Service);
    /// The connection is over.
    fn end(self: Box<Self>, service: &mut Service);
}

/// `serve ROOT --config FILE --listen=127.0.0.1:0 --channel=NAME`: serves until it is killed.
pub(crate) fn serve(arguments: &[String]) {
    let channel = arguments.iter().find_map(|argument| argument.strip_prefix("--channel="));
    let file = arguments.iter().position(|argument| argument == "--config").map(|at| &arguments[at + 1]);
    let text = std::fs::read_to_string(file.expect("--config")).expect("a file");
    let settings = world::settings(Path::new(&arguments[0]), &text);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    eprintln!("listening on http://{}/ (test)", listener.local_addr().expect("an address"));
    let channel = channel.expect("--channel").to_owned();
    if channel == "completions" {
        return completions::serve(listener, &settings);
    }
    for (number, client) in (0..).zip(listener.incoming()) {
        let (client, settings, channel) = (client.expect("a client"), settings.clone(), channel.clone());
        thread::spawn(move || {
            // A client that is gone concerns nobody.
            let _ = serve_client(client, &settings, &channel, number);
        });
    }
}

fn serve_client(client: TcpStream, settings: &Settings, channel: &str, seed: u64) -> io::Result<()> {
    let mut service = world::service(settings);
    let conversation = Conversation::new(PeerAddress::Inet(client.peer_addr()?), false, None, &service);
    let channel: Box<dyn Channel> = match channel {
        "queues" => Box::new(Queues::new(conversation, seed)),
        "records" => Box::new(Peer::new(Records::new(conversation), seed)),
        other => panic!("no channel {other}"),
    };
    carry(client, channel, &mut service)
}

/// Carries bytes between a client and a channel until either ends.
fn carry(mut client: TcpStream, mut channel: Box<dyn Channel>, service: &mut Service) -> io::Result<()> {
    client.set_read_timeout(Some(TICK))?;
    let mut buffer = [0; 16 << 10];
    let mut is_open = true;
    let result = loop {
        let ended = channel.work(service);
        let output = channel.goes();
        if let Err(error) = client.write_all(&output) {
            break Err(error);
        }
        match ended {
            Ended::Waits if !output.is_empty() => continue,
            Ended::Waits => {
                if channel.is_told_the_end() {
                    let _ = client.shutdown(Shutdown::Write);
                }
            }
            Ended::ShutDown => {
                let _ = client.shutdown(Shutdown::Write);
                channel.output_is_shut(service);
                continue;
            }
            Ended::Close => break Ok(()),
            Ended::Reset => {
                channel.end(service);
                return sys::socket::reset(client.into());
            }
        }
        if !is_open {
            thread::sleep(TICK);
            continue;
        }
        match client.read(&mut buffer) {
            Ok(0) => {
                is_open = false;
                channel.input_ends();
            }
            Ok(count) => channel.comes(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => break Err(error),
        }
    };
    channel.end(service);
    result
}
