//! How the arrivals at a barrier are counted: by one counter, or by a tree of counters.
//!
//! A processor that writes a cache line first fetches it from the one that wrote it last. So
//! arrivals at one counter take turns, and the last of `n` threads that arrive at the same time has
//! waited for `n` transfers. In a tree each leaf counts few threads. The last of them arrives at
//! the next node, and so on up to the root, whose last arrival ends the round. Transfers of
//! different nodes overlap: 64 threads take 8 + 8 transfers instead of 64, and 256 take 8 + 8 + 4.
//!
//! The price is paid if threads do not arrive at the same time: then the last one pays a transfer
//! for each level instead of one. So a small team has one counter. The tree is that of Yew, Tzeng
//! and Lawrie ("Distributing hot-spot addressing in large-scale multiprocessors", 1987). A
//! dissemination barrier takes fewer steps, but in each of them every thread writes, a thread that
//! waits must take part in all steps, so it cannot block or do other work between its arrival and
//! its wait, and no arrival is the last.

/// From this number of threads on, arrivals are counted by a tree. With one level more than a
/// counter, 32 threads that arrive together take 8 + 4 transfers instead of 32, and the last of
/// those that arrive one by one takes 2 instead of 1.
pub const TREE_FROM: u32 = 32;

/// The number of arrivals that a node awaits. With 4, simultaneous arrivals take up to a quarter
/// fewer transfers, but trees of 32 and 64 threads have one level more.
pub const FAN_IN: u32 = 8;

/// The counters of arrivals of a team: a tree, which has only one node in a small team.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrivalTree {
    threads: u32,
    fan_in: u32,
}

/// A counter of a tree. Each level is filled from the left, so its last node may await fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its number in the tree. Those of the leaves come first, and that of the root is the last.
    pub number: u32,
    /// The number of arrivals that it awaits in each round: of threads at a leaf, of nodes above.
    pub awaited: u32,
    /// The place in the round of the first arrival that ends here. The last arrival at a node goes
    /// on to the next level, except for that at the root.
    pub first: u32,
    /// Its number in its level.
    index: u32,
    /// The number of arrivals that all nodes of its level await.
    awaited_by_level: u32,
}

impl ArrivalTree {
    /// The counters for a team of this size (one thread if zero): the choice of both worlds.
    pub const fn of(threads: u32) -> ArrivalTree {
        ArrivalTree::with_fan_in(threads, if threads < TREE_FROM { u32::MAX } else { FAN_IN })
    }

    /// A tree whose nodes await at most so many arrivals (two if fewer). One counter if these are
    /// all.
    pub const fn with_fan_in(threads: u32, fan_in: u32) -> ArrivalTree {
        let threads = if threads == 0 { 1 } else { threads };
        let fan_in = if fan_in < threads { fan_in } else { threads };
        ArrivalTree { threads, fan_in: if fan_in < 2 { 2 } else { fan_in } }
    }

    /// The number of threads.
    pub const fn threads(self) -> u32 {
        self.threads
    }

    /// Whether there is only one counter.
    pub const fn is_counter(self) -> bool {
        self.threads <= self.fan_in
    }

    /// The number of nodes.
    pub fn nodes(self) -> u32 {
        self.levels().map(|(_, awaited)| awaited.div_ceil(self.fan_in)).sum()
    }

    /// All nodes, in the order of their numbers.
    pub fn all(self) -> impl Iterator<Item = Node> {
        let of_level = move |(first, awaited): (u32, u32)| {
            (0..awaited.div_ceil(self.fan_in)).map(move |index| self.node(first, awaited, index))
        };
        self.levels().flat_map(of_level)
    }

    /// The number of leaves.
    pub const fn leaves(self) -> u32 {
        self.threads.div_ceil(self.fan_in)
    }

    /// The number of the leaf at which a thread arrives, by the thread's number in its team.
    pub const fn leaf_of(self, thread: u32) -> u32 {
        thread / self.fan_in
    }

    /// The leaf with this number.
    pub fn leaf(self, number: u32) -> Node {
        self.node(0, self.threads, number)
    }

    /// The node at which the last arrival of `node` arrives next. `None` if that is the root.
    pub fn parent(self, node: Node) -> Option<Node> {
        let nodes = node.awaited_by_level.div_ceil(self.fan_in);
        let next_level = node.number - node.index + nodes;
        (nodes > 1).then(|| self.node(next_level, nodes, node.index / self.fan_in))
    }

    /// The node at which the arrival with this place in its round ends. Each arrival has a place
    /// below the number of threads, and that of the last one is the greatest.
    pub fn node_of_place(self, place: u32) -> Node {
        let ends_above = |&(_, awaited): &(u32, u32)| place >= self.threads - awaited.div_ceil(self.fan_in);
        let is_root = |&(_, awaited): &(u32, u32)| awaited <= self.fan_in;
        let level = self.levels().find(|level| is_root(level) || !ends_above(level));
        let (first, awaited) = level.unwrap_or((0, self.threads));
        let index = if awaited <= self.fan_in { 0 } else { (place - (self.threads - awaited)) / (self.fan_in - 1) };
        self.node(first, awaited, index)
    }

    /// The number of the first node of each level, and the number of arrivals that its nodes await.
    fn levels(self) -> impl Iterator<Item = (u32, u32)> {
        std::iter::successors(Some((0, self.threads)), move |&(first, awaited)| {
            let nodes = awaited.div_ceil(self.fan_in);
            (nodes > 1).then_some((first + nodes, nodes))
        })
    }

    fn node(self, first_of_level: u32, awaited_by_level: u32, index: u32) -> Node {
        Node {
            number: first_of_level + index,
            awaited: (awaited_by_level - index * self.fan_in).min(self.fan_in),
            // Of all arrivals, those that reach this level end here or above. Each node to the left
            // is full and passes one of its arrivals on.
            first: self.threads - awaited_by_level + index * (self.fan_in - 1),
            index,
            awaited_by_level,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets all threads arrive in this order. Returns their places and the counts of the nodes.
    fn places(tree: ArrivalTree, order: impl Iterator<Item = u32>) -> (Vec<u32>, Vec<u32>) {
        let mut counts = vec![0; tree.nodes() as usize];
        let arrive = |thread| {
            let mut node = tree.leaf(tree.leaf_of(thread));
            loop {
                let count = &mut counts[node.number as usize];
                *count += 1;
                assert!(*count <= node.awaited, "{tree:?} {node:?}");
                let place = node.first + *count - 1;
                match tree.parent(node) {
                    Some(parent) if *count == node.awaited => node = parent,
                    _ => {
                        assert_eq!(tree.node_of_place(place), node, "{tree:?}");
                        return place;
                    }
                }
            }
        };
        (order.map(arrive).collect(), counts)
    }

    fn trees() -> impl Iterator<Item = ArrivalTree> {
        let sizes = (0..70).chain([127, 128, 129, 255, 256, 257, 600]);
        sizes.flat_map(|threads| [1, 2, 3, 4, 8, u32::MAX].map(|fan_in| ArrivalTree::with_fan_in(threads, fan_in)))
    }

    #[test]
    fn the_arrivals_of_a_round_have_all_places_and_the_last_one_has_the_last_place() {
        for tree in trees() {
            let threads = tree.threads();
            for order in [(0..threads).collect(), (0..threads).rev().collect::<Vec<_>>()] {
                let (mut places, counts) = places(tree, order.into_iter());
                assert_eq!(places.last(), Some(&(threads - 1)), "{tree:?}");
                places.sort_unstable();
                assert!(places.into_iter().eq(0..threads), "{tree:?}");
                assert!(counts.iter().all(|&count| count > 0), "{tree:?}");
            }
        }
    }

    #[test]
    fn a_team_has_a_tree_from_32_threads_on() {
        for threads in [0, 1, 2, 31] {
            let tree = ArrivalTree::of(threads);
            assert!(tree.is_counter() && tree.nodes() == 1 && tree.leaves() == 1);
            assert_eq!(tree.leaf(tree.leaf_of(threads.saturating_sub(1))).awaited, threads.max(1));
        }
        let shapes = [(32, 4, 5), (64, 8, 9), (65, 9, 12), (128, 16, 19), (256, 32, 37)];
        for (threads, leaves, nodes) in shapes {
            let tree = ArrivalTree::of(threads);
            assert_eq!((tree.is_counter(), tree.leaves(), tree.nodes()), (false, leaves, nodes), "{threads}");
            assert!(tree.all().map(|node| node.number).eq(0..nodes));
        }
    }

    #[test]
    fn the_greatest_team_has_a_tree() {
        let tree = ArrivalTree::of(u32::MAX);
        let mut node = tree.leaf(tree.leaf_of(u32::MAX - 1));
        while let Some(parent) = tree.parent(node) {
            node = parent;
        }
        assert_eq!((node.number, node.first + node.awaited), (tree.nodes() - 1, u32::MAX));
        assert_eq!(tree.node_of_place(u32::MAX - 1), node);
    }
}
