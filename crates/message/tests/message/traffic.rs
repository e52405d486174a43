//! Random messages between all ranks, with numbers and known content.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rowlock_message::{Communicator, Source, Tag};

/// The number of ranks.
pub(crate) const RANKS: u32 = 8;
const TAGS: u32 = 3;
/// Mostly short ones, and some that take many lines, or more than a record.
const LENGTHS: [usize; 8] = [3, 8, 10, 30, 100, 300, 1_500, 6_000];

/// The most words of a content.
const LONGEST: u32 = LENGTHS[LENGTHS.len() - 1] as u32;

/// Sender, receiver, tag, number for these three, and place and count of the content among the
/// words that all ranks know. A comparison takes less time than a checksum, and finds more.
const HEAD: usize = 5;

struct Traffic {
    random: Xoshiro256PlusPlus,
    /// All contents are parts of it. The same in all ranks.
    words: Vec<u64>,
    /// The numbers of the next message to a rank with a tag, and of the next one from it.
    sent: [[u64; TAGS as usize]; RANKS as usize],
    received: [[u64; TAGS as usize]; RANKS as usize],
    buffer: Vec<u64>,
}

impl Traffic {
    fn below(&mut self, limit: u32) -> u32 {
        ((u64::from(self.random.next_u32()) * u64::from(limit)) >> 32) as u32
    }

    fn send(&mut self, world: &Communicator) {
        let (to, tag) = (self.below(RANKS), self.below(TAGS));
        let number = self.sent[to as usize][tag as usize];
        self.sent[to as usize][tag as usize] += 1;
        let [one, other] = [(); 2].map(|()| self.below(LENGTHS.len() as u32) as usize);
        let length = LENGTHS[one.min(other)];
        let (place, count) = (self.below(LONGEST), self.below(length as u32));
        let content = u64::from(place) << 32 | u64::from(count);
        let head = [world.rank().into(), to.into(), tag.into(), number, content];
        let message = [&head[..], self.content(content)].concat();
        if self.below(4) == 0 {
            drop(world.isend(to, tag, message).unwrap());
        } else {
            world.send(to, tag, &message).unwrap();
        }
    }

    fn content(&self, content: u64) -> &[u64] {
        &self.words[(content >> 32) as usize..][..content as u32 as usize]
    }

    fn check(&mut self, world: &Communicator, source: u32, tag: u32, count: usize) {
        let (head, content) = self.buffer[..count].split_at(HEAD);
        let number = self.received[source as usize][tag as usize];
        let expected = [source.into(), world.rank().into(), tag.into(), number];
        assert_eq!(head[..HEAD - 1], expected, "from {source} with tag {tag}");
        assert!(content == self.content(head[HEAD - 1]), "message {number} from {source} with tag {tag} is torn");
        self.received[source as usize][tag as usize] += 1;
    }

    /// Receives some message if there is one.
    fn receive(&mut self, world: &Communicator) -> bool {
        let Some(status) = world.iprobe::<u64>(Source::Any, Tag::Any).unwrap() else { return false };
        let status = world.receive(status.source, status.tag, &mut self.buffer).unwrap();
        self.check(world, status.source, status.tag, status.count);
        true
    }
}

/// Each rank sends so many messages and receives those of the others.
pub(crate) fn exchange(world: &Communicator, seed: u64, messages: u32) {
    let random = |stream: u32| Xoshiro256PlusPlus::seed_from_u64(seed << 8 | u64::from(stream));
    let mut of_all = random(RANKS);
    let mut traffic = Traffic {
        random: random(world.rank()),
        words: (0..2 * LONGEST).map(|_| of_all.next_u64()).collect(),
        sent: Default::default(),
        received: Default::default(),
        buffer: vec![0; HEAD + LONGEST as usize],
    };
    for _ in 0..messages {
        traffic.send(world);
        // A bit more than is sent.
        while traffic.below(5) < 3 && traffic.receive(world) {}
    }
    // All learn how many messages come to them.
    let mut expected = [0; (RANKS * TAGS) as usize];
    world.all_to_all(traffic.sent.as_flattened(), &mut expected).unwrap();
    let left = |traffic: &Traffic| {
        let pairs = expected.iter().zip(traffic.received.as_flattened());
        pairs.map(|(&expected, &received)| expected.checked_sub(received).unwrap()).sum::<u64>()
    };
    while left(&traffic) > 0 {
        let status = world.receive(Source::Any, Tag::Any, &mut traffic.buffer).unwrap();
        traffic.check(world, status.source, status.tag, status.count);
    }
    world.barrier().unwrap();
    assert!(!traffic.receive(world), "a message too many");
}
