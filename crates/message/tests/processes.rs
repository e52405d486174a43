//! Ranks as processes: a test starts its own program once for each rank.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]
#![allow(clippy::print_stdout, reason = "a rank tells the test how far it is")]

use std::process::Command;
use std::time::Duration;

use rowlock_message::{Communicator, JoinError, MEMORY, MessageError, RANK, RANKS, Source, Tag, create};
use testing::Child;
use wait::Waiting;

/// Starts the test of this name once for each rank, with the variables of `prun`.
fn start(name: &str, ranks: u32) -> Vec<Child> {
    let memory = create(ranks).unwrap();
    // The ranks open the memory before this process closes it: each says when it has joined.
    let start = |rank: u32| Child::start_piped(rank_of(name, rank, ranks).env(MEMORY, memory.path()));
    let mut children: Vec<Child> = (0..ranks).map(start).collect();
    for child in &mut children {
        while !child.read_line().ends_with("joined") {}
    }
    children
}

fn rank_of(name: &str, rank: u32, ranks: u32) -> Command {
    let mut command = testing::command(std::env::current_exe().unwrap());
    command.args([name, "--exact", "--nocapture"]).env(RANK, rank.to_string()).env(RANKS, ranks.to_string());
    command
}

/// This rank, if this process is one.
fn own() -> Option<Communicator> {
    std::env::var_os(RANK)?;
    let own = Communicator::world(Waiting::ADAPTIVE).unwrap();
    println!("joined");
    Some(own)
}

#[test]
fn ranks_of_several_processes_exchange_messages() {
    if let Some(own) = own() {
        let (rank, ranks) = (own.rank(), own.ranks());
        for length in [1, 1000, 100_000] {
            own.send((rank + 1) % ranks, 0, &vec![rank; length]).unwrap();
            let (status, values) = own.receive_vec::<u32>(Source::Any, 0).unwrap();
            assert_eq!((status.source, values), ((rank + ranks - 1) % ranks, vec![status.source; length]));
        }
        let mut sum = [u64::from(rank)];
        own.all_reduce(&mut sum, |one, other| one + other).unwrap();
        assert_eq!(sum, [u64::from(ranks * (ranks - 1) / 2)]);
        return;
    }
    for child in start("ranks_of_several_processes_exchange_messages", 4) {
        child.wait().expect_success();
    }
}

#[test]
fn a_killed_rank_is_an_error_for_all_that_wait() {
    if let Some(own) = own() {
        own.barrier().unwrap();
        let why = match own.rank() {
            0 => {
                println!("ready");
                loop {
                    std::thread::park();
                }
            }
            1 => own.receive_vec::<u8>(0, 0).unwrap_err(),
            2 => own.receive_vec::<u8>(Source::Any, Tag::Any).unwrap_err(),
            3 => own.barrier().unwrap_err(),
            // The ring of a rank that does not receive is full in the end.
            4 => std::iter::repeat_with(|| own.send(0, 0, &[0_u64; 1000])).find_map(Result::err).unwrap(),
            _ => own.receive_vec::<u8>(1, 0).unwrap_err(),
        };
        assert!(matches!(why, MessageError::Lost { rank: 0 }), "{why}");
        // Nothing else tells the others: they must not take this rank for one that has left first.
        std::process::exit(0);
    }
    let mut children = start("a_killed_rank_is_an_error_for_all_that_wait", 6);
    while children[0].read_line() != "ready" {}
    // Some of them sleep by now, and some may not have begun to wait.
    std::thread::sleep(Duration::from_millis(20));
    children[0].send(9);
    let mut children = children.into_iter();
    children.next().unwrap().wait().expect_signal(9);
    children.for_each(|child| drop(child.wait().expect_success()));
}

#[test]
fn ranks_that_start_themselves_meet_by_a_name_that_is_gone_then() {
    let name = || format!("test-{}", std::env::var("NAME_OF_TEST").unwrap());
    let path = || format!("/dev/shm/rowlock-messages-{}-{}", rustix::process::geteuid().as_raw(), name());
    let number = |variable| std::env::var(variable).map(|text: String| text.parse().unwrap());
    if let (Ok(rank), Ok(ranks)) = (number(RANK), number(RANKS)) {
        let own = Communicator::named(&name(), rank, ranks, Waiting::ADAPTIVE).unwrap();
        own.barrier().unwrap();
        assert!(!std::path::Path::new(&path()).exists());
        own.barrier().unwrap();
        // The name can be used again, by another job of the same processes.
        let again = Communicator::named(&name(), rank, ranks, Waiting::ADAPTIVE).unwrap();
        assert_eq!(again.all_gather(&[rank]).unwrap(), (0..ranks).collect::<Vec<_>>());
        return;
    }
    let own = std::process::id().to_string();
    let start = |rank: u32| {
        Child::start(
            rank_of("ranks_that_start_themselves_meet_by_a_name_that_is_gone_then", rank, 3).env("NAME_OF_TEST", &own),
        )
    };
    let children: Vec<Child> = (0..3).map(start).collect();
    children.into_iter().for_each(|child| drop(child.wait().expect_success()));
}

#[test]
fn memory_that_does_not_fit_is_refused() {
    let memory = create(2).unwrap();
    let join = |rank, ranks| Communicator::join(memory.path(), rank, ranks, Waiting::ADAPTIVE);
    assert!(matches!(join(0, 3), Err(JoinError::OtherRanks { found: 2, expected: 3 })));
    assert!(matches!(join(2, 2), Err(JoinError::NoSuchRank { rank: 2, ranks: 2 })));
    let _own = join(0, 2).unwrap();
    assert!(matches!(join(0, 2), Err(JoinError::Taken { rank: 0 })));
    assert!(matches!(create(0), Err(JoinError::Ranks { ranks: 0 })));
    assert!(matches!(create(5000), Err(JoinError::Ranks { ranks: 5000 })));
    for bytes in [0, 100, 4096] {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(bytes).unwrap();
        let foreign = Communicator::join(file.path(), 0, 2, Waiting::ADAPTIVE);
        assert!(matches!(foreign, Err(JoinError::Foreign(_))), "{foreign:?}");
    }
    for name in ["", "a/b", "a b", &"a".repeat(101)] {
        assert!(matches!(Communicator::named(name, 0, 1, Waiting::ADAPTIVE), Err(JoinError::Foreign(_))));
    }
    let why = Communicator::world(Waiting::ADAPTIVE).unwrap_err().to_string();
    assert_eq!(
        why,
        "ROWLOCK_RANK is not set: start the ranks by `rowlock prun -n N -- PROGRAM`, or join them by a name"
    );
}
