//! Threads that run their own stages: one stage, or several in turn.

use std::sync::Arc;

use wait::Event;

use crate::copy::GroupCopy;
use crate::engine::{Engine, Sleeper, ThreadBuffers};
use crate::queue::TakeResult;
use crate::stage_priorities::StagePriorities;
use crate::yield_budget::YieldBudget;

/// The turn of one stage group on its thread.
pub(crate) struct ThreadTurn<'a, T> {
    pub(crate) at: usize,
    /// How many buffers it processes before the next turn.
    pub(crate) repeat: usize,
    pub(crate) copy: Box<GroupCopy<'a, T>>,
    /// Whether it may take several buffers at once if its calls are short. False if the calls may
    /// block, if the thread has other turns, or if it yields after each round.
    pub(crate) may_batch: bool,
    /// Whether it yields after each round.
    pub(crate) yields: bool,
}

impl<'a, T> Engine<'a, T> {
    /// Runs these stages in turn until none of them can get another buffer. `own` is the event of
    /// this thread.
    pub(crate) fn run_turns(
        &self,
        mut turns: Vec<ThreadTurn<'a, T>>,
        own: &Arc<Event>,
        priorities: &mut StagePriorities<'_>,
    ) {
        let (mut buffers, mut yield_budget) = (ThreadBuffers::for_thread(), YieldBudget::new());
        if turns.iter_mut().all(|turn| turn.copy.begin(&self.ending)) {
            while !turns.is_empty() && !self.ending.is_ending() {
                let mut index = 0;
                while index < turns.len() {
                    if self.run_turn(&mut turns[index], own, &mut buffers, &mut yield_budget, priorities) {
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

    /// Returns whether this stage may get more buffers.
    fn run_turn(
        &self,
        turn: &mut ThreadTurn<'a, T>,
        own: &Arc<Event>,
        buffers: &mut ThreadBuffers<'a, T>,
        yield_budget: &mut YieldBudget,
        priorities: &mut StagePriorities<'_>,
    ) -> bool {
        let mut left_to_do = turn.repeat;
        while left_to_do > 0 {
            if self.ending.is_ending() {
                return false;
            }
            let most = if turn.may_batch { turn.copy.batch_size() } else { 1 };
            match self.take(turn.at, most, buffers, Sleeper::Thread(own.clone())) {
                TakeResult::Sleeping => {
                    let time = self.sleep(own, yield_budget);
                    turn.copy.record_wait(time);
                }
                TakeResult::Closed(_) => return false,
                TakeResult::Buffers { first, left, .. } => {
                    turn.copy.record_depths(left, buffers.input.len());
                    priorities.accepted(turn.at, left);
                    let processed = turn.copy.process(&mut buffers.input, &mut buffers.output, &self.ending);
                    let (depth, sent) = self.deliver(turn.at, first, &processed, buffers);
                    if sent > 0 {
                        turn.copy.output_depth = Some(depth);
                        priorities.conveyed(turn.at, depth.saturating_sub(sent));
                    }
                    left_to_do -= 1;
                    if turn.yields {
                        std::thread::yield_now();
                    }
                }
            }
        }
        true
    }
}
