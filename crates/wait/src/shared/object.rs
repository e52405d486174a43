//! The common part of the mutex, semaphore and event for several processes: memory, a slot for each
//! process, and waits that check whether they can still succeed.

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::path::Path;

use policy::Instant;
use sys::shared_memory::{Plain, View};

use super::WaitFailure;
use super::memory::{Memory, MemoryError, ObjectKind, Purpose};
use super::participants::Participants;
use crate::protocol::process_slot::ProcessSlot;
use crate::protocol::wait_loop::Awaited;
use crate::protocol::wait_state::WaitState;
use crate::waiting::Waiting;

/// The memory without the process slots.
pub(super) trait Body: Plain {
    const KIND: ObjectKind;

    /// Whether another process can use this slot, whose process has died or leaves it.
    fn is_reusable(&self, _slot: u32) -> bool {
        true
    }
}

/// A shared object, open in this process.
#[derive(Debug)]
pub(super) struct Object<B: Body> {
    pub(super) memory: Memory,
    pub(super) body: View<B>,
    pub(super) participants: Participants,
    pub(super) waiting: Waiting,
}

impl<B: Body> Object<B> {
    /// The offset of the process slots.
    const SLOTS: usize = size_of::<B>().next_multiple_of(128);

    fn size(processes: u32) -> usize {
        Self::SLOTS + Participants::slots(processes) * size_of::<ProcessSlot>()
    }

    /// Creates an object under a new path, or without a name.
    pub(super) fn create(
        path: Option<&Path>,
        processes: u32,
        detail: u32,
        begin: impl Fn(&B),
        waiting: Waiting,
    ) -> Result<Self, MemoryError> {
        let purpose = Purpose { kind: B::KIND, members: processes, detail, body: Self::size };
        let begin = |memory: &Memory| memory.get(0).map(|body: View<B>| begin(&body));
        Self::on(Memory::create(path, purpose, &begin)?, waiting)
    }

    pub(super) fn open(path: &Path, waiting: Waiting) -> Result<Self, MemoryError> {
        Self::on(Memory::open(path, B::KIND, Self::size)?, waiting)
    }

    pub(super) fn from_fd(file: OwnedFd, waiting: Waiting) -> Result<Self, MemoryError> {
        Self::on(Memory::from_fd(file, B::KIND, Self::size)?, waiting)
    }

    /// Waits. Fails after some time if a process has died with the object open.
    pub(super) fn wait<A: Awaited>(
        &self,
        wait_state: &WaitState,
        mut awaited: A,
        deadline: Option<Instant>,
    ) -> Result<A, WaitFailure> {
        let lost = Cell::new(None);
        let is_possible = || {
            lost.set(self.participants.lost());
            lost.get().is_none()
        };
        let result = wait_state.wait_while_possible(&mut awaited, self.waiting, deadline, Some(&is_possible));
        result.map(|()| awaited).map_err(|_| {
            let lost = lost.get().or_else(|| self.participants.lost());
            lost.map_or(WaitFailure::TimedOut, |pid| WaitFailure::Abandoned { pid })
        })
    }

    fn on(memory: Memory, waiting: Waiting) -> Result<Self, MemoryError> {
        let body: View<B> = memory.get(0)?;
        let slots = memory.slice(Self::SLOTS, Participants::slots(memory.members))?;
        let participants = Participants::join(slots, memory.namespace, |slot| body.is_reusable(slot))?;
        Ok(Object { memory, body, participants, waiting })
    }
}

impl<B: Body> Drop for Object<B> {
    fn drop(&mut self) {
        // Otherwise the next process in this slot would own what this process still holds.
        if self.body.is_reusable(self.participants.own) {
            self.participants.leave();
        }
    }
}
