//! The exchange of a job: the keys that its ranks put and get, their barriers, and their ends.
//!
//! It is a pure state machine: a line of a rank goes in, answers come out. A rank goes through
//! these phases:
//!
//! ```text
//! Absent --init--> Present --barrier_in--> Waiting --the last one--> Present --finalize-->
//! Finalized
//! ```
//!
//! The connection can end in each phase. A program that is no MPI program remains absent. A rank
//! that ends while it is present has not called `MPI_Finalize`. The others could wait for it in
//! vain within their library, where nothing tells them, so the job fails. It also fails if ranks
//! wait in a barrier for one that is gone.

use std::collections::BTreeMap;

use super::segments;
use super::wire::{Answer, LONGEST_KEY, LONGEST_VALUE, Malformed, Refused, Request};

/// The name of the space of keys. A job has only one.
const SPACE: &str = "rowlock";
/// The key of the nodes on which ranks are, from which a library learns which of them share memory.
const MAPPING: &str = "PMI_process_mapping";
/// The most memory that the keys and values of a job take, in bytes for each rank.
const MEMORY_OF_RANK: usize = 1 << 16;

/// A place in the life of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It has not called `init`.
    Absent,
    Present,
    /// It is in the barrier.
    Waiting,
    Finalized,
    /// It has ended without a call of `init`, or after `finalize`.
    Gone,
}

/// Why a job fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A line is no call.
    #[error("rank {rank} has written {why}, so PMI-1, by which ranks of MPICH find each other, cannot go on")]
    Malformed {
        /// The rank.
        rank: u32,
        /// The problem with the line.
        #[source]
        why: Malformed,
    },
    /// A call came at the wrong time.
    #[error("rank {rank} has called `{call}` {when}")]
    OutOfOrder {
        /// The rank.
        rank: u32,
        /// The call.
        call: &'static str,
        /// The phase of the rank, in words.
        when: &'static str,
    },
    /// A rank has ended without a call of `MPI_Finalize`.
    #[error("rank {0} has ended without MPI_Finalize")]
    NotFinalized(u32),
    /// A rank waits for one that will not come.
    #[error("rank {waiting} waits in a barrier for rank {gone}, which uses MPI no more, or has ended without it")]
    Gone {
        /// A rank that waits.
        waiting: u32,
        /// A rank for which it waits.
        gone: u32,
    },
}

impl Violation {
    /// The rank that is to blame.
    pub const fn rank(&self) -> u32 {
        match *self {
            Violation::Malformed { rank, .. } | Violation::OutOfOrder { rank, .. } => rank,
            Violation::NotFinalized(rank) | Violation::Gone { gone: rank, .. } => rank,
        }
    }

    /// Whether the rank is to blame for its end, and so only if it has ended as if it were right.
    pub const fn is_of_end(&self) -> bool {
        matches!(self, Violation::NotFinalized(_) | Violation::Gone { .. })
    }
}

/// The consequences of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send these answers to these ranks.
    Answer(Vec<(u32, Answer)>),
    /// Refuse a call of the rank, by this answer.
    Refuse(Refused, Answer),
    /// End the job with this exit code.
    Abort(i32),
}

/// The exchange of a job.
#[derive(Debug)]
pub struct Exchange {
    phases: Vec<Phase>,
    /// The program of each rank.
    applications: Vec<u32>,
    values: BTreeMap<String, String>,
    /// The memory that keys and values take, in bytes.
    used: usize,
    /// The names of shared memory that values tell.
    segments: Vec<String>,
}

impl Exchange {
    /// An exchange between ranks of these programs.
    pub fn new(applications: Vec<u32>) -> Exchange {
        let ranks = applications.len();
        let mapping = format!("(vector,(0,1,{ranks}))");
        let values = BTreeMap::from([(MAPPING.to_owned(), mapping)]);
        Exchange { phases: vec![Phase::Absent; ranks], applications, values, used: 0, segments: Vec::new() }
    }

    /// The number of ranks.
    pub fn ranks(&self) -> u32 {
        self.phases.len() as u32
    }

    /// The names of shared memory that ranks have told each other.
    pub(super) fn segments(&self) -> &[String] {
        &self.segments
    }

    /// Handles a line of a rank, without its newline.
    ///
    /// # Errors
    /// If the job fails because of it.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn handle(&mut self, rank: u32, line: &[u8]) -> Result<Step, Violation> {
        let request = Request::parse(line).map_err(|why| Violation::Malformed { rank, why })?;
        self.check_order(rank, request)?;
        let answer = match request {
            Request::Init { version } => {
                self.phases[rank as usize] = Phase::Present;
                Answer::Init(version == 1)
            }
            Request::Limits => Answer::Limits,
            Request::Application => Answer::Application(self.applications[rank as usize]),
            Request::Space => Answer::Space(SPACE),
            Request::UniverseSize => Answer::UniverseSize(self.ranks()),
            Request::Put { space, key, value } => Answer::Put(self.put(space, key, value)),
            Request::Get { space, key } => Answer::Get(self.get(space, key)),
            Request::Barrier => {
                self.phases[rank as usize] = Phase::Waiting;
                return self.pass_barrier().map(Step::Answer);
            }
            Request::Finalize => {
                self.phases[rank as usize] = Phase::Finalized;
                Answer::Finalize
            }
            Request::Abort { code } => return Ok(Step::Abort(code)),
            Request::Incomplete => return Ok(Step::Answer(Vec::new())),
            Request::Refused(call) => return Ok(Step::Refuse(call, Answer::Refused(call))),
        };
        Ok(Step::Answer(vec![(rank, answer)]))
    }

    /// Notes that the connection of a rank has ended.
    ///
    /// # Errors
    /// If the job fails because of it.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn end(&mut self, rank: u32) -> Result<(), Violation> {
        match std::mem::replace(&mut self.phases[rank as usize], Phase::Gone) {
            Phase::Present | Phase::Waiting => Err(Violation::NotFinalized(rank)),
            Phase::Absent | Phase::Finalized | Phase::Gone => self.check_barrier(),
        }
    }

    fn check_order(&self, rank: u32, request: Request<'_>) -> Result<(), Violation> {
        let call = match request {
            // A rank may abort at any time.
            Request::Abort { .. } => return Ok(()),
            Request::Init { .. } => "init",
            Request::Limits => "get_maxes",
            Request::Application => "get_appnum",
            Request::Space => "get_my_kvsname",
            Request::UniverseSize => "get_universe_size",
            Request::Put { .. } => "put",
            Request::Get { .. } => "get",
            Request::Barrier => "barrier_in",
            Request::Finalize => "finalize",
            Request::Incomplete => "spawn",
            Request::Refused(call) => call.function(),
        };
        let when = match (self.phases[rank as usize], request) {
            (Phase::Absent, Request::Init { .. }) => return Ok(()),
            (Phase::Absent, _) => "before `init`",
            (Phase::Present, Request::Init { .. }) => "twice",
            (Phase::Present, _) => return Ok(()),
            (Phase::Waiting, _) => "within a barrier",
            (Phase::Finalized | Phase::Gone, Request::Init { .. }) => {
                "after `finalize`: a rank can run one MPI program only"
            }
            (Phase::Finalized | Phase::Gone, _) => "after `finalize`",
        };
        Err(Violation::OutOfOrder { rank, call, when })
    }

    fn put(&mut self, space: &str, key: &str, value: &str) -> Result<(), &'static str> {
        let memory = key.len() + value.len();
        if space != SPACE {
            return Err("unknown_kvsname");
        }
        if key.is_empty() || key.len() >= LONGEST_KEY {
            return Err("invalid_key_length");
        }
        if value.len() >= LONGEST_VALUE {
            return Err("value_too_long");
        }
        if self.values.contains_key(key) {
            return Err("duplicate_key");
        }
        if self.used + memory > MEMORY_OF_RANK * self.phases.len() {
            return Err("no_room");
        }
        self.used += memory;
        self.segments.extend(segments::told_by(value));
        self.values.insert(key.to_owned(), value.to_owned());
        Ok(())
    }

    fn get(&self, space: &str, key: &str) -> Result<String, String> {
        let value = self.values.get(key).filter(|_| space == SPACE);
        value.cloned().ok_or_else(|| format!("key_{}_not_found", key.chars().take(LONGEST_KEY).collect::<String>()))
    }

    /// Lets all ranks go on if all have come to the barrier.
    fn pass_barrier(&mut self) -> Result<Vec<(u32, Answer)>, Violation> {
        if self.phases.iter().any(|&phase| phase != Phase::Waiting) {
            return self.check_barrier().map(|()| Vec::new());
        }
        self.phases.fill(Phase::Present);
        Ok((0..self.ranks()).map(|rank| (rank, Answer::BarrierOut)).collect())
    }

    /// Whether each rank can still come to the barrier, if one waits there.
    fn check_barrier(&self) -> Result<(), Violation> {
        let first = |wanted: &[Phase]| self.phases.iter().position(|phase| wanted.contains(phase)).map(|at| at as u32);
        let (Some(waiting), Some(gone)) = (first(&[Phase::Waiting]), first(&[Phase::Finalized, Phase::Gone])) else {
            return Ok(());
        };
        Err(Violation::Gone { waiting, gone })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INIT: &str = "cmd=init pmi_version=1 pmi_subversion=1";
    const BARRIER: &str = "cmd=barrier_in";
    const FINALIZE: &str = "cmd=finalize";

    fn exchange(ranks: u32) -> Exchange {
        Exchange::new(vec![0; ranks as usize])
    }

    fn answer(exchange: &mut Exchange, rank: u32, line: &str) -> String {
        match exchange.handle(rank, line.as_bytes()) {
            Ok(Step::Answer(answers)) => answers.iter().map(|(rank, answer)| format!("{rank} {answer}")).collect(),
            Ok(Step::Refuse(call, answer)) => format!("{} {answer}", call.function()),
            Ok(Step::Abort(code)) => format!("abort {code}"),
            Err(why) => why.to_string(),
        }
    }

    fn present(ranks: u32) -> Exchange {
        let mut exchange = exchange(ranks);
        (0..ranks).for_each(|rank| assert!(answer(&mut exchange, rank, INIT).contains("rc=0")));
        exchange
    }

    #[test]
    fn ranks_find_each_other_by_keys_and_barriers_and_end() {
        let mut exchange = Exchange::new(vec![0, 1]);
        for rank in [0, 1] {
            answer(&mut exchange, rank, INIT);
            let application = answer(&mut exchange, rank, "cmd=get_appnum");
            assert_eq!(application, format!("{rank} cmd=appnum appnum={rank}\n"));
            assert_eq!(
                answer(&mut exchange, rank, "cmd=get_universe_size"),
                format!("{rank} cmd=universe_size size=2\n")
            );
        }
        let mapping = answer(&mut exchange, 1, "cmd=get kvsname=rowlock key=PMI_process_mapping");
        assert!(mapping.ends_with("value=(vector,(0,1,2))\n"), "{mapping}");
        assert!(answer(&mut exchange, 1, "cmd=put kvsname=rowlock key=a value=of rank 1").contains("rc=0"));
        for _ in 0..2 {
            assert_eq!(answer(&mut exchange, 1, BARRIER), "");
            assert_eq!(answer(&mut exchange, 0, BARRIER), "0 cmd=barrier_out\n1 cmd=barrier_out\n");
        }
        let value = answer(&mut exchange, 0, "cmd=get kvsname=rowlock key=a");
        assert_eq!(value, "0 cmd=get_result rc=0 msg=success value=of rank 1\n");
        for rank in [0, 1] {
            assert_eq!(answer(&mut exchange, rank, FINALIZE), format!("{rank} cmd=finalize_ack\n"));
            assert_eq!(exchange.end(rank), Ok(()));
        }
    }

    #[test]
    fn a_version_that_is_not_known_is_refused() {
        assert!(answer(&mut exchange(1), 0, "cmd=init pmi_version=2 pmi_subversion=0").contains("rc=-1"));
    }

    #[test]
    fn a_key_that_cannot_be_kept_or_found_is_an_error_of_the_call() {
        let mut exchange = present(1);
        let long = "k".repeat(LONGEST_KEY);
        for (call, why) in [
            ("put kvsname=other key=a value=1".to_owned(), "unknown_kvsname"),
            (format!("put kvsname=rowlock key={long} value=1"), "invalid_key_length"),
            ("put kvsname=rowlock key= value=1".to_owned(), "invalid_key_length"),
            (format!("put kvsname=rowlock key=a value={}", "v".repeat(LONGEST_VALUE)), "value_too_long"),
            (format!("put kvsname=rowlock key={MAPPING} value=1"), "duplicate_key"),
            ("get kvsname=rowlock key=a".to_owned(), "key_a_not_found"),
            (format!("get kvsname=other key={MAPPING}"), "key_PMI_process_mapping_not_found"),
        ] {
            let answer = answer(&mut exchange, 0, &format!("cmd={call}"));
            assert!(answer.contains(&format!("rc=-1 msg={why}")), "{call}: {answer}");
        }
        let value = "v".repeat(LONGEST_VALUE - 1);
        let kept =
            (0..200).map(|key| answer(&mut exchange, 0, &format!("cmd=put kvsname=rowlock key={key} value={value}")));
        let kept = kept.filter(|answer| answer.contains("rc=0")).count();
        assert_eq!(kept, MEMORY_OF_RANK / (LONGEST_VALUE + 1), "two digits of a key, and one more");
    }

    #[test]
    fn a_call_at_the_wrong_time_fails_the_job() {
        for (calls, why) in [
            (&[BARRIER][..], "rank 0 has called `barrier_in` before `init`"),
            (&[INIT, INIT], "rank 0 has called `init` twice"),
            (&[INIT, BARRIER, "cmd=get_maxes"], "rank 0 has called `get_maxes` within a barrier"),
            (&[INIT, BARRIER, BARRIER], "rank 0 has called `barrier_in` within a barrier"),
            (&[INIT, FINALIZE, "mcmd=spawn"], "rank 0 has called `MPI_Comm_spawn` after `finalize`"),
            (&[INIT, FINALIZE, INIT], "rank 0 has called `init` after `finalize`: a rank can run one MPI program only"),
            (
                &["hello"],
                "rank 0 has written `hello`, which begins with no command, so PMI-1, by which ranks of MPICH \
                          find each other, cannot go on",
            ),
        ] {
            let mut exchange = exchange(2);
            let answers: Vec<_> = calls.iter().map(|call| answer(&mut exchange, 0, call)).collect();
            assert_eq!(answers.last().unwrap(), why);
        }
    }

    #[test]
    fn an_abort_ends_the_job_at_any_time() {
        for calls in [&[][..], &[INIT], &[INIT, BARRIER], &[INIT, FINALIZE]] {
            let mut exchange = exchange(2);
            calls.iter().for_each(|call| drop(answer(&mut exchange, 1, call)));
            assert_eq!(answer(&mut exchange, 1, "cmd=abort exitcode=42"), "abort 42");
        }
    }

    #[test]
    fn calls_that_are_refused_leave_the_rank_as_it_was() {
        let mut exchange = present(1);
        assert_eq!(answer(&mut exchange, 0, "mcmd=spawn nprocs=1 totspawns=2 spawnssofar=1"), "");
        let refused = answer(&mut exchange, 0, "mcmd=spawn nprocs=1 totspawns=2 spawnssofar=2");
        assert_eq!(refused, "MPI_Comm_spawn cmd=spawn_result rc=-1 msg=not_supported\n");
        let refused = answer(&mut exchange, 0, "cmd=publish_name service=a port=b");
        assert_eq!(refused, "MPI_Publish_name cmd=publish_result rc=-1 msg=not_supported\n");
        assert_eq!(answer(&mut exchange, 0, BARRIER), "0 cmd=barrier_out\n");
    }

    #[test]
    fn a_rank_that_ends_while_it_uses_mpi_fails_the_job() {
        for calls in [&[INIT][..], &[INIT, BARRIER]] {
            let mut exchange = exchange(2);
            calls.iter().for_each(|call| drop(answer(&mut exchange, 1, call)));
            let violation = exchange.end(1).unwrap_err();
            assert_eq!(violation, Violation::NotFinalized(1));
            assert!(violation.is_of_end());
        }
    }

    #[test]
    fn a_barrier_to_which_a_rank_cannot_come_fails_the_job_before_and_after_that_ends() {
        let gone = Violation::Gone { waiting: 0, gone: 1 };
        let mut late = exchange(2);
        answer(&mut late, 0, INIT);
        assert_eq!(answer(&mut late, 0, BARRIER), "");
        assert_eq!(late.end(1), Err(gone.clone()));
        let mut early = exchange(2);
        assert_eq!(early.end(1), Ok(()));
        answer(&mut early, 0, INIT);
        assert_eq!(early.handle(0, BARRIER.as_bytes()), Err(gone.clone()));
        let mut finalized = present(2);
        answer(&mut finalized, 1, FINALIZE);
        assert_eq!(finalized.handle(0, BARRIER.as_bytes()), Err(gone.clone()));
        assert_eq!((gone.rank(), gone.is_of_end()), (1, true));
    }

    #[test]
    fn programs_that_are_no_mpi_programs_end_as_they_like() {
        let mut exchange = exchange(2);
        assert_eq!((exchange.end(1), exchange.end(0)), (Ok(()), Ok(())));
    }
}
