//! Collective calls: all ranks of a communicator make the same calls in the same order, and none at
//! the same time in two of its threads.
//!
//! They are messages in a context of their own, which never match those of the program. As order
//! holds for each pair and tag, the tag only tells the kind of call, and a call of another kind at
//! another rank is not mistaken for this one.
//!
//! The order in which values are combined depends only on the number of ranks: floats give the same
//! sums each time.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use sys::elements::Element;

use crate::communicator::{Communicator, Source, Status, Tag, Talk};
use crate::error::Error;

/// The kind of a call.
#[derive(Clone, Copy)]
enum Call {
    Barrier,
    Broadcast,
    Scatter,
    Gather,
    Reduce,
    AllToAll,
}

impl Communicator {
    /// Waits until all ranks have called this.
    ///
    /// In each round, a rank tells another one at twice the distance of the round before that it
    /// and those before it have arrived (Hensgen, Finkel and Manber, 1988).
    ///
    /// # Errors
    /// As [`receive`](Self::receive), here and in all collective calls.
    pub fn barrier(&self) -> Result<(), Error> {
        let ranks = self.ranks();
        let mut distance = 1;
        while distance < ranks {
            let (to, from) = ((self.rank() + distance) % ranks, (self.rank() + ranks - distance) % ranks);
            self.collect::<u8, u8>(Call::Barrier, (to, &[]), (from, &mut []))?;
            distance *= 2;
        }
        Ok(())
    }

    /// Copies the values of the rank `root` to all ranks, along a binomial tree.
    ///
    /// # Errors
    /// If the ranks have different numbers of values.
    pub fn broadcast<T: Element>(&self, root: u32, values: &mut [T]) -> Result<(), Error> {
        self.member(root)?;
        let ranks = self.ranks();
        // Ranks are counted from the root here. Each receives from that without its lowest bit.
        let own = (self.rank() + ranks - root) % ranks;
        let rank = |counted: u32| (counted + root) % ranks;
        let mut bit = if own == 0 { ranks.next_power_of_two() } else { own & own.wrapping_neg() };
        if own != 0 {
            self.take(Call::Broadcast, rank(own - bit), values)?;
        }
        while bit > 1 {
            bit /= 2;
            if own + bit < ranks {
                self.give(Call::Broadcast, rank(own + bit), values)?;
            }
        }
        Ok(())
    }

    /// Divides the values of the rank `root` among all ranks in equal parts. Only the root needs
    /// values.
    ///
    /// # Errors
    /// If the root's values are not as many as all parts together, or if parts have different
    /// lengths.
    pub fn scatter<T: Element>(&self, root: u32, values: &[T], part: &mut [T]) -> Result<(), Error> {
        self.member(root)?;
        if self.rank() != root {
            return self.take(Call::Scatter, root, part);
        }
        self.check(values.len(), part.len())?;
        for to in (0..self.ranks()).filter(|&to| to != root) {
            self.give(Call::Scatter, to, part_of(values, to, part.len()))?;
        }
        part.copy_from_slice(part_of(values, root, part.len()));
        Ok(())
    }

    /// Collects the equal parts of all ranks at the rank `root`, in the order of ranks. Only the
    /// root needs room for all.
    ///
    /// # Errors
    /// As [`scatter`](Self::scatter).
    pub fn gather<T: Element>(&self, root: u32, part: &[T], values: &mut [T]) -> Result<(), Error> {
        self.member(root)?;
        if self.rank() != root {
            return self.give(Call::Gather, root, part);
        }
        self.check(values.len(), part.len())?;
        for from in 0..self.ranks() {
            let to = place_of(from, part.len());
            if from == root {
                values[to].copy_from_slice(part);
            } else {
                self.take(Call::Gather, from, &mut values[to])?;
            }
        }
        Ok(())
    }

    /// Collects the equal parts of all ranks at all ranks.
    ///
    /// # Errors
    /// As [`gather`](Self::gather).
    pub fn all_gather<T: Element>(&self, part: &[T], values: &mut [T]) -> Result<(), Error> {
        self.check(values.len(), part.len())?;
        self.gather(0, part, values)?;
        self.broadcast(0, values)
    }

    /// Collects a text of each rank at all ranks, such as the path of a file that others open. The
    /// texts contain no zero bytes.
    ///
    /// # Errors
    /// As [`barrier`](Self::barrier).
    pub fn all_gather_texts(&self, text: &OsStr) -> Result<Vec<OsString>, Error> {
        // With a zero behind each.
        let mut room = [text.len() as u64 + 1];
        self.all_reduce(&mut room, u64::max)?;
        let room = room[0] as usize;
        let mut part = text.as_bytes().to_vec();
        part.resize(room, 0);
        let mut all = vec![0; room * self.ranks() as usize];
        self.all_gather(&part, &mut all)?;
        let text = |part: &[u8]| OsString::from_vec(part.split(|&byte| byte == 0).next().unwrap_or_default().to_vec());
        Ok(all.chunks(room).map(text).collect())
    }

    /// Combines the values of all ranks, place by place, at the rank `root`. At the others,
    /// `values` is used for partial results.
    ///
    /// `combine` is given the result of ranks before and that of ranks after them. It must be
    /// associative; it may depend on the order of its arguments.
    ///
    /// # Errors
    /// If the ranks have different numbers of values.
    pub fn reduce<T: Element>(&self, root: u32, values: &mut [T], combine: impl Fn(T, T) -> T) -> Result<(), Error> {
        self.member(root)?;
        let (rank, ranks) = (self.rank(), self.ranks());
        let mut later = vec![T::default(); values.len()];
        // Each has the result of so many ranks from itself on, as long as it takes part.
        let mut width = 1;
        while width < ranks && rank.is_multiple_of(2 * width) {
            if rank + width < ranks {
                self.take(Call::Reduce, rank + width, &mut later)?;
                values.iter_mut().zip(&later).for_each(|(value, &later)| *value = combine(*value, later));
            }
            width *= 2;
        }
        if rank != 0 {
            self.give(Call::Reduce, rank - width, values)?;
        }
        // The result is at rank 0, whose place in the order is the first.
        match (rank, root) {
            (0, 0) => Ok(()),
            (0, _) => self.give(Call::Reduce, root, values),
            _ if rank == root => self.take(Call::Reduce, 0, values),
            _ => Ok(()),
        }
    }

    /// As [`reduce`](Self::reduce), with the result at all ranks.
    ///
    /// # Errors
    /// If the ranks have different numbers of values.
    pub fn all_reduce<T: Element>(&self, values: &mut [T], combine: impl Fn(T, T) -> T) -> Result<(), Error> {
        self.reduce(0, values, combine)?;
        self.broadcast(0, values)
    }

    /// Sends the part with the number of each rank to that rank, and receives one from each.
    ///
    /// # Errors
    /// If `parts` and `received` have different lengths, or no equal part for each rank.
    pub fn all_to_all<T: Element>(&self, parts: &[T], received: &mut [T]) -> Result<(), Error> {
        let (rank, ranks) = (self.rank(), self.ranks());
        let length = parts.len() / ranks as usize;
        self.check(parts.len(), length)?;
        self.check(received.len(), length)?;
        received[place_of(rank, length)].copy_from_slice(part_of(parts, rank, length));
        for distance in 1..ranks {
            let (to, from) = ((rank + distance) % ranks, (rank + ranks - distance) % ranks);
            let into = &mut received[place_of(from, length)];
            self.collect(Call::AllToAll, (to, part_of(parts, to, length)), (from, into))?;
        }
        Ok(())
    }

    /// Whether a buffer has room for as many parts as there are ranks.
    fn check(&self, found: usize, part: usize) -> Result<(), Error> {
        let expected = part.saturating_mul(self.ranks() as usize);
        let (rank, found) = (self.endpoint.rank, found as u64);
        if found == expected as u64 {
            Ok(())
        } else {
            Err(Error::WrongLength { rank, found, expected: expected as u64 })
        }
    }

    fn give<T: Element>(&self, call: Call, to: u32, values: &[T]) -> Result<(), Error> {
        self.send_by(Talk::Collective, to, call as u32, values)
    }

    fn take<T: Element>(&self, call: Call, from: u32, values: &mut [T]) -> Result<(), Error> {
        let status = self.receive_by(Talk::Collective, Source::Rank(from), Tag::Value(call as u32), values);
        self.check_part::<T>(from, status, values.len())
    }

    fn collect<T: Element, U: Element>(
        &self,
        call: Call,
        (to, sent): (u32, &[T]),
        (from, values): (u32, &mut [U]),
    ) -> Result<(), Error> {
        let receive = (Source::Rank(from), Tag::Value(call as u32), &mut *values);
        let status = self.exchange(Talk::Collective, (to, call as u32, sent), receive);
        self.check_part::<U>(from, status, values.len())
    }

    /// Whether another rank takes part with as many values of this type as expected. The program
    /// knows of no message, buffer or tag.
    fn check_part<T>(&self, from: u32, status: Result<Status, Error>, expected: usize) -> Result<(), Error> {
        let (rank, expected) = (self.member(from)?, expected as u64);
        let found = match status {
            Ok(Status { count, .. }) => count as u64,
            Err(Error::TooShort { length, .. }) => length.div_ceil(size_of::<T>() as u64),
            Err(Error::OtherType { length, size, .. }) => return Err(Error::OtherValues { rank, length, size }),
            Err(why) => return Err(why),
        };
        if found == expected { Ok(()) } else { Err(Error::OtherLength { rank, found, expected }) }
    }
}

/// The place of a rank's part.
fn place_of(rank: u32, length: usize) -> std::ops::Range<usize> {
    let begin = rank as usize * length;
    begin..begin + length
}

fn part_of<T>(values: &[T], rank: u32, length: usize) -> &[T] {
    &values[place_of(rank, length)]
}

#[cfg(test)]
mod tests {
    use wait::Waiting;

    use super::*;
    use crate::join::threads;

    #[test]
    fn all_ranks_have_the_texts_of_all_however_long_each_is() {
        let texts = ["", "/proc/7/fd/3", "\u{e9}"].map(OsString::from);
        std::thread::scope(|scope| {
            for world in threads(3, Waiting::default()).unwrap() {
                let texts = &texts;
                scope.spawn(move || {
                    assert_eq!(world.all_gather_texts(&texts[world.rank() as usize]).unwrap(), texts);
                    assert_eq!(world.all_gather_texts(OsStr::new("")).unwrap(), [""; 3]);
                });
            }
        });
    }
}
