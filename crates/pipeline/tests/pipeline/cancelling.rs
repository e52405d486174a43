//! Cancellation: it is prompt, is reported as the cause, and affects only the intended runs.

use std::sync::Barrier;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use rowlock_pipeline::{Canceller, Cause, Error, Flow, Pipeline, RunReport};

fn is_cancelled(outcome: &Result<RunReport, Error>) -> bool {
    matches!(outcome, Err(Error::Failed(failure)) if matches!(failure.cause, Cause::Cancelled))
}

fn endless(canceller: &Canceller) -> Result<RunReport, Error> {
    Pipeline::new("endless").io("read", |_, _| Ok(Flow::Convey)).run_until(canceller)
}

#[test]
fn a_run_that_starts_cancelled_reports_it_even_after_many_others() {
    let canceller = Canceller::new();
    let outcome = Pipeline::new("first")
        .io("read", |_, _| {
            canceller.cancel();
            Ok(Flow::Convey)
        })
        .run_until(&canceller);
    assert!(is_cancelled(&outcome), "{outcome:?}");
    for _ in 0..2 {
        let outcome = endless(&canceller);
        assert!(is_cancelled(&outcome), "{outcome:?}");
    }
}

#[test]
fn a_canceller_survives_a_failed_run() {
    let canceller = Canceller::new();
    let failing = Pipeline::new("failing").io("read", |_, _| Err("no more".into())).run_until(&canceller);
    assert!(failing.is_err());
    let mut calls = 0;
    let next = Pipeline::new("next")
        .rounds(5)
        .io("read", |_, _| {
            calls += 1;
            Ok(Flow::Convey)
        })
        .run_until(&canceller);
    assert!(next.is_ok(), "{next:?}");
    assert_eq!(calls, 5);
}

#[test]
fn a_canceller_ends_all_its_runs_but_a_failure_ends_only_one() {
    let (canceller, both, failed) = (Canceller::new(), Barrier::new(2), Barrier::new(2));
    let (failing, other) = std::thread::scope(|scope| {
        let failing = scope.spawn(|| {
            let outcome = Pipeline::new("failing")
                .io("read", |_, _| {
                    both.wait();
                    Err("no more".into())
                })
                .run_until(&canceller);
            failed.wait();
            outcome
        });
        let other = Pipeline::new("other")
            .io("write", |round, _| {
                if round.number == 0 {
                    both.wait();
                    failed.wait();
                    assert!(!round.is_ending());
                    canceller.cancel();
                }
                Ok(Flow::Convey)
            })
            .run_until(&canceller);
        (failing.join().unwrap(), other)
    });
    assert!(failing.unwrap_err().to_string().contains("no more"));
    assert!(is_cancelled(&other), "{other:?}");
}

#[test]
fn after_a_cancellation_no_stage_gets_another_buffer() {
    // Short calls are batched, and fused stages run in sequence.
    for structure in ["", "fuse=generate+sort", "threads=each", "threads=each fuse=generate+sort"] {
        let (canceller, late) = (Canceller::new(), AtomicU64::new(0));
        let outcome = Pipeline::new("soon")
            .buffers(64, 0)
            .structured(&structure.parse().unwrap())
            .compute("generate", |round, _| {
                late.fetch_add(u64::from(round.is_ending()), SeqCst);
                if round.number == 5000 {
                    canceller.cancel();
                }
                Ok(Flow::Convey)
            })
            .compute("sort", |round, _| {
                // Another thread may be between its check and its call.
                late.fetch_add(u64::from(round.is_ending() && structure.contains('+')), SeqCst);
                Ok(Flow::Convey)
            })
            .run_until(&canceller);
        assert!(is_cancelled(&outcome), "{outcome:?}");
        assert_eq!(late.into_inner(), 0, "{structure}");
    }
}
