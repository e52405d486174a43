//! The connections of ranks, which one thread serves.
//!
//! A rank that does not read its answers is not read from either. So it delays no other, and takes
//! no memory.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{SendFlags, send};

use super::exchange::{Exchange, Step, Violation};
use super::segments;
use super::wire::{LONGEST_LINE, Refused, take_line};
use crate::ranks::{Failure, Reporter};

/// The connection of a rank.
#[derive(Debug)]
struct Connection {
    rank: u32,
    socket: UnixStream,
    /// The beginning of a line.
    read: Vec<u8>,
    /// Answers that the rank has not read yet.
    unsent: Vec<u8>,
}

/// The service for the ranks of a job.
pub(super) struct Service<S> {
    exchange: Exchange,
    /// In the order of ranks. `None` if it has ended.
    connections: Vec<Option<Connection>>,
    reporter: Reporter,
    /// Tells a person that a call is refused.
    say: S,
    refused: Vec<Refused>,
    has_failed: bool,
}

impl<S: Fn(u32, Refused)> Service<S> {
    pub(super) fn new(exchange: Exchange, sockets: Vec<UnixStream>, reporter: Reporter, say: S) -> Service<S> {
        let connect = |(rank, socket)| Some(Connection { rank, socket, read: Vec::new(), unsent: Vec::new() });
        let connections = (0..).zip(sockets).map(connect).collect();
        Service { exchange, connections, reporter, say, refused: Vec::new(), has_failed: false }
    }

    /// Serves until all connections have ended, or all ranks have and nothing is left to read.
    pub(super) fn run(mut self) -> io::Result<()> {
        segments::remove_abandoned();
        while let Some((is_ready, have_ended)) = self.wait()? {
            for rank in is_ready {
                self.serve(rank);
            }
            if have_ended {
                break;
            }
        }
        segments::remove(self.exchange.segments());
        Ok(())
    }

    /// Waits for something to do. Returns which ranks can be served, and whether all have ended and
    /// there is no more to come. `None` if no connection is left.
    fn wait(&self) -> io::Result<Option<(Vec<u32>, bool)>> {
        // After a failure, ranks only wait for their end.
        let connections = || self.connections.iter().flatten().filter(|_| !self.has_failed);
        if !self.has_failed && connections().next().is_none() {
            return Ok(None);
        }
        let mut watched: Vec<PollFd<'_>> = connections().map(|connection| connection.watched()).collect();
        watched.push(PollFd::new(self.reporter.end_of_ranks(), PollFlags::IN));
        retry_on_intr(|| poll(&mut watched, None))?;
        let is_ready: Vec<bool> = watched.iter().map(|watched| !watched.revents().is_empty()).collect();
        let ready =
            connections().zip(&is_ready).filter(|(_, is_ready)| **is_ready).map(|(connection, _)| connection.rank);
        let ready: Vec<u32> = ready.collect();
        let have_ended = ready.is_empty() && is_ready.last() == Some(&true);
        Ok(Some((ready, have_ended)))
    }

    fn serve(&mut self, rank: u32) {
        let Some(connection) = self.connections[rank as usize].as_mut().filter(|_| !self.has_failed) else { return };
        if connection.send_rest().is_err() {
            return self.end(rank);
        }
        match connection.receive() {
            Ok(0) => self.end(rank),
            Ok(_) => self.handle_lines(rank),
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.end(rank),
        }
    }

    fn handle_lines(&mut self, rank: u32) {
        while let Some(connection) = self.connections[rank as usize].as_mut().filter(|_| !self.has_failed) {
            let step = match take_line(&mut connection.read) {
                Ok(Some(line)) => self.exchange.handle(rank, &line),
                Ok(None) => return,
                Err(why) => Err(Violation::Malformed { rank, why }),
            };
            match step {
                Ok(Step::Answer(answers)) => {
                    answers.iter().for_each(|(rank, answer)| self.answer(*rank, &answer.to_string()));
                }
                Ok(Step::Refuse(call, answer)) => {
                    if !self.refused.contains(&call) {
                        self.refused.push(call);
                        (self.say)(rank, call);
                    }
                    self.answer(rank, &answer.to_string());
                }
                Ok(Step::Abort(code)) => self.fail(Failure::abort(rank, code)),
                Err(violation) => self.fail_because(&violation),
            }
        }
    }

    fn answer(&mut self, rank: u32, line: &str) {
        if let Some(connection) = self.connections[rank as usize].as_mut() {
            connection.unsent.extend_from_slice(line.as_bytes());
            // If it fails, the next read does, too.
            let _ = connection.send_rest();
        }
    }

    /// A connection has ended.
    fn end(&mut self, rank: u32) {
        self.connections[rank as usize] = None;
        if let Err(violation) = self.exchange.end(rank) {
            self.fail_because(&violation);
        }
    }

    fn fail_because(&mut self, violation: &Violation) {
        let (rank, is_of_end) = (violation.rank(), violation.is_of_end());
        self.fail(Failure { rank, code: 1, cause: violation.to_string(), is_of_end });
    }

    fn fail(&mut self, failure: Failure) {
        // A rank that only closes its connection may go on, and so may the others.
        self.has_failed |= !failure.is_of_end;
        self.reporter.report(failure);
    }
}

impl Connection {
    fn watched(&self) -> PollFd<'_> {
        PollFd::new(&self.socket, if self.unsent.is_empty() { PollFlags::IN } else { PollFlags::OUT })
    }

    /// Sends as much as the rank has room for.
    fn send_rest(&mut self) -> io::Result<()> {
        while !self.unsent.is_empty() {
            match send(&self.socket, &self.unsent, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(length) => drop(self.unsent.drain(..length)),
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(why) => return Err(why.into()),
            }
        }
        Ok(())
    }

    /// Reads once if the rank has read its answers. Returns the number of bytes. Zero means the
    /// end.
    fn receive(&mut self) -> io::Result<usize> {
        if !self.unsent.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut piece = [0; LONGEST_LINE];
        let length = self.socket.read(&mut piece)?;
        self.read.extend_from_slice(&piece[..length]);
        Ok(length)
    }
}
