//! Threads that run stages of their own: one, or several in turn.

use std::sync::Arc;

use wait::Event;

use crate::copy::Copy;
use crate::engine::{Engine, Hands, Rest};
use crate::favour::Favoured;
use crate::patience::Patience;
use crate::queue::Taken;
use crate::scheduling::Scheduling;

/// A stage's part in the round of a thread.
pub(crate) struct ThreadTurn<'a, T> {
    pub(crate) at: usize,
    /// How many buffers it handles before the next one's turn.
    pub(crate) repeat: usize,
    pub(crate) copy: Box<Copy<'a, T>>,
    /// Whether several short calls may be made at once: not where they may block, another stage has its turn, or the thread yields after each.
    pub(crate) may_hurry: bool,
    pub(crate) scheduling: Scheduling,
}

impl<'a, T> Engine<'a, T> {
    /// Runs these stages in turn until none of them gets a buffer any more. `own` is this thread's event.
    pub(crate) fn take_turns(&self, mut turns: Vec<ThreadTurn<'a, T>>, own: &Arc<Event>, favoured: &mut Favoured<'_>) {
        let (mut hands, mut patience) = (Hands::of_thread(), Patience::new());
        if turns.iter_mut().all(|turn| turn.copy.begin(&self.ending)) {
            while !turns.is_empty() && !self.ending.is_ending() {
                let mut index = 0;
                while index < turns.len() {
                    if self.take_turn(&mut turns[index], own, &mut hands, &mut patience, favoured) {
                        index += 1;
                    } else {
                        self.retire(*turns.remove(index).copy);
                    }
                }
            }
        }
        turns.into_iter().for_each(|turn| self.retire(*turn.copy));
        self.leave();
    }

    /// Returns whether there may be more for this stage.
    fn take_turn(
        &self,
        turn: &mut ThreadTurn<'a, T>,
        own: &Arc<Event>,
        hands: &mut Hands<'a, T>,
        patience: &mut Patience,
        favoured: &mut Favoured<'_>,
    ) -> bool {
        let mut left_to_do = turn.repeat;
        while left_to_do > 0 {
            if self.ending.is_ending() {
                return false;
            }
            let most = if turn.may_hurry { turn.copy.burst() } else { 1 };
            match self.take(turn.at, most, hands, Rest::Thread(own.clone())) {
                Taken::Resting => {
                    let time = self.sleep(own, patience);
                    turn.copy.waited(time);
                }
                Taken::Closed(_) => return false,
                Taken::Some { first, left, .. } => {
                    turn.copy.found_depths(left, hands.hand.len());
                    favoured.accepted(turn.at, left);
                    let processed = turn.copy.process(&mut hands.hand, &mut hands.done, &self.ending);
                    let (depth, sent) = self.deliver(turn.at, first, &processed, hands);
                    if sent > 0 {
                        turn.copy.conveyed = Some(depth);
                        favoured.conveyed(turn.at, depth.saturating_sub(sent));
                    }
                    left_to_do -= 1;
                    if turn.scheduling.yield_each_round {
                        std::thread::yield_now();
                    }
                }
            }
        }
        true
    }
}
