//! Random messages between all ranks, with numbers and checksums.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rowlock_message::{Communicator, Source, Tag};

/// The number of ranks.
pub(crate) const RANKS: u32 = 8;
const TAGS: u32 = 3;
/// Mostly short ones, and some that take many lines, or more than a record.
const LENGTHS: [usize; 8] = [3, 8, 10, 30, 100, 300, 1_500, 6_000];

/// Sender, receiver, tag, number for these three, and a checksum, before random words.
const HEAD: usize = 5;

fn checksum(words: &[u64]) -> u64 {
    words.iter().fold(0x9e37, |sum, word| (sum ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(23))
}

struct Traffic {
    random: Xoshiro256PlusPlus,
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
        let content = (0..self.below(length as u32)).map(|_| self.random.next_u64());
        let content: Vec<u64> = content.collect();
        let head = [world.rank().into(), to.into(), tag.into(), number, checksum(&content)];
        let message = [&head[..], &content].concat();
        if self.below(4) == 0 {
            drop(world.isend(to, tag, message).unwrap());
        } else {
            world.send(to, tag, &message).unwrap();
        }
    }

    fn check(&mut self, world: &Communicator, source: u32, tag: u32, count: usize) {
        let (head, content) = self.buffer[..count].split_at(HEAD);
        let number = &mut self.received[source as usize][tag as usize];
        let expected = [source.into(), world.rank().into(), tag.into(), *number, checksum(content)];
        assert_eq!(head, expected, "from {source} with tag {tag}");
        *number += 1;
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
    let mut traffic = Traffic {
        random: Xoshiro256PlusPlus::seed_from_u64(seed << 8 | u64::from(world.rank())),
        sent: Default::default(),
        received: Default::default(),
        buffer: vec![0; HEAD + LENGTHS[LENGTHS.len() - 1]],
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
