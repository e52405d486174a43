//! Matching, and a simple model of it: each receive has the list of all messages that it may get.

use proptest::prelude::*;

use super::*;

/// The model: all receives and all messages in their order. It finds all
/// pairs anew each time.
#[derive(Default)]
struct Model {
    receives: Vec<(Pattern, Option<usize>)>,
    messages: Vec<(Envelope, Option<usize>)>,
}

impl Model {
    /// Pairs receives with messages until no pair is left: the first receive with the first
    /// message.
    fn pair(&mut self) {
        for receive in 0..self.receives.len() {
            for message in 0..self.messages.len() {
                let (pattern, got) = self.receives[receive];
                let (envelope, taken) = self.messages[message];
                if got.is_none() && taken.is_none() && pattern.accepts(&envelope) {
                    self.receives[receive].1 = Some(message);
                    self.messages[message].1 = Some(receive);
                }
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Post(Pattern),
    Arrive(Envelope),
    /// One of the receives that are neither complete nor given back.
    Complete(prop::sample::Index),
    GiveBack(prop::sample::Index),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let one_of = |most: u32| prop_oneof![1 => Just(None), 2 => (0..most).prop_map(Some)];
    let pattern = (0..2_u32, one_of(3), one_of(2)).prop_map(|(context, source, tag)| Pattern { context, source, tag });
    let envelope = (0..3_u32, 0..2_u32, 0..2_u32);
    let envelope = envelope.prop_map(|(source, context, tag)| Envelope { source, context, tag, length: 0 });
    let step = prop_oneof![
        3 => pattern.prop_map(Step::Post),
        3 => envelope.prop_map(Step::Arrive),
        2 => any::<prop::sample::Index>().prop_map(Step::Complete),
        1 => any::<prop::sample::Index>().prop_map(Step::GiveBack),
    ];
    prop::collection::vec(step, 1..80)
}

proptest! {
    #[test]
    fn receives_and_messages_are_matched_as_in_the_model(steps in steps()) {
        let (mut matching, mut model) = (Matching::new(), Model::default());
        // Receives that are not over: the ticket, and the number in the model.
        let mut open: Vec<(Ticket, usize)> = Vec::new();
        for step in steps {
            match step {
                Step::Post(pattern) => {
                    open.push((matching.post(pattern), model.receives.len()));
                    model.receives.push((pattern, None));
                }
                Step::Arrive(envelope) => {
                    matching.arrive(envelope, model.messages.len());
                    model.messages.push((envelope, None));
                }
                Step::Complete(index) if !open.is_empty() => {
                    let at = index.index(open.len());
                    if matching.message(open[at].0).is_some() {
                        matching.remove(open.remove(at).0);
                    }
                }
                Step::GiveBack(index) if !open.is_empty() => {
                    let (ticket, receive) = open.remove(index.index(open.len()));
                    matching.give_back(ticket);
                    if let Some(message) = model.receives[receive].1 {
                        model.messages[message].1 = None;
                    }
                    // It gets nothing any more.
                    model.receives[receive].1 = Some(usize::MAX);
                }
                Step::Complete(_) | Step::GiveBack(_) => {}
            }
            model.pair();
            for &(ticket, receive) in &open {
                let got = matching.message(ticket).map(|message| message.body);
                prop_assert_eq!(got, model.receives[receive].1);
            }
        }
    }
}

#[test]
fn a_probe_finds_what_a_receive_would_get() {
    let mut matching = Matching::new();
    let envelope = |tag, length| Envelope { source: 0, context: 0, tag, length };
    let pattern = |tag| Pattern { context: 0, source: None, tag };
    matching.arrive(envelope(1, 10), ());
    matching.arrive(envelope(2, 20), ());
    matching.post(pattern(Some(1)));
    assert_eq!(matching.probe(&pattern(None)), Some(envelope(2, 20)));
    assert_eq!(matching.probe(&pattern(Some(1))), None);
}
