//! Pipelines that join at a junction.

use std::sync::Mutex;

use rowlock_pipeline::{Canceller, Cause, Error, Flow, Pipeline, PortError, Program, RunReport};

/// Merges two streams of this many buffers by their tags. Returns the tags that the writer gets.
fn merge(left: u64, right: u64, structure: &str) -> (Result<RunReport, Error>, Vec<u64>) {
    let merged = Mutex::new(Vec::new());
    let outcome = {
        let stream = |name: &'static str, rounds: u64, step: u64| {
            let read = move |round: &mut rowlock_pipeline::Round<'_, u64>,
                             buffer: &mut rowlock_pipeline::Buffer<u64>| {
                buffer.tag = round.number * step;
                Ok(Flow::Convey)
            };
            let pipeline =
                Pipeline::<u64>::tagged(name).buffers(2, 0).rounds(rounds).structured(&structure.parse().unwrap());
            pipeline.io(&format!("read {name}").replace(' ', "-"), read).join_at("merge")
        };
        let write = |round: &mut rowlock_pipeline::Round<'_, u64>, buffer: &mut rowlock_pipeline::Buffer<u64>| {
            merged.lock().unwrap().extend((!round.is_last).then_some(buffer.tag));
            Ok(Flow::Convey)
        };
        Program::new("merge")
            .pipeline(stream("left", left, 2))
            .pipeline(stream("right", right, 3))
            .pipeline(
                Pipeline::tagged("out")
                    .buffers(3, 0)
                    .join_at("merge")
                    .compute("pass", |_, _| Ok(Flow::Convey))
                    .io("write", write),
            )
            .junction("merge", |ports| {
                let mut heads = [ports.accept("left")?, ports.accept("right")?];
                let names = ["left", "right"];
                loop {
                    let mut best: Option<(u64, usize)> = None;
                    for which in 0..2 {
                        if heads[which].is_some() {
                            let tag = ports.buffer(names[which])?.tag;
                            best = best.into_iter().chain([(tag, which)]).min();
                        }
                    }
                    let Some((_, which)) = best else { return Ok(()) };
                    ports.accept("out")?;
                    let [from, to] = ports.buffers([names[which], "out"])?;
                    to.tag = from.tag;
                    ports.convey("out", Flow::Convey)?;
                    ports.convey(names[which], Flow::Convey)?;
                    heads[which] = ports.accept(names[which])?;
                }
            })
            .run()
    };
    (outcome, merged.into_inner().unwrap())
}

#[test]
fn two_streams_are_merged_in_any_structure() {
    for structure in ["", "threads=each", "workers=1", "buffers=1"] {
        for (left, right) in [(0, 0), (0, 5), (7, 0), (20, 30), (1, 1)] {
            let (outcome, merged) = merge(left, right, structure);
            let report = outcome.unwrap();
            let mut expected: Vec<u64> = (0..left).map(|at| at * 2).chain((0..right).map(|at| at * 3)).collect();
            expected.sort_unstable();
            assert_eq!(merged, expected, "{structure}");
            assert!(report.pipelines.iter().all(|pipeline| pipeline.buffers_back == pipeline.buffers), "{report:?}");
        }
    }
}

/// A program in which one pipeline ends at a junction and another begins there.
fn through(
    junction: impl FnOnce(&mut rowlock_pipeline::Ports<'_, '_, u64>) -> rowlock_pipeline::Result<()> + Send,
    canceller: &Canceller,
) -> Result<RunReport, Error> {
    let source = Pipeline::<u64>::tagged("in").buffers(2, 0).io("read", |_, _| Ok(Flow::Convey)).join_at("joint");
    let sink = Pipeline::<u64>::tagged("out").buffers(2, 0).join_at("joint").io("write", |_, _| Ok(Flow::Convey));
    Program::new("through").pipeline(source).pipeline(sink).junction("joint", junction).run_until(canceller)
}

fn cause_of(outcome: Result<RunReport, Error>) -> (Option<String>, Cause) {
    match outcome {
        Err(Error::Failed(failure)) => {
            let lost = failure.report.pipelines.iter().find(|pipeline| pipeline.buffers_back != pipeline.buffers);
            assert!(lost.is_none(), "{lost:?}");
            (failure.stage, failure.cause)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_junction_that_fails_panics_or_is_cancelled_ends_all_pipelines_and_loses_no_buffer() {
    let (stage, cause) = cause_of(through(
        |ports| {
            ports.accept("in")?;
            ports.accept("out")?;
            Err("no merge today".into())
        },
        &Canceller::new(),
    ));
    assert_eq!((stage.as_deref(), cause.to_string().as_str()), (Some("joint"), "no merge today"));

    let (stage, cause) = cause_of(through(
        |ports| {
            ports.accept("in")?;
            std::panic::resume_unwind(Box::new("alas"));
        },
        &Canceller::new(),
    ));
    assert_eq!((stage.as_deref(), cause.to_string().as_str()), (Some("joint"), "panicked: alas"));

    let canceller = Canceller::new();
    let (stage, cause) = cause_of(through(
        |ports| {
            loop {
                canceller.cancel();
                ports.accept("in")?;
                ports.convey("in", Flow::Convey)?;
            }
        },
        &canceller,
    ));
    assert!(stage.is_none() && matches!(cause, Cause::Cancelled), "{cause}");
}

#[test]
fn a_junction_that_returns_early_ends_its_pipelines_there() {
    let report = through(
        |ports| {
            for _ in 0..3 {
                ports.accept("in")?;
                ports.accept("out")?;
                ports.convey("in", Flow::Convey)?;
                ports.convey("out", Flow::Convey)?;
            }
            Ok(())
        },
        &Canceller::new(),
    );
    let report = report.unwrap();
    // Three buffers and the last one, which is empty.
    assert_eq!(report.pipelines[1].rounds, 4);
    assert!(report.pipelines.iter().all(|pipeline| pipeline.buffers_back == 2));
}

#[test]
fn a_junction_that_ends_a_stream_conveys_an_empty_buffer() {
    let written = Mutex::new(Vec::new());
    let source = Pipeline::new("in").buffers(1, 8).rounds(1).io("read", |_, _| Ok(Flow::Convey)).join_at("joint");
    let sink = Pipeline::new("out").buffers(2, 8).join_at("joint").io("write", |_, buffer| {
        written.lock().unwrap().push(buffer.filled().to_vec());
        Ok(Flow::Convey)
    });
    let joint = |ports: &mut rowlock_pipeline::Ports<'_, '_, ()>| {
        for (bytes, flow) in [(b"first", Flow::Convey), (b"never", Flow::End)] {
            ports.accept("out")?;
            ports.buffer("out")?.fill_from(&mut bytes.as_slice())?;
            ports.convey("out", flow)?;
        }
        assert_eq!(ports.accept("out"), Ok(None));
        Ok(())
    };
    Program::new("end").pipeline(source).pipeline(sink).junction("joint", joint).run().unwrap();
    assert_eq!(written.into_inner().unwrap(), [&b"first"[..], b""]);
}

#[test]
fn ports_report_misuse() {
    through(
        |ports| {
            assert_eq!(ports.accept("inn"), Err(PortError::Unknown("inn".to_owned())));
            assert_eq!(ports.convey("in", Flow::Convey), Err(PortError::NotHeld("in".to_owned())));
            ports.accept("in")?;
            assert_eq!(ports.accept("in"), Err(PortError::Held("in".to_owned())));
            assert_eq!(ports.buffers(["in", "out"]).unwrap_err(), PortError::NotHeld("out".to_owned()));
            assert_eq!(ports.buffers(["in", "in"]).unwrap_err(), PortError::NotHeld("in".to_owned()));
            Ok(())
        },
        &Canceller::new(),
    )
    .unwrap();
}

#[test]
fn pipelines_without_their_junction_and_junctions_without_pipelines_are_refused() {
    let alone = Pipeline::new("in").io("read", |_, _| Ok(Flow::Convey)).join_at("joint");
    let error = alone.run().unwrap_err().to_string();
    assert!(error.contains("pipeline 'in' joins at 'joint', but there is no such junction"), "{error}");
    let unused = Program::new("unused")
        .pipeline(Pipeline::new("in").io("read", |_, _| Ok(Flow::Last)))
        .junction("joint", |_| Ok(()));
    let error = unused.run().unwrap_err().to_string();
    assert!(error.contains("no pipeline joins at 'joint'"), "{error}");
}

#[test]
fn deadlocked_junctions_are_named() {
    // Each begins one pipeline, and first waits for a buffer of the other's pipeline.
    let there = Pipeline::<u64>::tagged("there").join_at("one").join_at("other");
    let back = Pipeline::<u64>::tagged("back").join_at("other").join_at("one");
    let waits = |pipeline: &'static str| {
        move |ports: &mut rowlock_pipeline::Ports<'_, '_, u64>| {
            ports.accept(pipeline)?;
            Ok(())
        }
    };
    let program = Program::new("circle").pipeline(there).pipeline(back);
    let (stage, cause) = cause_of(program.junction("one", waits("back")).junction("other", waits("there")).run());
    assert_eq!(stage, None);
    assert!(
        cause.to_string().starts_with(
            "stuck: stage 'other' waits for a buffer from 'one'; stage 'one' waits for a buffer from 'other'"
        ),
        "{cause}"
    );
}

#[test]
fn the_busy_time_of_a_junction_excludes_its_waits() {
    let worked = std::sync::atomic::AtomicU64::new(0);
    let mut report = Program::<()>::new("busy")
        .pipeline(Pipeline::new("in").buffers(2, 0).rounds(10).io("read", |_, _| Ok(Flow::Convey)).join_at("joint"))
        .pipeline(Pipeline::new("out").buffers(2, 0).join_at("joint").io("write", |_, _| Ok(Flow::Convey)))
        .junction("joint", |ports| {
            while ports.accept("in")?.is_some() {
                ports.accept("out")?;
                let since = std::time::Instant::now();
                while since.elapsed() < std::time::Duration::from_millis(2) {}
                worked.fetch_add(since.elapsed().as_nanos() as u64, std::sync::atomic::Ordering::Relaxed);
                ports.convey("out", Flow::Convey)?;
                ports.convey("in", Flow::Convey)?;
            }
            Ok(())
        })
        .run()
        .unwrap();
    let junction: Vec<_> = report.stages.iter().filter(|stage| stage.name == "joint").collect();
    let busy: u64 = junction.iter().map(|stage| stage.busy_ns).sum();
    let waited: u64 = junction.iter().map(|stage| stage.starved_ns + stage.blocked_ns).sum();
    // The times are from one clock and about the same calls, so one contains the other.
    assert!(busy >= worked.into_inner() && busy + waited <= report.clock_ns, "{report:?}");
    // Delays of the other stages, which have no work, must not count.
    report.stages.iter_mut().filter(|stage| stage.name != "joint").for_each(|stage| stage.busy_ns = 0);
    let text = report.verdict().to_string();
    assert!(text.contains("at least") && text.contains("by stage 'joint' ("), "{text}");
}
