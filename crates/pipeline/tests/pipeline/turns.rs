//! Turns on threads of several stages, empty streams, and junctions that return early.

use std::sync::Mutex;

use rowlock_pipeline::{Flow, Pipeline, PortError, Ports, Program, Result, StageKind};

#[test]
fn an_empty_stream_ends_for_every_kind_of_first_stage() {
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
fn stages_alternate_even_if_their_calls_are_short() {
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
fn a_junction_that_returns_first_passes_on_what_it_holds() {
    // When the first junction returns, it waits for a buffer from the second one, which waits for
    // the buffer that the first one still holds.
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
