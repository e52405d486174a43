//! Ranks that are processes: this program, started again as a rank of a job.
#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot continue has failed")]

mod killed;
mod memory;
mod named;
mod rank;
#[path = "../message/traffic.rs"]
mod traffic;

use libtest_mimic::{Arguments, Failed, Trial};

fn main() {
    if let Some(part) = rank::part() {
        return rank::run(&part);
    }
    let trials =
        [vec![trial("messages_of_processes_arrive", messages)], killed::trials(), memory::trials(), named::trials()];
    libtest_mimic::run(&Arguments::from_args(), trials.into_iter().flatten().collect()).exit();
}

fn trial(name: &str, test: impl FnOnce() + Send + 'static) -> Trial {
    Trial::test(name, move || {
        test();
        Ok::<(), Failed>(())
    })
}

fn messages() {
    let (_memory, ranks) = rank::start(traffic::RANKS, |_| "exchange".to_owned());
    ranks.into_iter().for_each(rank::Rank::expect_success);
}
