//! Random messages between all ranks: none is lost, doubled, misdelivered or torn.

use wait::Waiting;

use super::run_by;
use super::traffic::{RANKS, exchange};

#[test]
fn no_message_is_lost_doubled_misdelivered_or_torn() {
    const RULES: [&str; 3] = ["adaptive", "always-block", "2cs+"];
    // A million messages in all. The thread sanitizer is slow.
    let seeds = if cfg!(rowlock_tsan) { 1 } else { 7 };
    testing::for_each_seed(seeds, |seed| {
        let rule = RULES[seed as usize % RULES.len()].parse().unwrap();
        run_by(RANKS, Waiting::by(rule), |world| exchange(&world, seed, 18_000));
    });
}
