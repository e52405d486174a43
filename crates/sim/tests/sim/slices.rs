//! A limit of slices: jobs without room wait.

use policy::Span;
use policy::gang::Gang;
use policy::layout::{Mesh, Request, Shape};
use rowlock_sim::run;
use scenario::message::Pattern;
use scenario::{Coscheduling, Job, JobKind, Machine, Message, Setting};

use crate::timeline::setting;

/// Jobs of 2 x 2, 4 x 2 and 2 x 2 cells on 4 x 2: when each begins and ends, and the most slices.
fn times(how: Gang, most_slices: Option<u32>) -> (Vec<(Span, Span)>, u32) {
    let machine = Machine { cells: Mesh::new(Shape { columns: 4, rows: 2 }), ..Machine::with_cpus(1) };
    let job = |name, columns| {
        let message = Message {
            request: Request::Rectangle(Shape { columns, rows: 2 }),
            pattern: Pattern::Ring,
            bytes: 10,
            rounds: 100,
            compute: Some(Span::from_micros(100).into()),
            sleep: None,
            waiting: "always-spin".parse().unwrap(),
            weight: 1,
        };
        Job::new(name, 1, JobKind::Message(message))
    };
    let rules = Coscheduling { how, slice: Span::from_millis(5), most_slices, ..Coscheduling::default() };
    let jobs = vec![job("left", 2), job("all", 4), job("right", 2)];
    let outcome = run(&machine, &Setting { coscheduling: Some(rules), ..setting(jobs) }, 1).unwrap();
    let times = outcome.jobs.iter().map(|job| (job.start_ns.unwrap(), job.completion_ns.unwrap()));
    (times.collect(), outcome.machine.coscheduling.unwrap().slices_most)
}

#[test]
fn jobs_beyond_the_limit_of_slices_wait_and_begin_in_order_of_arrival() {
    for how in [Gang::None, Gang::Moderate, Gang::Strict, Gang::Adaptive] {
        let (limited, slices) = times(how, Some(1));
        assert_eq!(slices, 1, "{how}");
        for pair in limited.windows(2) {
            let (ended, begun) = (pair[0].1, pair[1].0);
            assert!(begun >= ended && begun - ended < Span::from_millis(1), "{how}: {limited:?}");
        }
        let (unlimited, slices) = times(how, None);
        assert_eq!(slices, 2, "{how}");
        assert!(unlimited[2].0 < unlimited[0].1, "{how}: the third job has room beside the first: {unlimited:?}");
        assert_eq!(times(how, Some(2)), (unlimited, 2), "{how}");
    }
}
