//! Random messages between ranks that are threads: short and long ones, by all kinds of calls, to
//! all ranks, with several tags. Each has a number and a sum.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use policy::{Instant, Span};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rowlock_message::{Communicator, Source, Tag};
use sys::shared_memory::Mapping;
use wait::Waiting;
use wait::turn::{LENGTH, Turn, VARIABLE, WrittenPage};

const RANKS: u32 = 8;
const MESSAGES: u32 = 8_000;

/// Checks a message: it must be the next one of its sender and tag, and whole.
fn check(own: &Communicator, source: u32, tag: u32, values: &[u64], next: &mut [u64]) {
    let [number, sum, rest @ ..] = values else { panic!("{values:?}") };
    let expected = &mut next[(source * 4 + tag) as usize];
    assert_eq!(*number, *expected, "rank {} of rank {source} with tag {tag}", own.rank());
    *expected += 1;
    assert_eq!(*sum, rest.iter().fold(*number, |sum, value| sum.rotate_left(7) ^ value));
}

/// Exchanges random messages between all ranks.
fn exchange(seed: u64) {
    let ranks = Communicator::threads(RANKS, Waiting::ADAPTIVE).unwrap();
    thread::scope(|scope| ranks.into_iter().for_each(|own| drop(scope.spawn(move || exchange_as(seed, &own)))));
}

fn exchange_as(seed: u64, own: &Communicator) {
    let mut draws = Xoshiro256PlusPlus::seed_from_u64(seed << 8 | u64::from(own.rank()));
    let mut counts = vec![0_u64; 4 * RANKS as usize];
    let mut next = vec![0_u64; 4 * RANKS as usize];
    // How many come from each rank is known from the same draws.
    let mut to_send: Vec<(u32, u32, usize)> = Vec::new();
    for _ in 0..MESSAGES {
        let length = match draws.next_u32() % 64 {
            0 => 5_000,
            1..16 => draws.next_u32() as usize % 300,
            _ => draws.next_u32() as usize % 8,
        };
        to_send.push((draws.next_u32() % RANKS, draws.next_u32() % 4, length));
    }
    let mut expected = vec![0_u64; RANKS as usize];
    to_send.iter().for_each(|&(to, ..)| expected[to as usize] += 1);
    let mut left: u64 = own.all_to_all(&expected).unwrap().iter().sum();
    let mut sends = Vec::new();
    for (to, tag, length) in to_send {
        let number = counts[(to * 4 + tag) as usize];
        counts[(to * 4 + tag) as usize] += 1;
        let rest: Vec<u64> = (0..length).map(|_| draws.next_u64()).collect();
        let sum = rest.iter().fold(number, |sum, value| sum.rotate_left(7) ^ value);
        let values = [&[number, sum], &rest[..]].concat();
        match draws.next_u32() % 4 {
            0 => sends.push(own.begin_send(to, tag, &values).unwrap()),
            _ => own.send(to, tag, &values).unwrap(),
        }
        while let Some(status) = own.try_probe(Source::Any, Tag::Any).unwrap() {
            let (_, values) = own.receive_vec(status.source, status.tag).unwrap();
            check(own, status.source, status.tag, &values, &mut next);
            left -= 1;
        }
    }
    let mut buffer = [0; 5_002];
    while left > 0 {
        let status = own.receive(Source::Any, Tag::Any, &mut buffer).unwrap();
        check(own, status.source, status.tag, &buffer[..status.bytes / 8], &mut next);
        left -= 1;
    }
    sends.into_iter().for_each(|send| send.wait().unwrap());
    own.barrier().unwrap();
    assert_eq!(own.try_probe(Source::Any, Tag::Any).unwrap(), None);
}

#[test]
#[expect(clippy::redundant_closure, reason = "the closure names this test in a replay")]
fn random_messages_are_neither_lost_nor_doubled_nor_torn() {
    testing::for_each_seed(16, |seed| exchange(seed));
}

/// Runs a test as a job whose turns of 5 ms alternate with those of another one.
fn run_in_turns(mut test: Command) {
    const SLICE: Span = Span::from_millis(5);
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(LENGTH.get() as u64).unwrap();
    let page = WrittenPage::new(&Mapping::new(&file, LENGTH).unwrap()).unwrap();
    page.set_slice(SLICE);
    test.env(VARIABLE, file.path());
    let has_ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let now = || Instant::from_nanos(nanoseconds());
            for turn in [Turn::OursUntil, Turn::OthersUntil].iter().cycle() {
                page.set(turn(now() + SLICE));
                thread::sleep(Duration::from_millis(5));
                if has_ended.load(Relaxed) {
                    return;
                }
            }
        });
        testing::expect_pass(&mut test);
        has_ended.store(true, Relaxed);
    });
}

/// The time on `CLOCK_MONOTONIC`, in nanoseconds.
fn nanoseconds() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

#[test]
fn random_messages_arrive_in_turns_as_well() {
    testing::isolated_by(run_in_turns, || exchange(100));
}
