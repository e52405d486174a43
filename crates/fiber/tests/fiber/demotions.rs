//! What is counted of fibers that use up their running time.

use policy::Span;
use policy::feedback::Rules;
use rowlock_fiber::{Config, Runtime, checkpoint, demotions, spawn};

fn runtime(running_time: Span) -> Runtime {
    let rules = Rules { running_time, ..Rules::default() };
    Runtime::new(Config { rules, ..Config::default() })
}

#[test]
fn a_fiber_that_goes_on_and_on_is_demoted_at_its_checkpoints_and_one_that_has_time_enough_is_not() {
    let counted = runtime(Span::from_micros(1)).run(|| {
        let computes = spawn(|| {
            while demotions() < 3 {
                checkpoint();
            }
        });
        computes.join().unwrap();
        demotions()
    });
    assert!(counted.unwrap() >= 3);
    let counted = runtime(Span::from_millis(1 << 30)).run(|| {
        for _ in 0..1000 {
            spawn(checkpoint).join().unwrap();
        }
        demotions()
    });
    assert_eq!(counted.unwrap(), 0);
}
