//! Whose turn it is: on threads of several stages, in streams of nothing, and where a worker is needed after all.

use std::sync::Mutex;

use rowlock_pipeline::{Flow, Pipeline, PortError, Ports, Program, Result, StageKind};

#[test]
fn a_stream_of_no_rounds_ends_whatever_its_first_stage_is() {
    for structure in ["", "workers=1", "threads=each", "fork=pack*3:unordered"] {
        let report = Pipeline::new("none")
            .rounds(0)
            .structured(&structure.parse().unwrap())
            .forkable("pack", StageKind::Compute, |_, _| Ok(Flow::Convey))
            .compute("sort", |_, _| Ok(Flow::Convey))
            .run()
            .unwrap();
        assert_eq!((report.stages[0].calls, report.pipelines[0].buffers_back), (0, 8), "{structure}");
    }
}

#[test]
fn stages_that_take_turns_do_so_however_short_their_calls_are() {
    let order = Mutex::new(String::new());
    let note = |what: char| {
        order.lock().unwrap().push(what);
        Ok(Flow::Convey)
    };
    Pipeline::new("turns")
        .buffers(8, 0)
        .rounds(1000)
        .structured(&"thread=sort,pack".parse().unwrap())
        .compute("sort", |_, _| note('s'))
        .compute("pack", |_, _| note('p'))
        .run()
        .unwrap();
    assert_eq!(order.into_inner().unwrap(), "sp".repeat(1000));
}

#[test]
fn a_junction_that_returns_passes_on_what_it_holds_before_it_waits_for_more() {
    // What the first junction waits for when it returns comes from the second, which waits for what the first still holds.
    let first = |ports: &mut Ports<'_, '_, ()>| -> Result<()> {
        ports.accept("there")?;
        Ok(())
    };
    let second = |ports: &mut Ports<'_, '_, ()>| -> Result<()> {
        ports.accept("there")?;
        ports.convey("there", Flow::Convey)?;
        if let Err(error @ PortError::Ending) = ports.accept("back") {
            return Err(error.into());
        }
        ports.convey("back", Flow::Convey)?;
        Ok(())
    };
    Program::new("circle")
        .pipeline(Pipeline::new("back").buffers(2, 0).join_at("second").join_at("first"))
        .pipeline(Pipeline::new("there").buffers(2, 0).join_at("first").join_at("second"))
        .junction("first", first)
        .junction("second", second)
        .run()
        .unwrap();
}
