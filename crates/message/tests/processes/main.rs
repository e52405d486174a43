//! Ranks that are processes: this program, started again as a rank of a job.
#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot continue has failed")]

mod forked;
mod killed;
mod memory;
mod named;
mod rank;
mod stopped;
#[path = "../message/switcher.rs"]
mod switcher;
#[path = "../message/traffic.rs"]
mod traffic;

use std::os::unix::fs::FileExt;

use libtest_mimic::{Arguments, Failed, Trial};
use rowlock_message::environment;

fn main() {
    if let Some(part) = rank::part() {
        return rank::run(&part);
    }
    let messages = vec![
        trial("messages_of_processes_arrive", messages),
        trial("a_rank_spins_if_the_job_has_a_cpu_for_each_whatever_it_is_bound_to", bound),
        trial("messages_arrive_where_no_process_may_read_the_memory_of_another", unreadable),
    ];
    let trials = [messages, forked::trials(), killed::trials(), memory::trials(), named::trials(), stopped::trials()];
    libtest_mimic::run(&Arguments::from_args(), trials.into_iter().flatten().collect()).exit();
}

fn trial(name: &str, test: impl FnOnce() + Send + 'static) -> Trial {
    Trial::test(name, move || {
        test();
        Ok::<(), Failed>(())
    })
}

/// By a rule, from a seed, so many messages.
const EXCHANGE: &str = "exchange adaptive 1 2000";

fn messages() {
    let (_memory, ranks) = rank::start(traffic::RANKS, |_| EXCHANGE.to_owned());
    ranks.into_iter().for_each(rank::Rank::expect_success);
}

fn bound() {
    for (cpus, spins) in [("1", "false"), ("2", "true")] {
        let file = rowlock_message::memory::create(2).unwrap();
        let variables = [(environment::CPUS, cpus.to_owned())];
        let (_memory, mut ranks) = rank::start_in(file, 2, &variables, |_| "bound".to_owned());
        assert_eq!(ranks[1].read_line(), spins, "{cpus} CPUs");
        ranks.into_iter().for_each(rank::Rank::expect_success);
    }
}

fn unreadable() {
    let file = rowlock_message::memory::create(traffic::RANKS).unwrap();
    // The ranks take each other for processes of another PID namespace, which they cannot name.
    file.file().write_all_at(&u64::MAX.to_ne_bytes(), 4 * 8).unwrap();
    let (_memory, ranks) = rank::start_in(file, traffic::RANKS, &[], |_| EXCHANGE.to_owned());
    ranks.into_iter().for_each(rank::Rank::expect_success);
}
