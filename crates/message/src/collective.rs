//! Calls that all ranks of a communicator make together, in the same order.
//!
//! They are made of messages in a context of their own, whose tag is the number of the call. So
//! they are not mixed with other messages, nor with those of other calls.

use std::sync::Arc;

use bytemuck::{AnyBitPattern, NoUninit, Pod};

use crate::communicator::Communicator;
use crate::error::MessageError;
use crate::ring::CONTEXTS;

impl Communicator {
    /// Waits until all ranks have called it.
    ///
    /// Source: Hensgen, Finkel and Manber, "Two Algorithms for Barrier Synchronization" (1988), the
    /// dissemination barrier.
    ///
    /// # Errors
    /// If a rank has left or is lost, as for all collective calls. Then other ranks may have
    /// passed.
    pub fn barrier(&self) -> Result<(), MessageError> {
        let (calls, call, rank, ranks) = self.begin_call();
        let mut distance = 1;
        while distance < ranks {
            calls.send::<u8>((rank + distance) % ranks, call, &[])?;
            calls.receive::<u8>((rank + ranks - distance) % ranks, call, &mut [])?;
            distance *= 2;
        }
        Ok(())
    }

    /// Copies the values of `root` to all ranks.
    ///
    /// # Errors
    /// If there is no such rank, or the values of a rank are of another number than those of
    /// `root`.
    pub fn broadcast<T: Pod>(&self, root: u32, values: &mut [T]) -> Result<(), MessageError> {
        self.member(root)?;
        let (calls, call, rank, ranks) = self.begin_call();
        // A binomial tree, in which the root is number 0.
        let number = (rank + ranks - root) % ranks;
        let of = |number: u32| (number + root) % ranks;
        let mut bit = 1;
        while bit < ranks {
            if number & bit != 0 {
                let status = calls.receive(of(number - bit), call, values)?;
                check_length(status.bytes, values)?;
                break;
            }
            bit *= 2;
        }
        while bit > 1 {
            bit /= 2;
            if number + bit < ranks {
                calls.send(of(number + bit), call, values)?;
            }
        }
        Ok(())
    }

    /// Collects the values of all ranks at `root`, in the order of ranks. Others get nothing.
    ///
    /// # Errors
    /// If there is no such rank, or ranks have different numbers of values.
    pub fn gather<T: Pod>(&self, root: u32, values: &[T]) -> Result<Vec<T>, MessageError> {
        self.member(root)?;
        let (calls, call, rank, ranks) = self.begin_call();
        if rank != root {
            calls.send(root, call, values)?;
            return Ok(Vec::new());
        }
        let mut all = vec![T::zeroed(); values.len() * ranks as usize];
        for (from, part) in (0..).zip(parts(&mut all, values.len(), ranks)) {
            if from == rank {
                part.copy_from_slice(values);
            } else {
                let status = calls.receive(from, call, part)?;
                check_length(status.bytes, part)?;
            }
        }
        Ok(all)
    }

    /// Collects the values of all ranks at all ranks, in the order of ranks.
    ///
    /// # Errors
    /// If ranks have different numbers of values.
    pub fn all_gather<T: Pod>(&self, values: &[T]) -> Result<Vec<T>, MessageError> {
        let mut all = self.gather(0, values)?;
        all.resize(values.len() * self.ranks() as usize, T::zeroed());
        self.broadcast(0, &mut all)?;
        Ok(all)
    }

    /// Divides the values of `root` among all ranks, in the order of ranks. `own` is this rank's
    /// part. Only the `values` of `root` count.
    ///
    /// # Errors
    /// If there is no such rank, or the number of values is not that of all parts.
    pub fn scatter<T: Pod>(&self, root: u32, values: &[T], own: &mut [T]) -> Result<(), MessageError> {
        self.member(root)?;
        let (calls, call, rank, ranks) = self.begin_call();
        if rank != root {
            let status = calls.receive(root, call, own)?;
            return check_length(status.bytes, own);
        }
        if values.len() != own.len() * ranks as usize {
            return Err(MessageError::Mismatch("the values to scatter are not as many as the parts of all ranks"));
        }
        for to in 0..ranks {
            let part = &values[to as usize * own.len()..][..own.len()];
            if to == rank {
                own.copy_from_slice(part);
            } else {
                calls.send(to, call, part)?;
            }
        }
        Ok(())
    }

    /// Combines the values of all ranks, each with those at the same place. The result is at
    /// `root`, in its `values`; those of others are overwritten. The operation must be associative.
    /// It is applied in the order of ranks, in the same way each time.
    ///
    /// # Errors
    /// If there is no such rank, or ranks have different numbers of values.
    pub fn reduce<T: Pod>(
        &self,
        root: u32,
        values: &mut [T],
        operation: impl Fn(T, T) -> T,
    ) -> Result<(), MessageError> {
        self.member(root)?;
        let (calls, call, rank, ranks) = self.begin_call();
        let mut other = vec![T::zeroed(); values.len()];
        let mut bit = 1;
        // Each rank has combined those from its own to the one before the next multiple of `bit`.
        while bit < ranks {
            if rank & bit != 0 {
                calls.send(rank - bit, call, values)?;
                break;
            }
            if rank + bit < ranks {
                let status = calls.receive(rank + bit, call, &mut other)?;
                check_length(status.bytes, &other)?;
                values.iter_mut().zip(&other).for_each(|(value, &other)| *value = operation(*value, other));
            }
            bit *= 2;
        }
        if root != 0 && rank == 0 {
            calls.send(root, call, values)?;
        } else if root != 0 && rank == root {
            let status = calls.receive(0, call, values)?;
            check_length(status.bytes, values)?;
        }
        Ok(())
    }

    /// As [`Communicator::reduce`], with the result at all ranks.
    ///
    /// # Errors
    /// If ranks have different numbers of values.
    pub fn all_reduce<T: Pod>(&self, values: &mut [T], operation: impl Fn(T, T) -> T) -> Result<(), MessageError> {
        self.reduce(0, values, operation)?;
        self.broadcast(0, values)
    }

    /// Sends the first part of the values to rank 0, the next one to rank 1, and so on, and returns
    /// the parts that came from them.
    ///
    /// # Errors
    /// If the values cannot be divided by the number of ranks, or ranks have different numbers of
    /// values.
    pub fn all_to_all<T: Pod>(&self, values: &[T]) -> Result<Vec<T>, MessageError> {
        let (calls, call, rank, ranks) = self.begin_call();
        let length = values.len() / ranks as usize;
        if length * ranks as usize != values.len() {
            return Err(MessageError::Mismatch("the values for all ranks cannot be divided by their number"));
        }
        let part = |of: u32| of as usize * length..(of as usize + 1) * length;
        let mut all = vec![T::zeroed(); values.len()];
        all[part(rank)].copy_from_slice(&values[part(rank)]);
        for distance in 1..ranks {
            let (to, from) = ((rank + distance) % ranks, (rank + ranks - distance) % ranks);
            let sending = calls.begin_send(to, call, &values[part(to)])?;
            let status = calls.receive(from, call, &mut all[part(from)])?;
            check_length(status.bytes, &all[part(from)])?;
            sending.wait()?;
        }
        Ok(all)
    }

    /// Divides the ranks into communicators: one for each color, in the order of keys, and of ranks
    /// with the same key. Returns `None` without a color.
    ///
    /// # Errors
    /// If there were too many communicators.
    pub fn split(&self, color: Option<u32>, key: u32) -> Result<Option<Communicator>, MessageError> {
        let next = self.endpoint.next_context();
        let own = [u64::from(color.is_some()) << 32 | u64::from(color.unwrap_or(0)), key.into(), next.into()];
        let all = self.all_gather(&own)?;
        // The first number that is new to all of them.
        let context = all.chunks(3).map(|of_rank| of_rank[2]).max().unwrap_or(0);
        let context = u32::try_from(context).ok().filter(|&context| context + 1 < CONTEXTS);
        let context = context.ok_or(MessageError::Mismatch("there have been too many communicators"))?;
        self.endpoint.use_contexts(context + 2);
        let mut members: Vec<(u64, u32)> = Vec::new();
        for (rank, of_rank) in (0..).zip(all.chunks(3)) {
            if of_rank[0] == own[0] {
                members.push((of_rank[1], rank));
            }
        }
        members.sort_unstable();
        let place = members.iter().position(|&(_, rank)| rank == self.rank());
        let members: Vec<u32> = members.iter().map(|&(_, rank)| self.member(rank)).collect::<Result<_, _>>()?;
        let new = |own| Communicator::of(Arc::clone(&self.endpoint), members, own as u32, context);
        Ok(place.filter(|_| color.is_some()).map(new))
    }

    /// What a call needs: this communicator for its messages, their tag, the rank and the number of
    /// ranks.
    fn begin_call(&self) -> (Communicator, u32, u32, u32) {
        (self.for_calls(), self.next_call(), self.rank(), self.ranks())
    }
}

/// The parts of `all`, one for each rank.
fn parts<T>(all: &mut [T], length: usize, ranks: u32) -> impl Iterator<Item = &mut [T]> {
    let mut rest = all;
    (0..ranks).map(move |_| {
        let (part, after) = std::mem::take(&mut rest).split_at_mut(length);
        rest = after;
        part
    })
}

fn check_length<T: NoUninit + AnyBitPattern>(bytes: usize, values: &[T]) -> Result<(), MessageError> {
    let is_right = bytes == size_of_val(values);
    is_right
        .then_some(())
        .ok_or(MessageError::Mismatch("ranks have passed different numbers of values to a collective call"))
}
