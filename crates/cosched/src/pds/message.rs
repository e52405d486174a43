//! The messages between a client and pds: a line of JSON for each.

use std::io::{self, BufRead, Read, Write};

use policy::gang::Gang;
use policy::turn::LARGEST_WEIGHT;
use policy::{Instant, JobId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::agent::AgentError;
use crate::placement::Demand;
use crate::process_list::PLACES;
use crate::state::State;
use crate::table::Measured;

/// The version of the messages. Each change of a message needs another one.
pub const VERSION: u32 = 2;
/// The longest message to pds, in bytes: the CPUs of the largest machines fit.
pub(super) const LONGEST_CALL: u64 = 1 << 20;
/// The longest message to a client: a table fits.
pub(super) const LONGEST_ANSWER: u64 = 64 << 20;
/// The most ranks of a job: so many processes of a user are stopped at a time.
const MOST_RANKS: u32 = PLACES as u32;
/// The most CPUs.
const MOST_CPUS: usize = 65_536;

/// A job that asks for turns.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobRequest {
    /// Its command, for people.
    pub command: String,
    /// The number of its ranks.
    pub ranks: u32,
    /// The cells that it asks for.
    pub demand: Demand,
    /// The CPUs that it may use.
    pub cpus: Vec<u32>,
    /// Whether a quota limits them, so that cells stand for no particular ones.
    pub has_quota: bool,
    /// Its share of the turns.
    pub weight: u32,
    /// Its way to share the machine.
    pub gang: Gang,
    /// The job whose turns are to be its turns, too.
    pub with: Option<JobNumber>,
    /// Whether it waits until no other job has its cells.
    pub waits_for_cells: bool,
    /// The memory that it claims, in bytes.
    pub memory: Option<u64>,
    /// Its number is at least this one.
    pub first_number: u32,
}

/// The number of a job.
pub(super) type JobNumber = u32;

impl JobRequest {
    /// Refuses what no `prun` asks for.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let Demand { ranks, cells_per_rank, .. } = self.demand;
        let is_count = |count: u32| (1..=MOST_RANKS).contains(&count);
        let are_counts = [Some(self.ranks), ranks, cells_per_rank].into_iter().flatten().all(is_count);
        match self {
            _ if !are_counts => {
                Err("its numbers of ranks and cores are not from 1 to 4096, which is the most with pds")
            }
            _ if self.cpus.len() > MOST_CPUS => Err("it has too many CPUs"),
            _ if !(1..=LARGEST_WEIGHT).contains(&self.weight) => Err("its weight is too small or too large"),
            _ if self.gang == Gang::Moderate => Err(NOT_LOWERED),
            _ if self.with.is_some() && (self.waits_for_cells || self.memory.is_some()) => {
                Err("it waits, and cooperates with another job")
            }
            _ => Ok(()),
        }
    }
}

/// Why jobs are not lowered.
const NOT_LOWERED: &str = "pds lowers no jobs, because the kernel does not compare the priorities of different users; \
                           choose another `--how`";

/// A change of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Change {
    /// Stop it until it is let go, or let it go.
    Hold(bool),
    /// Give it another weight or another way to share the machine.
    Set {
        /// Its share of the turns.
        weight: Option<u32>,
        /// Its way to share the machine.
        gang: Option<Gang>,
    },
}

impl Change {
    /// Refuses what no `rowlock set` asks for.
    pub(super) fn check(self) -> Result<(), &'static str> {
        match self {
            Change::Set { weight: Some(weight), .. } if !(1..=LARGEST_WEIGHT).contains(&weight) => {
                Err("its weight is too small or too large")
            }
            Change::Set { gang: Some(Gang::Moderate), .. } => Err(NOT_LOWERED),
            _ => Ok(()),
        }
    }

    /// Changes the table.
    ///
    /// # Errors
    /// If there is no such job, or it cannot be changed so.
    pub fn apply(self, state: &mut State, job: JobId, now: Instant) -> Result<(), AgentError> {
        match self {
            Change::Hold(is_held) => state.set_held(job, is_held, now)?,
            Change::Set { weight, gang } => {
                weight.map_or(Ok(()), |weight| state.set_weight(job, weight, now))?;
                gang.map_or(Ok(()), |gang| state.set_gang(job, gang, now))?;
                if gang == Some(Gang::Moderate) {
                    state.find_lower_by(job)?;
                }
            }
        }
        Ok(())
    }
}

/// A message to pds. It answers each.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Call {
    /// Tell the table.
    Table,
    /// Change a job.
    Change(JobNumber, Change),
    /// Enter a job, whose connection this is from now on.
    Enter(Box<JobRequest>),
    /// Its ranks have started, with these keepers.
    Start(Vec<u32>),
    /// Its terminal stops it, or continues it.
    Suspend(bool),
    /// It is about to end.
    End,
    /// Tell whether it is stopped for the turn of another.
    IsStopped,
    /// Its ranks have ended.
    Leave,
}

/// A message of pds.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Answer {
    /// It is done.
    Done,
    /// The job waits in the queue. Another answer follows.
    Waits(JobNumber, String),
    /// The job has this number.
    Entered(JobNumber),
    /// Whether it is stopped.
    IsStopped(bool),
    /// The table, if there is one.
    Table(Option<(String, Measured)>),
    /// It was not done: because it may not be asked for, or because it failed.
    Refused {
        /// Whether the request is wrong.
        is_wrong: bool,
        /// The reason, for people.
        why: String,
    },
}

/// Why a message cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub(super) enum MessageError {
    #[error("it does not answer")]
    Late,
    #[error("it has ended the connection")]
    Ended,
    #[error("its message is longer than {0} bytes")]
    TooLong(u64),
    #[error("its messages are of version {0}, and those of this rowlock of version {VERSION}")]
    Version(u32),
    #[error("its message makes no sense: {0}")]
    Malformed(String),
    #[error(transparent)]
    Io(io::Error),
}

impl From<io::Error> for MessageError {
    fn from(why: io::Error) -> MessageError {
        match why.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => MessageError::Late,
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => MessageError::Ended,
            _ => MessageError::Io(why),
        }
    }
}

/// A message on its way.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<T> {
    version: u32,
    content: T,
}

/// One of any version.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

/// Sends a message.
pub(super) fn send<T: Serialize>(to: &mut impl Write, content: T) -> Result<(), MessageError> {
    let envelope = Envelope { version: VERSION, content };
    let mut line = serde_json::to_vec(&envelope).map_err(|why| MessageError::Malformed(why.to_string()))?;
    line.push(b'\n');
    Ok(to.write_all(&line)?)
}

/// Receives a message of at most so many bytes.
pub(super) fn receive<T: DeserializeOwned>(from: &mut impl BufRead, longest: u64) -> Result<T, MessageError> {
    let mut line = Vec::new();
    from.take(longest).read_until(b'\n', &mut line)?;
    match line.pop() {
        None => return Err(MessageError::Ended),
        Some(b'\n') => {}
        Some(_) if line.len() as u64 + 1 == longest => return Err(MessageError::TooLong(longest)),
        Some(_) => return Err(MessageError::Ended),
    }
    let malformed = |why: serde_json::Error| MessageError::Malformed(why.to_string());
    match serde_json::from_slice(&line).map_err(malformed)? {
        Versioned { version: VERSION } => {}
        Versioned { version } => return Err(MessageError::Version(version)),
    }
    let envelope: Envelope<T> = serde_json::from_slice(&line).map_err(malformed)?;
    Ok(envelope.content)
}

#[cfg(test)]
pub(super) mod tests {
    use policy::layout::Shape;
    use proptest::prelude::*;

    use super::*;

    pub(in crate::pds) fn request() -> JobRequest {
        JobRequest {
            command: "a \"b\"\n\u{1b}[2J".to_owned(),
            ranks: 2,
            demand: Demand { ranks: Some(2), cells_per_rank: None, shape: Some(Shape { columns: 2, rows: 1 }) },
            cpus: vec![0, 1],
            has_quota: false,
            weight: 1,
            gang: Gang::Strict,
            with: Some(1),
            waits_for_cells: false,
            memory: None,
            first_number: 1,
        }
    }

    fn line(call: Call) -> Vec<u8> {
        let mut line = Vec::new();
        send(&mut line, call).unwrap();
        line
    }

    fn parse(bytes: &[u8]) -> Result<Call, MessageError> {
        receive(&mut &*bytes, LONGEST_CALL)
    }

    fn calls() -> Vec<Call> {
        let changes = [Change::Hold(true), Change::Set { weight: Some(2), gang: None }];
        let changes = changes.map(|change| Call::Change(7, change));
        let others = [Call::Table, Call::Enter(Box::new(request())), Call::Start(vec![1, 2]), Call::Leave];
        changes.into_iter().chain(others).collect()
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn a_damaged_message_is_read_or_refused(
            number in 0..6_usize, place in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>(),
        ) {
            let mut bytes = line(calls()[number].clone());
            let place = place.index(bytes.len());
            bytes[place] = byte;
            if cut {
                bytes.truncate(place);
                prop_assert!(parse(&bytes).is_err());
            } else if let Ok(call) = parse(&bytes) {
                // It can be sent again.
                prop_assert!(parse(&line(call)).is_ok());
            }
        }
    }

    #[test]
    fn messages_arrive_as_they_were_sent_and_one_after_the_other() {
        let bytes: Vec<u8> = calls().into_iter().flat_map(line).collect();
        let mut from = &*bytes;
        for call in calls() {
            let received: Call = receive(&mut from, LONGEST_CALL).unwrap();
            assert_eq!(format!("{received:?}"), format!("{call:?}"));
        }
        assert!(matches!(receive::<Call>(&mut from, LONGEST_CALL), Err(MessageError::Ended)));
    }

    #[test]
    fn long_old_and_strange_messages_are_refused_with_a_reason() {
        let why = |bytes: &[u8]| parse(bytes).unwrap_err().to_string();
        assert_eq!(why(&vec![b'['; LONGEST_CALL as usize]), "its message is longer than 1048576 bytes");
        let version = "its messages are of version 1, and those of this rowlock of version 2";
        assert_eq!(why(b"{\"version\":1,\"other\":[]}\n"), version);
        for strange in ["\n", "7\n", "{}\n", "{\"version\":2}\n", "{\"version\":2,\"content\":\"fly\"}\n"] {
            assert!(why(strange.as_bytes()).starts_with("its message makes no sense: "), "{strange}");
        }
        let more = "{\"version\":2,\"content\":\"table\",\"more\":1}\n";
        assert!(why(more.as_bytes()).contains("unknown field"));
        assert_eq!(why(b"{\"version\":2,\"content\":\"table\"}"), "it has ended the connection");
    }

    #[test]
    fn a_change_of_a_message_needs_another_version() {
        let request = "{\"version\":2,\"content\":{\"enter\":{\"command\":\"\",\"ranks\":2,\"demand\":{\"ranks\":2,\
                       \"cells_per_rank\":null,\"shape\":{\"columns\":2,\"rows\":1}},\"cpus\":[0,1],\"has_quota\":false,\
                       \"weight\":1,\"gang\":\"Strict\",\"with\":1,\"waits_for_cells\":false,\"memory\":null,\
                       \"first_number\":1}}}\n";
        let call = Call::Enter(Box::new(JobRequest { command: String::new(), ..self::request() }));
        assert_eq!(String::from_utf8(line(call)).unwrap(), request);
    }

    #[test]
    fn a_request_that_no_prun_makes_is_refused() {
        assert_eq!(request().check(), Ok(()));
        let wrong: [fn(&mut JobRequest); 7] = [
            |request| request.ranks = 0,
            |request| request.demand.ranks = Some(4097),
            |request| request.demand.cells_per_rank = Some(0),
            |request| request.cpus = vec![0; MOST_CPUS + 1],
            |request| request.weight = LARGEST_WEIGHT + 1,
            |request| request.gang = Gang::Moderate,
            |request| request.memory = Some(1),
        ];
        for change in wrong {
            let mut request = request();
            change(&mut request);
            assert!(request.check().is_err(), "{request:?}");
        }
    }
}
