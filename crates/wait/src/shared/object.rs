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
        Self::on(Memory::create(path, purpose, begin)?, waiting)
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

/// The methods and traits that mutex, semaphore and event have in common. Each type has an `object`
/// and is created `on` one.
macro_rules! common_methods {
    ($type:ident, $name:literal) => {
        impl $type {
            #[doc = concat!("Opens the ", $name, " at a path, and claims one of its process slots")]
            /// until dropped. Each process chooses how to wait.
            ///
            /// # Errors
            #[doc = concat!("[`MemoryError`] if there is no ", $name, ", or no slot is free.")]
            pub fn open(path: impl AsRef<std::path::Path>, waiting: Waiting) -> Result<Self, MemoryError> {
                Object::open(path.as_ref(), waiting).and_then(Self::on)
            }

            #[doc = concat!("Like [`", stringify!($type), "::open`], in an open file.")]
            pub fn from_fd(file: std::os::fd::OwnedFd, waiting: Waiting) -> Result<Self, MemoryError> {
                Object::from_fd(file, waiting).and_then(Self::on)
            }

            /// The counts of all waits of all processes so far.
            pub fn statistics(&self) -> crate::statistics::Statistics {
                self.object.body.wait_state.statistics()
            }
        }

        #[doc = concat!("The file of the ", $name, ".")]
        impl std::os::fd::AsFd for $type {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                self.object.memory.file.as_fd()
            }
        }

        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(concat!("shared::", stringify!($type)))
                    .field("waiting", &self.object.waiting)
                    .finish_non_exhaustive()
            }
        }
    };
}
pub(super) use common_methods;
