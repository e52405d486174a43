//! OpenMP as clang compiles it: its barriers, written and implied, but for those at the ends of parallel regions, which are within LLVM's
//! library and out of reach.
//!
//! # Which team
//!
//! A barrier of ours needs to know for sure whom a thread is to meet, and `__kmpc_barrier` is told nothing of that. But the library
//! has an interface for tools ("OMPT"), which tells where each team has room for something of the tool's, empty at
//! first. The first thread of a team that comes to a barrier writes there what [`Team`] it is. So this library is a tool, unless
//! there is another, and one that wants to hear of nothing: it only asks.
#![allow(non_snake_case)] // As LLVM calls them.
#![allow(clippy::too_many_arguments)] // As many as they have.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicUsize};

use counters::{Reason, WaitKind};

use crate::caller::with_caller;
use crate::family::{Family, Library, family};
use crate::findings::FINDINGS;
use crate::gomp;
use crate::objects;
use crate::real_symbols::{RealSymbol, real_symbols};
use crate::settings::Settings;
use crate::team::{Meeting, OmpTeam};

family! {
    /// The functions of one copy of LLVM's library.
    struct Libomp {
        fn __kmpc_barrier(location: usize, thread: c_int);
        fn __kmpc_omp_task_alloc(
            location: usize, thread: usize, flags: usize, size: usize, shared: usize, task: usize,
        ) -> usize;
    }
}

real_symbols! {
    fn __kmpc_barrier(location: usize, thread: c_int);
    fn __kmpc_omp_task_alloc(
        location: usize, thread: usize, flags: usize, size: usize, shared: usize, task: usize,
    ) -> usize;
}

static FAMILY: Family<Libomp> = Family::new(c"__kmpc_barrier");

/// What a tool is to tell of itself.
#[repr(C)]
struct Tool {
    initialize: unsafe extern "C" fn(Lookup, c_int, *mut c_void) -> c_int,
    finalize: unsafe extern "C" fn(*mut c_void),
    data: u64,
}

/// How a tool gets the functions that it may call.
type Lookup = unsafe extern "C" fn(*const c_char) -> *mut c_void;

/// Tells where the room for a tool's data of a team is, and how many threads it has.
type ParallelInfo = unsafe extern "C" fn(c_int, *mut *mut AtomicPtr<Team>, *mut c_int) -> c_int;

/// What this library has become to LLVM's. It is a tool of one copy: others are not asked.
static STANDING: AtomicU8 = AtomicU8::new(UNKNOWN);
/// It was not asked to be a tool.
const UNKNOWN: u8 = 0;
/// It is one.
const TOOL: u8 = 1;
/// There is another.
const OTHER_TOOL: u8 = 2;

/// A [`ParallelInfo`].
static PARALLEL_INFO: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
/// Where the copy that it is a tool of has `__kmpc_barrier`; zero where it is a tool of none.
static COPY: AtomicUsize = AtomicUsize::new(0);
/// From where to where that copy is in memory. It calls itself, too, where it stands in for gcc's, whose calls are looked after already.
static WITHIN: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// What LLVM's library calls to find a tool, before there are any teams.
#[unsafe(no_mangle)]
unsafe extern "C" fn ompt_start_tool(version: c_uint, runtime: *const c_char) -> *const Tool {
    static NEXT: RealSymbol = RealSymbol::new(c"ompt_start_tool");
    static THIS: Tool = Tool { initialize, finalize, data: 0 };

    let other = NEXT.address().map_or(std::ptr::null(), |next| {
        // SAFETY: it is the function of this name, which has this type, and is asked as this one was.
        unsafe {
            let next =
                std::mem::transmute::<*mut c_void, unsafe extern "C" fn(c_uint, *const c_char) -> *const Tool>(next);
            next(version, runtime)
        }
    });
    // The library looks for others where it finds none here: in this variable, and with the thread sanitizer.
    let named = std::env::var_os("OMP_TOOL_LIBRARIES").is_some_and(|names| !names.is_empty());
    // SAFETY: a handle that is always valid, and a name with its zero.
    let sanitized = unsafe { !libc::dlsym(libc::RTLD_DEFAULT, c"__tsan_init".as_ptr()).is_null() };
    if !other.is_null() || named || sanitized {
        STANDING.store(OTHER_TOOL, Relaxed);
        return other;
    }
    FINDINGS.look();
    // Without use there need not be a tool.
    if Settings::get().is_none() || FINDINGS.known().is_some() {
        return std::ptr::null();
    }
    STANDING.store(TOOL, Relaxed);
    &raw const THIS
}

unsafe extern "C" fn initialize(lookup: Lookup, _device: c_int, _data: *mut c_void) -> c_int {
    // SAFETY: a name with its zero.
    let parallel_info = unsafe { lookup(c"ompt_get_parallel_info".as_ptr()) };
    let copy = Library::at(lookup as usize).map_or(0, |library| library.function(c"__kmpc_barrier").addr());
    let (Some(within), false, false) = (objects::around(lookup as usize), parallel_info.is_null(), copy == 0) else {
        return 0;
    };
    // Of another copy it is no tool. The same one may begin again, after a pause.
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

/// There may still be teams, whose threads all are to go on as they have begun.
unsafe extern "C" fn finalize(_data: *mut c_void) {}

/// A team of LLVM's library, and all later ones for which it uses the same memory and that have as many threads.
struct Team {
    /// Where the room for a tool's data is.
    room: usize,
    size: u32,
    /// The process: the child of a fork has its parent's teams, with threads that have arrived and will never go on.
    process: libc::pid_t,
    /// Its threads are to use the original.
    refused: AtomicBool,
    omp_team: OmpTeam,
}

/// The room for a tool's data of a team: what was found there for its threads, or nothing yet.
type Room = AtomicPtr<Team>;

/// In a room: some thread is about to say what the team is.
const CLAIMED: *mut Team = std::ptr::without_provenance_mut(1);

impl Team {
    /// That of the calling thread in the copy that this library is a tool of; nothing where that cannot be told, or there is nobody
    /// else in it.
    fn of_this_thread(settings: &Settings) -> Option<&'static Team> {
        let mut room: *mut Room = std::ptr::null_mut();
        let mut size = 0;
        if COPY.load(Acquire) == 0 {
            return None;
        }
        let parallel_info = PARALLEL_INFO.load(Relaxed);
        // SAFETY: it is the function that it was asked for as, which has this type. It tells where there is room for a word, which is the tool's alone and
        // stays there as long as the calling thread is in the team.
        let room = unsafe {
            let parallel_info = std::mem::transmute::<*mut c_void, ParallelInfo>(parallel_info);
            if parallel_info(0, &raw mut room, &raw mut size) != 2 {
                return None;
            }
            room.as_ref()?
        };
        let size = u32::try_from(size).ok().filter(|size| *size > 1)?;
        let known = room.load(Acquire);
        if known != CLAIMED {
            // SAFETY: only teams that live for ever are stored, beside what was just looked for.
            if let Some(team) = unsafe { known.as_ref() }.filter(|team| team.size == size) {
                return Some(team);
            }
        }
        Some(Team::begin(room, size, settings))
    }

    /// What the first threads of a team do that ask: one of them says what it is, the others wait for that. No lock is held, which the
    /// child of a fork would find locked.
    #[cold]
    fn begin(room: &Room, size: u32, settings: &Settings) -> &'static Team {
        loop {
            let known = room.load(Acquire);
            if known == CLAIMED {
                std::thread::yield_now();
                continue;
            }
            // SAFETY: only teams that live for ever are stored, beside what was just looked for.
            if let Some(team) = unsafe { known.as_ref() }.filter(|team| team.size == size) {
                return team;
            }
            if room.compare_exchange(known, CLAIMED, Relaxed, Relaxed).is_ok() {
                break;
            }
        }
        let team = Team::find(std::ptr::from_ref(room).addr(), size);
        // The text of its region is loaded by now, so whatever cancels it is found.
        FINDINGS.look();
        let reason = FINDINGS.known();
        if let Some(reason) = reason {
            settings.statistics.pass_through(WaitKind::Libomp, reason, 1);
        }
        team.refused.store(reason.is_some(), Relaxed);
        team.omp_team.begin_again();
        room.store(std::ptr::from_ref(team).cast_mut(), Release);
        team
    }

    /// What was kept of an earlier team with this room and size, or a new one.
    fn find(room: usize, size: u32) -> &'static Team {
        /// Beyond these, teams are made anew each time, and stay.
        const MOST: usize = 1024;
        static ALL: [AtomicPtr<Team>; MOST] = [const { AtomicPtr::new(std::ptr::null_mut()) }; MOST];
        // SAFETY: no preconditions.
        let process = unsafe { libc::getpid() };
        let new = || {
            let omp_team = OmpTeam::new(Vec::new());
            Box::into_raw(Box::new(Team { room, size, process, refused: AtomicBool::new(false), omp_team }))
        };
        let first = (room >> 4).wrapping_add(size as usize);
        for place in (0..MOST).map(|further| &ALL[first.wrapping_add(further) % MOST]) {
            let mut team = place.load(Acquire);
            if team.is_null() {
                let made = new();
                match place.compare_exchange(team, made, AcqRel, Acquire) {
                    Ok(_) => team = made,
                    Err(earlier) => {
                        // SAFETY: nobody else has seen it.
                        drop(unsafe { Box::from_raw(made) });
                        team = earlier;
                    }
                }
            }
            // SAFETY: what is stored lives for ever.
            let team = unsafe { &*team };
            if (team.room, team.size, team.process) == (room, size, process) {
                return team;
            }
        }
        // SAFETY: it was just made, and lives for ever.
        unsafe { &*new() }
    }
}

/// `__kmpc_barrier`, called from an address.
extern "C-unwind" fn barrier(location: usize, thread: c_int, caller: usize) {
    // SAFETY: the caller's own call.
    unsafe {
        match FAMILY.of(caller) {
            Some(libomp) if meet(libomp, location, thread, caller) => {}
            Some(libomp) => libomp.__kmpc_barrier(location, thread),
            None => real::__kmpc_barrier(location, thread),
        }
    }
}

with_caller! {
    __kmpc_barrier: 2 => barrier,
}

/// Waits for the team; returns whether it has. If not, all threads of the team are to use the original.
fn meet(libomp: &'static Libomp, location: usize, thread: c_int, caller: usize) -> bool {
    let Some(settings) = Settings::get() else { return false };
    if is_within(caller) {
        return false;
    }
    if COPY.load(Acquire) != libomp.__kmpc_barrier as usize {
        let reason = match STANDING.load(Relaxed) {
            OTHER_TOOL => Reason::Tool,
            _ => FINDINGS.known().unwrap_or(Reason::Library),
        };
        settings.statistics.pass_through(WaitKind::Libomp, reason, 1);
        return false;
    }
    let Some(team) = Team::of_this_thread(settings) else { return false };
    if team.refused.load(Relaxed) {
        return false;
    }
    let Some(seats) = team.omp_team.seats(settings, || team.size) else { return false };
    if team.omp_team.meet(seats, settings, WaitKind::Libomp) == Meeting::TasksPending {
        settings.statistics.pass_through(WaitKind::Libomp, Reason::Tasks, 1);
        // SAFETY: the caller's own call.
        unsafe { libomp.__kmpc_barrier(location, thread) };
    }
    true
}

/// Every task is allocated before anything else is done with it. It says so, and goes on to the original.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __kmpc_omp_task_alloc(
    location: usize,
    thread: usize,
    flags: usize,
    size: usize,
    shared: usize,
    task: usize,
) -> usize {
    FINDINGS.note(Reason::Tasks);
    note_task();
    gomp::note_task();
    // SAFETY: the caller's own call. The task's text is in its maker's library.
    unsafe {
        match FAMILY.of(task) {
            Some(libomp) => libomp.__kmpc_omp_task_alloc(location, thread, flags, size, shared, task),
            None => real::__kmpc_omp_task_alloc(location, thread, flags, size, shared, task),
        }
    }
}

/// The calling thread makes a task. If its team is known, that is told.
pub(crate) fn note_task() {
    if let Some(settings) = Settings::get()
        && let Some(team) = Team::of_this_thread(settings)
    {
        team.omp_team.note_task();
    }
}

/// Whether code at this address is the copy's own.
fn is_within(address: usize) -> bool {
    (WITHIN[0].load(Relaxed)..WITHIN[1].load(Relaxed)).contains(&address)
}
