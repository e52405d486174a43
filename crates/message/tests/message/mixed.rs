//! Random messages between all ranks: none is lost, doubled, misdelivered or torn.

use wait::Waiting;

use super::run_by;
use super::traffic::{RANKS, exchange};

#[test]
fn no_message_is_lost_doubled_misdelivered_or_torn() {
    for (seed, rule) in (1..).zip(["adaptive", "always-block", "2cs+"]) {
        run_by(RANKS, Waiting::by(rule.parse().unwrap()), |world| exchange(&world, seed, 3_000));
    }
}

/// `cargo test --release -p rowlock-message --test message -- --ignored`.
#[test]
#[ignore = "takes seconds in a release build, and longer in others"]
fn a_million_messages_arrive() {
    run_by(RANKS, Waiting::default(), |world| exchange(&world, 7, 125_000));
}
