//! Groups: jobs that share the machine by their number and not by that of their threads.

use policy::ThreadId;

use super::Eevdf;
use crate::nice::NORMAL;

/// No part of a group's weight is less (`MIN_SHARES`).
const LEAST: u64 = 2;

/// What the threads of each job weigh together by their nice values, as far as they are in a queue or between two turns.
#[derive(Clone, Debug)]
pub(super) struct Groups {
    weights: Vec<u64>,
}

impl Groups {
    pub(super) fn new(jobs: usize) -> Groups {
        Groups { weights: vec![0; jobs] }
    }
}

impl Eevdf {
    /// A thread that was in no queue is about to join one.
    pub(super) fn comes(&mut self, thread: ThreadId) {
        let (job, own) = (self.entity(thread).job, self.entity(thread).own_weight);
        if let Some(groups) = &mut self.groups {
            groups.weights[job as usize] += u64::from(own);
            self.entities[thread.index()].is_counted = true;
            self.follow_group(thread);
        }
    }

    /// A thread has left its queue, and not for another one.
    pub(super) fn goes(&mut self, thread: ThreadId) {
        let (job, own) = (self.entity(thread).job, self.entity(thread).own_weight);
        if let Some(groups) = &mut self.groups {
            groups.weights[job as usize] -= u64::from(own);
            self.entities[thread.index()].is_counted = false;
        }
    }

    /// A thread gets the weight that is its part of its group's.
    pub(super) fn follow_group(&mut self, thread: ThreadId) {
        if self.groups.is_some() {
            let weight = self.part(thread);
            self.reweight(thread, weight);
        }
    }

    /// What a thread weighs from now on whose nice value weighs so much.
    pub(super) fn weight_as(&mut self, thread: ThreadId, own: u32) -> u32 {
        let entity = &mut self.entities[thread.index()];
        let before = std::mem::replace(&mut entity.own_weight, own);
        if let Some(groups) = self.groups.as_mut().filter(|_| entity.is_counted) {
            let group = &mut groups.weights[entity.job as usize];
            *group = *group - u64::from(before) + u64::from(own);
        }
        self.part(thread)
    }

    fn part(&self, thread: ThreadId) -> u32 {
        let entity = self.entity(thread);
        let own = u64::from(entity.own_weight);
        match &self.groups {
            Some(groups) => (NORMAL * own / groups.weights[entity.job as usize].max(own)).max(LEAST) as u32,
            None => entity.own_weight,
        }
    }
}
