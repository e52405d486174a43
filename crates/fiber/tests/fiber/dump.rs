//! Dumps: what all fibers are doing, and where they are.

use crate::calm;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use policy::Span;
use policy::feedback::{Boost, FeedbackRules};
use rowlock_fiber as fiber;
use rowlock_fiber::{Activity, Candidates, Condvar, Config, Dump, FiberSnapshot, Mutex, RandomSchedule, Runtime};

use crate::little_room::with_room;

/// The fiber with this name.
fn named<'a>(dump: &'a Dump, name: &str) -> &'a FiberSnapshot {
    let found = dump.fibers.iter().find(|fiber| fiber.label.name.as_deref() == Some(name));
    found.unwrap_or_else(|| panic!("no `{name}` in\n{dump}"))
}

fn spawn(name: &str, function: impl FnOnce() + Send + 'static) -> fiber::JoinHandle<()> {
    fiber::Builder::new().name(name).spawn(function).unwrap_or_else(|error| panic!("{error}"))
}

fn trace(fiber: &FiberSnapshot) -> String {
    fiber.backtrace.as_ref().map(ToString::to_string).unwrap_or_default()
}

#[inline(never)]
fn waits_deep_inside(mutex: &Mutex<u32>) {
    *mutex.lock() += std::hint::black_box(1);
}

#[inline(never)]
fn naps_deep_inside() {
    fiber::sleep(Duration::from_millis(1));
    std::hint::black_box(());
}

#[inline(never)]
fn yields_deep_inside() {
    (0..100).for_each(|_| fiber::yield_now());
    std::hint::black_box(());
}

#[test]
fn a_dump_shows_what_each_fiber_does_and_where_it_is() {
    // Its clock does not move during the dump.
    let deterministic = Some(RandomSchedule { seed: 0, candidates: Candidates::Highest });
    let run = Runtime::new(Config { deterministic, ..Config::default() }).run(|| {
        let mutex = Arc::new(Mutex::new(0));
        let held = mutex.lock();
        let theirs = Arc::clone(&mutex);
        let handles = [
            spawn("waiting", move || waits_deep_inside(&theirs)),
            spawn("asleep", naps_deep_inside),
            spawn("ready", yields_deep_inside),
            spawn("ended", || ()),
        ];
        (0..30).for_each(|_| fiber::yield_now());
        let unstarted = spawn("unstarted", || ());
        let dump = fiber::dump();
        assert_eq!(dump.fibers.len(), 6, "{dump}");

        let me = &dump.fibers[0];
        assert_eq!((me.label.number, &me.activity, me.stack), (0, &Activity::Running, None));
        assert!(trace(me).contains("a_dump_shows_what_each_fiber_does"), "{me}");

        let waiting = named(&dump, "waiting");
        let Activity::Waiting(wait) = &waiting.activity else { panic!("{waiting}") };
        assert_eq!((wait.kind, wait.blocker.as_ref(), wait.unwinding), ("a mutex", Some(&me.label), false));
        assert!(trace(waiting).contains("waits_deep_inside"), "{waiting}");
        assert!(!trace(waiting).contains("catch_unwind") && !trace(waiting).contains("/worker.rs"), "{waiting}");
        let stack = waiting.stack.unwrap();
        assert!(stack.size >= 64 << 10 && stack.high_water > 0 && stack.high_water <= stack.size, "{stack:?}");

        let asleep = named(&dump, "asleep");
        assert!(asleep.to_string().contains("fiber 2 `asleep`: waits for a time;"), "{asleep}");
        assert!(trace(asleep).contains("naps_deep_inside"), "{asleep}");

        let ready = named(&dump, "ready");
        assert_eq!(ready.activity, Activity::Ready);
        assert!(trace(ready).contains("yields_deep_inside"), "{ready}");

        for (number, doing) in [(4, Activity::Ended), (5, Activity::Unstarted)] {
            let fiber = &dump.fibers[number];
            assert_eq!((&fiber.activity, fiber.stack, trace(fiber)), (&doing, None, String::new()));
        }

        drop(held);
        handles.into_iter().chain([unstarted]).for_each(|handle| handle.join().unwrap());
        assert_eq!(*mutex.lock(), 1);
        assert_eq!(fiber::dump().fibers.len(), 1);
    });
    run.unwrap();
}

#[inline(never)]
fn computes_deep_inside(begun: &AtomicBool, over: &AtomicBool) {
    begun.store(true, Relaxed);
    while !over.load(Relaxed) {
        std::hint::spin_loop();
    }
}

#[test]
fn an_interrupted_fiber_is_shown_where_it_was() {
    let [begun, over] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let loops = (Arc::clone(&begun), Arc::clone(&over));
    fiber::run(|| {
        let computes = move || computes_deep_inside(&loops.0, &loops.1);
        let busy = fiber::Builder::new().name("busy").preemptible(true).spawn(computes);
        let busy = match busy {
            Ok(busy) => busy,
            Err(why) => return eprintln!("left out: {why}"),
        };
        while !begun.load(Relaxed) {
            fiber::sleep(Duration::from_millis(1));
        }
        let dump = fiber::dump();
        over.store(true, Relaxed);
        let seen = named(&dump, "busy");
        let trace = trace(seen);
        assert_eq!(seen.activity, Activity::Ready, "{seen}");
        assert!(trace.contains("computes_deep_inside"), "{trace}");
        assert!(!trace.contains("tick") && !trace.contains("preempt"), "{trace}");
        assert!(seen.stack.unwrap().high_water > 0, "{seen}");
        busy.join().unwrap();
    });
}

#[test]
fn many_dumps_do_not_affect_the_fibers() {
    calm::run(|| {
        let (mutex, condvar) = (Arc::new(Mutex::new(0)), Arc::new(Condvar::new()));
        let fibers: Vec<_> = (0..20)
            .map(|i| {
                let (mutex, condvar) = (Arc::clone(&mutex), Arc::clone(&condvar));
                fiber::spawn(move || {
                    let mut turn = mutex.lock();
                    while *turn < i {
                        turn = condvar.wait(turn);
                    }
                    *turn += 1;
                    condvar.notify_all();
                    drop(fiber::dump());
                    i
                })
            })
            .collect();
        fiber::yield_now();
        drop(fiber::dump());
        let ends: Vec<_> = fibers.into_iter().map(|fiber| fiber.join().unwrap()).collect();
        assert_eq!(ends, (0..20).collect::<Vec<_>>());
    });
}

#[test]
fn a_fiber_whose_stack_is_nearly_full_is_shown_as_well() {
    #[inline(never)]
    fn fill(top: usize) {
        let here = std::hint::black_box(0u8);
        // The rest suffices to yield and for little else.
        if top - std::ptr::from_ref(&here).addr() < 21 << 9 {
            fill(top);
        } else {
            fiber::yield_now();
        }
        std::hint::black_box(here);
    }
    calm::run(|| {
        let begin = || {
            let here = 0u8;
            fill(std::ptr::from_ref(&here).addr());
        };
        let full = fiber::Builder::new().name("full").stack_size(16 << 10).spawn(begin).unwrap();
        fiber::yield_now();
        let dump = fiber::dump();
        let seen = named(&dump, "full");
        assert!(trace(seen).matches("fill").count() > 8, "{seen}");
        assert!(seen.stack.unwrap().high_water >= 12 << 10, "{seen}");
        full.join().unwrap();
    });
}

#[test]
fn a_fiber_with_a_small_stack_can_show_a_dump() {
    let small = || fiber::Builder::new().stack_size(32 << 10);
    let shown = calm::run(|| small().spawn(|| fiber::dump().to_string()).unwrap().join().unwrap());
    assert!(shown.contains("a_fiber_with_a_small_stack_can_show_a_dump"), "{shown}");
}

#[test]
fn addresses_are_shown_if_no_kernel_thread_can_look_up_names() {
    testing::isolated(|| {
        let shows = || {
            let dump = fiber::dump();
            // Room for small allocations, but not for a thread's stack.
            [with_room(1 << 20, || dump.to_string()), dump.to_string()]
        };
        // Enough for addresses, but not for names.
        let small = || fiber::Builder::new().stack_size(16 << 10).spawn(shows).unwrap();
        let [addresses, names] = calm::run(|| small().join().unwrap());
        let frames = addresses.lines().filter(|line| !line.starts_with("fiber "));
        let is_an_address = |frame: &str| {
            let address = frame.split_once(": 0x").map(|(_, address)| usize::from_str_radix(address, 16));
            matches!(address, Some(Ok(1..)))
        };
        assert!(frames.clone().count() > 10 && frames.clone().all(is_an_address), "{addresses}");
        assert!(names.contains("addresses_are_shown"), "{names}");
    });
}

#[test]
fn levels_and_times_are_those_of_the_feedback_queue() {
    let rules = FeedbackRules { levels: 4, running_time: Span::from_micros(10), boost: Boost::Never };
    let deterministic = Some(RandomSchedule { seed: 3, candidates: Candidates::Highest });
    let runtime = Runtime::new(Config { rules, deterministic, ..Config::default() });
    let run = runtime.run(|| {
        let busy = spawn("busy", || (0..1000).for_each(|_| fiber::checkpoint()));
        let idle = spawn("idle", || fiber::sleep(Duration::from_secs(1)));
        for _ in 0..500 {
            fiber::yield_now();
        }
        let dump = fiber::dump();
        let (low, high) = (named(&dump, "busy"), named(&dump, "idle"));
        assert!(low.level > high.level, "{low}\n{high}");
        assert!(low.used > high.used && high.used < Duration::from_micros(10), "{low}\n{high}");
        busy.join().unwrap();
        idle.join().unwrap();
    });
    run.unwrap();
}

#[test]
fn fibers_that_are_added_from_outside_do_not_disturb_a_dump() {
    fiber::run(|| {
        let remote = fiber::remote();
        let make = move || (0..3000).map(|_| remote.spawn(|| ()).unwrap()).collect::<Vec<_>>();
        let thread = std::thread::spawn(make);
        while !thread.is_finished() {
            assert!(!fiber::dump().fibers.is_empty());
        }
        thread.join().unwrap().into_iter().for_each(|handle| handle.join().unwrap());
    });
}

#[test]
fn a_fiber_asks_for_its_own_number_and_name() {
    for workers in [1, 2] {
        let config = Config { workers, ..Config::default() };
        let run = Runtime::new(config).run(|| {
            assert_eq!(fiber::current().to_string(), "fiber 0");
            let [first, second] = ["first", "second"].map(|name| {
                let asks = || {
                    let before = fiber::current();
                    fiber::yield_now();
                    assert_eq!(fiber::current(), before);
                    before
                };
                fiber::Builder::new().name(name).spawn(asks).unwrap()
            });
            let (first, second) = (first.join().unwrap(), second.join().unwrap());
            assert_eq!([first.name.as_deref(), second.name.as_deref()], [Some("first"), Some("second")]);
            assert!(first.number > 0 && second.number > 0 && first.number != second.number);
        });
        run.unwrap();
    }
    let refused = std::panic::catch_unwind(fiber::current).unwrap_err();
    assert!(refused.downcast_ref::<&str>().unwrap().contains("only a fiber"));
}
