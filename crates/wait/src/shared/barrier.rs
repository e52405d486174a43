//! The barrier among processes.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time;

use policy::record::Off;
use policy::waiting::Waiter;
use sys::shared_memory::View;

use super::memory::{Memory, MemoryError, ObjectKind, Purpose};
use crate::deadline;
use crate::protocol::party::{self, Arrival, BarrierWaitResult};
use crate::protocol::process_slot::{Claimant, ProcessSlot};
pub use crate::protocol::shared_state::LostParty;
use crate::protocol::shared_state::{BarrierWords, Padded, PartySlot, SharedState, Ticket};
use crate::statistics::Statistics;
use crate::sync;
use crate::waiting::Waiting;

/// A place where threads of several processes meet: as [`crate::Barrier`], in memory that they share.
///
/// Each thread that meets there is a member of the team with a number of its own, which it gets by [`Barrier::join`]. A
/// wait ends with an error when a member that is awaited is gone: see [the module](super) for what can be told of whom.
pub struct Barrier {
    memory: Memory,
    words: View<BarrierWords>,
    slots: View<[Padded<PartySlot>]>,
    waiting: Waiting,
    /// What every member's waiter is a copy of.
    waiter: Waiter,
}

/// What is behind the header: what all use, and the slots, one more than there are members.
fn body(members: u32) -> usize {
    size_of::<BarrierWords>() + (members as usize + 1) * size_of::<Padded<PartySlot>>()
}

fn purpose(members: u32) -> Purpose {
    Purpose { kind: ObjectKind::Barrier, members, detail: 0, body }
}

impl Barrier {
    /// Makes a barrier for so many members under a path where nothing is yet, best below `/dev/shm`. Its owner alone can
    /// open it, until the file's permissions are changed.
    ///
    /// # Errors
    /// [`MemoryError`], where it cannot be made.
    pub fn create(path: impl AsRef<Path>, parties: u32, waiting: Waiting) -> Result<Barrier, MemoryError> {
        Barrier::on(Memory::create(path.as_ref(), purpose(parties), &|_| Ok(()))?, waiting)
    }

    /// Makes a barrier without a name, for this process and those that inherit or are sent its file and open it by
    /// [`Barrier::from_fd`]. Nobody can change the file's length. It is closed on exec, unless it is told otherwise.
    ///
    /// # Errors
    /// [`MemoryError`], where it cannot be made.
    pub fn nameless(parties: u32, waiting: Waiting) -> Result<Barrier, MemoryError> {
        Barrier::on(Memory::create_nameless(purpose(parties), &|_| Ok(()))?, waiting)
    }

    /// Opens the barrier under a path. How its members wait is for each process to say.
    ///
    /// # Errors
    /// [`MemoryError`], where there is none.
    pub fn open(path: impl AsRef<Path>, waiting: Waiting) -> Result<Barrier, MemoryError> {
        Barrier::on(Memory::open(path.as_ref(), ObjectKind::Barrier, body)?, waiting)
    }

    /// Opens the barrier in an open file.
    ///
    /// # Errors
    /// [`MemoryError`], where there is none in it.
    pub fn from_fd(file: OwnedFd, waiting: Waiting) -> Result<Barrier, MemoryError> {
        Barrier::on(Memory::from_fd(file, ObjectKind::Barrier, body)?, waiting)
    }

    fn on(memory: Memory, waiting: Waiting) -> Result<Barrier, MemoryError> {
        let words = memory.get(0)?;
        let slots = memory.slice(size_of::<BarrierWords>(), memory.members() as usize + 1)?;
        Ok(Barrier { memory, words, slots, waiting, waiter: waiting.waiter() })
    }

    fn shared_state(&self) -> SharedState<'_> {
        SharedState { words: &self.words, slots: &self.slots, namespace: Some(self.memory.namespace()) }
    }

    /// How many threads meet here, those included that have not joined yet and those that have left.
    pub fn parties(&self) -> u32 {
        self.shared_state().parties()
    }

    /// Joins the team, with the lowest number that nobody has had, for one thread of this process.
    ///
    /// A number is given out once: whoever was killed is not replaced. A member that is dropped is gone, and so hinders
    /// the others, unless it has [left](Party::arrive_and_leave) or has never arrived; then its number is free again.
    ///
    /// # Errors
    /// [`Full`], where all numbers have been given out.
    pub fn join(&self) -> Result<Party<'_>, Full> {
        let claimant = Claimant::own(self.memory.namespace());
        let shared = self.shared_state();
        let is_taken = |number: &u32| shared.slot(Some(*number)).process.claim(claimant);
        let number = (0..shared.parties()).find(is_taken).ok_or(Full { parties: shared.parties() })?;
        let party = party::Party::of(shared, self.waiting, self.waiter, &Off, number);
        Ok(Party { party, membership: Membership { shared, number, claimant, has_arrived: false }, lost: None })
    }

    /// What waiting has come to so far, that of all processes; as [`crate::Barrier::statistics`].
    pub fn statistics(&self) -> Statistics {
        self.shared_state().statistics()
    }
}

/// The file that the barrier is in.
impl AsFd for Barrier {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
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

/// There is no number left for one more member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no number is left in the barrier's team of {parties}, some perhaps since an earlier run: remove the barrier and make a new one"
)]
pub struct Full {
    /// How many members there are.
    pub parties: u32,
}

/// Why a round is not over.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum WaitError {
    /// The deadline has passed. The arrival counts all the same, and the thread can go on waiting by [`Party::complete`].
    #[error("the others have not arrived at the barrier before the deadline")]
    TimedOut(Arrival),
    /// A member that has not arrived is gone, so the round cannot be completed any more. Whoever is told so does not arrive
    /// in later rounds, but is told it again.
    #[error("{0}")]
    Abandoned(LostParty),
}

impl WaitError {
    /// The arrival to go on waiting with, if it was only too late.
    pub fn into_arrival(self) -> Option<Arrival> {
        match self {
            WaitError::TimedOut(arrival) => Some(arrival),
            WaitError::Abandoned(_) => None,
        }
    }
}

/// A member of a shared barrier's team: as [`crate::Party`].
///
/// It belongs to the process that joined. In the child of a fork it must not be used: what the child does would count as
/// its parent's. A child that is to meet others joins for itself.
#[derive(Debug)]
pub struct Party<'b> {
    party: party::Party<'b>,
    membership: Membership<'b>,
    /// The round that cannot be completed, and why. It has arrived there, and must not do so again in another's stead.
    lost: Option<(Ticket, LostParty)>,
}

impl Party<'_> {
    /// Its number in the team, counted from zero.
    pub fn number(&self) -> u32 {
        self.membership.number
    }

    /// Waits until all members have arrived, the caller included. One of them, the last to arrive, is told that it is_leader.
    ///
    /// # Errors
    /// [`WaitError::Abandoned`], when a member that has not arrived is gone.
    pub fn wait(&mut self) -> Result<BarrierWaitResult, WaitError> {
        let arrival = self.arrive();
        self.complete(arrival)
    }

    /// As [`Party::wait`], but no longer than to the deadline.
    ///
    /// # Errors
    /// [`WaitError`].
    pub fn wait_until(&mut self, deadline: time::Instant) -> Result<BarrierWaitResult, WaitError> {
        let arrival = self.arrive();
        self.complete_until(arrival, deadline)
    }

    /// As [`Party::wait_until`], with a timeout that begins now.
    ///
    /// # Errors
    /// [`WaitError`].
    pub fn wait_timeout(&mut self, timeout: time::Duration) -> Result<BarrierWaitResult, WaitError> {
        let arrival = self.arrive();
        self.complete_timeout(arrival, timeout)
    }

    /// Arrives, and does not wait. Never blocks.
    pub fn arrive(&mut self) -> Arrival {
        self.arrive_and(|| ())
    }

    /// As [`crate::Party::arrive_and`]. A member that has been told that another is gone arrives no more: this does nothing.
    pub fn arrive_and(&mut self, completion: impl FnOnce()) -> Arrival {
        if let Some((ticket, _)) = self.lost {
            return Arrival(ticket);
        }
        self.membership.has_arrived = true;
        self.party.arrive_and(completion)
    }

    /// Arrives for the last time: later rounds do without this member. Never blocks.
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

    /// As [`crate::Party::has_completed`].
    pub fn has_completed(&self, arrival: &Arrival) -> bool {
        self.party.has_completed(arrival)
    }

    /// Waits until all have arrived in the round of `arrival`, which must be one at this barrier.
    ///
    /// # Errors
    /// [`WaitError::Abandoned`], when a member that has not arrived is gone.
    pub fn complete(&mut self, arrival: Arrival) -> Result<BarrierWaitResult, WaitError> {
        self.complete_by(arrival, None)
    }

    /// As [`Party::complete`], but waits no longer than to the deadline.
    ///
    /// # Errors
    /// [`WaitError`].
    pub fn complete_until(
        &mut self,
        arrival: Arrival,
        deadline: time::Instant,
    ) -> Result<BarrierWaitResult, WaitError> {
        self.complete_by(arrival, Some(deadline::at(deadline)))
    }

    /// As [`Party::complete_until`], with a timeout that begins now.
    ///
    /// # Errors
    /// [`WaitError`].
    pub fn complete_timeout(
        &mut self,
        arrival: Arrival,
        timeout: time::Duration,
    ) -> Result<BarrierWaitResult, WaitError> {
        self.complete_by(arrival, Some(deadline::after(timeout)))
    }

    fn complete_by(
        &mut self,
        mut arrival: Arrival,
        deadline: Option<policy::Instant>,
    ) -> Result<BarrierWaitResult, WaitError> {
        if let Some((_, lost)) = self.lost {
            return Err(WaitError::Abandoned(lost));
        }
        loop {
            arrival = match self.party.complete_by(arrival, deadline) {
                Ok(result) => return Ok(result),
                Err(arrival) => arrival,
            };
            let round = arrival.0.round;
            let lost = self.membership.shared.lost(round);
            // Whoever is gone may have completed the round before.
            if self.membership.shared.has_completed(round) {
                continue;
            }
            if let Some(lost) = lost {
                self.lost = Some((arrival.0, lost));
                return Err(WaitError::Abandoned(lost));
            }
            if deadline.is_some_and(|deadline| sync::now() >= deadline) {
                return Err(WaitError::TimedOut(arrival));
            }
        }
    }
}

/// A member's place in the team.
#[derive(Debug)]
struct Membership<'b> {
    shared: SharedState<'b>,
    number: u32,
    claimant: Claimant,
    /// It has drawn a ticket, so nobody can take its place.
    has_arrived: bool,
}

impl Membership<'_> {
    fn process_slot(&self) -> &ProcessSlot {
        &self.shared.slot(Some(self.number)).process
    }
}

impl Drop for Membership<'_> {
    fn drop(&mut self) {
        // Neither does anything for a member that has left.
        if self.has_arrived {
            self.process_slot().abandon(self.claimant);
        } else {
            self.process_slot().release(self.claimant);
        }
    }
}
