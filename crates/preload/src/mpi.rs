//! MPI's calls that wait, where the message library waits by looking again and again and lets nothing else run: in MPICH and its relatives,
//! by the standard's profiling layer. In Open MPI, which gives way, waits are met with where it does (the module `yields`).
//!
//! Only ranks that have to share CPUs with each other wait by a rule. Where each has its own, nothing is quicker than to look.
//!
//! | call | is done as |
//! |---|---|
//! | `Wait`, `Waitall`, `Waitany`, `Waitsome` | looked for by `Request_get_status`, which changes nothing; the original call when it need not wait |
//! | `Recv`, `Send`, `Ssend`, `Rsend` | begun by the call without a wait, then as `Wait` |
//! | `Probe`, `Mprobe` | `Iprobe`, `Improbe` until there is something |
//! | `Barrier`, `Bcast` and other collectives that only carry data | begun by the call without a wait, then as `Wait`, if all ranks do so (the module `agreement`) |
//! | `Reduce` and other collectives that compute | left: another algorithm may add in another order |
//!
//! So errors, handles and what a status says come from the library itself. A request that the program completes by itself, which has a function
//! of the program's to ask for its status, is left, as are communicators with ranks that this job was not begun with: what those
//! ranks do is not known.
//!
//! Both names of each call are met with, `MPI_` and `PMPI_`: some languages' bindings call the latter, and so do tools that come between, which go on seeing what
//! the program calls.
//!
//! There is no header here: handles are numbers in one library and pointers in another. Arguments are passed on as registers, whose unused halves
//! nobody looks at.

mod agreement;
mod calls;

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use counters::{Reason, WaitKind};
use policy::waiting::{Missing, Waiter};
use policy::{CpuId, Instant, ThreadId};
use wait::Waiting;
use wait::foreign::{Awaited, Place};

use self::agreement::Agreement;
use crate::backoff::Backoff;
use crate::ranks::Ranks;
use crate::real_symbols::{RealSymbol, real_symbols};
use crate::settings::Settings;

/// What takes the place of any argument: a number, a handle or a pointer, as it stands in its register.
type Word = usize;
/// A request, as the library stores it.
type Request = c_int;

/// How MPICH and its relatives call themselves.
const RELATIVES: [&[u8]; 4] = [b"MPICH", b"MVAPICH", b"Intel(R) MPI", b"CRAY MPICH"];
/// The most that such a library says of its version.
const VERSION: usize = 8192;

/// Constants of their common ABI.
const NULL_REQUEST: Request = 0x2c00_0000;
const WORLD: Word = 0x4400_0000;
const PROC_NULL: c_int = -1;
const NULL_DATATYPE: u32 = 0x0c00_0000;
const NULL_COMMUNICATOR: c_int = 0x0400_0000;
const IGNORED_STATUS: Word = 1;

/// A look takes as long as so many turns of the processor's pause.
const TURNS: u32 = 4;

real_symbols! {
    fn PMPI_Get_library_version(text: Word, length: Word) -> c_int;
    fn PMPI_Comm_size(communicator: Word, size: Word) -> c_int;
    fn PMPI_Comm_test_inter(communicator: Word, flag: Word) -> c_int;
    fn PMPI_Comm_group(communicator: Word, group: Word) -> c_int;
    fn PMPI_Group_difference(one: Word, other: Word, group: Word) -> c_int;
    fn PMPI_Group_size(group: Word, size: Word) -> c_int;
    fn PMPI_Group_free(group: Word) -> c_int;
    fn PMPI_Request_get_status(request: Word, flag: Word, status: Word) -> c_int;
    fn PMPI_Wait(request: Word, status: Word) -> c_int;
}

/// Whoever is missing.
const ANY_RANK: [Missing; 1] = [Missing { thread: ThreadId(1), last_seen: None }];

/// What is known of this job once the message library is initialised.
struct Job {
    waiting: Waiting,
    ranks: u32,
    /// Whether all ranks have agreed to do collective calls in steps.
    collectives: bool,
    /// The rule's memory.
    state: AtomicU64,
}

static JOB: OnceLock<Job> = OnceLock::new();

/// Whether there are requests that the program completes by itself.
static PROGRAMS_REQUESTS: AtomicBool = AtomicBool::new(false);
/// Whether this rank has met others that the job was not begun with.
static FOREIGN_RANKS: AtomicBool = AtomicBool::new(false);

impl Job {
    /// Where the ranks of this job have to wait by a rule: nothing elsewhere.
    #[inline]
    fn get() -> Option<(&'static Job, &'static Settings)> {
        JOB.get().zip(Settings::get())
    }

    /// Initialises the library by the original.
    unsafe fn begin(initialise: impl FnOnce() -> c_int) -> c_int {
        let agreement = Settings::get().filter(|_| is_known()).map(|settings| (settings, Agreement::sign()));
        let result = initialise();
        if let (0, Some((settings, agreement))) = (result, agreement) {
            let mut size: c_int = 0;
            // SAFETY: the library is initialised, and there is room for the answer.
            unsafe { real::PMPI_Comm_size(WORLD, (&raw mut size).addr()) };
            let size = u32::try_from(size).unwrap_or(0);
            let ranks = Ranks::find().unwrap_or_else(|| Ranks::here(size));
            let collectives = agreement.is_some_and(|agreement| agreement.settle(size, ranks.are_oversubscribed()));
            // Where all have agreed to, this rank must do collective calls in steps too, whatever it has found.
            if ranks.are_oversubscribed() || collectives {
                let waiting = settings.waiting.with_cpus(ranks.cpus);
                let _ = JOB.set(Job { waiting, ranks: ranks.here, collectives, state: AtomicU64::new(0) });
                if !collectives {
                    settings.statistics.pass_through(WaitKind::Mpi, Reason::Ranks, 1);
                }
            }
        }
        result
    }

    /// Waits by the rule until it has come.
    fn wait(&self, settings: &Settings, mut has_come: impl FnMut() -> bool) {
        thread_local! {
            /// What a thread keeps from wait to wait.
            static WAITER: Cell<Option<Waiter>> = const { Cell::new(None) };
        }
        if has_come() {
            return;
        }
        let tally = settings.tally(WaitKind::Mpi);
        tally.add_waits(1);
        let mut waiter = WAITER.take().unwrap_or_else(|| Place::waiter(&self.waiting));
        let place = Place { state: &self.state, counters: &tally.counters, waiting: self.waiting, threads: self.ranks };
        place.outlast(&mut waiter, &mut Look { has_come, backoff: Backoff::new(), missing: ANY_RANK });
        WAITER.set(Some(waiter));
    }

    /// Waits until a request is complete, which it stays.
    unsafe fn wait_for(&self, settings: &Settings, request: Request) {
        // SAFETY: the caller's request.
        self.wait(settings, || unsafe { is_complete(request) });
    }
}

/// Something to look for in the message library.
struct Look<F> {
    has_come: F,
    backoff: Backoff,
    missing: [Missing; 1],
}

impl<F: FnMut() -> bool> Awaited for Look<F> {
    fn has_come(&mut self) -> bool {
        (self.has_come)()
    }

    fn pause(&mut self) -> u32 {
        TURNS
    }

    fn sleep(&mut self, _: Option<Instant>) {
        crate::preserve_errno(|| self.backoff.sleep());
    }

    /// Nobody knows who is missing. But there are more ranks than CPUs: one of them may well wait for this CPU.
    fn missing(&mut self) -> &[Missing] {
        self.missing[0].last_seen = Some(CpuId(sys::cpus::current()));
        &self.missing
    }
}

/// Whether the program's message library is one of those that never give way, and has what it takes.
fn is_known() -> bool {
    static VERSION_TEXT: RealSymbol = RealSymbol::new(c"PMPI_Get_library_version");
    /// The youngest of all that is called here, which came with MPI 3.
    static YOUNGEST: [RealSymbol; 2] = [RealSymbol::new(c"PMPI_Ibarrier"), RealSymbol::new(c"PMPI_Improbe")];
    if VERSION_TEXT.address().is_none() || YOUNGEST.iter().any(|function| function.address().is_none()) {
        return false;
    }
    let mut text = [0_u8; VERSION];
    let mut length: c_int = 0;
    // SAFETY: there is room for the answer, and it may be asked before all else.
    unsafe { real::PMPI_Get_library_version(text.as_mut_ptr().addr(), (&raw mut length).addr()) };
    RELATIVES.iter().any(|name| text.starts_with(name))
}

/// Whether a request is complete. Changes nothing of it.
unsafe fn is_complete(request: Request) -> bool {
    if request == NULL_REQUEST {
        return true;
    }
    let mut flag: c_int = 0;
    // SAFETY: the caller's request, and room for the answer.
    let result =
        unsafe { real::PMPI_Request_get_status(request as u32 as Word, (&raw mut flag).addr(), IGNORED_STATUS) };
    // What is wrong with it is for the original to say.
    result != 0 || flag != 0
}

/// The job, where its requests are the library's own.
fn job_with_requests() -> Option<(&'static Job, &'static Settings)> {
    let (job, settings) = Job::get()?;
    if PROGRAMS_REQUESTS.load(Relaxed) {
        settings.statistics.pass_through(WaitKind::Mpi, Reason::Program, 1);
        return None;
    }
    Some((job, settings))
}

/// The job, where a collective call on this communicator is done in steps by all.
///
/// Where it has two sides, nobody does so: some of the ranks may know of strangers and others not.
unsafe fn job_with_collectives(communicator: Word) -> Option<(&'static Job, &'static Settings)> {
    let (job, settings) = Job::get().filter(|(job, _)| job.collectives)?;
    let mut inter: c_int = 0;
    // SAFETY: the caller's communicator, and room for the answer.
    let known = unsafe { real::PMPI_Comm_test_inter(communicator, (&raw mut inter).addr()) } == 0 && inter == 0;
    // SAFETY: as above.
    if !known || (FOREIGN_RANKS.load(Relaxed) && !unsafe { is_of_this_job(communicator) }) {
        settings.statistics.pass_through(WaitKind::Mpi, Reason::Ranks, 1);
        return None;
    }
    Some((job, settings))
}

/// Whether all ranks of a communicator with one side have been there from the beginning. Every one of them comes to the same
/// answer: those of another job find that there are ranks that are not of theirs.
unsafe fn is_of_this_job(communicator: Word) -> bool {
    let (mut group, mut world, mut others): (c_int, c_int, c_int) = (0, 0, 0);
    let mut strangers: c_int = 1;
    let word = |handle: c_int| handle as u32 as Word;
    // SAFETY: the caller's communicator, and room for the answers.
    unsafe {
        real::PMPI_Comm_group(communicator, (&raw mut group).addr());
        real::PMPI_Comm_group(WORLD, (&raw mut world).addr());
        real::PMPI_Group_difference(word(group), word(world), (&raw mut others).addr());
        real::PMPI_Group_size(word(others), (&raw mut strangers).addr());
        for group in [&raw mut group, &raw mut world, &raw mut others] {
            real::PMPI_Group_free(group.addr());
        }
    }
    strangers == 0
}

/// Does what was begun without a wait to its end. `begin` says where the request goes.
unsafe fn done(job: &Job, settings: &Settings, status: Word, begin: impl FnOnce(Word) -> c_int) -> c_int {
    let mut request: Request = NULL_REQUEST;
    let result = begin((&raw mut request).addr());
    if result != 0 || cfg!(rowlock_canary = "a-message-is-not-waited-for") {
        return result;
    }
    // SAFETY: the request was begun, and nobody else has it.
    unsafe {
        job.wait_for(settings, request);
        real::PMPI_Wait((&raw mut request).addr(), status)
    }
}
