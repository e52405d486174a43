//! The ranks that sort together: each has a part of the columns, and sends records to the others by
//! messages. A sort in one process is one of a single rank, which sends nothing.

use message::{Communicator, Source, Tag};

use crate::error::SortError;

/// The ranks, as one of them sees them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ranks<'s>(Option<&'s Communicator>);

/// The kinds of messages between two neighbours, as their tags. They come from different threads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Half of a column.
    Half = 0,
    /// The bytes of the output up to the next page.
    Head = 1,
}

impl<'s> Ranks<'s> {
    /// A single rank.
    pub(crate) const ONE: Ranks<'static> = Ranks(None);

    pub(crate) fn of(world: &'s Communicator) -> Ranks<'s> {
        Ranks(Some(world))
    }

    /// The number of this rank.
    pub(crate) fn number(self) -> u64 {
        self.0.map_or(0, Communicator::rank).into()
    }

    pub(crate) fn count(self) -> u64 {
        self.0.map_or(1, Communicator::ranks).into()
    }

    /// Whether this rank acts for all: it creates the output, verifies it, and gives it its name.
    pub(crate) fn is_first(self) -> bool {
        self.number() == 0
    }

    pub(crate) fn is_last(self) -> bool {
        self.number() + 1 == self.count()
    }

    /// Combines the values of all ranks, place by place. Waits for all.
    pub(crate) fn combine(self, values: &mut [u64], how: impl Fn(u64, u64) -> u64) -> Result<(), SortError> {
        Ok(self.0.map_or(Ok(()), |world| world.all_reduce(values, how))?)
    }

    /// Sends each rank its part, and receives one from each, in their order.
    pub(crate) fn all_to_all(self, parts: &[u8], received: &mut [u8]) -> Result<(), SortError> {
        Ok(self.0.map_or(Ok(()), |world| world.all_to_all(parts, received))?)
    }

    /// Sends to the rank before this one. The first one sends nothing.
    pub(crate) fn send_back(self, kind: Kind, bytes: &[u8]) -> Result<(), SortError> {
        let Some(world) = self.0.filter(|_| !self.is_first()) else { return Ok(()) };
        Ok(world.send(world.rank() - 1, kind as u32, bytes)?)
    }

    /// Receives what the rank behind this one sends back. Returns the number of bytes: 0 at the
    /// last rank.
    pub(crate) fn receive_back(self, kind: Kind, into: &mut [u8]) -> Result<usize, SortError> {
        let Some(world) = self.0.filter(|_| !self.is_last()) else { return Ok(0) };
        Ok(world.receive(Source::Rank(world.rank() + 1), Tag::Value(kind as u32), into)?.count)
    }

    /// As [`send_back`](Self::send_back) and [`receive_back`](Self::receive_back) at the same time:
    /// no rank waits for all those behind it in turn.
    pub(crate) fn pass_back(self, kind: Kind, bytes: &[u8], into: &mut [u8]) -> Result<usize, SortError> {
        let Some(world) = self.0.filter(|_| !self.is_first() && !self.is_last()) else {
            self.send_back(kind, bytes)?;
            return self.receive_back(kind, into);
        };
        let (to, from, tag) = (world.rank() - 1, Source::Rank(world.rank() + 1), kind as u32);
        Ok(world.send_receive((to, tag, bytes), (from, Tag::Value(tag), into))?.count)
    }
}
