//! OpenMP as gcc compiles it: its barriers and the ends of its loops.
//!
//! gcc puts a call of `GOMP_barrier` where there is a barrier, written or implied, but for two: a dynamic loop and sections end by a
//! call that does more, which is replaced by the one for loops without a barrier and then a barrier; and the one at the end of the parallel region is within
//! gcc's library, out of reach.
//!
//! # Which team
//!
//! A barrier of ours needs to know for sure whom a thread is to meet: threads may begin teams at the same time, and teams may
//! be nested. So the region's function is given to `GOMP_parallel` with a wrapping: each thread of the team first comes to [`member`], which
//! writes down whose [`Member`] the thread is, and puts back what was there when the region is over. Regions that are begun in other ways have no barriers, or
//! are of a gcc before 4.9; within them the thread is at another level of nesting than it was written down for, and waits at the original.

#![allow(non_snake_case)] // As gcc calls them.
#![allow(clippy::too_many_arguments)] // As many as they have.

use std::cell::{Cell, RefCell};
use std::ffi::{c_uint, c_void};
use std::sync::Arc;

use counters::{Reason, WaitKind};
use sys::per_thread::PerThread;
use wait::seat::Seats;

use crate::caller::with_caller;
use crate::family::{Family, family};
use crate::findings::FINDINGS;
use crate::libomp;
use crate::real_symbols::real_symbols;
use crate::settings::Settings;
use crate::team::{Meeting, OmpTeam};

family! {
    /// The functions of one copy of gcc's library, or of another that stands in for it.
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

real_symbols! {
    fn GOMP_parallel(work: Work, data: *mut c_void, threads: c_uint, flags: c_uint);
    fn GOMP_barrier();
    fn GOMP_loop_end();
    fn GOMP_sections_end();
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
}

/// What each thread of a team does.
type Work = unsafe extern "C-unwind" fn(*mut c_void);

static FAMILY: Family<Gomp> = Family::new(c"GOMP_parallel");

/// A parallel region, on the stack of the thread that begins it, which leaves it last.
struct Region {
    work: Work,
    data: *mut c_void,
    gomp: &'static Gomp,
    omp_team: OmpTeam,
}

/// A thread as a member of a team, on that thread's stack.
#[derive(Clone, Copy)]
struct Member {
    region: *const Region,
    /// How deeply its region is nested.
    level: i32,
}

thread_local! {
    /// Of the innermost team that is known.
    static MEMBER: Cell<Option<Member>> = const { Cell::new(None) };
}

/// Barriers of earlier teams that a thread began.
static SPARES: PerThread<RefCell<Vec<Arc<Seats>>>> = PerThread::new();

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GOMP_parallel(work: Work, data: *mut c_void, threads: c_uint, flags: c_uint) {
    let text = work as usize;
    let Some(gomp) = FAMILY.of(text) else {
        // SAFETY: the caller's own call.
        return unsafe { real::GOMP_parallel(work, data, threads, flags) };
    };
    let against = FINDINGS.against(text);
    let settings = Settings::get();
    if let (Some(settings), Some(reason)) = (settings, against) {
        settings.statistics.pass_through(WaitKind::Gomp, reason, 1);
    }
    if settings.is_none() || against.is_some() {
        // SAFETY: as above.
        return unsafe { gomp.GOMP_parallel(work, data, threads, flags) };
    }
    let spares = SPARES.with(RefCell::take).unwrap_or_default();
    let region = Region { work, data, gomp, omp_team: OmpTeam::new(spares) };
    // SAFETY: as the caller's call; the region is there until all threads have left it.
    unsafe { gomp.GOMP_parallel(member, (&raw const region).cast_mut().cast(), threads, flags) };
    let spares = region.omp_team.end();
    SPARES.with(|kept| kept.borrow_mut().extend(spares));
}

/// What each thread of a team does first, and last.
unsafe extern "C-unwind" fn member(region: *mut c_void) {
    /// What the thread was before.
    struct Before(Option<Member>);

    impl Drop for Before {
        fn drop(&mut self) {
            MEMBER.set(self.0);
        }
    }

    let region: *const Region = region.cast();
    // SAFETY: the thread that began it leaves it last.
    let (work, data, gomp) = unsafe { ((*region).work, (*region).data, (*region).gomp) };
    // SAFETY: it asks for nothing.
    let level = unsafe { gomp.omp_get_level() };
    let _before = Before(MEMBER.replace(Some(Member { region, level })));
    // SAFETY: the caller of `GOMP_parallel` wants this called by each thread of the team.
    unsafe { work(data) };
}

/// Waits for the team, after having done what comes before; returns whether it has. If not, nothing has been done, and all threads of
/// the team are to use the original.
fn meet(gomp: &'static Gomp, before: impl FnOnce()) -> bool {
    // SAFETY: these ask for nothing, and a thread is a member only while its region is there.
    unsafe {
        let Some(settings) = Settings::get() else { return false };
        let size = || gomp.omp_get_num_threads() as u32;
        let here = MEMBER
            .get()
            .filter(|member| std::ptr::eq((*member.region).gomp, gomp) && member.level == gomp.omp_get_level());
        let Some(omp_team) = here.map(|member| &(*member.region).omp_team) else {
            // If something is known, the whole region is counted as left.
            if FINDINGS.known().is_none() && size() > 1 {
                settings.statistics.pass_through(WaitKind::Gomp, Reason::UnknownTeam, 1);
            }
            return false;
        };
        let Some(seats) = omp_team.seats(settings, size) else { return false };
        before();
        if omp_team.meet(seats, settings, WaitKind::Gomp) == Meeting::TasksPending {
            settings.statistics.pass_through(WaitKind::Gomp, Reason::Tasks, 1);
            gomp.GOMP_barrier();
        }
        true
    }
}

/// `GOMP_barrier`, called from an address.
extern "C-unwind" fn barrier(caller: usize) {
    // SAFETY: the caller's own call.
    unsafe {
        match FAMILY.of(caller) {
            Some(gomp) if meet(gomp, || ()) => {}
            Some(gomp) => gomp.GOMP_barrier(),
            None => real::GOMP_barrier(),
        }
    }
}

/// `GOMP_loop_end`, called from an address.
extern "C-unwind" fn loop_end(caller: usize) {
    // SAFETY: the caller's own call, or that without a barrier, which is added.
    unsafe {
        match FAMILY.of(caller) {
            Some(gomp) if meet(gomp, || gomp.GOMP_loop_end_nowait()) => {}
            Some(gomp) => gomp.GOMP_loop_end(),
            None => real::GOMP_loop_end(),
        }
    }
}

/// `GOMP_sections_end`, called from an address.
extern "C-unwind" fn sections_end(caller: usize) {
    // SAFETY: as in `loop_end`.
    unsafe {
        match FAMILY.of(caller) {
            Some(gomp) if meet(gomp, || gomp.GOMP_sections_end_nowait()) => {}
            Some(gomp) => gomp.GOMP_sections_end(),
            None => real::GOMP_sections_end(),
        }
    }
}

with_caller! {
    GOMP_barrier: 0 => barrier,
    GOMP_loop_end: 0 => loop_end,
    GOMP_sections_end: 0 => sections_end,
}

/// The calling thread makes a task. If it is known to be in a team, that is told.
pub(crate) fn note_task() {
    if let Some(member) = MEMBER.get() {
        // SAFETY: a thread is a member only while its region is there.
        unsafe { &*member.region }.omp_team.note_task();
    }
}

/// Exports functions that make tasks: they say so, and go on to the original of the caller, in whose library is the task's text.
/// Callers that pass fewer arguments than today's gcc pass what happens to lie there, to be ignored.
macro_rules! makes_tasks {
    ($(fn $name:ident($task:ident: usize, $($argument:ident: usize),*);)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $name($task: usize, $($argument: usize),*) {
                FINDINGS.note(Reason::Tasks);
                note_task();
                // The library may be LLVM's, and the team be begun by what clang has compiled.
                libomp::note_task();
                // SAFETY: the caller's own call.
                unsafe {
                    match FAMILY.of($task) {
                        Some(gomp) => gomp.$name($task, $($argument),*),
                        None => real::$name($task, $($argument),*),
                    }
                }
            }
        )*
    };
}

makes_tasks! {
    fn GOMP_task(
        task: usize, data: usize, copy: usize, size: usize, align: usize, deferred: usize, flags: usize, depend: usize,
        priority: usize, detach: usize
    );
    fn GOMP_taskloop(
        task: usize, data: usize, copy: usize, size: usize, align: usize, flags: usize, tasks: usize, priority: usize,
        first: usize, end: usize, step: usize
    );
    fn GOMP_taskloop_ull(
        task: usize, data: usize, copy: usize, size: usize, align: usize, flags: usize, tasks: usize, priority: usize,
        first: usize, end: usize, step: usize
    );
}
