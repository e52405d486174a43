//! The barrier for several processes.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use policy::record::Off;
use policy::waiting::Waiter;
use sys::shared_memory::View;

use super::memory::{Memory, MemoryError, ObjectKind, Purpose};
use crate::deadline::Deadline;
use crate::protocol::padded::Padded;
use crate::protocol::party::{self, Arrival, BarrierWaitResult};
use crate::protocol::process_slot::{Claimant, ProcessSlot};
pub use crate::protocol::shared_state::LostParty;
use crate::protocol::shared_state::{BarrierWords, PartySlot, SharedState, Ticket};
use crate::statistics::Statistics;
use crate::sync;
use crate::waiting::Waiting;

/// A barrier for threads of several processes: like [`crate::Barrier`], in shared memory.
///
/// One counter counts the arrivals, however many parties there are. A tree, as in one process, would
/// be a part of the file's layout, and a party that is killed between two of its nodes would have
/// to be found there.
///
/// Each thread is a party with its own number, which it gets by [`Barrier::join`]. A wait ends with
/// an error if an awaited party is lost: see [the module](super) for what can be detected.
pub struct Barrier {
    memory: Memory,
    words: View<BarrierWords>,
    slots: View<[Padded<PartySlot>]>,
    waiting: Waiting,
    /// The initial waiter of each party.
    waiter: Waiter,
}

/// The size of the words and the slots, one more than there are parties.
fn body(members: u32) -> usize {
    size_of::<BarrierWords>() + (members as usize + 1) * size_of::<Padded<PartySlot>>()
}

fn purpose(members: u32) -> Purpose {
    Purpose { kind: ObjectKind::Barrier, members, detail: 0, body }
}

impl Barrier {
    /// Creates a barrier for `parties` parties under a new path, preferably below `/dev/shm`. Only
    /// the owner can open it, unless the file's permissions are changed.
    pub fn create(path: impl AsRef<Path>, parties: u32, waiting: Waiting) -> Result<Barrier, MemoryError> {
        Barrier::on(Memory::create(Some(path.as_ref()), purpose(parties), |_| Ok(()))?, waiting)
    }

    /// Creates a barrier without a name. Other processes inherit or receive its file and open it by
    /// [`Barrier::from_fd`]. The file's length is sealed. It is closed on exec.
    pub fn nameless(parties: u32, waiting: Waiting) -> Result<Barrier, MemoryError> {
        Barrier::on(Memory::create(None, purpose(parties), |_| Ok(()))?, waiting)
    }

    /// Opens the barrier at a path. Each process chooses how its own parties wait.
    pub fn open(path: impl AsRef<Path>, waiting: Waiting) -> Result<Barrier, MemoryError> {
        Barrier::on(Memory::open(path.as_ref(), ObjectKind::Barrier, body)?, waiting)
    }

    /// Opens the barrier in an open file.
    pub fn from_fd(file: OwnedFd, waiting: Waiting) -> Result<Barrier, MemoryError> {
        Barrier::on(Memory::from_fd(file, ObjectKind::Barrier, body)?, waiting)
    }

    fn on(memory: Memory, waiting: Waiting) -> Result<Barrier, MemoryError> {
        let words = memory.get(0)?;
        let slots = memory.slice(size_of::<BarrierWords>(), memory.members as usize + 1)?;
        Ok(Barrier { memory, words, slots, waiting, waiter: waiting.waiter() })
    }

    fn shared_state(&self) -> SharedState<'_> {
        SharedState { words: &self.words, slots: &self.slots, tree: None, namespace: Some(self.memory.namespace) }
    }

    /// The number of parties, including those that have not joined yet and those that have left.
    pub fn parties(&self) -> u32 {
        self.shared_state().parties()
    }

    /// Joins the team with the lowest unused number, for one thread of this process.
    ///
    /// Numbers are not reused, so a killed party cannot be replaced. A dropped party is lost, and
    /// the others cannot complete a round, unless it has [left](Party::arrive_and_leave) or has
    /// never arrived. In the latter case its number is free again.
    pub fn join(&self) -> Result<Party<'_>, Full> {
        let claimant = Claimant::own(self.memory.namespace);
        let shared = self.shared_state();
        let is_taken = |number: &u32| shared.slot(Some(*number)).process.claim(claimant);
        let number = (0..shared.parties()).find(is_taken).ok_or(Full { parties: shared.parties() })?;
        let party = party::Party::of(shared, self.waiting, self.waiter, &Off, number);
        Ok(Party { party, membership: Membership { shared, number, claimant, has_arrived: false }, lost: None })
    }

    /// The counts of all waits of all processes so far. See [`crate::Barrier::statistics`].
    pub fn statistics(&self) -> Statistics {
        self.shared_state().statistics()
    }
}

/// The file of the barrier.
impl AsFd for Barrier {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.memory.file.as_fd()
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("shared::Barrier")
            .field("parties", &self.parties())
            .field("waiting", &self.waiting)
            .finish_non_exhaustive()
    }
}

/// All parties have joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "all {parties} parties of the barrier have joined, some perhaps in an earlier run: remove the barrier and create a new one"
)]
pub struct Full {
    /// The number of parties.
    pub parties: u32,
}

/// The reason why a round is not over.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum WaitError {
    /// The deadline has passed. The arrival still counts: see [`Party::complete`].
    #[error("the others have not arrived at the barrier before the deadline")]
    TimedOut(Arrival),
    /// A party that has not arrived is lost, so the round cannot complete. The party that gets this
    /// error does not arrive in later rounds, but gets the same error again.
    #[error("{0}")]
    Abandoned(LostParty),
}

impl WaitError {
    /// The arrival for continuing to wait, if the deadline has passed.
    pub fn into_arrival(self) -> Option<Arrival> {
        match self {
            WaitError::TimedOut(arrival) => Some(arrival),
            WaitError::Abandoned(_) => None,
        }
    }
}

/// A party of a shared barrier: like [`crate::Party`].
///
/// It belongs to the process that joined, and must not be used in the child of a fork: the actions
/// of the child would count as its parent's. A child joins for itself.
#[derive(Debug)]
pub struct Party<'b> {
    party: party::Party<'b>,
    membership: Membership<'b>,
    /// The round that cannot complete, and the reason. This party must not arrive there again.
    lost: Option<(Ticket, LostParty)>,
}

type WaitResult = Result<BarrierWaitResult, WaitError>;

impl Party<'_> {
    /// The number in the team, counted from zero.
    pub fn number(&self) -> u32 {
        self.membership.number
    }

    /// Waits until all parties have arrived, including the caller. The last one is the leader.
    ///
    /// # Errors
    /// [`WaitError::Abandoned`] if a party that has not arrived is lost.
    pub fn wait(&mut self) -> WaitResult {
        let arrival = self.arrive();
        self.complete(arrival)
    }

    /// Like [`Party::wait`], but waits at most until the deadline.
    pub fn wait_timeout(&mut self, deadline: impl Into<Deadline>) -> WaitResult {
        let arrival = self.arrive();
        self.complete_timeout(arrival, deadline)
    }

    /// Arrives without waiting. Never blocks.
    pub fn arrive(&mut self) -> Arrival {
        self.arrive_and(|| ())
    }

    /// See [`crate::Party::arrive_and`]. Has no effect after a wait has found another party lost.
    pub fn arrive_and(&mut self, completion: impl FnOnce()) -> Arrival {
        if let Some((ticket, _)) = self.lost {
            return Arrival(ticket);
        }
        self.membership.has_arrived = true;
        self.party.arrive_and(completion)
    }

    /// Arrives for the last time: later rounds do not wait for this party. Never blocks.
    pub fn arrive_and_leave(self) -> Arrival {
        let Party { party, mut membership, lost } = self;
        if let Some((ticket, _)) = lost {
            return Arrival(ticket);
        }
        membership.has_arrived = true;
        let arrival = party.arrive_and_leave();
        membership.process_slot().retire(membership.claimant);
        arrival
    }

    /// See [`crate::Party::has_completed`].
    pub fn has_completed(&self, arrival: &Arrival) -> bool {
        self.party.has_completed(arrival)
    }

    /// Waits until all have arrived in the round of `arrival`, an arrival at this barrier.
    ///
    /// # Errors
    /// [`WaitError::Abandoned`] if a party that has not arrived is lost.
    pub fn complete(&mut self, arrival: Arrival) -> WaitResult {
        self.complete_timeout(arrival, Deadline::NEVER)
    }

    /// Like [`Party::complete`], but waits at most until the deadline.
    pub fn complete_timeout(&mut self, mut arrival: Arrival, deadline: impl Into<Deadline>) -> WaitResult {
        let deadline = deadline.into();
        if let Some((_, lost)) = self.lost {
            return Err(WaitError::Abandoned(lost));
        }
        loop {
            arrival = match self.party.complete_timeout(arrival, deadline) {
                Ok(result) => return Ok(result),
                Err(arrival) => arrival,
            };
            let round = arrival.0.round;
            let lost = self.membership.shared.lost(round);
            // The lost party may have completed the round before.
            if self.membership.shared.has_completed(round) {
                continue;
            }
            if let Some(lost) = lost {
                self.lost = Some((arrival.0, lost));
                return Err(WaitError::Abandoned(lost));
            }
            if deadline.0.is_some_and(|deadline| sync::now() >= deadline) {
                return Err(WaitError::TimedOut(arrival));
            }
        }
    }
}

/// The membership of a party in the team.
#[derive(Debug)]
struct Membership<'b> {
    shared: SharedState<'b>,
    number: u32,
    claimant: Claimant,
    /// Whether it has drawn a ticket: then no other party can have its number.
    has_arrived: bool,
}

impl Membership<'_> {
    fn process_slot(&self) -> &ProcessSlot {
        &self.shared.slot(Some(self.number)).process
    }
}

impl Drop for Membership<'_> {
    fn drop(&mut self) {
        // Neither has an effect for a party that has left.
        if self.has_arrived {
            self.process_slot().abandon(self.claimant);
        } else {
            self.process_slot().release(self.claimant);
        }
    }
}
