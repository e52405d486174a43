//! A rank is killed at some point: the others get an error that names it.

use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use policy::Span;
use rowlock_message::memory;
use sys::shared_memory::Mapping;
use sys::unnamed::UnnamedFile;
use wait::turn::{LENGTH, Turn, VARIABLE, WrittenPage};

use crate::rank::{Rank, start, start_in};
use crate::trial;

pub(crate) fn trials() -> Vec<Trial> {
    let waits = ["receive", "receive-spinning", "receive-any", "probe", "send", "send-long", "isend"];
    let polls = ["polls-of-a-receive", "polls-of-a-send", "iprobe"];
    let calls = ["barrier", "broadcast", "reduce", "all-to-all", "split"];
    let idle = waits
        .into_iter()
        .chain(polls)
        .chain(calls)
        .map(|part| trial(&format!("a_rank_that_dies_without_taking_part_ends_{part}"), move || dies_idle(part)));
    let busy = calls
        .into_iter()
        .map(|part| trial(&format!("a_rank_that_dies_in_the_middle_of_{part}_ends_it"), move || dies_busy(part)));
    let parked = ["receive", "receive-any", "send-long", "barrier"].into_iter().map(|part| {
        trial(&format!("a_rank_that_dies_while_others_sleep_out_of_their_turn_ends_{part}"), move || {
            dies_out_of_turn(part);
        })
    });
    idle.chain(busy).chain(parked).collect()
}

pub(crate) fn expect_lost(mut rank: Rank, lost: u32, pid: u32) {
    let line = loop {
        match rank.read_line() {
            line if line == "ready" => {}
            line => break line,
        }
    };
    assert_eq!(line, format!("rank {lost} lost: {pid}"));
    rank.expect_success();
}

fn dies_idle(part: &'static str) {
    let (_memory, ranks) = start(3, |rank| if rank == 2 { "sleep" } else { part }.to_owned());
    expect_loss_of_last(ranks);
}

/// In a turn of others that lasts for a minute.
fn dies_out_of_turn(part: &'static str) {
    let slice = Span::from_millis(60_000);
    let file = UnnamedFile::of_length(LENGTH.get() as u64).unwrap();
    let page = WrittenPage::new(&Mapping::new(file.file(), LENGTH).unwrap()).unwrap();
    page.set_slice(slice);
    page.set(Turn::OthersUntil(wait::now() + slice));
    let variables = [(VARIABLE, file.path().to_str().unwrap().to_owned())];
    let part = |rank| if rank == 2 { "sleep" } else { part }.to_owned();
    let (_memory, ranks) = start_in(memory::create(3).unwrap(), 3, &variables, part);
    let begun = Instant::now();
    expect_loss_of_last(ranks);
    assert!(begun.elapsed() < Duration::from_secs(30), "they have waited for their turn");
}

fn expect_loss_of_last(mut ranks: Vec<Rank>) {
    let mut dying = ranks.pop().unwrap();
    assert_eq!(dying.read_line(), "ready");
    let pid = dying.pid();
    dying.kill();
    ranks.into_iter().for_each(|rank| expect_lost(rank, 2, pid));
}

fn dies_busy(part: &'static str) {
    let (_memory, mut ranks) = start(4, |_| part.to_owned());
    ranks.iter_mut().for_each(|rank| assert_eq!(rank.read_line(), "ready"));
    let mut dying = ranks.remove(1);
    let pid = dying.pid();
    dying.kill();
    ranks.into_iter().for_each(|rank| expect_lost(rank, 1, pid));
}
