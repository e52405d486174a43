//! A server of PMI-1, by which the ranks of MPICH and its relatives find each other: the part of a
//! launcher that their library needs.
//!
//! Each rank inherits a socket, on which it writes lines and reads answers. An
//! [`Exchange`] decides, and a thread serves all ranks. No MPI library is
//! linked.

mod exchange;
mod segments;
mod service;
#[cfg(test)]
mod tests;
mod wire;

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::process::Command;

use sys::descriptors::inherit_in;

pub use self::exchange::{Exchange, Step, Violation};
use self::service::Service;
pub use self::wire::{Answer, Malformed, Refused, Request, take_line};
use crate::ranks::Reporter;
use crate::service_thread;

/// The variable of UCX for the signal at which it prints its state.
const DEBUG_SIGNAL: &str = "UCX_DEBUG_SIGNO";

/// A server for ranks that are going to start.
#[derive(Debug)]
pub struct Server {
    exchange: Exchange,
    /// Of the ranks that have been started, in their order.
    sockets: Vec<UnixStream>,
}

impl Server {
    /// A server for ranks of these programs, whose numbers count from 0.
    pub fn new(applications: Vec<u32>) -> Server {
        Server { sockets: Vec::new(), exchange: Exchange::new(applications) }
    }

    /// Lets the child of `command` be the next rank, from 0. The command holds a descriptor until
    /// it is dropped.
    ///
    /// # Errors
    /// If there is no descriptor left.
    pub fn connect(&mut self, command: &mut Command) -> io::Result<()> {
        let (own, theirs) = UnixStream::pair()?;
        own.set_nonblocking(true)?;
        let (rank, ranks) = (self.sockets.len().to_string(), self.exchange.ranks().to_string());
        command.env("PMI_FD", theirs.as_raw_fd().to_string()).env("PMI_RANK", &rank).env("PMI_SIZE", &ranks);
        // The launcher of MPICH sets them as well, and programs choose a device by them.
        command.env("MPI_LOCALRANKID", rank).env("MPI_LOCALNRANKS", ranks);
        // By default, UCX, which MPICH may use, prints its state at SIGHUP, and goes on. So the job
        // would outlive its terminal.
        let is_set = command.get_envs().any(|(name, value)| name == DEBUG_SIGNAL && value.is_some());
        if !is_set && std::env::var_os(DEBUG_SIGNAL).is_none() {
            command.env(DEBUG_SIGNAL, "0");
        }
        inherit_in(command, theirs.into());
        self.sockets.push(own);
        Ok(())
    }

    /// Serves the ranks in a thread of its own, which lasts as long as they do. `say` tells a
    /// person that a call of a rank is refused, once for each kind of call.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn serve(self, reporter: Reporter, say: impl Fn(u32, Refused) + Send + 'static) -> io::Result<()> {
        let service = Service::new(self.exchange, self.sockets, reporter, say);
        // If it fails, ranks lose their connections, and fail.
        service_thread::start("pmi", move || drop(service.run()))
    }
}
