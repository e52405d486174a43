//! Which message goes to which receive: pure decisions on two queues.
//!
//! A receive takes the message that came first of those that it accepts. A message goes to the
//! receive that was posted first of those that accept it. So the messages of a pair of ranks with
//! the same tag are received in the order in which they were sent.

use std::collections::VecDeque;

/// The sender of a message, and its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Envelope {
    pub(crate) context: u32,
    /// The rank in the job.
    pub(crate) source: u32,
    pub(crate) tag: u32,
}

/// The messages that a receive accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    pub(crate) context: u32,
    /// `None` for any.
    pub(crate) source: Option<u32>,
    /// `None` for any.
    pub(crate) tag: Option<u32>,
}

impl Pattern {
    pub(crate) fn accepts(self, envelope: Envelope) -> bool {
        self.context == envelope.context
            && self.source.is_none_or(|source| source == envelope.source)
            && self.tag.is_none_or(|tag| tag == envelope.tag)
    }
}

/// A message that came before a receive for it. Its bytes may still be coming.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Early {
    pub(crate) envelope: Envelope,
    /// The number of all of its bytes.
    pub(crate) length: u64,
    /// `None` as long as bytes are missing.
    pub(crate) bytes: Option<Vec<u8>>,
    number: u64,
}

impl Early {
    /// Its envelope and length.
    pub(crate) fn about(&self) -> (Envelope, u64) {
        (self.envelope, self.length)
    }
}

/// A message that a posted receive has taken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Claimed {
    Complete(Envelope, Vec<u8>),
    /// Its number.
    Coming(u64),
}

/// The queues of a rank.
#[derive(Debug, Default)]
pub(crate) struct Matching {
    posted: VecDeque<(u64, Pattern)>,
    early: VecDeque<Early>,
    /// How many messages have been early.
    count: u64,
}

impl Matching {
    /// Posts a receive with this number.
    pub(crate) fn post(&mut self, number: u64, pattern: Pattern) {
        self.posted.push_back((number, pattern));
    }

    /// Withdraws a receive. Returns whether it was still posted.
    pub(crate) fn withdraw(&mut self, number: u64) -> bool {
        let place = self.posted.iter().position(|&(posted, _)| posted == number);
        place.and_then(|place| self.posted.remove(place)).is_some()
    }

    /// Whether a posted receive accepts a message.
    pub(crate) fn is_awaited(&self, envelope: Envelope) -> bool {
        self.posted.iter().any(|(_, pattern)| pattern.accepts(envelope))
    }

    /// Takes the posted receive that a message goes to.
    pub(crate) fn take_receive(&mut self, envelope: Envelope) -> Option<u64> {
        let place = self.posted.iter().position(|(_, pattern)| pattern.accepts(envelope))?;
        self.posted.remove(place).map(|(number, _)| number)
    }

    /// Keeps a message for which there is no receive yet. Returns a number, by which its bytes are
    /// [added](Matching::complete).
    pub(crate) fn keep(&mut self, envelope: Envelope, length: u64) -> u64 {
        self.count += 1;
        self.early.push_back(Early { envelope, length, bytes: None, number: self.count });
        self.count
    }

    /// Adds the bytes of a message that is kept.
    pub(crate) fn complete(&mut self, number: u64, bytes: Vec<u8>) {
        // The last one in most cases.
        if let Some(early) = self.early.iter_mut().rev().find(|early| early.number == number) {
            early.bytes = Some(bytes);
        }
    }

    /// The message that a receive takes next, if it has begun to come.
    pub(crate) fn find(&self, pattern: Pattern) -> Option<&Early> {
        self.early.iter().find(|early| pattern.accepts(early.envelope))
    }

    /// Takes the message that a receive takes next, if there is one: with its bytes if they are
    /// complete, and else only its number, for which they will come.
    pub(crate) fn claim(&mut self, pattern: Pattern) -> Option<Claimed> {
        let place = self.early.iter().position(|early| pattern.accepts(early.envelope))?;
        let early = self.early.remove(place)?;
        Some(match early.bytes {
            Some(bytes) => Claimed::Complete(early.envelope, bytes),
            None => Claimed::Coming(early.number),
        })
    }

    /// Takes the message that a receive takes next, if it is complete and not longer than `room`.
    pub(crate) fn take_message(&mut self, pattern: Pattern, room: u64) -> Option<(Envelope, Vec<u8>)> {
        let place = self.early.iter().position(|early| pattern.accepts(early.envelope))?;
        if self.early[place].length > room || self.early[place].bytes.is_none() {
            return None;
        }
        let early = self.early.remove(place)?;
        Some((early.envelope, early.bytes?))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn envelope() -> impl Strategy<Value = Envelope> {
        (0_u32..2, 0_u32..3, 0_u32..3).prop_map(|(context, source, tag)| Envelope { context, source, tag })
    }

    fn pattern() -> impl Strategy<Value = Pattern> {
        let any = || prop::option::of(0_u32..3);
        (0_u32..2, any(), any()).prop_map(|(context, source, tag)| Pattern { context, source, tag })
    }

    #[derive(Clone, Debug)]
    enum Step {
        Arrives(Envelope),
        Posts(Pattern),
    }

    proptest! {
        /// Against a model with one list of all events in their order.
        #[test]
        fn each_message_goes_to_the_first_receive_and_each_receive_takes_the_first_message(
            steps in prop::collection::vec(
                prop_oneof![envelope().prop_map(Step::Arrives), pattern().prop_map(Step::Posts)],
                0..60,
            )
        ) {
            let mut matching = Matching::default();
            let mut messages: Vec<(u64, Envelope)> = Vec::new();
            let mut receives: Vec<(u64, Pattern)> = Vec::new();
            for (number, step) in (0_u64..).zip(steps) {
                match step {
                    Step::Arrives(envelope) => {
                        let expected = receives.iter().position(|(_, pattern)| pattern.accepts(envelope));
                        prop_assert_eq!(matching.is_awaited(envelope), expected.is_some());
                        let found = matching.take_receive(envelope);
                        prop_assert_eq!(found, expected.map(|place| receives.remove(place).0));
                        if found.is_none() {
                            let kept = matching.keep(envelope, 8);
                            prop_assert_eq!(matching.take_message(Pattern { context: envelope.context, source: Some(envelope.source), tag: Some(envelope.tag) }, 7), None);
                            matching.complete(kept, number.to_ne_bytes().to_vec());
                            messages.push((number, envelope));
                        }
                    }
                    Step::Posts(pattern) => {
                        let expected = messages.iter().position(|(_, envelope)| pattern.accepts(*envelope));
                        prop_assert_eq!(matching.find(pattern).map(|early| early.envelope), expected.map(|place| messages[place].1));
                        let expected = expected.map(|place| messages.remove(place));
                        let found = matching.take_message(pattern, 8);
                        prop_assert_eq!(&found, &expected.map(|(number, envelope)| (envelope, number.to_ne_bytes().to_vec())));
                        if found.is_none() {
                            matching.post(number, pattern);
                            receives.push((number, pattern));
                        }
                    }
                }
            }
            for (number, _) in receives {
                prop_assert!(matching.withdraw(number) && !matching.withdraw(number));
            }
        }
    }

    #[test]
    fn a_message_whose_bytes_are_missing_is_found_but_not_taken_nor_overtaken() {
        let mut matching = Matching::default();
        let envelope = Envelope { context: 0, source: 1, tag: 2 };
        let pattern = Pattern { context: 0, source: None, tag: Some(2) };
        let first = matching.keep(envelope, 1);
        let second = matching.keep(envelope, 1);
        matching.complete(second, vec![2]);
        assert_eq!(matching.take_message(pattern, 1), None);
        assert!(matching.find(pattern).is_some_and(|early| early.bytes.is_none()));
        matching.complete(first, vec![1]);
        assert_eq!(matching.take_message(pattern, 1), Some((envelope, vec![1])));
        assert_eq!(matching.take_message(pattern, 1), Some((envelope, vec![2])));
    }
}
