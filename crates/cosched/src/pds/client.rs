//! The side of a client, which is a process of any user.

use std::io::{self, BufReader};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use policy::JobId;
use policy::layout::Rectangle;
use rustix::process::{Pid, geteuid};
use sys::peer::Peer;

use super::message::{Answer, Call, Change, JobRequest, LONGEST_ANSWER, MessageError, receive, send};
use crate::clock;
use crate::queue::Waiting;
use crate::state::State;
use crate::table::Measured;

/// How long pds may take to answer, except while a job waits in the queue.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why pds has not done what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum PdsError {
    /// It cannot be reached.
    #[error("cannot ask `rowlock pds` at {}: {why}", path.display())]
    Connect {
        /// The path of its socket.
        path: PathBuf,
        /// The reason.
        #[source]
        why: io::Error,
    },
    /// Another process has made the socket.
    #[error("the process behind {} is not root's, but user {user}'s", path.display())]
    Stranger {
        /// The path of the socket.
        path: PathBuf,
        /// The user.
        user: u32,
    },
    /// It does not answer as it should.
    #[error("`rowlock pds` has failed: {0}; ROWLOCK_PDS=none starts jobs without it")]
    Message(String),
    /// It must not do that.
    #[error("{0}")]
    Wrong(String),
    /// It has tried that.
    #[error("{0}")]
    Failed(String),
}

impl From<MessageError> for PdsError {
    fn from(why: MessageError) -> PdsError {
        PdsError::Message(why.to_string())
    }
}

/// A connection to pds.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Connects to the socket with this path.
    ///
    /// # Errors
    /// If that is not possible, or the other process is neither root's nor this user's.
    pub fn connect(path: &Path) -> Result<Client, PdsError> {
        let cannot = |why| PdsError::Connect { path: path.to_owned(), why };
        let stream = UnixStream::connect(path).map_err(cannot)?;
        let user = Peer::of(stream.as_fd()).map_err(cannot)?.user;
        if user != 0 && user != geteuid().as_raw() {
            return Err(PdsError::Stranger { path: path.to_owned(), user });
        }
        let limit = |stream: &UnixStream| {
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))
        };
        limit(&stream).map_err(cannot)?;
        Ok(Client { stream: BufReader::new(stream) })
    }

    /// A connection that is there.
    #[cfg(test)]
    pub(super) fn of(stream: UnixStream) -> Client {
        Client { stream: BufReader::new(stream) }
    }

    /// The latest version of the table, as far as this user may see it. `None` if there is no
    /// table.
    ///
    /// # Errors
    /// [`PdsError`].
    pub fn table(&mut self) -> Result<Option<(Arc<State>, Measured)>, PdsError> {
        match self.ask(Call::Table)? {
            Answer::Table(None) => Ok(None),
            Answer::Table(Some((state, measured))) => Ok(Some((Arc::new(parse(&state)?), measured))),
            _ => Err(nonsense()),
        }
    }

    /// Changes a job.
    ///
    /// # Errors
    /// [`PdsError`].
    pub fn change(&mut self, job: JobId, change: Change) -> Result<(), PdsError> {
        self.ask_to(Call::Change(job.0, change))
    }

    /// Enters a job. Blocks as long as it is in the queue.
    ///
    /// # Errors
    /// [`PdsError`].
    pub fn enter(mut self, request: JobRequest, waiting: &mut dyn Waiting) -> Result<Served, PdsError> {
        let mut answer = self.ask(Call::Enter(Box::new(request)))?;
        if let Answer::Waits(job, state) = answer {
            waiting.begin(&parse(&state)?, JobId(job));
            self.set_patience(None)?;
            answer = refused(receive(&mut self.stream, LONGEST_ANSWER)?)?;
            self.set_patience(Some(PATIENCE))?;
        }
        match answer {
            Answer::Entered(job) => Ok(Served { client: Mutex::new(self), job: JobId(job) }),
            _ => Err(nonsense()),
        }
    }

    fn set_patience(&self, patience: Option<Duration>) -> Result<(), PdsError> {
        self.stream.get_ref().set_read_timeout(patience).map_err(|why| PdsError::Message(why.to_string()))
    }

    fn ask(&mut self, call: Call) -> Result<Answer, PdsError> {
        send(self.stream.get_mut(), call)?;
        refused(receive(&mut self.stream, LONGEST_ANSWER)?)
    }

    fn ask_to(&mut self, call: Call) -> Result<(), PdsError> {
        if matches!(self.ask(call)?, Answer::Done) { Ok(()) } else { Err(nonsense()) }
    }
}

/// The turns of a job of this process, whose agent is a process of pds. They end when this is
/// dropped.
#[derive(Debug)]
pub struct Served {
    client: Mutex<Client>,
    job: JobId,
}

impl Served {
    /// The number of the job.
    pub fn job(&self) -> JobId {
        self.job
    }

    /// The latest version of the table.
    ///
    /// # Errors
    /// [`PdsError`].
    pub fn state(&self) -> Result<Arc<State>, PdsError> {
        self.with(Client::table)?.map(|(state, _)| state).ok_or_else(nonsense)
    }

    /// The job's cells. `None` if it has none.
    ///
    /// # Errors
    /// [`PdsError`].
    pub fn cells(&self) -> Result<Option<Rectangle>, PdsError> {
        Ok(self.state()?.job(self.job).map_err(|_| nonsense())?.cells)
    }

    /// Lets the job, whose processes are the descendants of these, take turns.
    ///
    /// # Errors
    /// [`PdsError`].
    pub fn start(&self, keepers: &[Pid]) -> Result<(), PdsError> {
        let keepers = keepers.iter().map(|keeper| keeper.as_raw_nonzero().get().unsigned_abs()).collect();
        self.tell(Call::Start(keepers))
    }

    /// Whether the ranks are stopped by SIGSTOP now, as far as turns are concerned.
    pub fn is_stopped_by_signals(&self) -> bool {
        matches!(self.with(|client| client.ask(Call::IsStopped)), Ok(Answer::IsStopped(true)))
    }

    /// Leaves the job alone, because its terminal stops it, or lets it take turns again.
    ///
    /// # Errors
    /// [`PdsError`].
    pub fn set_suspended(&self, is_suspended: bool) -> Result<(), PdsError> {
        self.tell(Call::Suspend(is_suspended))
    }

    /// Lets the job run at any time, because it is to end.
    ///
    /// # Errors
    /// [`PdsError`].
    pub fn set_ending(&self) -> Result<(), PdsError> {
        self.tell(Call::End)
    }

    /// Takes the job, whose processes have ended, out of the table.
    ///
    /// # Errors
    /// [`PdsError`], also if it has taken no turns for some time.
    pub fn leave(self) -> Result<(), PdsError> {
        self.tell(Call::Leave)
    }

    fn tell(&self, call: Call) -> Result<(), PdsError> {
        self.with(|client| client.ask_to(call))
    }

    fn with<T>(&self, act: impl FnOnce(&mut Client) -> T) -> T {
        act(&mut self.client.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn refused(answer: Answer) -> Result<Answer, PdsError> {
    match answer {
        Answer::Refused { is_wrong: true, why } => Err(PdsError::Wrong(why)),
        Answer::Refused { is_wrong: false, why } => Err(PdsError::Failed(why)),
        answer => Ok(answer),
    }
}

fn parse(state: &str) -> Result<State, PdsError> {
    State::from_bytes(state.as_bytes(), clock::now()).map_err(PdsError::Message)
}

fn nonsense() -> PdsError {
    PdsError::Message("its answer is not one to this question".to_owned())
}
