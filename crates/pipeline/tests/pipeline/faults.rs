//! Runs end even if a program's types panic when they are created or dropped, and if threads cannot
//! be started.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::Command;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::SeqCst;

use rowlock_pipeline::{Buffer, Cause, Error, Flow, Pipeline, Program, Result, Round, Stage, StageKind};

/// A tag that panics when it is dropped after it was armed.
#[derive(Default)]
struct Fragile {
    is_armed: bool,
}

impl Drop for Fragile {
    fn drop(&mut self) {
        if self.is_armed {
            resume_unwind(Box::new("alas"));
        }
    }
}

#[test]
fn a_panic_while_an_auxiliary_buffer_is_dropped_fails_the_run() {
    for structure in ["", "threads=each"] {
        let outcome = Pipeline::<Fragile>::tagged("fragile")
            .buffers(2, 0)
            .rounds(3)
            .structured(&structure.parse().unwrap())
            .compute("sort", |round, _| {
                round.auxiliary[0].tag.is_armed = true;
                Ok(Flow::Convey)
            })
            .auxiliary(1)
            .io("write", |_, _| Ok(Flow::Convey))
            .run();
        let Err(Error::Failed(failure)) = outcome else { panic!("{outcome:?}") };
        assert_eq!(failure.stage.as_deref(), Some("sort"));
        assert!(matches!(&failure.cause, Cause::Panicked(message) if message == "alas"), "{failure}");
        assert_eq!(failure.report.pipelines[0].buffers_back, 2);
    }
}

/// Counts its instances, and those that have begun.
struct Counted<'a>(&'a AtomicI64);

impl<'a> Counted<'a> {
    fn new(alive: &'a AtomicI64) -> Counted<'a> {
        alive.fetch_add(1, SeqCst);
        Counted(alive)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

impl Stage<()> for Counted<'_> {
    fn init(&mut self) -> Result<()> {
        self.0.fetch_add(1000, SeqCst);
        Ok(())
    }

    fn process(&mut self, _: &mut Round<'_>, _: &mut Buffer) -> Result<Flow> {
        Ok(Flow::Convey)
    }

    fn cleanup(&mut self) -> Result<()> {
        self.0.fetch_sub(1000, SeqCst);
        Ok(())
    }
}

#[test]
fn a_panic_while_stages_are_created_reaches_the_caller_and_leaks_nothing() {
    let alive = AtomicI64::new(0);
    let run = || {
        let mut made = 0;
        let make = || {
            made += 1;
            if made == 3 {
                resume_unwind(Box::new("alas"));
            }
            Counted::new(&alive)
        };
        Pipeline::new("made").rounds(3).forkable_stage("sort", StageKind::Compute, make).fork(4).run()
    };
    let panic = catch_unwind(AssertUnwindSafe(run)).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"alas"));
    assert_eq!(alive.into_inner(), 0);
}

#[test]
fn a_junction_that_wrongly_returns_ending_has_failed() {
    let outcome = Program::<()>::new("liar")
        .pipeline(Pipeline::new("in").rounds(3).io("read", |_, _| Ok(Flow::Convey)).join_at("joint"))
        .junction("joint", |_| Err(rowlock_pipeline::PortError::Ending.into()))
        .run();
    let Err(Error::Failed(failure)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(failure.stage.as_deref(), Some("joint"));
}

/// The stacks do not fit into the address space of this process: the first threads start, and the
/// others cannot.
#[test]
fn a_thread_that_cannot_be_started_ends_the_run() {
    let large_stacks =
        |mut command: Command| testing::expect_pass(command.env("RUST_MIN_STACK", (1_u64 << 28).to_string()));
    testing::isolated_by(large_stacks, || {
        let alive = AtomicI64::new(0);
        let mut pipeline = Pipeline::new("many").buffers(2, 0);
        for index in 0..8 {
            pipeline = pipeline.stage(&format!("stage{index}"), StageKind::Io, Counted::new(&alive));
        }
        leave_address_space_for_four_large_stacks();
        let outcome = pipeline.run();
        let Err(Error::Failed(failure)) = outcome else { panic!("{outcome:?}") };
        assert!(matches!(failure.cause, Cause::Thread(_)), "{failure}");
        assert!(failure.stage.as_deref().is_some_and(|stage| stage.starts_with("stage")), "{failure}");
        assert_eq!(failure.report.pipelines[0].buffers_back, 2);
        assert_eq!(alive.into_inner(), 0);
    });
}

/// A stack has a quarter of a GiB in these tests.
fn leave_address_space_for_four_large_stacks() {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let used = pages.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 4096;
    let limit = Some(used + (1 << 30));
    let limits = rustix::process::Rlimit { current: limit, maximum: limit };
    rustix::process::setrlimit(rustix::process::Resource::As, limits).unwrap();
}

#[test]
fn copies_without_a_thread_leave_their_work_to_the_others() {
    let large_stacks =
        |mut command: Command| testing::expect_pass(command.env("RUST_MIN_STACK", (1_u64 << 28).to_string()));
    testing::isolated_by(large_stacks, || {
        let alive = AtomicI64::new(0);
        let pipeline = Pipeline::new("many").buffers(12, 0).rounds(100);
        let pipeline = pipeline.forkable_stage("read", StageKind::Io, || Counted::new(&alive)).fork(8);
        leave_address_space_for_four_large_stacks();
        let report = pipeline.run().unwrap();
        assert_eq!((report.stages[0].calls, report.pipelines[0].buffers_back), (100, 12));
        assert_eq!(alive.into_inner(), 0);
    });
}
