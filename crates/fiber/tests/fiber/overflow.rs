//! Processes in which a stack overflows, or that access invalid memory. Each test has a process of
//! its own.
#![allow(unsafe_code, reason = "a signal is sent, and handled")]

use rowlock_fiber::{Activity, Builder, Config, FiberSnapshot, Runtime, dump, run, spawn};
use testing::isolated_by;

/// Calls a function in its own process, which must end by a signal after these words.
#[track_caller]
fn ends(signal: i32, words: &str, body: impl FnOnce()) {
    let start = |mut test| {
        let output = testing::run(&mut test).expect_signal(signal).expect_stderr(words);
        let speaks_of_overflow = output.stderr.contains("overflowed");
        output.expect(speaks_of_overflow != words.is_empty(), "an overflow that is reported, or no such message");
    };
    isolated_by(start, body);
}

/// Recurses forever, or to this depth.
#[inline(never)]
fn dive(depth: u64) -> u64 {
    let here = [depth; 16];
    let here = std::hint::black_box(&here);
    if here[0] == 0 { 0 } else { dive(depth - 1) + std::hint::black_box(here)[7] - depth + 1 }
}

#[test]
fn a_fiber_with_a_name_that_overflows_is_named_with_its_stack_and_what_to_do() {
    let body = || {
        run(|| {
            let parser = Builder::new().name("parser").stack_size(128 << 10).spawn(|| dive(u64::MAX)).unwrap();
            parser.join().unwrap();
        });
    };
    let words = " `parser` has overflowed its stack of 128 KiB: give it a larger one with Builder::stack_size";
    ends(libc::SIGABRT, words, body);
}

#[test]
fn a_fiber_without_a_name_that_overflows_is_named_by_its_number() {
    let body = || {
        let config = Config { stack_size: 32 << 10, ..Config::default() };
        Runtime::new(config).run(|| spawn(|| dive(u64::MAX)).join().unwrap()).unwrap();
    };
    let words = "fiber 1 has overflowed its stack of 32 KiB: ";
    ends(libc::SIGABRT, words, body);
}

#[test]
fn a_fiber_without_room_for_a_signal_handler_is_reported_as_well() {
    /// Recurses until less is left than the kernel saves for a handler.
    #[inline(never)]
    fn dive_and_raise(top: usize, size: usize) {
        let here = std::hint::black_box(0_u8);
        if top - std::ptr::from_ref(&here).addr() < size - (3 << 10) {
            dive_and_raise(top, size);
        } else {
            // SAFETY: it is handled.
            unsafe { libc::raise(libc::SIGUSR1) };
        }
        std::hint::black_box(here);
    }
    extern "C" fn does_nothing(_: libc::c_int) {}
    let body = || {
        let begin = || {
            let here = 0_u8;
            let is_mine = |fiber: &&FiberSnapshot| fiber.activity == Activity::Running;
            // More than requested: there is room for a tick.
            let size = dump().fibers.iter().find(is_mine).unwrap().stack.unwrap().size;
            dive_and_raise(std::ptr::from_ref(&here).addr(), size);
        };
        // SAFETY: the handler does nothing.
        unsafe { libc::signal(libc::SIGUSR1, does_nothing as *const () as usize) };
        run(|| Builder::new().name("parser").stack_size(64 << 10).spawn(begin).unwrap().join().unwrap());
    };
    let words = " `parser` has overflowed its stack of 64 KiB: ";
    ends(libc::SIGABRT, words, body);
}

#[test]
fn a_kernel_thread_that_overflows_its_own_stack_is_reported_as_usual() {
    let body = || {
        run(|| {
            spawn(|| ()).join().unwrap();
            dive(u64::MAX);
        });
    };
    ends(libc::SIGABRT, "has overflowed its stack", body);
}

#[test]
fn an_overflow_of_a_thread_without_fibers_is_reported_as_usual() {
    let body = || {
        run(|| spawn(|| ()).join().unwrap());
        let _ = std::thread::Builder::new().name("diver".into()).spawn(|| dive(u64::MAX)).unwrap().join();
    };
    ends(libc::SIGABRT, "thread 'diver'", body);
}

#[test]
#[allow(unsafe_code)]
fn a_fault_that_is_no_overflow_is_reported_as_a_fault() {
    let body = || {
        run(|| {
            let fault = || {
                let nowhere = std::hint::black_box(16) as *const u64;
                // SAFETY: there is none: it must fault, because nothing is mapped there.
                std::hint::black_box(unsafe { nowhere.read_volatile() });
            };
            spawn(fault).join().unwrap();
        });
    };
    ends(libc::SIGSEGV, "", body);
}

#[test]
fn a_deep_recursion_that_fits_the_stack_succeeds() {
    run(|| {
        let deep = || {
            let depth = 200_000;
            assert_eq!(dive(depth), depth);
        };
        Builder::new().stack_size(512 << 20).spawn(deep).unwrap().join().unwrap();
    });
}
