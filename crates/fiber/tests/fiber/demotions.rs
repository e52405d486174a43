//! Fibers that use up their running time: how many demotions are counted, and at which level each
//! fiber is.

use policy::Span;
use policy::feedback::Boost;
use rowlock_fiber::{ThreadControlBlocks, checkpoint, current, demotions, dump, spawn};

use crate::scripted::{self, TURN};

/// The level of the calling fiber.
fn level() -> u32 {
    let me = current().number;
    dump().fibers.iter().find(|seen| seen.label.number == me).unwrap().level
}

#[test]
fn a_fiber_that_computes_is_demoted_at_its_checkpoints_and_one_that_takes_no_time_is_not() {
    let scripted = scripted::runtime(ThreadControlBlocks::Auto, 4, Boost::Never);
    let counted = scripted.run(|| {
        for _ in 0..1000 {
            spawn(checkpoint).join().unwrap();
        }
        let idle = demotions();
        let computes = || {
            for _ in 0..20 {
                scripted.clock.advance(TURN / 4);
                checkpoint();
            }
            demotions()
        };
        [idle, computes()]
    });
    assert_eq!(counted.unwrap(), [0, 5]);
}

#[test]
fn a_fiber_sinks_by_a_level_with_each_running_time_and_rises_to_the_highest_with_each_boost() {
    let scripted = scripted::runtime(ThreadControlBlocks::Auto, 4, Boost::Every(Span::from_millis(6)));
    let levels = scripted.run(|| {
        checkpoint();
        [(); 14].map(|()| {
            scripted.clock.advance(TURN);
            checkpoint();
            level()
        })
    });
    // A running time that ends at a boost counts after it.
    assert_eq!(levels.unwrap(), [1, 2, 3, 3, 3, 1, 2, 3, 3, 3, 3, 1, 2, 3]);
}
