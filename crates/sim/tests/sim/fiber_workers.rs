//! Fibers on several workers, which exchange them.

use policy::Span;
use policy::feedback::FeedbackRules;
use scenario::Fibers;
use scenario::fibers::FiberGroup;

use crate::fibers::{exactly, fibers, free, group, outcome, us};

#[test]
fn a_second_worker_steals_fibers_that_have_not_started() {
    let two = Fibers { workers: 2, ..fibers(vec![group("all", 2, 30)]) };
    assert_eq!(outcome(&free(2), two.clone()).0.completion_ns, Some(us(30)));
    assert_eq!(outcome(&free(1), two).0.completion_ns, Some(us(60)));
}

/// On the first worker a fiber computes for `other` microseconds. On the second one all others
/// start, compute, and wait until the last one has computed there.
fn waiting_on_the_second_worker(other: u64, many: u32, compute: u64, last: u64) -> Fibers {
    let think = Some(exactly(compute * u64::from(many)));
    let all = FiberGroup { bursts: 2, think, ..group("all", many, compute) };
    Fibers { workers: 2, ..fibers(vec![group("other", 1, other), all, group("last", 1, last)]) }
}

#[test]
fn a_worker_gives_ready_fibers_to_one_that_sleeps_and_keeps_the_next() {
    let completion = |of| outcome(&free(2), of).0.completion_ns;
    // a computes again from 51 to 61, and b until 71.
    assert_eq!(completion(waiting_on_the_second_worker(55, 2, 10, 31)), Some(us(71)));
    // When a has computed again, from 61 to 71, the second worker keeps c. The first one gets b.
    assert_eq!(completion(waiting_on_the_second_worker(65, 3, 10, 31)), Some(us(81)));
}

#[test]
fn a_preemptible_fiber_lets_its_worker_give_others_away_at_once() {
    let of = waiting_on_the_second_worker(55, 2, 10, 31);
    let rules = FeedbackRules { running_time: us(100), ..of.rules };
    let completion = outcome(&free(2), Fibers { rules, preemptible: true, ..of }).0.completion_ns;
    // a computes again from 51 to 61, and b from 55 on, when the first worker has nothing to do.
    assert_eq!(completion, Some(us(65)));
}

#[test]
fn forty_fibers_that_have_waited_on_one_worker_compute_on_both() {
    let millis = Span::from_millis;
    for preemptible in [true, false] {
        let of = waiting_on_the_second_worker(1_612_000, 40, 20_000, 810_000);
        let rules = FeedbackRules { running_time: millis(10_000), ..of.rules };
        let completion = outcome(&free(2), Fibers { rules, preemptible, ..of }).0.completion_ns.unwrap();
        // At 1610 ms all are ready, on one worker. Each computes for 20 ms, and together for 400.
        assert!((millis(2_010)..=millis(2_030)).contains(&completion), "{completion:?}");
    }
}
