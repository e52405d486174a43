use std::collections::VecDeque;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::record::Kind;

const COUNT: usize = 16;

type Words = Arc<[AtomicU64]>;

fn memory(count: usize) -> Words {
    (0..words(count)).map(|_| AtomicU64::new(0)).collect()
}

fn ends(count: usize) -> (Words, Writer<Words>, Reader<Words>) {
    let memory = memory(count);
    (memory.clone(), Writer::new(memory.clone(), count), Reader::new(memory, count))
}

fn header(word: u64, payload: &[u8]) -> Header {
    Header { kind: Kind::Whole, context: 3, word, length: payload.len() }
}

/// Reads the next record.
fn read(reader: &mut Reader<Words>) -> Option<(u64, Vec<u8>)> {
    let header = reader.next().unwrap()?;
    let mut payload = vec![0; header.length];
    reader.copy(&header, &mut payload);
    reader.remove(&header);
    Some((header.word, payload))
}

#[test]
fn a_record_takes_whole_lines_and_at_most_a_quarter_of_the_ring() {
    assert_eq!([0, 48, 49, 112, 113].map(lines_of), [1, 1, 2, 2, 3]);
    for count in [4, 16, 1024, 1 << 20] {
        assert!(lines_of(longest_payload(count)) <= count / 4);
    }
    assert_eq!(longest_payload(4), 48);
    assert_eq!(longest_payload(1 << 24), LONGEST);
}

proptest! {
    /// Payload that looks like headers is not taken for one, wherever it lies in the next round.
    #[test]
    fn records_are_read_as_they_were_written(steps in prop::collection::vec((any::<bool>(), 0..=longest_payload(COUNT)), 1..200)) {
        let (_, mut writer, mut reader) = ends(COUNT);
        let (mut expected, mut number) = (VecDeque::new(), 0_u64);
        for (is_write, length) in steps {
            if is_write {
                let payload: Vec<u8> = (0..length).map(|at| if at % 8 == 0 { 1 } else { (number as usize * 7 + at) as u8 }).collect();
                if writer.write(header(number, &payload), &payload).unwrap() {
                    expected.push_back((number, payload));
                    number += 1;
                } else {
                    // Less than an eighth is not freed.
                    let lines: usize = expected.iter().map(|(_, payload)| lines_of(payload.len())).sum();
                    prop_assert!(lines + lines_of(length) > COUNT - COUNT / 8);
                }
            } else {
                prop_assert_eq!(read(&mut reader), expected.pop_front());
            }
        }
        while let Some(next) = expected.pop_front() {
            prop_assert_eq!(read(&mut reader), Some(next));
        }
        prop_assert_eq!(read(&mut reader), None);
    }

    /// Neither end panics or leaves the ring, whatever other processes write.
    #[test]
    fn any_words_are_read_or_refused(content in prop::collection::vec((0..words(COUNT), any::<u64>()), 1..100), shown in 0..longest_payload(COUNT)) {
        let (memory, mut writer, mut reader) = ends(COUNT);
        for (place, word) in content {
            memory[place].store(word, Relaxed);
            // Nearly a header.
            memory[(place + LINE) % words(COUNT)].store(word & 0xffff_ff07, Relaxed);
            let _ = writer.write(header(1, &vec![1; shown]), &vec![1; shown]);
            if let Ok(Some(header)) = reader.next() {
                let mut payload = vec![0; shown];
                reader.copy(&header, &mut payload);
                reader.remove(&header);
            }
        }
    }
}

#[test]
fn a_freed_word_of_nonsense_is_an_error_of_the_writer() {
    for nonsense in [1, 17, u64::MAX] {
        let (memory, mut writer, _) = ends(COUNT);
        while writer.write(header(0, &[0; 48]), &[0; 48]) == Ok(true) {}
        memory[FREED].store(nonsense, Relaxed);
        let result = writer.write(header(0, &[]), &[]);
        assert_eq!(result, if nonsense == 1 { Ok(true) } else { Err(Nonsense) }, "{nonsense}");
    }
}

#[test]
fn a_first_word_of_nonsense_is_an_error_of_the_reader() {
    let (memory, _, reader) = ends(COUNT);
    let too_long = Header { length: longest_payload(COUNT) + 1, ..header(0, &[]) };
    for first in [6, 0xff, too_long.first(), u64::MAX] {
        memory[LINES].store(first, Relaxed);
        assert_eq!(reader.next(), Err(Nonsense), "{first:x}");
    }
}

#[test]
fn announced_messages_are_withdrawn_up_to_a_number() {
    let (_, writer, reader) = ends(COUNT);
    assert!(!reader.is_withdrawn(1));
    writer.withdraw(7);
    assert_eq!([6, 7, 8].map(|number| reader.is_withdrawn(number)), [true, true, false]);
}
