//! The side of root: one process for each connection.

use std::collections::BTreeSet;
use std::fmt::{Arguments, Display};
use std::io::{self, BufRead, BufReader, PipeWriter};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use policy::{JobId, Span};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Signal, getpid, kill_process};
use sys::identity::{Identity, Stat};
pub use sys::peer::Peer;

use super::message::{Answer, Call, Change, JobRequest, LONGEST_CALL, MessageError, receive, send};
use super::pace::{PRICE, Pace, price_of_change};
use super::patient::Patient;
use crate::agent::{Agent, AgentError};
use crate::processes::may_be_signalled;
use crate::queue::Waiting;
use crate::restraint::{StopChoice, StopMechanism};
use crate::state::{Client, Entering, State, StateError, stolen};
use crate::table::{Table, TableError};
use crate::topology::Topology;

/// How many connections of a user there may be at a time: those of the jobs, and others.
pub const CONNECTION_LIMIT: usize = 96;
/// How many connections of all users there may be at a time. Root may have more.
pub const TOTAL_LIMIT: usize = 1536;
/// How long a client may take to say what it wants, and to take an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The largest first number of a job. Later ones grow by one with each job.
const LARGEST_FIRST: u32 = 1_000_000;

/// Why a connection was ended. It is a clause about the client.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct ServiceError(#[from] MessageError);

/// The surroundings of a service, as far as it needs them.
pub trait Surroundings: Sync {
    /// Logs what was done or refused.
    fn log(&self, message: Arguments<'_>);
    /// The memory that is available to jobs, in bytes.
    fn available_memory(&self) -> u64;
    /// The memory that could ever be, in bytes. If it is unknown, no job may ask for any.
    fn most_memory(&self) -> Option<u64>;
    /// How long a turn lasts if there is no other job yet.
    fn slice(&self) -> Span;
    /// The pace of the calls of the client's user.
    fn pace(&self) -> &Pace;
}

/// Tells a client, which was accepted just now, why it is not served: because it asks for too much
/// (`is_wrong`), or because of a failure. Does not block.
///
/// The connection must last until the client has read that: its message, if nothing reads it, would
/// discard the answer at the end of the connection.
pub fn refuse(stream: &UnixStream, is_wrong: bool, why: &str) {
    let answer = Answer::Refused { is_wrong, why: format!("pds refuses: {why}") };
    // The first message of a connection has room.
    let _ = stream.set_nonblocking(true).map(|()| send(&mut &*stream, answer));
}

/// Serves a client until it ends the connection, with the table in this folder. This process, which
/// must have one thread, becomes the agent of its job if it has one.
///
/// # Errors
/// If the client does not behave.
pub fn serve(
    stream: UnixStream,
    peer: Peer,
    place: &Path,
    surroundings: &dyn Surroundings,
) -> Result<(), ServiceError> {
    // A connection costs more than a call.
    wait(peer, PRICE, surroundings);
    let stream = BufReader::new(Patient::new(stream, PATIENCE));
    let mut service = Service { stream, peer, process: identify(peer), place, surroundings, agent: None };
    let served = service.run();
    if let Some(agent) = service.agent.take() {
        let job = agent.job();
        drop(agent);
        service.surroundings.log(format_args!("job {job} has ended with its process"));
    }
    Ok(served?)
}

/// The price of a call if turns last so long.
fn price(call: &Call, turn: Span) -> Span {
    match call {
        Call::Change(..) | Call::Suspend(_) => price_of_change(turn),
        _ => PRICE,
    }
}

/// Waits until a user may make a call of this price. Root need not.
fn wait(peer: Peer, price: Span, surroundings: &dyn Surroundings) {
    if peer.user != 0 {
        surroundings.pace().wait(price);
    }
}

/// The process that has connected. `None` if it has ended: its id may belong to a process by now
/// that its user may not signal.
fn identify(Peer { pid, user }: Peer) -> Option<Identity> {
    let process = Identity { pid, started: Stat::of(pid)?.started };
    // If it is alive after the look at its users, they were not those of another.
    (may_be_signalled(pid, user) && process.is_alive()).then_some(process)
}

struct Service<'a> {
    stream: BufReader<Patient>,
    peer: Peer,
    /// Its process.
    process: Option<Identity>,
    /// The folder around the table.
    place: &'a Path,
    surroundings: &'a dyn Surroundings,
    agent: Option<Agent>,
}

/// Why a request is refused.
enum Refusal {
    /// The request is wrong.
    Wrong(String),
    /// It was tried.
    Failed(String),
    /// The answer cannot be sent.
    Ended(MessageError),
}

impl From<AgentError> for Refusal {
    fn from(why: AgentError) -> Refusal {
        match why {
            AgentError::State(why) => wrong(why),
            why => Refusal::Failed(why.to_string()),
        }
    }
}

impl From<StateError> for Refusal {
    fn from(why: StateError) -> Refusal {
        wrong(why)
    }
}

impl From<TableError> for Refusal {
    fn from(why: TableError) -> Refusal {
        Refusal::Failed(why.to_string())
    }
}

fn wrong(why: impl Display) -> Refusal {
    Refusal::Wrong(why.to_string())
}

impl Service<'_> {
    fn run(&mut self) -> Result<(), MessageError> {
        loop {
            let call = match self.receive() {
                Err(MessageError::Ended) => return Ok(()),
                Err(why) => {
                    let _ = self.answer(Answer::Refused { is_wrong: true, why: format!("pds refuses: {why}") });
                    return Err(why);
                }
                Ok(call) => call,
            };
            wait(self.peer, price(&call, self.surroundings.slice()), self.surroundings);
            let answer = match self.handle(call) {
                Ok(answer) => answer,
                Err(Refusal::Ended(why)) => return Err(why),
                Err(Refusal::Wrong(why)) => Answer::Refused { is_wrong: true, why },
                Err(Refusal::Failed(why)) => Answer::Refused { is_wrong: false, why },
            };
            if let Answer::Refused { why, .. } = &answer {
                self.surroundings.log(format_args!("refused: {why}"));
            }
            self.answer(answer)?;
        }
    }

    fn receive(&mut self) -> Result<Call, MessageError> {
        // A client with a job may be silent for as long as the job lasts.
        self.stream.get_mut().set_patience(self.agent.is_none().then_some(PATIENCE));
        while let Err(why) = self.stream.fill_buf() {
            if why.kind() != io::ErrorKind::Interrupted {
                return Err(why.into());
            }
        }
        self.stream.get_mut().set_patience(Some(PATIENCE));
        receive(&mut self.stream, LONGEST_CALL)
    }

    fn answer(&mut self, answer: Answer) -> Result<(), MessageError> {
        self.stream.get_mut().set_patience(Some(PATIENCE));
        send(self.stream.get_mut(), answer)
    }

    fn handle(&mut self, call: Call) -> Result<Answer, Refusal> {
        match call {
            Call::Table => {
                let table = Table::look(self.place)?;
                let shown = table.map(|(state, times)| (text(&state, self.peer.user), times));
                return Ok(Answer::Table(shown));
            }
            Call::Change(job, change) => self.change(JobId(job), change)?,
            Call::Enter(request) => return self.enter(&request),
            Call::Start(keepers) => self.start(&keepers)?,
            Call::Suspend(is_suspended) => self.agent()?.set_suspended(is_suspended)?,
            Call::End => self.agent()?.set_ending()?,
            Call::IsStopped => return Ok(Answer::IsStopped(self.agent()?.is_stopped_by_signals())),
            Call::Leave => {
                let agent = self.agent.take().ok_or_else(no_job)?;
                let job = agent.job();
                agent.leave()?;
                self.surroundings.log(format_args!("job {job} has ended"));
            }
        }
        Ok(Answer::Done)
    }

    fn agent(&mut self) -> Result<&mut Agent, Refusal> {
        self.agent.as_mut().ok_or_else(no_job)
    }

    fn change(&mut self, job: JobId, change: Change) -> Result<(), Refusal> {
        change.check().map_err(wrong)?;
        let unknown = || StateError::Unknown(job);
        let table = Table::find(self.place)?.ok_or_else(unknown)?;
        // Its number is not used again as long as the table exists.
        self.require_owner(&*table.state()?, job)?;
        table.update(|state, now| {
            if let Change::Set { weight: Some(weight), .. } = change {
                state.check_weight(self.peer.user, Some(job), weight).map_err(StateError::from)?;
            }
            change.apply(state, job, now)
        })?;
        self.surroundings.log(format_args!("changes job {job}: {change:?}"));
        Ok(())
    }

    /// Refuses a job of another user, except to root.
    fn require_owner(&self, state: &State, job: JobId) -> Result<(), Refusal> {
        let own = self.peer.user;
        match state.job(job)?.user().filter(|&user| own != 0 && user != own) {
            Some(user) => Err(wrong(format_args!("job {job} belongs to user {user}"))),
            None => Ok(()),
        }
    }

    fn enter(&mut self, request: &JobRequest) -> Result<Answer, Refusal> {
        request.check().map_err(wrong)?;
        if request.memory > self.surroundings.most_memory() {
            // It and the later jobs of its user would wait for ever.
            return Err(wrong("no end of other jobs could give this job its memory"));
        }
        if self.agent.is_some() {
            return Err(wrong("this connection has a job already"));
        }
        let all = sys::cpus::of_all_processes().map_err(|why| Refusal::Failed(why.to_string()))?;
        let slice = self.surroundings.slice();
        let table = Table::enter(self.place, || State::new(Topology::of_this_machine(&all), slice))?;
        let cells = |state: &State| request.demand.request_within(state.topology(), &request.cpus, request.has_quota);
        let state = table.state()?;
        cells(&state).map_err(wrong)?;
        // It would take time from the turns of that job.
        request.with.map_or(Ok(()), |with| self.require_owner(&state, JobId(with)))?;
        let process = self.process.ok_or_else(|| wrong("the process that asks has ended, or pds does not see it"))?;
        let first = request.first_number.min(LARGEST_FIRST);
        table.update(|state, _| {
            state.skip_to(first);
            Ok::<_, AgentError>(())
        })?;
        let entering = |state: &State| Entering {
            agent: Identity::own(),
            stolen: stolen(),
            command: request.command.clone(),
            ranks: request.ranks,
            request: cells(state).ok().flatten(),
            weight: request.weight,
            gang: request.gang,
            with: request.with.map(JobId),
            waits_for_cells: request.waits_for_cells,
            memory: request.memory,
            client: Some(Client { process, user: self.peer.user }),
            program: None,
        };
        let (stream, surroundings) = (&self.stream.get_ref().stream, self.surroundings);
        let mut queue = InQueue { stream, peer: self.peer, surroundings, watch: None };
        let entered = Agent::enter(table, Some(StopChoice::By(StopMechanism::Signals)), entering, &mut queue);
        queue.end();
        let agent = match entered {
            Err(AgentError::Asked(_)) => return Err(Refusal::Ended(MessageError::Ended)),
            entered => entered?,
        };
        let job = agent.job();
        self.agent = Some(agent);
        self.surroundings.log(format_args!("job {job} enters: {} ranks of process {}", request.ranks, process.pid));
        Ok(Answer::Entered(job.0))
    }

    fn start(&mut self, keepers: &[u32]) -> Result<(), Refusal> {
        let (Peer { pid, user }, process) = (self.peer, self.process);
        let agent = self.agent()?;
        if agent.has_begun() {
            return Err(wrong("the ranks of this job have started already"));
        }
        let (keepers, ranks) = (BTreeSet::from_iter(keepers), agent.state()?.job(agent.job())?.ranks);
        if keepers.len() > ranks as usize {
            return Err(wrong(format_args!("a job of {ranks} ranks has no {} keepers", keepers.len())));
        }
        let is_there = || process.is_some_and(Identity::is_alive);
        let identity = |&keeper: &u32| {
            let is_child = |stat: &Stat| stat.parent == pid && may_be_signalled(keeper, user) && is_there();
            let stat = Stat::of(keeper).filter(is_child);
            let stat = stat.ok_or_else(|| wrong(format_args!("process {keeper} is no child of yours")))?;
            Ok(Identity { pid: keeper, started: stat.started })
        };
        let keepers = keepers.into_iter().map(identity).collect::<Result<_, Refusal>>()?;
        Ok(agent.serve(keepers)?)
    }
}

fn no_job() -> Refusal {
    wrong("this connection has no job")
}

fn text(state: &State, user: u32) -> String {
    String::from_utf8(state.shown_to(user).to_bytes()).unwrap_or_default()
}

/// The wait of a client's job in the queue. It ends with the client.
struct InQueue<'a> {
    stream: &'a UnixStream,
    peer: Peer,
    surroundings: &'a dyn Surroundings,
    /// A thread that notices the end of the client, and what ends the thread.
    watch: Option<(PipeWriter, JoinHandle<()>)>,
}

impl InQueue<'_> {
    /// Afterwards, this process has one thread.
    fn end(self) {
        if let Some((end, watch)) = self.watch {
            drop(end);
            let _ = watch.join();
        }
    }

    fn watch(&mut self) -> io::Result<()> {
        let (stream, (over, end)) = (self.stream.try_clone()?, io::pipe()?);
        let watch = move || {
            let mut watched = [PollFd::new(&stream, PollFlags::RDHUP), PollFd::new(&over, PollFlags::IN)];
            let found = retry_on_intr(|| poll(&mut watched, None));
            if found.is_ok() && !watched[0].revents().is_empty() {
                // It ends the wait.
                let _ = kill_process(getpid(), Signal::TERM);
            }
        };
        self.watch = Some((end, thread::Builder::new().name("client".to_owned()).spawn(watch)?));
        Ok(())
    }
}

impl Waiting for InQueue<'_> {
    fn begin(&mut self, state: &State, job: JobId) {
        // If the client does not hear of it, it has mostly ended.
        let _ = self
            .stream
            .try_clone()
            .map(|stream| send(&mut Patient::new(stream, PATIENCE), Answer::Waits(job.0, text(state, self.peer.user))));
        let _ = self.watch();
    }

    fn available_memory(&self) -> u64 {
        self.surroundings.available_memory()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Mutex;

    use policy::Span;
    use policy::gang::Gang;

    use super::*;
    use crate::pds::{Client as Connection, PdsError, message};
    use crate::state::tests::entering;

    const OWNER: u32 = 54_101;

    struct Log(Mutex<Vec<String>>, Pace);

    impl Surroundings for Log {
        fn log(&self, message: Arguments<'_>) {
            self.0.lock().unwrap().push(message.to_string());
        }

        fn available_memory(&self) -> u64 {
            0
        }

        fn most_memory(&self) -> Option<u64> {
            Some(1 << 30)
        }

        fn slice(&self) -> Span {
            Span::from_millis(30)
        }

        fn pace(&self) -> &Pace {
            &self.1
        }
    }

    /// A table with job 1 of the owner, for which this process acts.
    fn table(place: &Path) -> Table {
        let empty = || State::new(Topology::of_cpus(&[0, 1]), Span::from_millis(20));
        let table = Table::enter(place, empty).unwrap();
        let entering = Entering {
            agent: Identity::own(),
            command: "secret".to_owned(),
            client: Some(Client { process: Identity::own(), user: OWNER }),
            ..entering(2, Gang::Strict, 1)
        };
        table.update(|state, now| state.enter(&entering, now).map_err(AgentError::from)).unwrap();
        table
    }

    /// Lets a user act on a connection. Returns the result, and the lines of the log.
    fn connect<T>(place: &Path, user: u32, act: impl FnOnce(UnixStream) -> T) -> (T, Vec<String>) {
        let (client, server) = UnixStream::pair().unwrap();
        let log = Log(Mutex::default(), Pace::open(Pace::create().unwrap()).unwrap());
        let peer = Peer { pid: std::process::id(), user };
        let done = thread::scope(|scope| {
            let served = scope.spawn(|| serve(server, peer, place, &log));
            let done = act(client);
            let _ = served.join().unwrap();
            done
        });
        (done, log.0.into_inner().unwrap())
    }

    #[test]
    fn only_the_owner_and_root_see_the_command_and_change_the_job() {
        let place = tempfile::tempdir().unwrap();
        let table = table(place.path());
        for (user, may) in [(OWNER, true), (0, true), (OWNER + 1, false)] {
            let (_, log) = connect(place.path(), user, |stream| {
                let mut client = Connection::of(stream);
                let (state, _) = client.table().unwrap().unwrap();
                let job = state.job(JobId(1)).unwrap();
                assert_eq!((job.command.as_str(), job.user()), (if may { "secret" } else { "" }, Some(OWNER)));
                for is_held in [true, false] {
                    let changed = client.change(JobId(1), Change::Hold(is_held));
                    assert_eq!(table.state().unwrap().job(JobId(1)).unwrap().is_held, may && is_held);
                    match changed {
                        Ok(()) => assert!(may),
                        Err(why) => assert_eq!((why.to_string().as_str(), may), ("job 1 belongs to user 54101", false)),
                    }
                }
            });
            let first = if may { "changes job 1: Hold(true)" } else { "refused: job 1 belongs to user 54101" };
            assert_eq!(log[0], first);
        }
    }

    #[test]
    fn a_change_of_a_job_costs_ten_turns_and_a_look_does_not() {
        let turn = Span::from_millis(20);
        let hold = Call::Change(1, Change::Hold(false));
        assert_eq!([hold, Call::Suspend(true)].map(|call| price(&call, turn)), [Span::from_millis(200); 2]);
        assert_eq!([Call::Table, Call::Leave].map(|call| price(&call, turn)), [PRICE; 2]);
        assert_eq!(price(&Call::Suspend(true), Span::from_millis(10_000)), Span::from_millis(1000));
    }

    #[test]
    fn a_job_with_the_turns_or_the_process_of_another_user_or_too_much_memory_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let _table = table(place.path());
        let (_, log) = connect(place.path(), OWNER + 1, |mut stream| {
            let along = JobRequest { with: Some(1), ..message::tests::request() };
            let large = JobRequest { with: None, memory: Some(1 << 31), ..message::tests::request() };
            // The id of this process, which belongs to another user.
            let plain = JobRequest { with: None, ..message::tests::request() };
            for request in [along, large, plain] {
                send(&mut stream, Call::Enter(Box::new(request))).unwrap();
                let _: Answer = receive(&mut BufReader::new(&stream), LONGEST_CALL).unwrap();
            }
        });
        let memory = "refused: no end of other jobs could give this job its memory";
        let process = "refused: the process that asks has ended, or pds does not see it";
        assert_eq!(log, ["refused: job 1 belongs to user 54101", memory, process]);
    }

    #[test]
    fn requests_that_make_no_sense_get_a_sentence_and_do_not_end_the_service_of_others() {
        let place = tempfile::tempdir().unwrap();
        let old = "{\"version\":1,\"content\":\"table\"}\n";
        for (message, why) in
            [("GET / HTTP/1.1\n", "its message makes no sense"), (old, "its messages are of version 1")]
        {
            let (answer, _) = connect(place.path(), OWNER, |mut stream| {
                stream.write_all(message.as_bytes()).unwrap();
                let answer: Answer = receive(&mut BufReader::new(&stream), LONGEST_CALL).unwrap();
                format!("{answer:?}")
            });
            assert!(answer.contains(&format!("pds refuses: {why}")), "{answer}");
        }
        let (_, log) = connect(place.path(), OWNER, |stream| {
            let mut client = Connection::of(stream);
            assert!(client.table().unwrap().is_none());
            let moderate = Change::Set { weight: None, gang: Some(Gang::Moderate) };
            for change in [Change::Hold(true), moderate] {
                assert!(matches!(client.change(JobId(7), change), Err(PdsError::Wrong(_))));
            }
        });
        assert_eq!(log[0], "refused: there is no job 7; `rowlock jobs` lists all jobs");
    }

    #[test]
    fn a_connection_without_a_job_has_no_ranks() {
        let place = tempfile::tempdir().unwrap();
        let (_, log) = connect(place.path(), OWNER, |mut stream| {
            let stranger = Call::Start(vec![std::process::id()]);
            for call in
                [Call::Start(Vec::new()), stranger, Call::Suspend(true), Call::End, Call::IsStopped, Call::Leave]
            {
                send(&mut stream, call).unwrap();
                let answer: Answer = receive(&mut BufReader::new(&stream), LONGEST_CALL).unwrap();
                assert!(matches!(answer, Answer::Refused { is_wrong: true, .. }), "{answer:?}");
            }
        });
        assert!(log.iter().all(|line| line == "refused: this connection has no job"), "{log:?}");
    }
}
