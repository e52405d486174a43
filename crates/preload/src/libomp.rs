//! OpenMP as compiled by clang: its explicit and implicit barriers, except those at the ends of
//! parallel regions, which are inside the library of LLVM, where they cannot be replaced.
//!
//! # Teams
//!
//! A barrier of ours must know the team of a thread for sure, and `__kmpc_barrier` gets no
//! information about it. But the library has an interface for tools ("OMPT"), which provides a word
//! of tool data for each team, initially zero. The first thread of a team that arrives at a barrier
//! stores the [`Team`] there. So this library registers as a tool, unless there is another, and
//! requests no callbacks: it only makes queries.
#![allow(non_snake_case)] // The names of LLVM.
#![allow(clippy::too_many_arguments)] // The functions have this many.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicUsize};

use counters::{Reason, WaitKind};

use crate::caller::with_caller;
use crate::family::{Family, family};
use crate::findings::FINDINGS;
use crate::forks;
use crate::gomp;
use crate::objects::{self, Library};
use crate::real_symbols::RealSymbol;
use crate::settings::Settings;
use crate::team::{Meeting, OmpTeam};

family! {
    /// The functions of one copy of the library of LLVM.
    struct Libomp {
        fn __kmpc_barrier(location: usize, thread: c_int);
        fn __kmpc_omp_task_alloc(
            location: usize, thread: usize, flags: usize, size: usize, shared: usize, task: usize,
        ) -> usize;
    }
}

static FAMILY: Family<Libomp> = Family::new(c"__kmpc_barrier");

/// The description that a tool returns.
#[repr(C)]
struct Tool {
    initialize: unsafe extern "C" fn(Lookup, c_int, *mut c_void) -> c_int,
    finalize: unsafe extern "C" fn(*mut c_void),
    data: u64,
}

/// Resolves the functions that a tool may call.
type Lookup = unsafe extern "C" fn(*const c_char) -> *mut c_void;

/// Returns the address of the tool data of a team, and its number of threads.
type ParallelInfo = unsafe extern "C" fn(c_int, *mut *mut AtomicPtr<Team>, *mut c_int) -> c_int;

/// Whether this library is a tool of the library of LLVM. It is a tool of one copy: others are not
/// queried.
static TOOL_STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
/// It was not asked to be a tool.
const UNKNOWN: u8 = 0;
/// It is a tool.
const TOOL: u8 = 1;
/// There is another tool.
const OTHER_TOOL: u8 = 2;

/// A [`ParallelInfo`].
static PARALLEL_INFO: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
/// The address of `__kmpc_barrier` in the copy of which it is a tool; zero if there is none.
static COPY: AtomicUsize = AtomicUsize::new(0);
/// The address range of that copy. If it replaces the library of gcc, it also calls itself for
/// calls that are handled already.
static WITHIN: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Called by the library of LLVM to find a tool, before there are any teams.
///
/// # Safety
/// The library of LLVM calls it. `runtime` is a C string.
#[unsafe(no_mangle)]
unsafe extern "C" fn ompt_start_tool(version: c_uint, runtime: *const c_char) -> *const Tool {
    static NEXT: RealSymbol = RealSymbol::new(c"ompt_start_tool");
    static THIS: Tool = Tool { initialize, finalize, data: 0 };

    let other = NEXT.address().map_or(std::ptr::null(), |next| {
        // SAFETY: it is the function of this name, which has this type, and gets the same
        // arguments.
        unsafe {
            let next =
                std::mem::transmute::<*mut c_void, unsafe extern "C" fn(c_uint, *const c_char) -> *const Tool>(next);
            next(version, runtime)
        }
    });
    // If the library finds no tool here, it looks for others, in this variable and in the thread
    // sanitizer.
    let named = std::env::var_os("OMP_TOOL_LIBRARIES").is_some_and(|names| !names.is_empty());
    // SAFETY: the handle is always valid, and the name is a C string.
    let sanitized = unsafe { !libc::dlsym(libc::RTLD_DEFAULT, c"__tsan_init".as_ptr()).is_null() };
    if !other.is_null() || named || sanitized {
        TOOL_STATE.store(OTHER_TOOL, Relaxed);
        return other;
    }
    FINDINGS.scan();
    // Otherwise a tool would be useless.
    if Settings::get().is_none() || FINDINGS.known().is_some() {
        return std::ptr::null();
    }
    TOOL_STATE.store(TOOL, Relaxed);
    &raw const THIS
}

/// # Safety
/// `lookup` is the function of the library of LLVM that finds others by name.
unsafe extern "C" fn initialize(lookup: Lookup, _device: c_int, _data: *mut c_void) -> c_int {
    // SAFETY: the name is a C string.
    let parallel_info = unsafe { lookup(c"ompt_get_parallel_info".as_ptr()) };
    let copy = Library::at(lookup as usize).map_or(0, |library| library.function(c"__kmpc_barrier").addr());
    let (Some(within), false, false) = (objects::range_around(lookup as usize), parallel_info.is_null(), copy == 0)
    else {
        return 0;
    };
    // It is not a tool of another copy. The same one may be initialized again after a pause.
    let tool_of = COPY.load(Acquire);
    if tool_of != 0 {
        return (tool_of == copy).into();
    }
    WITHIN[0].store(within.start, Relaxed);
    WITHIN[1].store(within.end, Relaxed);
    PARALLEL_INFO.store(parallel_info, Relaxed);
    COPY.store(copy, Release);
    1
}

/// Does nothing: teams may still exist, whose threads must all continue as they have begun.
extern "C" fn finalize(_data: *mut c_void) {}

/// A team of the library of LLVM, and all later ones with the same memory and number of threads.
struct Team {
    /// The address of the tool data.
    slot: usize,
    size: u32,
    /// The forks before it: the child of a fork has the teams of its parent, with threads that have
    /// arrived and will never continue.
    forks: u32,
    /// Whether its threads must use the real barrier.
    refused: AtomicBool,
    omp_team: OmpTeam,
}

/// The tool data of a team: its [`Team`], or null.
type TeamSlot = AtomicPtr<Team>;

/// In a slot: a thread is determining the team.
const CLAIMED: *mut Team = std::ptr::without_provenance_mut(1);

impl Team {
    /// The team of the calling thread in the copy of which this library is a tool; `None` if it is
    /// unknown, or has one thread.
    fn of_this_thread(settings: &Settings) -> Option<&'static Team> {
        let mut slot: *mut TeamSlot = std::ptr::null_mut();
        let mut size = 0;
        if COPY.load(Acquire) == 0 {
            return None;
        }
        let parallel_info = PARALLEL_INFO.load(Relaxed);
        // SAFETY: it is the requested function, which has this type. It returns the address of a
        // word that belongs to the tool and exists as long as the calling thread is in the team.
        let slot = unsafe {
            let parallel_info = std::mem::transmute::<*mut c_void, ParallelInfo>(parallel_info);
            if parallel_info(0, &raw mut slot, &raw mut size) != 2 {
                return None;
            }
            slot.as_ref()?
        };
        let size = u32::try_from(size).ok().filter(|size| *size > 1)?;
        Some(Team::stored(slot.load(Acquire), size).unwrap_or_else(|| Team::begin(slot, size, settings)))
    }

    /// The team stored in a slot, if it has this size.
    fn stored(team: *mut Team, size: u32) -> Option<&'static Team> {
        if team == CLAIMED {
            return None;
        }
        // SAFETY: only teams that live forever are stored, besides the value excluded above.
        unsafe { team.as_ref() }.filter(|team| team.size == size)
    }

    /// Determines the team for its first threads: one of them does it, and the others wait for it.
    /// No lock is held, because the child of a fork would find it locked.
    #[cold]
    fn begin(slot: &TeamSlot, size: u32, settings: &Settings) -> &'static Team {
        loop {
            let known = slot.load(Acquire);
            if known == CLAIMED {
                std::thread::yield_now();
                continue;
            }
            if let Some(team) = Team::stored(known, size) {
                return team;
            }
            if slot.compare_exchange(known, CLAIMED, Relaxed, Relaxed).is_ok() {
                break;
            }
        }
        let team = Team::find(std::ptr::from_ref(slot).addr(), size);
        // The code of its region is loaded by now, so any cancellation is detected.
        FINDINGS.scan();
        let reason = FINDINGS.known();
        if let Some(reason) = reason {
            settings.pass_through(WaitKind::Libomp, reason);
        }
        team.refused.store(reason.is_some(), Relaxed);
        team.omp_team.begin_again();
        slot.store(std::ptr::from_ref(team).cast_mut(), Release);
        team
    }

    /// The stored team with this slot and size, or a new one.
    fn find(slot: usize, size: u32) -> &'static Team {
        /// Further teams are created each time, and leak.
        const MOST: usize = 1024;
        static ALL: [AtomicPtr<Team>; MOST] = [const { AtomicPtr::new(std::ptr::null_mut()) }; MOST];
        let forks = forks::count();
        let new = || {
            let omp_team = OmpTeam::new();
            Box::into_raw(Box::new(Team { slot, size, forks, refused: AtomicBool::new(false), omp_team }))
        };
        let first = (slot >> 4).wrapping_add(size as usize);
        for place in (0..MOST).map(|further| &ALL[first.wrapping_add(further) % MOST]) {
            let mut team = place.load(Acquire);
            if team.is_null() {
                let made = new();
                match place.compare_exchange(team, made, AcqRel, Acquire) {
                    Ok(_) => team = made,
                    Err(earlier) => {
                        // SAFETY: no other thread has seen it.
                        drop(unsafe { Box::from_raw(made) });
                        team = earlier;
                    }
                }
            }
            // SAFETY: stored teams live forever.
            let team = unsafe { &*team };
            if (team.slot, team.size, team.forks) == (slot, size, forks) {
                return team;
            }
        }
        // SAFETY: it was just created, and lives forever.
        unsafe { &*new() }
    }
}

/// `__kmpc_barrier`, called from an address.
extern "C-unwind" fn barrier(location: usize, thread: c_int, caller: usize) {
    let libomp = FAMILY.of(caller);
    if !libomp.is_some_and(|libomp| meet(libomp, location, thread, caller)) {
        // SAFETY: the caller's own call.
        unsafe { Libomp::__kmpc_barrier(libomp, location, thread) };
    }
}

with_caller! {
    __kmpc_barrier: 2 => barrier,
}

/// Waits for the team. Returns `false` if all threads of the team must use the real barrier.
fn meet(libomp: &'static Libomp, location: usize, thread: c_int, caller: usize) -> bool {
    let Some(settings) = Settings::get() else { return false };
    if is_within(caller) {
        return false;
    }
    if COPY.load(Acquire) != libomp.__kmpc_barrier as usize {
        let reason = match TOOL_STATE.load(Relaxed) {
            OTHER_TOOL => Reason::Tool,
            _ => FINDINGS.known().unwrap_or(Reason::Library),
        };
        settings.pass_through(WaitKind::Libomp, reason);
        return false;
    }
    let Some(team) = Team::of_this_thread(settings) else { return false };
    if team.refused.load(Relaxed) {
        return false;
    }
    let Some(slots) = team.omp_team.slots(settings, || team.size) else { return false };
    if team.omp_team.meet(slots, settings, WaitKind::Libomp) == Meeting::TasksPending {
        settings.pass_through(WaitKind::Libomp, Reason::Tasks);
        // SAFETY: the caller's own call.
        unsafe { Libomp::__kmpc_barrier(Some(libomp), location, thread) };
    }
    true
}

/// Every task is allocated before it is used. Records the task, and calls the real function.
///
/// # Safety
/// As for the real symbol.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __kmpc_omp_task_alloc(
    location: usize,
    thread: usize,
    flags: usize,
    size: usize,
    shared: usize,
    task: usize,
) -> usize {
    FINDINGS.record(Reason::Tasks);
    note_task();
    gomp::note_task();
    // SAFETY: the caller's own call. The code of the task is in the library of its creator.
    unsafe { Libomp::__kmpc_omp_task_alloc(FAMILY.of(task), location, thread, flags, size, shared, task) }
}

/// Records that the calling thread creates a task, if its team is known.
pub(crate) fn note_task() {
    if let Some(settings) = Settings::get()
        && let Some(team) = Team::of_this_thread(settings)
    {
        team.omp_team.note_task();
    }
}

/// Whether code at this address belongs to the copy.
fn is_within(address: usize) -> bool {
    (WITHIN[0].load(Relaxed)..WITHIN[1].load(Relaxed)).contains(&address)
}
