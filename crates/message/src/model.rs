//! Loom models: records through a ring, and bells that no rank misses.

use loom::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use loom::sync::atomic::{AtomicU64, fence};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use policy::Instant;

use crate::bell::Bell;
use crate::ring::{Kind, LINE, Record, Ring, Tail};
use crate::word::Word;

/// A word with a queue of sleepers, as the kernel has one for each futex.
#[derive(Default)]
struct ModelWord {
    value: AtomicU64,
    queue: Mutex<()>,
    woken: Condvar,
}

impl Word for ModelWord {
    fn get(&self) -> u64 {
        self.value.load(Relaxed)
    }

    fn set(&self, value: u64) {
        self.value.store(value, Relaxed);
    }

    fn release(&self, value: u64) {
        self.value.store(value, Release);
    }

    fn observe(&self) -> u64 {
        self.value.load(SeqCst)
    }

    fn publish(&self, value: u64) {
        self.value.store(value, Release);
        fence(SeqCst);
    }

    fn mark(&self, bits: u64) -> u64 {
        let before = self.value.fetch_or(bits, SeqCst);
        fence(SeqCst);
        before
    }

    fn replace(&self, from: u64, to: u64) -> bool {
        self.value.compare_exchange(from, to, SeqCst, SeqCst).is_ok()
    }

    fn sleep(&self, value: u64, _: Option<Instant>) {
        let queue = self.queue.lock().unwrap();
        if self.value.load(SeqCst) as u32 == value as u32 {
            drop(self.woken.wait(queue).unwrap());
        }
    }

    fn wake(&self) {
        drop(self.queue.lock().unwrap());
        self.woken.notify_all();
    }
}

/// The number of lines: four quarters of two.
const LINES: usize = 8;

/// A ring and the bells of its two ranks.
struct Memory {
    head: ModelWord,
    lines: Vec<[ModelWord; LINE]>,
    of_sender: ModelWord,
    of_receiver: ModelWord,
    has_left: ModelWord,
}

impl Memory {
    /// A ring in which so many lines were written and released.
    fn at(position: u64) -> Arc<Memory> {
        let memory = Memory {
            head: ModelWord::default(),
            lines: (0..LINES).map(|_| Default::default()).collect(),
            of_sender: ModelWord::default(),
            of_receiver: ModelWord::default(),
            has_left: ModelWord::default(),
        };
        memory.head.set(position);
        Arc::new(memory)
    }

    fn ring(&self) -> Ring<'_, ModelWord> {
        Ring { head: &self.head, lines: &self.lines }
    }

    fn send(&self, tail: &mut Tail, number: u32, bytes: &[u8]) -> bool {
        let record = Record { kind: Kind::Whole, context: 0, tag: number, length: bytes.len() };
        let sent = self.ring().send(tail, record, bytes).unwrap();
        if sent {
            Bell(&self.of_receiver).ring();
        }
        sent
    }

    /// Receives a record if there is one, and checks its bytes.
    fn receive(&self, head: &mut u64) -> Option<u32> {
        let ring = self.ring();
        let record = ring.peek(*head).unwrap()?;
        let mut bytes = vec![0; record.length];
        ring.read(*head, &mut bytes);
        assert!(bytes.iter().all(|&byte| u32::from(byte) == record.tag), "{record:?}: {bytes:?}");
        if ring.release(head, record) {
            Bell(&self.of_sender).ring();
        }
        Some(record.tag)
    }

    /// Waits until an attempt succeeds, asleep on a bell.
    fn wait<R>(bell: &ModelWord, mut attempt: impl FnMut() -> Option<R>) -> R {
        loop {
            if let Some(result) = attempt() {
                return result;
            }
            let prepared = Bell(bell).prepare();
            if let Some(result) = attempt() {
                return result;
            }
            Bell(bell).sleep(prepared, None);
        }
    }
}

fn model(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    (builder.preemption_bound, builder.max_duration) = testing::depth(preemptions);
    builder.check(body);
}

#[test]
fn records_arrive_whole_where_the_ring_begins_again() {
    model(3, || {
        let memory = Memory::at(7);
        let sender = memory.clone();
        let thread = thread::spawn(move || {
            let mut tail = Tail::at(7);
            assert!(sender.send(&mut tail, 1, &[1; 8]));
            // Two lines: the last one of the ring, and the first one.
            assert!(sender.send(&mut tail, 2, &[2; 56]));
        });
        let mut head = 7;
        let found = [memory.receive(&mut head), memory.receive(&mut head)];
        assert!(matches!(found, [None, None] | [None, Some(1)] | [Some(1), None] | [Some(1), Some(2)]), "{found:?}");
        thread.join().unwrap();
    });
}

#[test]
fn a_rank_that_sleeps_is_woken_by_a_message_and_by_the_end_of_its_sender() {
    model(3, || {
        let memory = Memory::at(0);
        let sender = memory.clone();
        let thread = thread::spawn(move || {
            assert!(sender.send(&mut Tail::at(0), 1, &[1; 8]));
            sender.has_left.publish(1);
            Bell(&sender.of_receiver).ring();
        });
        let mut head = 0;
        assert_eq!(Memory::wait(&memory.of_receiver, || memory.receive(&mut head)), 1);
        Memory::wait(&memory.of_receiver, || (memory.has_left.observe() == 1).then_some(()));
        thread.join().unwrap();
    });
}

#[test]
fn a_sender_that_sleeps_for_lack_of_room_is_woken() {
    model(2, || {
        let memory = Memory::at(0);
        let mut tail = Tail::at(0);
        // Seven lines are in use, and the next record takes two.
        (1..8).for_each(|number| assert!(memory.send(&mut tail, number, &[])));
        let receiver = memory.clone();
        let thread = thread::spawn(move || {
            let mut head = 0;
            (1..=8).for_each(|number| {
                let found = Memory::wait(&receiver.of_receiver, || receiver.receive(&mut head));
                assert_eq!(found, number);
            });
        });
        Memory::wait(&memory.of_sender, || memory.send(&mut tail, 8, &[8; 56]).then_some(()));
        thread.join().unwrap();
    });
}
