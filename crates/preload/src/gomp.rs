//! OpenMP as compiled by gcc: its barriers and the ends of its loops.
//!
//! gcc calls `GOMP_barrier` at every explicit and implicit barrier, with two exceptions. A dynamic
//! loop and sections end with a call that does more; it is replaced by the variant without a
//! barrier, followed by a barrier. And the barrier at the end of a parallel region is inside the
//! library of gcc, where it cannot be replaced.
//!
//! # Teams
//!
//! A barrier of ours must know the team of a thread for sure: threads may begin teams concurrently,
//! and teams may be nested. So `GOMP_parallel` gets a wrapper of the function of a region: each
//! thread of the team first calls [`member`], which records the [`Member`] that the thread is, and
//! restores the previous one when the region ends. Regions that begin in other ways have no
//! barriers, or come from a gcc before 4.9. Inside them the nesting level of the thread differs
//! from the recorded one, and the thread waits at the real barrier.

#![allow(non_snake_case)] // The names of gcc.
#![allow(clippy::too_many_arguments)] // The functions have this many.

use std::cell::{Cell, RefCell};
use std::ffi::{c_uint, c_void};

use counters::{Reason, WaitKind};
use sys::per_thread::PerThread;

use crate::caller::with_caller;
use crate::family::{Family, family};
use crate::findings::FINDINGS;
use crate::libomp;
use crate::settings::Settings;
use crate::team::{Meeting, OmpTeam};

family! {
    /// The functions of one copy of the library of gcc, or of another that replaces it.
    struct Gomp {
        fn GOMP_parallel(work: Work, data: *mut c_void, threads: c_uint, flags: c_uint);
        fn GOMP_barrier();
        fn GOMP_loop_end();
        fn GOMP_loop_end_nowait();
        fn GOMP_sections_end();
        fn GOMP_sections_end_nowait();
        fn GOMP_task(
            task: usize, data: usize, copy: usize, size: usize, align: usize, deferred: usize, flags: usize, depend: usize,
            priority: usize, detach: usize,
        );
        fn GOMP_taskloop(
            task: usize, data: usize, copy: usize, size: usize, align: usize, flags: usize, tasks: usize, priority: usize,
            first: usize, end: usize, step: usize,
        );
        fn GOMP_taskloop_ull(
            task: usize, data: usize, copy: usize, size: usize, align: usize, flags: usize, tasks: usize, priority: usize,
            first: usize, end: usize, step: usize,
        );
        fn omp_get_level() -> i32;
        fn omp_get_num_threads() -> i32;
    }
}

/// The function that each thread of a team executes.
type Work = unsafe extern "C-unwind" fn(*mut c_void);

static FAMILY: Family<Gomp> = Family::new(c"GOMP_parallel");

/// A parallel region.
///
/// The other threads of the team read it when they begin, which costs a transfer between CPUs if it
/// was written since their last region. So a thread keeps it for its next region, writes only what
/// differs, and has nothing else in the same two cache lines, which CPUs may transfer together.
#[repr(align(128))]
struct Region {
    call: Call,
    omp_team: OmpTeam,
}

/// The function that each thread of a team executes, its argument, and the library that was asked
/// to call it.
#[derive(Clone, Copy)]
struct Call {
    work: Work,
    data: *mut c_void,
    gomp: &'static Gomp,
}

/// The membership of a thread in a team, on the stack of the thread.
#[derive(Clone, Copy)]
struct Member {
    region: *const Region,
    /// The nesting level of its region.
    level: i32,
}

thread_local! {
    /// The innermost known team.
    static MEMBER: Cell<Option<Member>> = const { Cell::new(None) };
}

/// The regions that a thread has begun and ended, to be reused: as many as it has nested.
#[allow(clippy::vec_box, reason = "a region stays in the cache lines that the threads of its team have read")]
static IDLE: PerThread<RefCell<Vec<Box<Region>>>> = PerThread::new();

/// Begins a region. It ends in [`end_region`].
fn begin_region(call: Call) -> *mut Region {
    let idle = IDLE.with(|idle| idle.borrow_mut().pop()).flatten();
    let mut region = idle.unwrap_or_else(|| Box::new(Region { call, omp_team: OmpTeam::new() }));
    let Call { work, data, gomp } = region.call;
    if (work as usize, data) != (call.work as usize, call.data) || !std::ptr::eq(gomp, call.gomp) {
        region.call = call;
    }
    Box::into_raw(region)
}

/// Ends a region.
///
/// # Safety
/// It was begun by this thread, and all threads of its team have left it.
unsafe fn end_region(region: *mut Region) {
    // SAFETY: it was begun by `begin_region`, and no other thread uses it any more.
    let mut region = unsafe { Box::from_raw(region) };
    region.omp_team.end();
    IDLE.with(|idle| idle.borrow_mut().push(region));
}

/// # Safety
/// As for the real symbol: every thread of the team may call `work` with `data`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GOMP_parallel(work: Work, data: *mut c_void, threads: c_uint, flags: c_uint) {
    let found = FAMILY.of(work as usize);
    let reason = found.and_then(|_| FINDINGS.reason_against(work as usize));
    let settings = Settings::get();
    if let (Some(settings), Some(reason)) = (settings, reason) {
        settings.pass_through(WaitKind::Gomp, reason);
    }
    let (Some(gomp), Some(_), None) = (found, settings, reason) else {
        // SAFETY: the caller's own call.
        return unsafe { Gomp::GOMP_parallel(found, work, data, threads, flags) };
    };
    let region = begin_region(Call { work, data, gomp });
    // SAFETY: as for the call of the caller. All threads have left the region when it returns.
    unsafe {
        Gomp::GOMP_parallel(found, member, region.cast(), threads, flags);
        end_region(region);
    }
}

/// The function that each thread of a team executes first.
///
/// # Safety
/// It points to a [`Region`] that lasts until the call returns.
unsafe extern "C-unwind" fn member(region: *mut c_void) {
    /// The previous membership of the thread.
    struct Before(Option<Member>);

    impl Drop for Before {
        fn drop(&mut self) {
            MEMBER.set(self.0);
        }
    }

    let region: *const Region = region.cast();
    // SAFETY: the thread that began the region leaves it last.
    let Call { work, data, gomp } = unsafe { (*region).call };
    // SAFETY: the call has no preconditions.
    let level = unsafe { Gomp::omp_get_level(Some(gomp)) };
    let _before = Before(MEMBER.replace(Some(Member { region, level })));
    // SAFETY: the caller of `GOMP_parallel` requests this call by each thread of the team.
    unsafe { work(data) };
}

/// Waits for the team after calling `before`, and returns `true`. Returns `false` if nothing has
/// been done and all threads of the team must use the real barrier.
fn meet(gomp: Option<&'static Gomp>, before: impl FnOnce()) -> bool {
    let (Some(copy), Some(settings)) = (gomp, Settings::get()) else { return false };
    // SAFETY: these calls have no preconditions, and a thread is a member only while its region
    // exists.
    unsafe {
        let size = || Gomp::omp_get_num_threads(gomp) as u32;
        let here = MEMBER.get().filter(|member| {
            std::ptr::eq((*member.region).call.gomp, copy) && member.level == Gomp::omp_get_level(gomp)
        });
        let Some(omp_team) = here.map(|member| &(*member.region).omp_team) else {
            // If a reason is known, the whole region is counted as passed through.
            if FINDINGS.known().is_none() && size() > 1 {
                settings.pass_through(WaitKind::Gomp, Reason::UnknownTeam);
            }
            return false;
        };
        let Some(slots) = omp_team.slots(settings, size) else { return false };
        before();
        if omp_team.meet(slots, settings, WaitKind::Gomp) == Meeting::TasksPending {
            settings.pass_through(WaitKind::Gomp, Reason::Tasks);
            Gomp::GOMP_barrier(gomp);
        }
        true
    }
}

/// Meets the team after the call `before`, or else makes the call `real`. The caller is code at
/// this address.
fn meet_or(caller: usize, before: unsafe fn(Option<&Gomp>), real: unsafe fn(Option<&Gomp>)) {
    let gomp = FAMILY.of(caller);
    // SAFETY: the caller's own call, or its variant without a barrier, which is added.
    unsafe {
        if !meet(gomp, || before(gomp)) {
            real(gomp);
        }
    }
}

/// `GOMP_barrier`, called from an address.
extern "C-unwind" fn barrier(caller: usize) {
    meet_or(caller, |_| (), Gomp::GOMP_barrier);
}

/// `GOMP_loop_end`, called from an address.
extern "C-unwind" fn loop_end(caller: usize) {
    meet_or(caller, Gomp::GOMP_loop_end_nowait, Gomp::GOMP_loop_end);
}

/// `GOMP_sections_end`, called from an address.
extern "C-unwind" fn sections_end(caller: usize) {
    meet_or(caller, Gomp::GOMP_sections_end_nowait, Gomp::GOMP_sections_end);
}

with_caller! {
    GOMP_barrier: 0 => barrier,
    GOMP_loop_end: 0 => loop_end,
    GOMP_sections_end: 0 => sections_end,
}

/// Records that the calling thread creates a task, if it is known to be in a team.
pub(crate) fn note_task() {
    if let Some(member) = MEMBER.get() {
        // SAFETY: a thread is a member only while its region exists.
        unsafe { &*member.region }.omp_team.note_task();
    }
}

/// Exports functions that create tasks. They record the task and call the real function of the
/// caller, whose library contains the code of the task. Callers that pass fewer arguments than
/// current gcc pass arbitrary values, which are ignored.
macro_rules! task_functions {
    ($(fn $name:ident($task:ident, $($argument:ident),*);)*) => {
        $(
            /// # Safety
            /// As for the real symbol.
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $name($task: usize, $($argument: usize),*) {
                FINDINGS.record(Reason::Tasks);
                note_task();
                // The library may be that of LLVM, and the team may have been begun by code of
                // clang.
                libomp::note_task();
                // SAFETY: the caller's own call.
                unsafe { Gomp::$name(FAMILY.of($task), $task, $($argument),*) };
            }
        )*
    };
}

task_functions! {
    fn GOMP_task(task, data, copy, size, align, deferred, flags, depend, priority, detach);
    fn GOMP_taskloop(task, data, copy, size, align, flags, tasks, priority, first, end, step);
    fn GOMP_taskloop_ull(task, data, copy, size, align, flags, tasks, priority, first, end, step);
}
