//! The waiting threads of one queue, by virtual time and by the length of their wait.
//!
//! The kernel has a search tree (`tasks_timeline`) and a list (`cfs_tasks`). Only the first two
//! threads of the tree are ever needed, so a heap is enough. It knows the place of each thread. Of
//! equal threads, the one that came first is first.

use policy::ThreadId;

use super::queue::Entity;

/// The place of a thread in the timeline of its queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    slot: u32,
    older: u32,
    newer: u32,
}

/// No slot: the thread is in no queue.
const AWAY: u32 = u32::MAX;
/// No slot: the thread has its CPU, or is being switched away from.
const ON_CPU: u32 = u32::MAX - 1;
const NO_THREAD: u32 = u32::MAX;

impl Place {
    pub(super) const AWAY: Place = Place { slot: AWAY, older: NO_THREAD, newer: NO_THREAD };
    pub(super) const ON_CPU: Place = Place { slot: ON_CPU, older: NO_THREAD, newer: NO_THREAD };

    /// Whether the thread is counted in a queue.
    pub(super) fn is_queued(self) -> bool {
        self.slot != AWAY
    }

    /// Whether the thread waits in a queue.
    pub(super) fn is_waiting(self) -> bool {
        self.slot < ON_CPU
    }
}

/// The number of children of a heap slot. With four children, which are adjacent in memory, a
/// removal moves half as many threads as with two. Each move updates the thread's place.
const BRANCHES: usize = 4;

#[derive(Clone, Copy, Debug)]
struct Slot {
    vruntime: i64,
    /// The number of the insertion, which wraps around. Two threads in the queue are far less than
    /// half of the range apart.
    order: u32,
    thread: u32,
}

impl Slot {
    fn is_before(&self, other: &Slot) -> bool {
        match self.vruntime.cmp(&other.vruntime) {
            std::cmp::Ordering::Equal => (self.order.wrapping_sub(other.order) as i32) < 0,
            ordering => ordering.is_lt(),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Timeline {
    heap: Vec<Slot>,
    came: u32,
    oldest: u32,
    newest: u32,
}

impl Default for Timeline {
    fn default() -> Timeline {
        Timeline { heap: Vec::new(), came: 0, oldest: NO_THREAD, newest: NO_THREAD }
    }
}

impl Timeline {
    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    #[inline]
    pub(super) fn first(&self) -> Option<ThreadId> {
        self.heap.first().map(|slot| ThreadId(slot.thread))
    }

    #[inline]
    pub(super) fn least(&self) -> Option<i64> {
        self.heap.first().map(|slot| slot.vruntime)
    }

    pub(super) fn second(&self) -> Option<ThreadId> {
        self.first_child(0).map(|at| ThreadId(self.heap[at].thread))
    }

    pub(super) fn oldest(&self) -> Option<ThreadId> {
        (self.oldest != NO_THREAD).then_some(ThreadId(self.oldest))
    }

    /// Inserts a thread after equal ones.
    pub(super) fn insert(&mut self, thread: ThreadId, entities: &mut [Entity]) {
        let slot = Slot { vruntime: entities[thread.index()].vruntime, order: self.came, thread: thread.0 };
        self.came = self.came.wrapping_add(1);
        self.heap.push(slot);
        self.rise(self.heap.len() - 1, slot, entities);
        self.link(thread, entities);
    }

    pub(super) fn remove(&mut self, thread: ThreadId, entities: &mut [Entity]) {
        self.unlink(thread, entities);
        let at = entities[thread.index()].place.slot as usize;
        entities[thread.index()].place = Place::AWAY;
        let Some(last) = self.heap.pop() else { return };
        if at == self.heap.len() {
            return;
        }
        if at > 0 && last.is_before(&self.heap[(at - 1) / BRANCHES]) {
            self.rise(at, last, entities);
        } else {
            self.sink(at, last, entities);
        }
    }

    /// Treats a waiting thread as the last one that came.
    pub(super) fn move_to_back(&mut self, thread: ThreadId, entities: &mut [Entity]) {
        self.unlink(thread, entities);
        self.link(thread, entities);
    }

    fn rise(&mut self, mut at: usize, slot: Slot, entities: &mut [Entity]) {
        while at > 0 {
            let above = (at - 1) / BRANCHES;
            if !slot.is_before(&self.heap[above]) {
                break;
            }
            self.set(at, self.heap[above], entities);
            at = above;
        }
        self.set(at, slot, entities);
    }

    fn sink(&mut self, mut at: usize, slot: Slot, entities: &mut [Entity]) {
        while let Some(below) = self.first_child(at).filter(|&below| self.heap[below].is_before(&slot)) {
            self.set(at, self.heap[below], entities);
            at = below;
        }
        self.set(at, slot, entities);
    }

    /// The first child of a slot.
    #[inline]
    fn first_child(&self, at: usize) -> Option<usize> {
        let begin = BRANCHES * at + 1;
        let end = (begin + BRANCHES).min(self.heap.len());
        (begin..end).reduce(|first, other| if self.heap[other].is_before(&self.heap[first]) { other } else { first })
    }

    #[inline]
    fn set(&mut self, at: usize, slot: Slot, entities: &mut [Entity]) {
        self.heap[at] = slot;
        entities[slot.thread as usize].place.slot = at as u32;
    }

    fn link(&mut self, thread: ThreadId, entities: &mut [Entity]) {
        let place = &mut entities[thread.index()].place;
        (place.older, place.newer) = (self.newest, NO_THREAD);
        match self.newest {
            NO_THREAD => self.oldest = thread.0,
            newest => entities[newest as usize].place.newer = thread.0,
        }
        self.newest = thread.0;
    }

    fn unlink(&mut self, thread: ThreadId, entities: &mut [Entity]) {
        let Place { older, newer, .. } = entities[thread.index()].place;
        match older {
            NO_THREAD => self.oldest = newer,
            older => entities[older as usize].place.newer = newer,
        }
        match newer {
            NO_THREAD => self.newest = older,
            newer => entities[newer as usize].place.older = older,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_timeline_has_the_order_of_a_sorted_list(
            changes in prop::collection::vec((0_usize..12, 0_i64..6, prop::bool::ANY), 1..120),
        ) {
            let mut entities = vec![Entity::new(1024); 12];
            let mut timeline = Timeline { came: u32::MAX - 20, ..Timeline::default() };
            // The threads by insertion, and by age.
            let (mut obvious, mut by_age): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
            for (thread, vruntime, again) in changes {
                let id = ThreadId(thread as u32);
                if !obvious.contains(&thread) {
                    entities[thread].vruntime = vruntime;
                    timeline.insert(id, &mut entities);
                    obvious.push(thread);
                    by_age.push(thread);
                } else if again {
                    timeline.move_to_back(id, &mut entities);
                    by_age.retain(|&other| other != thread);
                    by_age.push(thread);
                } else {
                    timeline.remove(id, &mut entities);
                    prop_assert!(!entities[thread].place.is_queued());
                    obvious.retain(|&other| other != thread);
                    by_age.retain(|&other| other != thread);
                }
                let mut sorted = obvious.clone();
                sorted.sort_by_key(|&thread| entities[thread].vruntime);
                let number = |thread: Option<ThreadId>| thread.map(ThreadId::index);
                prop_assert_eq!(timeline.len(), sorted.len());
                prop_assert_eq!(number(timeline.first()), sorted.first().copied());
                prop_assert_eq!(number(timeline.second()), sorted.get(1).copied());
                prop_assert_eq!(number(timeline.oldest()), by_age.first().copied());
                prop_assert!((0..12).all(|thread| entities[thread].place.is_waiting() == obvious.contains(&thread)));
            }
        }
    }
}
