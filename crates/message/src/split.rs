//! Communicators from communicators.
//!
//! Messages of different communicators never match, because each has a context of its own. All
//! its ranks must agree on that, and no rank may know two communicators of one context. So each
//! rank proposes a context that only it can propose, from its number in the job and a counter, and
//! the first rank of the new communicator has its way.

use std::sync::atomic::Ordering::Relaxed;

use crate::communicator::Communicator;
use crate::error::Error;

/// A context is even, and the next number is for collective calls. The highest bits are the number
/// of a rank, which is below 256.
const COUNT_BITS: u32 = 23;
const RANK_SHIFT: u32 = COUNT_BITS + 1;

impl Communicator {
    /// Divides the ranks into communicators: those with the same color form one, in the order of
    /// their keys, and then of their ranks. All ranks must call this. A rank without a color gets
    /// none.
    ///
    /// # Errors
    /// As [`barrier`](Self::barrier), or if this rank has proposed eight million contexts.
    pub fn split(&self, color: Option<u32>, key: i32) -> Result<Option<Communicator>, Error> {
        let rank = self.endpoint.rank;
        let count = self.endpoint.contexts.fetch_add(1, Relaxed) + 1;
        let is_left = count < 1 << COUNT_BITS;
        // Others wait for this rank, so it takes part in any case.
        let proposal = if is_left { u64::from(rank) << RANK_SHIFT | count << 1 } else { 0 };
        let color_word = color.map_or(u64::MAX, u64::from);
        let mut all = vec![0; self.ranks() as usize * 3];
        // As an unsigned number in the same order.
        let key = u64::from(key.cast_unsigned() ^ 1 << 31);
        self.all_gather(&[color_word, key, proposal], &mut all)?;
        if color.is_none() {
            return Ok(None);
        }
        let mut chosen: Vec<_> = all
            .as_chunks::<3>()
            .0
            .iter()
            .zip(self.members.iter())
            .filter(|([color, ..], _)| *color == color_word)
            .map(|(&[_, key, proposal], &member)| (key, member, proposal))
            .collect();
        // Stable: ranks with the same key keep their order.
        chosen.sort_by_key(|&(key, ..)| key);
        match chosen.first() {
            Some(&(_, first, 0)) => Err(Error::Contexts { rank: first }),
            Some(&(_, _, context)) => {
                Ok(Some(self.of(chosen.iter().map(|&(_, member, _)| member).collect(), context as u32)))
            }
            None => Ok(None),
        }
    }
}
