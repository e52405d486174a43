//! The side of a client, which is a process of any user.

use std::io::{self, BufReader};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use policy::JobId;
use policy::layout::Rectangle;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use rustix::process::{Pid, geteuid};
use sys::peer::Peer;

use super::message::{Answer, Call, Change, JobRequest, LONGEST_ANSWER, MessageError, receive, send};
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
    /// Why it can be used no more: an answer that is late would be taken for that to the next
    /// question.
    failed: Option<String>,
}

impl Client {
    /// Connects to the socket with this path. Blocks for at most some seconds, as the questions
    /// do.
    ///
    /// # Errors
    /// If that is not possible, or the other process is neither root's nor this user's.
    pub fn connect(path: &Path) -> Result<Client, PdsError> {
        Client::connect_within(path, PATIENCE)
    }

    fn connect_within(path: &Path, patience: Duration) -> Result<Client, PdsError> {
        let cannot = |why: io::Error| match MessageError::from(why) {
            MessageError::Io(why) => PdsError::Connect { path: path.to_owned(), why },
            why => why.into(),
        };
        let stream = connect(path, patience).map_err(cannot)?;
        let user = Peer::of(stream.as_fd()).map_err(cannot)?.user;
        if user != 0 && user != geteuid().as_raw() {
            return Err(PdsError::Stranger { path: path.to_owned(), user });
        }
        stream.set_read_timeout(Some(patience)).map_err(cannot)?;
        Ok(Client { stream: BufReader::new(stream), failed: None })
    }

    /// A connection that is there.
    #[cfg(test)]
    pub(super) fn of(stream: UnixStream) -> Client {
        Client { stream: BufReader::new(stream), failed: None }
    }

    /// The latest version of the table, as far as this user may see it. `None` if there is no
    /// table.
    ///
    /// # Errors
    /// [`PdsError`].
    pub fn table(&mut self) -> Result<Option<(Arc<State>, Measured)>, PdsError> {
        self.ask(Call::Table, |answer| match answer {
            Answer::Table(None) => Ok(None),
            Answer::Table(Some((state, measured))) => Ok(Some((Arc::new(parse(&state)?), measured))),
            _ => Err(nonsense()),
        })
    }

    /// Changes a job.
    ///
    /// # Errors
    /// [`PdsError`].
    pub fn change(&mut self, job: JobId, change: Change) -> Result<(), PdsError> {
        self.tell(Call::Change(job.0, change))
    }

    /// Enters a job. Blocks as long as it is in the queue.
    ///
    /// # Errors
    /// [`PdsError`].
    pub fn enter(mut self, request: JobRequest, waiting: &mut dyn Waiting) -> Result<Served, PdsError> {
        let entered = |answer| match answer {
            Answer::Entered(job) => Ok(JobId(job)),
            _ => Err(nonsense()),
        };
        let job = match self.ask(Call::Enter(Box::new(request)), Ok)? {
            Answer::Waits(job, state) => {
                waiting.begin(&parse(&state)?, JobId(job));
                self.set_patience(None)?;
                let job = refused(receive(&mut self.stream, LONGEST_ANSWER)?).and_then(entered)?;
                self.set_patience(Some(PATIENCE))?;
                job
            }
            answer => entered(answer)?,
        };
        Ok(Served { client: Mutex::new(self), job, is_over: Arc::default() })
    }

    fn set_patience(&self, patience: Option<Duration>) -> Result<(), PdsError> {
        self.stream.get_ref().set_read_timeout(patience).map_err(|why| PdsError::Message(why.to_string()))
    }

    fn tell(&mut self, call: Call) -> Result<(), PdsError> {
        self.ask(call, |answer| match answer {
            Answer::Done => Ok(()),
            _ => Err(nonsense()),
        })
    }

    /// Asks, and understands the answer. A failure ends the connection.
    fn ask<T>(&mut self, call: Call, understand: impl Fn(Answer) -> Result<T, PdsError>) -> Result<T, PdsError> {
        if let Some(why) = &self.failed {
            return Err(PdsError::Message(why.clone()));
        }
        let answer = match send(self.stream.get_mut(), call) {
            // Before pds has ended the connection, it may have said why.
            Ok(()) | Err(MessageError::Ended) => receive(&mut self.stream, LONGEST_ANSWER),
            Err(why) => Err(why),
        };
        let understood = answer.map_err(PdsError::from).and_then(refused).and_then(understand);
        if let Err(PdsError::Message(why)) = &understood {
            // The job of this connection goes on without turns.
            let _ = self.stream.get_ref().shutdown(Shutdown::Both);
            self.failed = Some(why.clone());
        }
        understood
    }
}

/// A stream to a socket, which has so long to accept it and to take each message.
fn connect(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(patience))?;
    let address = SocketAddrUnix::new(path)?;
    retry_on_intr(|| rustix::net::connect(&socket, &address))?;
    Ok(socket.into())
}

/// The turns of a job of this process, whose agent is a process of pds. They end when this is
/// dropped.
#[derive(Debug)]
pub struct Served {
    client: Mutex<Client>,
    job: JobId,
    /// Whether the turns have ended as they should, or `watch` has told that they have not.
    is_over: Arc<AtomicBool>,
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

    /// Lets a thread call this function if the turns end before the job leaves the table: if its
    /// agent has failed, or has not answered.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn watch(&self, tell: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let stream = self.with(|client| client.stream.get_ref().try_clone())?;
        let is_over = Arc::clone(&self.is_over);
        let watch = move || {
            let ended = retry_on_intr(|| poll(&mut [PollFd::new(&stream, PollFlags::RDHUP)], None));
            if ended.is_ok() && !is_over.swap(true, SeqCst) {
                tell();
            }
        };
        thread::Builder::new().name("pds".to_owned()).spawn(watch).map(drop)
    }

    /// Whether the ranks are stopped by SIGSTOP now, as far as turns are concerned.
    pub fn is_stopped_by_signals(&self) -> bool {
        let is_stopped = |answer| match answer {
            Answer::IsStopped(is_stopped) => Ok(is_stopped),
            _ => Err(nonsense()),
        };
        self.with(|client| client.ask(Call::IsStopped, is_stopped)).unwrap_or(false)
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
    /// [`PdsError`], also if it has taken no turns for some time, unless [`watch`](Served::watch)
    /// has told that.
    pub fn leave(self) -> Result<(), PdsError> {
        let left = self.tell(Call::Leave);
        if self.is_over.swap(true, SeqCst) { Ok(()) } else { left }
    }

    fn tell(&self, call: Call) -> Result<(), PdsError> {
        self.with(|client| client.tell(call))
    }

    fn with<T>(&self, act: impl FnOnce(&mut Client) -> T) -> T {
        act(&mut self.client.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.is_over.store(true, SeqCst);
        // The thread that watches has the connection as well.
        let _ = self.with(|client| client.stream.get_ref().shutdown(Shutdown::Both));
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
    State::from_bytes(state.as_bytes(), wait::now()).map_err(PdsError::Message)
}

fn nonsense() -> PdsError {
    PdsError::Message("its answer is not one to this question".to_owned())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, Write};
    use std::os::unix::net::UnixListener;
    use std::sync::mpsc;

    use rustix::net::{bind, listen};

    use super::super::message;
    use super::*;

    fn sentence<T: std::fmt::Debug>(result: Result<T, PdsError>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn an_answer_that_is_late_is_not_taken_for_that_to_the_next_question() {
        let (own, mut other) = UnixStream::pair().unwrap();
        own.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let mut client = Client::of(own);
        let late = "`rowlock pds` has failed: it does not answer; ROWLOCK_PDS=none starts jobs without it";
        assert_eq!(sentence(client.change(JobId(1), Change::Hold(true))), late);
        // It was written before the client has ended the connection, or never arrives.
        let _ = send(&mut other, Answer::Done);
        client.stream.get_ref().set_read_timeout(None).unwrap();
        assert_eq!(sentence(client.change(JobId(1), Change::Hold(true))), late);
    }

    #[test]
    fn a_connection_is_ended_after_an_answer_that_makes_no_sense() {
        for answers in ["hello\n", "{\"version\":2,\"content\":{\"entered\":1}}\n"] {
            let (own, mut other) = UnixStream::pair().unwrap();
            other.write_all(answers.as_bytes()).unwrap();
            // These would be answers to the next questions.
            (0..2).for_each(|_| send(&mut other, Answer::Done).unwrap());
            let mut client = Client::of(own);
            let why = [(); 2].map(|()| sentence(client.change(JobId(1), Change::Hold(true))));
            assert!(why[0] == why[1] && why[0].contains("sense") || why[0].contains("not one to this"), "{why:?}");
            let mut calls = BufReader::new(other).lines();
            assert!(calls.next().is_some() && calls.next().is_none(), "the other side learns of it");
        }
    }

    #[test]
    fn a_client_that_is_refused_before_it_asks_learns_why() {
        let (own, mut other) = UnixStream::pair().unwrap();
        let why = "there are 256 connections of this user".to_owned();
        send(&mut other, Answer::Refused { is_wrong: false, why: why.clone() }).unwrap();
        drop(other);
        let refused = Client::of(own).enter(message::tests::request(), &mut ());
        assert!(matches!(refused, Err(PdsError::Failed(said)) if said == why));
    }

    #[test]
    fn the_failure_of_an_agent_is_told_once_and_the_end_of_the_job_is_none() {
        let served = || {
            let ((own, other), (told, heard)) = (UnixStream::pair().unwrap(), mpsc::channel());
            let served = Served { client: Mutex::new(Client::of(own)), job: JobId(1), is_over: Arc::default() };
            served.watch(move || told.send(()).unwrap()).unwrap();
            (served, other, heard)
        };
        let (fails, other, heard) = served();
        drop(other);
        assert!(heard.recv().is_ok() && fails.leave().is_ok());
        let (leaves, mut other, heard) = served();
        send(&mut other, Answer::Done).unwrap();
        assert!(leaves.leave().is_ok() && heard.recv().is_err());
        let (ends, _other, heard) = served();
        drop(ends);
        assert!(heard.recv().is_err());
    }

    #[test]
    fn a_connection_that_is_not_accepted_is_an_error_after_some_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        bind(&socket, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        listen(&socket, 0).unwrap();
        let connect = || Client::connect_within(&path, Duration::from_millis(1));
        // The queue has room for one.
        let _first = connect().unwrap();
        assert!(sentence(connect()).contains("it does not answer"));
    }

    #[test]
    fn a_socket_that_remains_silent_is_an_error_after_some_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _silent = UnixListener::bind(&path).unwrap();
        let patience = Duration::from_millis(1);
        let mut client = Client::connect_within(&path, patience).unwrap();
        // Otherwise the next line would block.
        assert!(client.stream.get_ref().read_timeout().unwrap().is_some());
        assert!(sentence(client.table()).contains("it does not answer"));
    }
}
