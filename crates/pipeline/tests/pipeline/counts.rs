//! Compares the counters of reports with what the stages observe.

use std::thread::sleep;
use std::time::Duration;

use rowlock_pipeline::{Buffer, Flow, Pipeline, Program, Result, Round, Stage, StageKind};
use sys::scheduling::{Thread, run_delay};

#[test]
fn each_buffer_that_is_taken_is_counted_at_its_depth() {
    for structure in ["", "threads=each", "workers=1", "fork=pack*3", "fuse=sort+pack"] {
        let report = Pipeline::new("counted")
            .buffers(16, 0)
            .rounds(5000)
            .structured(&structure.parse().unwrap())
            .compute("generate", |_, _| Ok(Flow::Convey))
            .compute("sort", |_, _| Ok(Flow::Convey))
            .forkable("pack", StageKind::Compute, |_, _| Ok(Flow::Convey));
        // Fused stages can be forked only if all of them can.
        let report = report.fork(1).run().or_else(|error| match structure.contains("fuse") {
            true => Pipeline::new("fused")
                .rounds(5000)
                .compute("generate", |_, _| Ok(Flow::Convey))
                .compute("sort", |_, _| Ok(Flow::Convey))
                .fused()
                .run(),
            false => Err(error),
        });
        let report = report.unwrap();
        for stage in report.stages.iter().filter(|stage| !stage.is_fused) {
            assert_eq!(stage.calls, 5000, "{structure}: {}", stage.name);
            assert_eq!(stage.depths.iter().sum::<u64>(), 5000, "{structure}: {}", stage.name);
            assert!(stage.depths.len() <= 16, "{structure}: {}", stage.name);
        }
    }
}

#[test]
fn fused_stages_wait_together_and_not_while_one_of_them_works() {
    let work = || {
        let begin = std::time::Instant::now();
        while begin.elapsed() < std::time::Duration::from_micros(100) {}
        Ok(Flow::Convey)
    };
    let report = Pipeline::new("fused")
        .rounds(50)
        .compute("generate", |_, _| work())
        .compute("sort", |_, _| work())
        .fused()
        .run()
        .unwrap();
    let [first, second] = &report.stages[..] else { panic!("{report:?}") };
    assert_eq!((second.starved_ns, second.blocked_ns), (0, 0));
    let all = first.busy_ns + second.busy_ns + first.blocked_ns + first.waiting_for_worker_ns;
    assert!(all <= report.clock_ns, "{report:?}");
}

/// How long a [`Gatherer`] takes before its first buffer, and again after its last.
const SETUP: Duration = Duration::from_millis(20);

/// A stage that works before its first buffer and after its last.
struct Gatherer;

impl Stage<()> for Gatherer {
    fn init(&mut self) -> Result<()> {
        sleep(SETUP);
        Ok(())
    }

    fn process(&mut self, _: &mut Round<'_>, _: &mut Buffer) -> Result<Flow> {
        Ok(Flow::Convey)
    }

    fn cleanup(&mut self) -> Result<()> {
        sleep(SETUP);
        Ok(())
    }
}

#[test]
fn time_in_init_and_cleanup_is_a_part_of_the_run_and_of_the_stage() {
    for structure in ["", "threads=each", "workers=1", "fork=gather*2"] {
        let report = Pipeline::new("gathering")
            .rounds(1)
            .structured(&structure.parse().unwrap())
            .compute("generate", |_, _| Ok(Flow::Convey))
            .forkable_stage("gather", StageKind::Compute, || Gatherer)
            .run()
            .unwrap();
        let all = 2 * SETUP.as_nanos() as u64;
        let gather = report.stage("gather").unwrap();
        assert!(gather.busy_ns >= all && gather.setup_ns >= all, "{structure}: {gather:?}");
        let most = report.clock_ns * gather.copies as u64;
        assert!(report.clock_ns >= all && gather.busy_ns <= most, "{structure}: {report:?}");
        assert_eq!(gather.waiting_for_cpu_ns.is_some(), run_delay(Thread::current()).is_some());
    }
}

#[test]
fn a_request_for_a_junction_is_reported() {
    let report = Program::<()>::new("requested")
        .pipeline(
            Pipeline::new("in")
                .rounds(3)
                .io("read", |_, _| Ok(Flow::Convey))
                .join_at("joint")
                .structured(&"nice=joint:19".parse().unwrap()),
        )
        .junction("joint", |ports| {
            assert_eq!(rustix::process::getpriority_process(Some(rustix::thread::gettid())).unwrap(), 19);
            while ports.accept("in")?.is_some() {
                ports.convey("in", Flow::Convey)?;
            }
            Ok(())
        })
        .run()
        .unwrap();
    let effective = &report.stage("joint").unwrap().effective_attributes;
    assert!(effective.iter().any(|attribute| attribute.requested.starts_with("nice")), "{effective:?}");
}
