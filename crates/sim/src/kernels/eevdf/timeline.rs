//! The waiting threads of one queue: a search tree by virtual deadline, and a list in the order of
//! arrival.
//!
//! The tree finds the earliest eligible thread in logarithmic time. The kernel's tree
//! (`tasks_timeline`) is red-black. This one is a treap (Seidel and Aragon, Randomized Search
//! Trees, 1996) whose priorities are a hash of the thread's number, so that it has the same depth
//! in every run of a setting. Both keep, for each subtree, the least virtual time (`min_vruntime`),
//! by which a search skips subtrees without an eligible thread, and the shortest slice
//! (`min_slice`).

use super::entity::Entity;

/// No entity: the end of a branch or of the list.
pub(super) const NO_THREAD: u32 = u32::MAX;

/// An entity's place in the tree and in the list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    /// The lower of equal deadlines comes first.
    order: u64,
    /// The least virtual time and the shortest slice in the subtree.
    least: i64,
    shortest: i64,
    left: u32,
    right: u32,
    older: u32,
    newer: u32,
}

impl Links {
    pub(super) const NONE: Links = Links {
        order: 0,
        least: 0,
        shortest: 0,
        left: NO_THREAD,
        right: NO_THREAD,
        older: NO_THREAD,
        newer: NO_THREAD,
    };
}

/// The waiting entities of one queue. Their virtual times, deadlines and slices must not change
/// while they are in the tree.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    root: u32,
    /// The entity that has waited longest.
    pub(super) oldest: u32,
    newest: u32,
    len: u32,
    next_order: u64,
}

impl Timeline {
    pub(super) const EMPTY: Timeline =
        Timeline { root: NO_THREAD, oldest: NO_THREAD, newest: NO_THREAD, len: 0, next_order: 0 };

    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn shortest_slice(&self, entities: &[Entity]) -> Option<i64> {
        (self.root != NO_THREAD).then(|| entities[self.root as usize].links.shortest)
    }

    /// The entity that came next after another one, or [`NO_THREAD`].
    pub(super) fn newer(entities: &[Entity], than: u32) -> u32 {
        entities[than as usize].links.newer
    }

    pub(super) fn push(&mut self, entities: &mut [Entity], who: u32) {
        let links = &mut entities[who as usize].links;
        *links = Links { order: self.next_order, older: self.newest, ..Links::NONE };
        self.next_order += 1;
        match self.newest {
            NO_THREAD => self.oldest = who,
            newest => entities[newest as usize].links.newer = who,
        }
        self.newest = who;
        self.len += 1;
        self.root = insert(entities, self.root, who);
    }

    pub(super) fn remove(&mut self, entities: &mut [Entity], who: u32) {
        self.take_out(entities, who);
        let Links { older, newer, .. } = entities[who as usize].links;
        match older {
            NO_THREAD => self.oldest = newer,
            older => entities[older as usize].links.newer = newer,
        }
        match newer {
            NO_THREAD => self.newest = older,
            newer => entities[newer as usize].links.older = older,
        }
        self.len -= 1;
    }

    /// Takes an entity out of the tree, so that its times may change. It keeps its place in the
    /// list.
    pub(super) fn take_out(&mut self, entities: &mut [Entity], who: u32) {
        self.root = remove(entities, self.root, who);
    }

    /// Puts an entity back into the tree.
    pub(super) fn put_back(&mut self, entities: &mut [Entity], who: u32) {
        self.root = insert(entities, self.root, who);
    }

    /// The entity with the earliest deadline among those whose virtual time is not beyond `latest`
    /// (`__pick_eevdf`).
    pub(super) fn first_until(&self, entities: &[Entity], latest: i64) -> Option<u32> {
        let has_one = |node: u32| node != NO_THREAD && entities[node as usize].links.least <= latest;
        let mut node = self.root;
        while has_one(node) {
            let entity = &entities[node as usize];
            if has_one(entity.links.left) {
                node = entity.links.left;
            } else if entity.vruntime <= latest {
                return Some(node);
            } else {
                node = entity.links.right;
            }
        }
        None
    }
}

fn key(entities: &[Entity], node: u32) -> (i64, u64) {
    let entity = &entities[node as usize];
    (entity.deadline, entity.links.order)
}

/// The heap order of the tree: a hash of the number (the finalizer of SplitMix64).
fn priority(node: u32) -> u64 {
    let mut bits = u64::from(node).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

/// Updates the summary of a node's subtree.
fn refresh(entities: &mut [Entity], node: u32) {
    let entity = entities[node as usize];
    let (mut least, mut shortest) = (entity.vruntime, entity.slice);
    for child in [entity.links.left, entity.links.right] {
        if child != NO_THREAD {
            let links = &entities[child as usize].links;
            (least, shortest) = (least.min(links.least), shortest.min(links.shortest));
        }
    }
    let links = &mut entities[node as usize].links;
    (links.least, links.shortest) = (least, shortest);
}

/// Inserts an entity into a tree. Returns the new root.
fn insert(entities: &mut [Entity], root: u32, who: u32) -> u32 {
    if root != NO_THREAD && priority(who) <= priority(root) {
        return change_below(entities, root, who, insert);
    }
    let (left, right) = split(entities, root, key(entities, who));
    let links = &mut entities[who as usize].links;
    (links.left, links.right) = (left, right);
    refresh(entities, who);
    who
}

/// Removes an entity from a tree. Returns the new root.
fn remove(entities: &mut [Entity], root: u32, who: u32) -> u32 {
    if root != who {
        return change_below(entities, root, who, remove);
    }
    let Links { left, right, .. } = entities[root as usize].links;
    join(entities, left, right)
}

/// Changes the subtree of `root` to which `who` belongs. Returns `root`.
#[inline]
fn change_below(entities: &mut [Entity], root: u32, who: u32, change: impl Fn(&mut [Entity], u32, u32) -> u32) -> u32 {
    let Links { left, right, .. } = entities[root as usize].links;
    if key(entities, who) < key(entities, root) {
        entities[root as usize].links.left = change(entities, left, who);
    } else {
        entities[root as usize].links.right = change(entities, right, who);
    }
    refresh(entities, root);
    root
}

/// Splits a tree at a key: the entities before it, and the others.
fn split(entities: &mut [Entity], root: u32, at: (i64, u64)) -> (u32, u32) {
    if root == NO_THREAD {
        return (NO_THREAD, NO_THREAD);
    }
    let Links { left, right, .. } = entities[root as usize].links;
    if key(entities, root) < at {
        let (before, after) = split(entities, right, at);
        entities[root as usize].links.right = before;
        refresh(entities, root);
        (root, after)
    } else {
        let (before, after) = split(entities, left, at);
        entities[root as usize].links.left = after;
        refresh(entities, root);
        (before, root)
    }
}

/// Joins two trees, the first of which comes before the second.
fn join(entities: &mut [Entity], left: u32, right: u32) -> u32 {
    if left == NO_THREAD || right == NO_THREAD {
        return left.min(right);
    }
    if priority(left) > priority(right) {
        let middle = entities[left as usize].links.right;
        let joint = join(entities, middle, right);
        entities[left as usize].links.right = joint;
        refresh(entities, left);
        left
    } else {
        let middle = entities[right as usize].links.left;
        let joint = join(entities, left, middle);
        entities[right as usize].links.left = joint;
        refresh(entities, right);
        right
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The waiting entities in the order of arrival.
    fn in_order(timeline: &Timeline, entities: &[Entity]) -> Vec<u32> {
        let exists = |who: &u32| *who != NO_THREAD;
        let next = |who: &u32| Some(Timeline::newer(entities, *who)).filter(exists);
        std::iter::successors(Some(timeline.oldest).filter(exists), next).collect()
    }

    proptest! {
        #[test]
        fn the_search_finds_the_earliest_eligible_deadline(
            changes in prop::collection::vec((0_u32..24, -9_i64..9, 0_i64..9, 1_i64..9, any::<bool>()), 1..120),
        ) {
            let mut entities = vec![Entity::NEW; 24];
            let mut timeline = Timeline::EMPTY;
            let mut waiting: Vec<u32> = Vec::new();
            for (who, vruntime, deadline, slice, stays) in changes {
                let change = |entities: &mut [Entity]| {
                    let entity = &mut entities[who as usize];
                    (entity.vruntime, entity.deadline, entity.slice) = (vruntime, deadline, slice);
                };
                match waiting.iter().position(|&other| other == who) {
                    None => {
                        change(&mut entities);
                        timeline.push(&mut entities, who);
                        waiting.push(who);
                    }
                    Some(_) if stays => {
                        timeline.take_out(&mut entities, who);
                        change(&mut entities);
                        timeline.put_back(&mut entities, who);
                    }
                    Some(at) => {
                        timeline.remove(&mut entities, who);
                        waiting.remove(at);
                    }
                }
                prop_assert_eq!(&in_order(&timeline, &entities), &waiting);
                prop_assert_eq!(timeline.len(), waiting.len());
                let of = |who: &u32| entities[*who as usize];
                prop_assert_eq!(timeline.shortest_slice(&entities), waiting.iter().map(|who| of(who).slice).min());
                for latest in -10..10 {
                    let eligible = waiting.iter().filter(|who| of(who).vruntime <= latest);
                    let first = eligible.min_by_key(|who| of(who).deadline).copied();
                    prop_assert_eq!(timeline.first_until(&entities, latest), first);
                }
            }
        }
    }
}
