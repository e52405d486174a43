//! Loom models of a ring and the bells of both ranks: the beginning, wrap, sleep, and the end.
//!
//! `.ci/models rowlock-message::` runs them.

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::bell::Bell;
use crate::record::Kind;
use crate::writers::Writers;

/// A ring of the smallest size, the bells of its writer and its reader, a word that tells that
/// there is a writer, and one that tells that it has left.
struct Memory {
    words: [AtomicU64; words(4)],
    bells: [[AtomicU64; 2]; 2],
    writers: [AtomicU64; 1],
    left: AtomicU64,
}

/// An end's share of the memory.
struct Share(Arc<Memory>);

impl Deref for Share {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        &self.0.words
    }
}

fn memory() -> Arc<Memory> {
    let zero = |_| AtomicU64::new(0);
    Arc::new(Memory {
        words: std::array::from_fn(zero),
        bells: [(); 2].map(|()| std::array::from_fn(zero)),
        writers: std::array::from_fn(zero),
        left: AtomicU64::new(0),
    })
}

/// Becomes a writer, writes records of these lengths, in bytes, with their numbers, and leaves.
fn write(memory: &Arc<Memory>, lengths: &[usize]) {
    let [own, other] = [0, 1].map(|bell| Bell::new(&memory.bells[bell]));
    let mut writer = Writer::new(Share(memory.clone()), 4);
    Writers::new(&memory.writers).add(0);
    for (number, &length) in (1..).zip(lengths) {
        let header = Header { kind: Kind::Whole, context: 0, word: number, length };
        // Bytes that would be a header, if they were taken for one.
        let payload = vec![Kind::Whole as u8; length];
        while !writer.write(header, &payload).unwrap() {
            let mut has_come = false;
            own.sleep(None, || {
                has_come = writer.write(header, &payload).unwrap();
                has_come
            });
            if has_come {
                break;
            }
        }
        other.ring();
    }
    memory.left.store(1, Release);
    other.ring();
}

/// Reads records until the writer has left. Returns the numbers.
fn read(memory: &Arc<Memory>) -> Vec<u64> {
    let [other, own] = [0, 1].map(|bell| Bell::new(&memory.bells[bell]));
    let mut reader = Reader::new(Share(memory.clone()), 4);
    let mut numbers = Vec::new();
    let mut has_writer = false;
    // As in `engine.rs`: only if there is a writer, which is not asked again then.
    let mut next = |reader: &Reader<Share>| {
        has_writer = has_writer || Writers::new(&memory.writers).word(0) != 0;
        if has_writer { reader.next().unwrap() } else { None }
    };
    loop {
        // As in `endpoint.rs`: whether the writer has left, and only then whether there is a
        // record.
        let has_left = memory.left.load(Acquire) != 0;
        match next(&reader) {
            Some(header) => {
                let mut payload = vec![0; header.length];
                reader.copy(&header, &mut payload);
                assert!(payload.iter().all(|&byte| byte == Kind::Whole as u8), "a torn record");
                if reader.remove(&header) {
                    other.ring();
                }
                numbers.push(header.word);
            }
            None if has_left => return numbers,
            None => own.sleep(None, || next(&reader).is_some() || memory.left.load(Acquire) != 0),
        }
    }
}

fn all_records_arrive(lengths: &'static [usize], preemptions: usize) {
    let mut model = loom::model::Builder::new();
    (model.preemption_bound, model.max_duration) = testing::depth(preemptions);
    model.check(move || {
        let memory = memory();
        let writer = {
            let memory = memory.clone();
            thread::spawn(move || write(&memory, lengths))
        };
        let numbers = read(&memory);
        assert_eq!(numbers, (1..=lengths.len() as u64).collect::<Vec<_>>());
        writer.join().unwrap();
    });
}

#[test]
fn a_reader_sees_the_last_record_of_a_writer_that_has_left() {
    all_records_arrive(&[9, 0], 3);
}

#[test]
fn a_writer_waits_for_lines_and_no_wakeup_is_lost() {
    all_records_arrive(&[8; 6], 2);
}

#[test]
fn a_message_that_is_not_withdrawn_is_read_before_its_memory_changes() {
    let mut model = loom::model::Builder::new();
    (model.preemption_bound, model.max_duration) = testing::depth(3);
    model.check(|| {
        let memory = memory();
        let content = Arc::new(AtomicU64::new(1));
        let withdrawing = {
            let (memory, content) = (memory.clone(), content.clone());
            thread::spawn(move || {
                Writer::new(Share(memory), 4).withdraw(1);
                content.store(2, Relaxed);
            })
        };
        let reader = Reader::new(Share(memory), 4);
        let read = content.load(Relaxed);
        assert!(read == 1 || reader.is_withdrawn(1));
        withdrawing.join().unwrap();
    });
}
