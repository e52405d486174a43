//! In every structure, all buffers pass all stages, in order unless the structure gives it up, and
//! there are never more buffers than configured.

use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use proptest::prelude::*;
use rowlock_pipeline::structure::{Fork, StageTurn, Threads};
use rowlock_pipeline::{Cause, Error, Flow, Pipeline, Program, RunReport, StageKind, Structure};

/// A random pipeline: the kind of each stage, and whether it can be forked.
#[derive(Clone, Debug)]
struct Drawn {
    stages: Vec<(StageKind, bool)>,
    rounds: u64,
    structure: Structure,
}

fn name(index: usize) -> String {
    format!("stage{index}")
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let kind = prop_oneof![
        Just(StageKind::Io),
        Just(StageKind::Compute),
        Just(StageKind::Compute),
        Just(StageKind::Communicate)
    ];
    let stages = prop::collection::vec((kind, any::<bool>()), 1..6);
    (stages, 0_u64..60, 1_usize..6, 1_usize..4, any::<bool>()).prop_flat_map(
        |(stages, rounds, buffers, workers, each)| {
            let count = stages.len();
            let forks = prop::collection::vec((1_usize..4, any::<bool>(), any::<bool>()), count);
            // Where the stages are cut into groups, and how each group runs: separately, fused, or
            // on one thread with this many buffers a turn.
            let groups = prop::collection::vec((any::<bool>(), 0..3_u8, 1_usize..4), count);
            (Just(stages), forks, groups).prop_map(move |(stages, forks, groups)| {
                let mut structure = Structure {
                    buffers: Some(buffers),
                    workers: Some(workers),
                    threads: each.then_some(Threads::Each),
                    ..Structure::default()
                };
                for (index, &(copies, ordered, is_said)) in forks.iter().enumerate() {
                    if is_said {
                        structure.fork.push(Fork { stage: name(index), copies, ordered });
                    }
                }
                let mut from = 0;
                for (index, &(ends, what, repeat)) in groups.iter().enumerate() {
                    if !ends && index + 1 < count {
                        continue;
                    }
                    let names: Vec<String> = (from..=index).map(name).collect();
                    match what {
                        1 if names.len() > 1 => structure.fuse.push(names),
                        2 => {
                            structure.thread.push(names.into_iter().map(|stage| StageTurn { stage, repeat }).collect());
                        }
                        _ => {}
                    }
                    from = index + 1;
                }
                Drawn { stages, rounds, structure }
            })
        },
    )
}

fn check(drawn: &Drawn) -> Result<(), TestCaseError> {
    let Drawn { stages, rounds, structure } = drawn;
    let (in_flight, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let arrived = Mutex::new(Vec::new());
    let mut pipeline = Pipeline::<(u64, usize)>::tagged("drawn").buffers(4, 8).rounds(*rounds).structured(structure);
    for (index, &(kind, can_fork)) in stages.iter().enumerate() {
        let is_last = index + 1 == stages.len();
        let (in_flight, most, arrived) = (&in_flight, &most, &arrived);
        let stage = move |round: &mut rowlock_pipeline::Round<'_, _>, buffer: &mut rowlock_pipeline::Buffer<_>| {
            if index == 0 {
                most.fetch_max(in_flight.fetch_add(1, SeqCst) + 1, SeqCst);
                buffer.tag = (round.number, 0);
            }
            assert_eq!(buffer.tag, (round.number, index), "the stages in order");
            if (round.number as usize + index) % 5 == 3 {
                // Lets other copies overtake this one.
                std::thread::sleep(Duration::from_micros(20));
            }
            buffer.tag.1 += 1;
            if is_last {
                in_flight.fetch_sub(1, SeqCst);
                arrived.lock().unwrap().push((round.number, round.is_last));
            }
            Ok(Flow::Convey)
        };
        pipeline = match can_fork {
            true => pipeline.forkable(&name(index), kind, stage),
            false => match kind {
                StageKind::Io => pipeline.io(&name(index), stage),
                StageKind::Compute => pipeline.compute(&name(index), stage),
                StageKind::Communicate => pipeline.communicate(&name(index), stage),
            },
        };
    }
    let report = match pipeline.run() {
        Ok(report) => report,
        // Invalid structures are refused. Only stages that take turns can deadlock.
        Err(Error::Structure(_)) => return Ok(()),
        Err(Error::Failed(failure)) if matches!(failure.cause, Cause::Stuck(_)) => {
            prop_assert!(structure.thread.iter().any(|turns| turns.len() > 1), "{failure}");
            prop_assert_eq!(failure.report.pipelines[0].buffers_back, failure.report.pipelines[0].buffers);
            return Ok(());
        }
        Err(error) => return Err(TestCaseError::fail(format!("{error}"))),
    };
    let mut arrived = arrived.into_inner().unwrap();
    prop_assert_eq!(in_flight.into_inner(), 0);
    prop_assert!(most.into_inner() <= report.pipelines[0].buffers);
    prop_assert_eq!(report.pipelines[0].buffers_back, report.pipelines[0].buffers);
    prop_assert_eq!(report.pipelines[0].rounds, *rounds);
    prop_assert_eq!(arrived.len() as u64, *rounds);
    let last = arrived.last().map(|&(_, is_last)| is_last);
    // The last stage may run in copies, which overtake each other while they record their buffers.
    let is_forked = report.stages.last().is_some_and(|stage| stage.copies > 1);
    prop_assert!(is_forked || last != Some(false));
    if report.stages.iter().any(|stage| stage.copies > 1 && !stage.is_ordered) || is_forked {
        arrived.sort_unstable();
    }
    let numbers: Vec<u64> = arrived.iter().map(|&(number, _)| number).collect();
    prop_assert_eq!(numbers, (0..*rounds).collect::<Vec<_>>());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn all_buffers_pass_all_stages_in_order_and_never_more_than_there_are(drawn in drawn()) {
        check(&drawn)?;
    }
}

fn read_copy_write(structure: &str, buffers: usize) -> Result<rowlock_pipeline::RunReport, Error> {
    let structure: Structure = structure.parse().unwrap();
    let stage = |_: &mut rowlock_pipeline::Round<'_>, _: &mut rowlock_pipeline::Buffer| Ok(Flow::Convey);
    let pipeline = Pipeline::new("copy").buffers(buffers, 8).rounds(20).structured(&structure);
    pipeline
        .io("read", stage)
        .compute("copy", stage)
        .forkable("pack", StageKind::Compute, stage)
        .io("write", stage)
        .run()
}

#[test]
fn stages_that_take_turns_get_the_requested_number_of_buffers() {
    let order = Mutex::new(Vec::new());
    let structure: Structure = "thread=read*2,write*2".parse().unwrap();
    let stage = |what: &'static str| {
        let order = &order;
        move |_: &mut rowlock_pipeline::Round<'_>, _: &mut rowlock_pipeline::Buffer| {
            order.lock().unwrap().push(what);
            Ok(Flow::Convey)
        }
    };
    let pipeline = Pipeline::new("turns").buffers(2, 8).rounds(6).structured(&structure);
    pipeline.io("read", stage("r")).compute("pass", |_, _| Ok(Flow::Convey)).io("write", stage("w")).run().unwrap();
    assert_eq!(order.into_inner().unwrap().concat(), "rrwwrrwwrrww");
}

#[test]
fn deadlocked_stages_are_named() {
    let error = read_copy_write("thread=read*4,write*4 thread=copy*3,pack*3", 4).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with(
            "stuck: stage 'copy' waits for a buffer from 'read'; stage 'write' waits for a buffer from 'pack'"
        ),
        "{text}"
    );
    assert!(text.contains("give it more buffers"), "{text}");
}

#[test]
fn invalid_structures_are_refused_before_any_stage_starts() {
    let says = |structure: &str, text: &str| {
        let error = read_copy_write(structure, 4).unwrap_err().to_string();
        assert!(error.contains(text), "{structure}: {error}");
    };
    says("fork=copy*2", "stage 'copy' cannot run in 2 copies ('copy' was not added as forkable)");
    says("fuse=copy+pack fork=pack*2", "'copy' was not added as forkable");
    says("thread=read*5", "stage 'read' cannot have 5 buffers at a time (there are 4)");
    says("thread=write,read", "stage 'read' comes too late on its thread");
    says("fuse=read+pack", "'read' and 'pack' cannot be fused (only neighbours can");
    says("fork=kopy*2", "did you mean `copy`");
    says("thread=copy,pack fork=pack*2", "'copy', 'pack' cannot share a thread (one of them runs in copies)");
}

/// Two pipelines, whose stages `a`, `b` and `x` share a thread.
fn two_pipelines(structure: &str) -> Result<RunReport, Error> {
    let pipeline = |name: &str| Pipeline::new(name).buffers(1, 0).rounds(1);
    let first = pipeline("first").io("a", |_, _| Ok(Flow::Convey)).io("b", |_, _| Ok(Flow::Convey));
    let other = pipeline("other").io("x", |_, _| Ok(Flow::Convey)).structured(&structure.parse().unwrap());
    Program::new("two").pipeline(first).pipeline(other).run()
}

#[test]
fn a_turn_after_that_of_another_pipeline_may_come_too_late() {
    two_pipelines("thread=a,x,b").unwrap();
    let error = two_pipelines("thread=b,x,a").unwrap_err().to_string();
    assert!(error.contains("stage 'a' comes too late on its thread"), "{error}");
}

#[test]
fn the_first_request_for_an_attribute_of_a_thread_wins() {
    let report = two_pipelines("thread=a,x,b nice=x:18 nice=b:17 policy=b:batch").unwrap();
    let requested: Vec<_> = report.stages[0].effective_attributes.iter().map(|it| it.requested.as_str()).collect();
    assert_eq!(requested, ["policy=batch", "nice=18"]);
}

#[test]
fn a_later_request_replaces_an_earlier_one_in_the_structure() {
    let [first, second] = ["nice=18 policy=batch", "nice=17"].map(|text| text.parse().unwrap());
    let pipeline = Pipeline::<()>::new("one").rounds(1).io("a", |_, _| Ok(Flow::Convey));
    let report = pipeline.scheduled(&first).scheduled(&second).run().unwrap();
    assert_eq!(report.structure, "policy=a:batch nice=a:17");
    report.structure.parse::<Structure>().unwrap();
}

#[test]
fn a_stage_that_is_placed_twice_is_placed_once() {
    let stage = |pipeline: Pipeline<'static>, name: &str| pipeline.io(name, |_, _| Ok(Flow::Convey));
    let two = || stage(stage(Pipeline::new("one").rounds(1), "a"), "b");
    for (pipeline, structure) in [(two().own_thread().own_thread(), "thread=b"), (two().fused().fused(), "fuse=a+b")] {
        let report = pipeline.run().unwrap();
        assert_eq!(report.structure, structure);
        report.structure.parse::<Structure>().unwrap();
    }
}

#[test]
fn a_thousand_pipelines_run_in_one_process_some_of_them_at_once() {
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for index in 0..125 {
                    let structure = ["", "threads=each", "workers=1 fuse=copy+pack"][index % 3];
                    assert_eq!(read_copy_write(structure, 3).unwrap().pipelines[0].buffers_back, 3);
                }
            });
        }
    });
}

#[test]
fn a_pipeline_without_rounds_ends_and_one_without_stages_or_buffers_is_refused() {
    let none = || Pipeline::new("none").rounds(0);
    assert_eq!(none().io("read", |_, _| Ok(Flow::Convey)).run().unwrap().stages[0].calls, 0);
    assert_eq!(none().compute("add", |_, _| Ok(Flow::Convey)).run().unwrap().stages[0].calls, 0);
    let error = Pipeline::new("none").run().unwrap_err().to_string();
    assert!(error.contains("pipeline 'none' has no stage"), "{error}");
    let error = Pipeline::new("none").buffers(0, 1).io("read", |_, _| Ok(Flow::Convey)).run().unwrap_err().to_string();
    assert!(error.contains("pipeline 'none' has no buffer"), "{error}");
    let twins = Pipeline::new("twins").io("read", |_, _| Ok(Flow::Convey)).io("read", |_, _| Ok(Flow::Convey));
    assert!(twins.run().unwrap_err().to_string().contains("two stages are called 'read'"));
}

#[test]
fn doubled_stages_repeat_their_work() {
    use rowlock_pipeline::{Buffer, Result, Round, Stage};
    struct Reader<'a>(&'a AtomicUsize);
    impl Stage<()> for Reader<'_> {
        fn process(&mut self, _: &mut Round<'_>, _: &mut Buffer) -> Result<Flow> {
            Ok(Flow::Convey)
        }
        fn again(&mut self, _: &mut Round<'_>, _: &mut Buffer) -> Result<bool> {
            self.0.fetch_add(1, SeqCst);
            Ok(true)
        }
    }
    for (structure, twice) in [("", 0), ("double=io", 5), ("double=compute", 0)] {
        let again = AtomicUsize::new(0);
        let structure: Structure = structure.parse().unwrap();
        Pipeline::new("twice")
            .rounds(5)
            .structured(&structure)
            .stage("read", StageKind::Io, Reader(&again))
            .run()
            .unwrap();
        assert_eq!(again.into_inner(), twice, "{structure}");
    }
}

#[test]
fn a_stage_sees_the_depths_of_its_queues() {
    let seen = Mutex::new(Vec::new());
    // On one thread, so that the order is fixed: four are read, and then four are written.
    let structure: Structure = "thread=read*4,write*4".parse().unwrap();
    Pipeline::new("depths")
        .buffers(4, 8)
        .rounds(4)
        .structured(&structure)
        .io("read", |round, _| {
            seen.lock().unwrap().push(("read", round.left_in_input, round.depth_of_output));
            Ok(Flow::Convey)
        })
        .io("write", |round, _| {
            seen.lock().unwrap().push(("write", round.left_in_input, round.depth_of_output));
            Ok(Flow::Convey)
        })
        .run()
        .unwrap();
    let read = [("read", 3, None), ("read", 2, Some(1)), ("read", 1, Some(2)), ("read", 0, Some(3))];
    let write = [("write", 3, None), ("write", 2, Some(1)), ("write", 1, Some(2)), ("write", 0, Some(3))];
    assert_eq!(seen.into_inner().unwrap(), [read, write].concat());
}
