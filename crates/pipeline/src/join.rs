//! Collects the output of the copies of a forked stage.

use std::collections::BTreeMap;

/// Restores the order in which the copies of a stage took their buffers, or passes buffers on as
/// they finish. In both cases the last buffer comes last.
///
/// `E` is the element finished at a place. Places are numbered 0, 1, 2, ... in the order of taking,
/// and each is finished once.
#[derive(Debug)]
pub(crate) struct Join<E> {
    is_ordered: bool,
    /// All places before this one are finished.
    next: u64,
    /// The finished places from `next` on, with the elements that have not been passed on.
    ahead: BTreeMap<u64, Option<E>>,
    /// The last place, if known. Elements of later places are discarded.
    last: Option<u64>,
}

impl<E> Join<E> {
    pub(crate) fn new(is_ordered: bool) -> Join<E> {
        Join { is_ordered, next: 0, ahead: BTreeMap::new(), last: None }
    }

    /// Finishes a place. Appends the elements that can be passed on to `onward`, and discarded ones
    /// to `discarded`.
    pub(crate) fn finish(
        &mut self,
        place: u64,
        entry: E,
        is_last: bool,
        onward: &mut impl Extend<E>,
        discarded: &mut impl Extend<E>,
    ) {
        if self.last.is_some_and(|last| place > last) {
            discarded.extend([entry]);
            return;
        }
        if is_last {
            // Discard what was held back beyond the end. Unordered elements beyond it have been
            // passed on.
            self.last = Some(place);
            discarded.extend(self.ahead.split_off(&place).into_values().flatten());
        }
        let is_ordered = self.is_ordered && !cfg!(rowlock_canary = "copies-overtake-each-other");
        let mut waiting = Some(entry);
        if !is_ordered && !is_last {
            onward.extend(waiting.take());
        }
        self.ahead.insert(place, waiting);
        while let Some(entry) = self.ahead.remove(&self.next) {
            self.next += 1;
            onward.extend(entry);
        }
    }

    /// The elements that were not passed on when the run ended.
    pub(crate) fn into_rest(self) -> impl Iterator<Item = E> {
        self.ahead.into_values().flatten()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An order in which 20 places finish, and the last place.
    fn finished_and_last() -> impl Strategy<Value = (Vec<u64>, u64)> {
        (Just((0..20).collect()).prop_shuffle(), prop_oneof![Just(19), 0_u64..20])
    }

    /// The order of the output, and the discarded places in ascending order.
    fn joined(is_ordered: bool, finished: &[u64], last: u64) -> (Vec<u64>, Vec<u64>) {
        let mut join = Join::new(is_ordered);
        let (mut onward, mut discarded) = (Vec::new(), Vec::new());
        for &place in finished {
            join.finish(place, place, place == last, &mut onward, &mut discarded);
        }
        assert_eq!(join.into_rest().count(), 0);
        discarded.sort();
        (onward, discarded)
    }

    proptest! {
        #[test]
        fn places_come_out_in_order_and_later_ones_than_the_last_are_discarded(
            (finished, last) in finished_and_last(),
        ) {
            prop_assert_eq!(joined(true, &finished, last), ((0..=last).collect(), (last + 1..20).collect()));
        }

        #[test]
        fn without_order_each_place_comes_out_once_and_the_last_one_last((finished, last) in finished_and_last()) {
            let (mut onward, discarded) = joined(false, &finished, last);
            prop_assert_eq!(onward.last(), Some(&last));
            prop_assert!(discarded.iter().all(|&place| place > last));
            onward.extend(discarded);
            onward.sort();
            prop_assert_eq!(onward, (0..20).collect::<Vec<u64>>());
        }
    }
}
