//! Preemptible fibers, for the programs that all systems run.

use policy::Span;
use policy::feedback::{Boost, FeedbackRules};
use rowlock_fiber::{Config, Runtime, spawn};

use crate::programs::{Setup, Threads, Words};
use crate::rowlock::{Rowlock, config, or_stop};

pub(crate) struct PreemptibleFibers;

/// A runtime with this running time. Boosts are rare, because after one, a fiber that wakes has no
/// higher level than the others for a while.
pub(crate) fn runtime(running_time: Span, preemptible: bool) -> Runtime {
    let rules =
        FeedbackRules { running_time, boost: Boost::Every(Span::from_millis(1_000)), ..FeedbackRules::default() };
    Runtime::new(Config { rules, preemptible, ..Config::default() })
}

impl Threads for PreemptibleFibers {
    type Handle = <Rowlock as Threads>::Handle;

    /// The first fiber runs on the stack of the kernel thread and is not preemptible, so it only
    /// starts the measured one.
    fn run(setup: Setup, main: impl FnOnce() + Send + 'static) {
        let config = config(setup);
        // With shorter times, the ticks would dominate.
        let running_time = config.rules.running_time.max(Span::from_millis(1));
        let config = Config { preemptible: true, rules: FeedbackRules { running_time, ..config.rules }, ..config };
        or_stop(Runtime::new(config).run(|| or_stop(spawn(main).join())));
    }

    #[inline(always)]
    fn spawn(function: impl FnOnce() + Send + 'static) -> Self::Handle {
        Rowlock::spawn(function)
    }

    #[inline(always)]
    fn join(handle: Self::Handle) {
        Rowlock::join(handle);
    }

    #[inline(always)]
    fn yield_now() {
        Rowlock::yield_now();
    }

    #[inline(always)]
    fn edit(which: usize, edit: impl FnOnce(&mut Words)) {
        Rowlock::edit(which, edit);
    }

    fn take_turns(me: bool, times: usize) {
        Rowlock::take_turns(me, times);
    }

    fn pass(times: usize) {
        Rowlock::pass(times);
    }
}
