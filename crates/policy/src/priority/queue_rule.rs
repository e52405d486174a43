//! Rules by which a stage follows its own queues.
//!
//! **Dynamic up**: a stage whose output queue is backed up lowers itself, once and permanently.
//! Source: Roysden, section 4, "Adjusting scheduling": "a stage calls nice up - permanently lowers
//! its priority - if it observes a two or more buffers in its output queue when it conveyed a
//! completed buffer. The priority is lowered only once". It needs no privileges, since any thread
//! may lower itself. Choice: the buffer being conveyed counts as one of the two. The source counts
//! what is in the queue *when it conveyed*, and its second rule says "other buffers" for those that
//! were there before. So one other buffer is enough. Result in the source: 1 % for a program that
//! computes, none for one that reads and writes. Sooner or later all stages that are ever ahead
//! have lowered themselves, and then all are equal again.
//!
//! **Dynamic up and down**: a stage lowers itself while its output queue is backed up, until it
//! finds it empty. Source: the same section: "the thread calls nice up if it sees a backup and does
//! not already have a lowered priority (as in the first). The thread also calls nice down if it
//! sees no other buffers when it conveys and if it has a lower priority. This technique requires
//! superuser privileges." Without them the kernel refuses the way back, and the rule acts like
//! dynamic up. A backup is two buffers including the conveyed one, so no state lies between the two
//! conditions: the stage makes a system call in every round in which the queue has become empty or
//! is no longer empty. That is the rule of the source, and it is kept.
//!
//! **Input queue**: a stage with several waiting buffers is raised until none waits. Source:
//! Roysden, section 1, which proposes it and does not try it: "A programmer can raise the priority
//! of any stage that has multiple buffers in its input queue [...] signs that the stage is moving
//! slower [...] than its neighbor". Choices that the source leaves open: the stage checks when it
//! accepts a buffer and counts those that remain, so the buffer that it holds does not count as
//! waiting. It is raised at two and returns to normal at none. In between it keeps its priority, so
//! a queue that has one buffer now and then costs no system call. A stage that lags behind has a
//! full input queue all the time and stays raised: it limits the pipeline. A stage that only had to
//! wait for a CPU empties its queue and returns to normal. Raising takes a privilege; without it
//! the rule does nothing.

use super::{PriorityRule, StagePolicy, StagePriority};

/// This many buffers in the output queue are a backup, including the conveyed one.
const BACKUP: u32 = 2;

/// This many waiting buffers are several.
const SEVERAL: u32 = 2;

impl StagePolicy {
    /// Records that the stage has accepted a buffer and left this many in its input queue.
    #[inline]
    pub fn accepted(&mut self, left_in_input: u32) {
        self.priority = match (self.rule, left_in_input) {
            (PriorityRule::InputQueue, 0) => StagePriority::Neutral,
            (PriorityRule::InputQueue, SEVERAL..) => StagePriority::Raised,
            _ => self.priority,
        };
    }

    /// Records that the stage has conveyed a buffer while this many *others* were in its output
    /// queue.
    #[inline]
    pub fn conveyed(&mut self, others_in_output: u32) {
        self.priority = match (self.rule, others_in_output.saturating_add(1)) {
            (PriorityRule::DynamicUpDown, 1) => StagePriority::Neutral,
            (PriorityRule::DynamicUp | PriorityRule::DynamicUpDown, BACKUP..) => StagePriority::Lowered,
            _ => self.priority,
        };
    }
}
