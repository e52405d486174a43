//! The clients of an echo server: many connections, all from this process.
//!
//! First each connection sends a message as soon as it exists, and at most [`WINDOW`] wait for their
//! first answers, so that the queue of the listening socket never overflows. Then each sends the
//! next message as soon as it has the answer to the last one.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rustix::event::{Timespec, epoll};
use rustix::net::{AddressFamily, SocketType, bind, listen, socket, sockopt};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::process::{self, Measured};

/// The most connections without a first answer.
const WINDOW: usize = 500;

/// How long all connections send.
const SENDING: Duration = Duration::from_secs(1);

/// The size of a message.
const SIZE: usize = 64;

/// Runs a server, whose standard input is a listening socket, with so many connections, and lets
/// them send.
pub(crate) fn run(
    mut command: Command,
    on_all: bool,
    connections: usize,
    time_limit: Duration,
) -> anyhow::Result<Measured> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0)))?;
    listen(&socket, 4096)?;
    let address = TcpListener::from(socket.try_clone()?).local_addr()?;
    command.stdin(socket);
    process::run_beside(command, on_all, time_limit, move |server| {
        // The server has the first CPU.
        let cpus = sys::cpus::allowed()?;
        let _pinned = if on_all { None } else { Some(sys::cpus::pin(cpus[cpus.len() - 1])?) };
        Clients::new(Instant::now() + time_limit)?.measure(server, address, connections)
    })
}

struct Clients {
    streams: Vec<TcpStream>,
    poll: OwnedFd,
    events: Vec<epoll::Event>,
    end: Instant,
}

impl Clients {
    fn new(end: Instant) -> anyhow::Result<Clients> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Clients { streams: Vec::new(), poll, events: Vec::with_capacity(1024), end })
    }

    fn measure(mut self, server: u32, address: SocketAddr, connections: usize) -> anyhow::Result<Measured> {
        let (began, mut answered) = (Instant::now(), 0);
        while answered < connections {
            if self.streams.len() < connections && self.streams.len() < answered + WINDOW {
                let stream = TcpStream::connect(address)?;
                stream.set_nodelay(true)?;
                // Without this, the ports would stay in use for a minute.
                sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?;
                let data = epoll::EventData::new_u64(self.streams.len() as u64);
                epoll::add(&self.poll, &stream, data, epoll::EventFlags::IN)?;
                self.streams.push(stream);
                self.send(self.streams.len() - 1)?;
                if !self.streams.len().is_multiple_of(16) {
                    continue;
                }
            }
            answered += self.receive()?.len();
        }
        let accepted = began.elapsed();

        (0..connections).try_for_each(|client| self.send(client))?;
        let (began, mut answered) = (Instant::now(), 0);
        while began.elapsed() < SENDING {
            let clients = self.receive()?;
            answered += clients.len();
            clients.into_iter().try_for_each(|client| self.send(client))?;
        }
        let rate = answered as f64 / began.elapsed().as_secs_f64();
        let status = fs::read_to_string(format!("/proc/{server}/status"))?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next());
        let resident: f64 = resident.context("the memory is not reported")?.parse()?;
        Ok(vec![
            ("accepted".to_owned(), accepted.as_secs_f64() * 1e3),
            ("rate".to_owned(), rate),
            ("resident".to_owned(), resident / 1024.0),
        ])
    }

    fn send(&self, client: usize) -> anyhow::Result<()> {
        Ok((&self.streams[client]).write_all(&[1; SIZE])?)
    }

    /// The clients that have an answer now. Waits if there is none.
    fn receive(&mut self) -> anyhow::Result<Vec<usize>> {
        ensure!(Instant::now() < self.end, "the clients have no answers");
        let most = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        epoll::wait(&self.poll, rustix::buffer::spare_capacity(&mut self.events), Some(&most))?;
        let clients = self.events.drain(..).map(|event| event.data.u64() as usize);
        let mut bytes = [0; SIZE];
        clients
            .map(|client| {
                (&self.streams[client]).read_exact(&mut bytes).context("a connection has ended")?;
                Ok(client)
            })
            .collect()
    }
}
