//! Where the copies of a forked stage come together again.

use std::collections::BTreeMap;

/// Puts what the copies of a stage have finished into the order in which it was taken, or lets it pass as it comes; in either way the last one
/// is the last.
///
/// `E` is what was finished at a place; places are 0, 1, 2, ... in the order of taking, each of which is finished once.
#[derive(Debug)]
pub(crate) struct Join<E> {
    is_ordered: bool,
    /// All places before this one are finished.
    next: u64,
    /// Finished places from `next` on, and what of them is still here.
    ahead: BTreeMap<u64, Option<E>>,
    /// The last place, when it is known. What is finished beyond it counts for nothing.
    last: Option<u64>,
}

impl<E> Join<E> {
    pub(crate) fn new(is_ordered: bool) -> Join<E> {
        Join { is_ordered, next: 0, ahead: BTreeMap::new(), last: None }
    }

    /// A place is finished. What can go on is appended to `onward`, what was in vain to `in_vain`.
    pub(crate) fn finish(
        &mut self,
        place: u64,
        entry: E,
        is_last: bool,
        onward: &mut impl Extend<E>,
        in_vain: &mut impl Extend<E>,
    ) {
        if self.last.is_some_and(|last| place > last) {
            in_vain.extend([entry]);
            return;
        }
        if is_last {
            // What was held back beyond the end is in vain; what went on unordered is gone.
            self.last = Some(place);
            let beyond = self.ahead.split_off(&place);
            in_vain.extend(beyond.into_values().flatten());
        }
        let is_ordered = self.is_ordered && !cfg!(rowlock_canary = "copies-overtake-each-other");
        let waits = is_ordered || is_last;
        if waits {
            self.ahead.insert(place, Some(entry));
        } else {
            self.ahead.insert(place, None);
            onward.extend([entry]);
        }
        while let Some(entry) = self.ahead.remove(&self.next) {
            self.next += 1;
            onward.extend(entry);
        }
    }

    /// What has not gone on, when the run is over.
    pub(crate) fn into_rest(self) -> impl Iterator<Item = E> {
        self.ahead.into_values().flatten()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The order in which places come out that are finished in this order, the last one being so.
    fn joined(is_ordered: bool, finished: &[u64], last: u64) -> (Vec<u64>, Vec<u64>) {
        let mut join = Join::new(is_ordered);
        let (mut onward, mut in_vain) = (Vec::new(), Vec::new());
        for &place in finished {
            join.finish(place, place, place == last, &mut onward, &mut in_vain);
        }
        assert_eq!(join.into_rest().count(), 0);
        (onward, in_vain)
    }

    proptest! {
        #[test]
        fn in_whatever_order_places_are_finished_they_come_out_in_order(
            finished in Just((0..20).collect::<Vec<u64>>()).prop_shuffle(),
        ) {
            prop_assert_eq!(joined(true, &finished, 19), ((0..20).collect(), vec![]));
        }

        #[test]
        fn without_order_each_place_comes_out_once_and_the_last_one_last(
            finished in Just((0..20).collect::<Vec<u64>>()).prop_shuffle(),
        ) {
            let (mut onward, in_vain) = joined(false, &finished, 19);
            prop_assert_eq!(onward.last(), Some(&19));
            prop_assert!(in_vain.is_empty());
            onward.sort();
            prop_assert_eq!(onward, (0..20).collect::<Vec<u64>>());
        }

        #[test]
        fn an_early_end_makes_vain_what_lies_beyond_it(
            finished in Just((0..20).collect::<Vec<u64>>()).prop_shuffle(), last in 0_u64..20,
        ) {
            let (onward, mut in_vain) = joined(true, &finished, last);
            prop_assert_eq!(onward, (0..=last).collect::<Vec<u64>>());
            in_vain.sort();
            prop_assert_eq!(in_vain, (last + 1..20).collect::<Vec<u64>>());
        }

        #[test]
        fn an_early_end_without_order_is_still_the_last_one(
            finished in Just((0..20).collect::<Vec<u64>>()).prop_shuffle(), last in 0_u64..20,
        ) {
            let (onward, in_vain) = joined(false, &finished, last);
            prop_assert_eq!(onward.last(), Some(&last));
            prop_assert_eq!(onward.len() + in_vain.len(), 20);
            prop_assert!((0..last).all(|place| onward.contains(&place)));
        }
    }
}
