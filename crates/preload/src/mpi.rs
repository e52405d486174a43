//! MPI calls that wait, if the message library polls without yielding: in MPICH and its
//! derivatives, by the profiling layer of the standard. Open MPI yields, and its waits are
//! intercepted there (the module `yields`).
//!
//! Only ranks that have to share CPUs with each other wait by a rule. If each has its own CPU,
//! polling is fastest. If these CPUs are shared with other jobs in turns, ranks poll in their turn,
//! and sleep out of it (`wait::turn`).
//!
//! * `Wait`, `Waitall`, `Waitany` and `Waitsome` poll with `Request_get_status`, which changes
//!   nothing. The real call follows, and need not wait.
//! * `Recv`, `Send`, `Ssend` and `Rsend` make the nonblocking call, and continue as `Wait`.
//! * `Probe` and `Mprobe` call `Iprobe` or `Improbe` until there is a message.
//! * `Barrier`, `Bcast` and other collectives that only transfer data make the nonblocking call,
//!   and continue as `Wait`, if all ranks do so (the module `agreement`).
//! * `Reduce` and other collectives that compute are passed through: another algorithm may add in
//!   another order.
//!
//! So errors, handles and statuses come from the library itself. A request that the program
//! completes by itself, whose status comes from a function of the program, is passed through. So
//! are calls on communicators with ranks that did not start with this job: their behaviour is
//! unknown.
//!
//! Both names of each call are interposed, `MPI_` and `PMPI_`: the bindings of some languages call
//! the latter, and so do tools in between, which continue to see the calls of the program.
//!
//! No header is available: handles are numbers in one library and pointers in another. Arguments
//! are passed on as registers, whose unused halves are ignored.

mod agreement;
mod calls;

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use counters::{Reason, WaitKind};
use policy::Instant;
use policy::waiting::{Missing, Running, Waiter, WaitingRule};
use wait::external::{Awaited, ExternalObject, UnknownThread};
use wait::{Counters, Waiting, turn};

use self::agreement::Agreement;
use crate::backoff::Backoff;
use crate::ranks::Ranks;
use crate::real_symbols::{RealSymbol, real_symbols};
use crate::settings::Settings;
use crate::site;

/// Any argument: a number, a handle or a pointer, as it is in its register.
type Word = usize;
/// A request, as the library stores it.
type Request = c_int;

/// The names of MPICH and its derivatives.
const KNOWN_LIBRARIES: [&[u8]; 4] = [b"MPICH", b"MVAPICH", b"Intel(R) MPI", b"CRAY MPICH"];
/// The maximum length of their version text.
const VERSION: usize = 8192;

/// Constants of their common ABI.
const NULL_REQUEST: Request = 0x2c00_0000;
const WORLD: Word = 0x4400_0000;
const PROC_NULL: c_int = -1;
const NULL_DATATYPE: u32 = 0x0c00_0000;
const NULL_COMMUNICATOR: c_int = 0x0400_0000;
const IGNORED_STATUS: Word = 1;

/// The duration of a poll, in iterations of the pause instruction.
const PAUSES: u32 = 4;

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

/// The state of this job once the message library is initialized.
struct Job {
    waiting: Waiting,
    ranks: u32,
    /// Whether all ranks have agreed to perform collective calls in steps.
    collectives: bool,
    /// Whether ranks poll in their turn, since each has a CPU of its own.
    polls: bool,
    /// The memory of the rule.
    state: AtomicU64,
}

static JOB: OnceLock<Job> = OnceLock::new();
/// The counts of waits that are not reported.
static POLLS: Counters = Counters::new();

/// Whether there are requests that the program completes by itself.
static PROGRAMS_REQUESTS: AtomicBool = AtomicBool::new(false);
/// Whether this rank has met ranks that did not start with the job.
static FOREIGN_RANKS: AtomicBool = AtomicBool::new(false);

impl Job {
    /// The job, if its ranks have to wait by a rule.
    #[inline]
    fn get() -> Option<(&'static Job, &'static Settings)> {
        JOB.get().zip(Settings::get())
    }

    /// Initializes the message library by the real call.
    ///
    /// # Safety
    /// If `initialize` returns 0, the message library is initialized.
    unsafe fn begin(initialize: impl FnOnce() -> c_int) -> c_int {
        let agreement = Settings::get().filter(|_| is_known()).map(|settings| (settings, Agreement::sign()));
        let result = initialize();
        if let (0, Some((settings, agreement))) = (result, agreement) {
            let mut size: c_int = 0;
            // SAFETY: the library is initialized, and there is room for the answer.
            unsafe { real::PMPI_Comm_size(WORLD, (&raw mut size).addr()) };
            let size = u32::try_from(size).unwrap_or(0);
            let ranks = Ranks::find().unwrap_or_else(|| Ranks::here(size));
            let wait_by_rule = ranks.are_oversubscribed() || turn::page().is_some();
            let collectives = agreement.is_some_and(|agreement| agreement.settle(size, wait_by_rule));
            // If all have agreed, this rank must also perform collective calls in steps, even if it
            // finds enough CPUs.
            if wait_by_rule || collectives {
                // A rank with a CPU of its own polls as it would without the library, in its turn.
                let polls = !ranks.are_oversubscribed() && turn::page().is_some();
                let waiting = if polls { Waiting::by(WaitingRule::AlwaysSpin) } else { settings.waiting };
                let waiting = waiting.with_cpus(ranks.cpus);
                let _ = JOB.set(Job { waiting, ranks: ranks.here, collectives, polls, state: AtomicU64::new(0) });
                if !collectives {
                    settings.pass_through(WaitKind::Mpi, Reason::Ranks);
                }
            }
        }
        result
    }

    /// Waits by the rule until the event has come.
    fn wait(&self, settings: &Settings, mut poll: impl FnMut() -> bool) {
        thread_local! {
            /// The state of a thread across waits.
            static WAITER: Cell<Option<Waiter>> = const { Cell::new(None) };
        }
        if poll() {
            return;
        }
        // The waits of a rank that polls are not helped by the library, which reports none of them.
        let counters = if self.polls { &POLLS } else { &settings.count_wait(WaitKind::Mpi).counters };
        let mut waiter = WAITER.take().unwrap_or_else(|| ExternalObject::waiter(&self.waiting));
        let object = ExternalObject { state: &self.state, counters, waiting: self.waiting, threads: self.ranks };
        object.wait(&mut waiter, &mut MpiEvent { poll, backoff: Backoff::new(), missing: UnknownThread::new() });
        WAITER.set(Some(waiter));
    }

    /// Waits until a request is complete, and leaves it complete.
    ///
    /// # Safety
    /// As for [`is_complete`].
    unsafe fn wait_for(&self, settings: &Settings, request: Request) {
        // SAFETY: the caller's request.
        self.wait(settings, || unsafe { is_complete(request) });
    }
}

/// An event to poll for in the message library.
struct MpiEvent<F> {
    poll: F,
    backoff: Backoff,
    missing: UnknownThread,
}

impl<F: FnMut() -> bool> Awaited for MpiEvent<F> {
    fn poll(&mut self) -> bool {
        (self.poll)()
    }

    fn pause(&mut self) -> u32 {
        PAUSES
    }

    fn sleep(&mut self, _: Option<Instant>) {
        crate::preserve_errno(|| {
            if !turn::park(site::now()) {
                self.backoff.sleep();
            }
        });
    }

    /// The missing rank is unknown. But there are more ranks than CPUs: one of them may well wait
    /// for this CPU.
    fn missing(&mut self) -> &[Missing] {
        self.missing.assume_here()
    }

    fn running(&mut self) -> Running {
        Running::NotAll
    }
}

/// Whether the message library of the program never yields, and has all required functions.
fn is_known() -> bool {
    static VERSION_TEXT: RealSymbol = RealSymbol::new(c"PMPI_Get_library_version");
    /// The newest functions that are called here, since MPI 3.
    static NEWEST: [RealSymbol; 2] = [RealSymbol::new(c"PMPI_Ibarrier"), RealSymbol::new(c"PMPI_Improbe")];
    if VERSION_TEXT.address().is_none() || NEWEST.iter().any(|function| function.address().is_none()) {
        return false;
    }
    let mut text = [0_u8; VERSION];
    let mut length: c_int = 0;
    // SAFETY: there is room for the answer, and it may be called before initialization.
    unsafe { real::PMPI_Get_library_version(text.as_mut_ptr().addr(), (&raw mut length).addr()) };
    KNOWN_LIBRARIES.iter().any(|name| text.starts_with(name))
}

/// Whether a request is complete. Does not change it.
///
/// # Safety
/// The request is null, or a request of the message library that no other thread completes.
unsafe fn is_complete(request: Request) -> bool {
    if request == NULL_REQUEST {
        return true;
    }
    let mut flag: c_int = 0;
    // SAFETY: the caller's request, and room for the answer.
    let result =
        unsafe { real::PMPI_Request_get_status(request as u32 as Word, (&raw mut flag).addr(), IGNORED_STATUS) };
    // The real call reports any error.
    result != 0 || flag != 0
}

/// The job, if all requests are those of the library.
fn job_with_requests() -> Option<(&'static Job, &'static Settings)> {
    let (job, settings) = Job::get()?;
    if PROGRAMS_REQUESTS.load(Relaxed) {
        settings.pass_through(WaitKind::Mpi, Reason::Program);
        return None;
    }
    Some((job, settings))
}

/// The job, if all ranks perform a collective call on this communicator in steps.
///
/// On an intercommunicator they never do: some of its ranks may know of foreign ranks and others
/// not.
///
/// # Safety
/// It is a communicator of the message library.
unsafe fn job_with_collectives(communicator: Word) -> Option<(&'static Job, &'static Settings)> {
    let (job, settings) = Job::get().filter(|(job, _)| job.collectives)?;
    let mut inter: c_int = 0;
    // SAFETY: the caller's communicator, and room for the answer.
    let known = unsafe { real::PMPI_Comm_test_inter(communicator, (&raw mut inter).addr()) } == 0 && inter == 0;
    // SAFETY: as above.
    if !known || (FOREIGN_RANKS.load(Relaxed) && !unsafe { is_of_this_job(communicator) }) {
        settings.pass_through(WaitKind::Mpi, Reason::Ranks);
        return None;
    }
    Some((job, settings))
}

/// Whether all ranks of an intracommunicator started with this job. All of them get the same
/// answer: those of another job find ranks that are not of theirs.
///
/// # Safety
/// It is an intracommunicator of the message library.
unsafe fn is_of_this_job(communicator: Word) -> bool {
    let (mut group, mut world, mut others): (c_int, c_int, c_int) = (0, 0, 0);
    let mut foreign: c_int = 1;
    let word = |handle: c_int| handle as u32 as Word;
    // SAFETY: the caller's communicator, and room for the answers.
    unsafe {
        real::PMPI_Comm_group(communicator, (&raw mut group).addr());
        real::PMPI_Comm_group(WORLD, (&raw mut world).addr());
        real::PMPI_Group_difference(word(group), word(world), (&raw mut others).addr());
        real::PMPI_Group_size(word(others), (&raw mut foreign).addr());
        for group in [&raw mut group, &raw mut world, &raw mut others] {
            real::PMPI_Group_free(group.addr());
        }
    }
    foreign == 0
}

/// Makes a nonblocking call and waits for its end. `begin` is passed the address for the request.
///
/// # Safety
/// If `begin` returns 0, it has stored a request at its address. At `status` there is room for a
/// status, unless that is ignored.
unsafe fn complete(job: &Job, settings: &Settings, status: Word, begin: impl FnOnce(Word) -> c_int) -> c_int {
    let mut request: Request = NULL_REQUEST;
    let result = begin((&raw mut request).addr());
    if result != 0 || cfg!(rowlock_canary = "a-message-is-not-waited-for") {
        return result;
    }
    // SAFETY: the request was begun, and no other code has it.
    unsafe {
        job.wait_for(settings, request);
        real::PMPI_Wait((&raw mut request).addr(), status)
    }
}
