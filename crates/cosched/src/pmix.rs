//! The PMIx server of a job: by it, programs of Open MPI learn of each other.
//!
//! libpmix starts threads, opens sockets and may fail in ways of its own, so the server is a
//! process beside the ranks: this program again, with a hidden argument ([`serve_if_asked`]).
//! `protocol` is what both tell each other. It ends when its standard input does, so with this
//! process, and it has a keeper (`sys::containment`) if it does not.
//!
//! All files of the library, of the ranks and of the launchers that they may call are in a folder
//! in memory, which is removed at the end, however that comes. `environment` tells the ranks.

mod environment;
mod process;
mod protocol;
#[cfg(test)]
mod tests;
mod watch;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use pmix::Library;
pub use pmix::{Call, Event, LoadError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use sys::containment::{Contained, Manner};
use sys::files::TemporaryFolder;

pub use self::process::serve_if_asked;
use self::protocol::{Order, Report, Variables};
use crate::table::place;

/// The prefix of the folder's name.
const PREFIX: &str = "rowlock-pmix-";
/// How long the start of the server may take, and its end.
const START: Duration = Duration::from_secs(30);
const END: Duration = Duration::from_secs(2);

/// Why a job has no PMIx server.
#[derive(Debug, thiserror::Error)]
pub enum PmixError {
    /// The folder for its files cannot be created.
    #[error("cannot create a folder for the files of libpmix: {0}")]
    Folder(io::Error),
    /// Its process cannot be started, or it cannot be told of the job.
    #[error("cannot start the PMIx server: {0}")]
    Process(#[from] io::Error),
    /// There is no libpmix. This says which one is needed.
    #[error("{0}")]
    NoLibrary(String),
    /// It has said why it does not serve.
    #[error("{0}")]
    Refused(String),
    /// It has ended or said nothing.
    #[error("the PMIx server has not started{0}")]
    Silent(String),
}

/// The version of the library that a server would use, in its own words. It stays loaded.
///
/// # Errors
/// If there is none, or it is not one whose interface is known.
pub fn library_version() -> Result<String, LoadError> {
    Library::load().map(|library| library.version().to_owned())
}

/// The running server of a job. When it is dropped, the server ends.
#[derive(Debug)]
pub struct Server {
    /// The variables of each rank.
    variables: Vec<Variables>,
    /// The server ends with it.
    input: Option<ChildStdin>,
    /// Dropped before the folder that it uses.
    process: Contained,
    folder: TemporaryFolder,
}

/// A name for a job that no other user can guess. libpmix listens to all processes of this machine,
/// and believes each that it is the rank of which it knows the job's name and the user.
fn name() -> io::Result<String> {
    let mut random = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    Ok(format!("rowlock-{:032x}", u128::from_ne_bytes(random)))
}

/// The events that the server of a job learns of.
#[derive(Debug)]
pub struct Events(BufReader<ChildStdout>);

impl Server {
    /// Starts the server of a job whose ranks execute these applications, numbered from 0. Blocks
    /// until it is ready, and starts no thread.
    ///
    /// # Errors
    /// If there is no libpmix of a known version, or it cannot serve.
    pub fn start(applications: &[u32]) -> Result<(Server, Events), PmixError> {
        let folder = TemporaryFolder::create_for_programs(&place(), PREFIX).map_err(PmixError::Folder)?;
        let mut command = process::command();
        let mut process = Contained::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()), Manner::Background)?;
        let child = process.process();
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let output = output.ok_or_else(|| io::Error::other("its output is missing"))?;
        let mut server = Server { variables: Vec::new(), input, process, folder };
        let mut events = Events(BufReader::new(output));
        let own = environment::variables(server.folder.path(), PREFIX, |name| std::env::var_os(name));
        let order = Order {
            name: name()?,
            applications: applications.to_vec(),
            folder: server.folder.path().as_os_str().to_owned(),
        };
        // If it has ended, its reports say why.
        let told = server.input.as_mut().map_or(Ok(()), |input| input.write_all(&protocol::line(&order)));
        match events.first() {
            Ok(Some(Report::Ready(variables))) => {
                server.variables = variables;
                server.variables.iter_mut().for_each(|variables| variables.extend(own.iter().cloned()));
                Ok((server, events))
            }
            Ok(Some(Report::Failed(why))) => Err(PmixError::Refused(why)),
            Ok(Some(Report::NoLibrary(why))) => Err(PmixError::NoLibrary(why)),
            Ok(Some(Report::Event(_))) => Err(PmixError::Silent(": it has begun with an event".to_owned())),
            Ok(None) => Err(told.map_or_else(PmixError::Process, |()| server.silent())),
            Err(why) => Err(PmixError::Process(why)),
        }
    }

    /// The variables that a rank gets, with their values. They replace those of other launchers,
    /// but none that the user has set.
    pub fn variables(&self, rank: u32) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        let variables = self.variables.get(rank as usize).into_iter().flatten();
        variables.map(|(name, value): &(OsString, OsString)| (name.as_os_str(), value.as_os_str()))
    }

    /// It has said nothing.
    fn silent(&mut self) -> PmixError {
        let status = self.process.wait_for(END).ok().flatten();
        PmixError::Silent(status.map_or_else(|| format!(" within {START:?}"), |status| format!(": {status}")))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.input = None;
        // Then its keeper ends it.
        let _ = self.process.wait_for(END);
    }
}

impl Events {
    /// The first report. `None` if there is none in time.
    fn first(&mut self) -> io::Result<Option<Report>> {
        let limit = Timespec::try_from(START).ok();
        match retry_on_intr(|| poll(&mut [PollFd::new(self.0.get_ref(), PollFlags::IN)], limit.as_ref()))? {
            0 => Ok(None),
            _ => self.report(),
        }
    }

    fn report(&mut self) -> io::Result<Option<Report>> {
        let mut line = Vec::new();
        match self.0.read_until(b'\n', &mut line)? {
            0 => Ok(None),
            _ => Ok(Some(protocol::parse(&line)?)),
        }
    }
}

/// Waits for each event. Ends when the server does: by [`Server::drop`], or too early.
impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        loop {
            match self.report() {
                Ok(Some(Report::Event(event))) => return Some(event),
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return None,
            }
        }
    }
}
