//! A periodic tick that interrupts a single kernel thread at any point: a POSIX timer that sends
//! SIGURG, or a [clock](ScriptedClock) that a test advances.
//!
//! SIGURG is ignored by default, the system calls that it interrupts are restarted, and debuggers
//! let it pass without stopping. Signals with other meanings go to the previous handler. So does
//! each tick, since the kernel does not say whether another SIGURG was merged with it: a handler of
//! SIGURG checks for its condition, and may find nothing.

use std::io;
use std::num::NonZeroU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crate::errno;
use crate::previous_handler::{self, PreviousHandler};

mod scripted;

pub use scripted::ScriptedClock;

/// The signals that a thread blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalMask(u64);

impl SignalMask {
    const TICKS: SignalMask = SignalMask(1 << (libc::SIGURG - 1));

    /// All signals but ticks, and without the two that the C library needs for itself.
    pub(crate) const ALL_BUT_TICKS: SignalMask = SignalMask(!(SignalMask::TICKS.0 | 3 << 31));

    /// Changes the mask of the calling thread by this one. Returns the one before. Preserves
    /// `errno`.
    pub(crate) fn change(self, how: libc::c_int) -> SignalMask {
        // SAFETY: zeros are valid sets, which begin as those of the kernel.
        unsafe {
            let mut sets: [libc::sigset_t; 2] = std::mem::zeroed();
            let [mask, before] = &mut sets;
            std::ptr::from_mut(mask).cast::<u64>().write_unaligned(self.0);
            // Directly: `pthread_sigmask` counts as the program's.
            libc::syscall(libc::SYS_rt_sigprocmask, how, &raw const *mask, &raw mut *before, size_of::<u64>());
            SignalMask::of(before)
        }
    }

    /// The mask of the calling thread.
    pub fn of_this_thread() -> SignalMask {
        SignalMask(0).change(libc::SIG_BLOCK)
    }

    /// Makes this the mask of the calling thread.
    pub fn apply_to_this_thread(&self) {
        self.change(libc::SIG_SETMASK);
    }

    /// This mask with ticks blocked as well.
    #[must_use]
    pub fn with_ticks(self) -> SignalMask {
        SignalMask(self.0 | SignalMask::TICKS.0)
    }

    /// The mask of a set, of which the kernel uses 64 bits.
    ///
    /// # Safety
    /// The pointer refers to a valid set.
    unsafe fn of(set: *const libc::sigset_t) -> SignalMask {
        // SAFETY: by the promise of the caller. A set begins with that of the kernel.
        SignalMask(unsafe { set.cast::<u64>().read_unaligned() })
    }
}

/// The timer slack of a thread, mostly 50 us: the delay by which the kernel may wake it late.
///
/// A sleep that a signal interrupts continues for the time that the kernel reports as remaining,
/// which includes the slack. So each interruption lengthens the sleep by the slack, and it never
/// ends if interruptions come more often than that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slack(Duration);

impl Slack {
    /// The slack of the calling thread.
    pub fn of_this_thread() -> Slack {
        // The kernel never refuses. Threads under a real-time policy have no slack.
        Slack(rustix::thread::current_timer_slack().map_or(Duration::ZERO, Duration::from_nanos))
    }

    /// Sets the slack of the calling thread and of those that it starts. Zero becomes a nanosecond.
    pub fn apply_to_this_thread(&self) {
        let nanoseconds = u64::try_from(self.0.as_nanos()).ok().and_then(NonZeroU64::new).unwrap_or(NonZeroU64::MIN);
        // If it is forbidden, sleeps are as late as before.
        let _ = rustix::thread::set_current_timer_slack(Some(nanoseconds));
    }

    /// Limits the slack so that interruptions at each `interval` lengthen sleeps by at most 1/8.
    #[must_use]
    pub fn limit_for(self, interval: Duration) -> Slack {
        Slack(self.0.min(interval / 8))
    }
}

/// Unblocks ticks on the calling thread. Preserves `errno`.
pub fn allow_on_this_thread() {
    allow(libc::SIG_UNBLOCK);
}

/// Blocks or unblocks ticks on the calling thread. Preserves `errno`.
pub(crate) fn allow(how: libc::c_int) {
    SignalMask::TICKS.change(how);
}

/// The code that a tick has interrupted.
#[derive(Debug)]
pub struct Interrupted {
    context: *mut libc::ucontext_t,
}

impl Interrupted {
    /// The code interrupted by a signal whose handler was passed this context.
    ///
    /// # Safety
    /// The handler does not return before this is dropped.
    pub(crate) unsafe fn at(context: *mut libc::c_void) -> Interrupted {
        Interrupted { context: context.cast() }
    }

    /// Its stack pointer.
    pub fn stack_pointer(&self) -> usize {
        self.registers().stack_pointer
    }

    /// Whether it waits on a futex, or is just about to, and waits again when the handler returns.
    /// A wait with a timeout is not restarted, but ends with `EINTR`.
    pub fn is_in_futex_wait(&self) -> bool {
        const WAITS: [i32; 4] = [libc::FUTEX_WAIT, libc::FUTEX_WAIT_BITSET, libc::FUTEX_LOCK_PI, libc::FUTEX_LOCK_PI2];
        let registers = self.registers();
        // The operation has 32 bits, of which some are flags.
        let operation = registers.operation as i32 & libc::FUTEX_CMD_MASK;
        registers.call == libc::SYS_futex as usize && WAITS.contains(&operation) && registers.is_at_system_call()
    }

    /// Whether it has just called `sched_yield`, as polling loops do.
    pub fn has_yielded(&self) -> bool {
        self.registers().is_after_yield()
    }

    /// Whether the handler runs on the alternate signal stack of the thread, which the kernel
    /// considers free as soon as it is left: either a handler was interrupted there, or other code
    /// has reinstalled our handler for that stack, as runtimes of other languages do.
    pub fn is_on_alternate_stack(&self) -> bool {
        // SAFETY: the kernel has written it.
        let stack = unsafe { &(*self.context).uc_stack };
        let low = stack.ss_sp.addr();
        // The context is at the start of the handler frame.
        stack.ss_flags & libc::SS_DISABLE == 0 && (low..low + stack.ss_size).contains(&self.context.addr())
    }

    /// Disables the alternate signal stack of the thread when the handler returns. Otherwise the
    /// thread gets the one of the time of the tick, even if that was on another kernel thread.
    pub fn disable_alternate_stack(&self) {
        // SAFETY: the kernel has written it, and other code does not access it meanwhile.
        unsafe { (*self.context).uc_stack.ss_flags = libc::SS_DISABLE };
    }

    /// Lets the handler return on the calling thread, although the code was interrupted on another
    /// one: it gets this thread's alternate signal stack, and keeps all registers. Preserves
    /// `errno`.
    pub fn move_to_this_thread(&self) {
        self.prepare_registers();
        // SAFETY: there is room for a stack. The kernel has written the context, which other code
        // does not access meanwhile. The call fails only for arguments that are wrong.
        unsafe {
            let mut stack = std::mem::zeroed();
            libc::sigaltstack(std::ptr::null(), &raw mut stack);
            (*self.context).uc_stack = stack;
        }
    }

    /// Blocks these signals, and no others, when the handler returns.
    pub fn set_mask(&self, mask: SignalMask) {
        // SAFETY: the kernel has written the mask, of which it uses 64 bits, and other code does
        // not access it meanwhile.
        unsafe { (&raw mut (*self.context).uc_sigmask).cast::<u64>().write_unaligned(mask.0) };
    }

    /// Runs a closure that leaves the stack, and allows ticks until the stack is resumed. If ticks
    /// were always allowed, a slow machine could nest handlers until the stack is full.
    pub fn allow_ticks_during(&self, leave: impl FnOnce()) {
        allow(libc::SIG_UNBLOCK);
        leave();
        allow(libc::SIG_BLOCK);
    }

    /// The signals that it had blocked.
    pub fn mask(&self) -> SignalMask {
        // SAFETY: the kernel has written it.
        unsafe { SignalMask::of(&raw const (*self.context).uc_sigmask) }
    }
}

/// The relevant registers.
struct Registers {
    stack_pointer: usize,
    instruction: usize,
    /// For a system call its number, and its second argument. After one, on x86-64, its result.
    call: usize,
    operation: usize,
}

#[cfg(target_arch = "x86_64")]
impl Interrupted {
    /// Prepares the calling thread for all registers that were saved. If the interrupted thread has
    /// ever used the tiles of AMX, the kernel has saved more than fits on a thread that never has,
    /// and it would restore little of that there. A first use makes room.
    fn prepare_registers(&self) {
        /// The number in the software bytes at 464, which says that the others are there.
        const MAGIC: u32 = 0x4650_5853;
        /// The bit of the tiles among the states for which the thread has room.
        const TILES: u64 = 1 << 18;
        /// The configuration of tiles: one row with one byte in the first.
        const SHAPE: [u8; 64] = {
            let mut shape = [0; 64];
            (shape[0], shape[16], shape[48]) = (1, 1, 1);
            shape
        };
        // SAFETY: the kernel has written them.
        let has_room = unsafe {
            let area = (*self.context).uc_mcontext.fpregs.cast::<u8>();
            !area.is_null()
                && area.add(464).cast::<u32>().read_unaligned() == MAGIC
                && area.add(472).cast::<u64>().read_unaligned() & TILES != 0
        };
        if has_room {
            // SAFETY: the processor has tiles, and the process may use them. No code on this thread
            // relies on them now: calls do not keep them.
            unsafe {
                std::arch::asm!("ldtilecfg [{}]", "tilezero tmm0", "tilerelease", in(reg) SHAPE.as_ptr());
            }
        }
    }

    fn registers(&self) -> Registers {
        // SAFETY: the kernel has written them.
        let all = unsafe { &(*self.context).uc_mcontext.gregs };
        let register = |which: libc::c_int| all[which as usize] as usize;
        Registers {
            stack_pointer: register(libc::REG_RSP),
            instruction: register(libc::REG_RIP),
            call: register(libc::REG_RAX),
            operation: register(libc::REG_RSI),
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl Registers {
    /// Whether the next instruction is `syscall`.
    fn is_at_system_call(&self) -> bool {
        let at = std::ptr::with_exposed_provenance::<u8>(self.instruction);
        // SAFETY: this code executes next. Instructions with this first byte have a second.
        unsafe { at.read() == 0x0f && at.add(1).read() == 0x05 }
    }

    /// Whether the previous instructions called `sched_yield`, whose number is in no register now.
    fn is_after_yield(&self) -> bool {
        // mov eax, number; syscall
        const CODE: [u8; 7] = [0xb8, libc::SYS_sched_yield as u8, 0, 0, 0, 0x0f, 0x05];
        let is_on_one_page = self.instruction % 4096 >= CODE.len();
        let at = std::ptr::with_exposed_provenance::<[u8; 7]>(self.instruction.wrapping_sub(CODE.len()));
        // SAFETY: it is on the same page as the code that executes next.
        self.call == 0 && is_on_one_page && unsafe { at.read() } == CODE
    }
}

#[cfg(not(target_arch = "x86_64"))]
impl Interrupted {
    /// The kernel restores all registers on any thread.
    fn prepare_registers(&self) {}
}

#[cfg(target_arch = "aarch64")]
impl Interrupted {
    fn registers(&self) -> Registers {
        // SAFETY: the kernel has written them.
        let all = unsafe { &(*self.context).uc_mcontext };
        Registers {
            stack_pointer: all.sp as usize,
            instruction: all.pc as usize,
            call: all.regs[8] as usize,
            operation: all.regs[1] as usize,
        }
    }
}

#[cfg(target_arch = "aarch64")]
impl Registers {
    /// Whether the next instruction is `svc #0`.
    fn is_at_system_call(&self) -> bool {
        // SAFETY: it is code, which executes next.
        unsafe { std::ptr::with_exposed_provenance::<u32>(self.instruction).read() == 0xd400_0001 }
    }

    /// Whether the previous instruction was `svc #0` with the number of `sched_yield`.
    fn is_after_yield(&self) -> bool {
        let is_on_one_page = self.instruction % 4096 >= 4;
        let before = Registers { instruction: self.instruction.wrapping_sub(4), ..*self };
        self.call == libc::SYS_sched_yield as usize && is_on_one_page && before.is_at_system_call()
    }
}

/// Not supported on other processors.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
impl Interrupted {
    fn registers(&self) -> Registers {
        Registers { stack_pointer: 0, instruction: 0, call: 0, operation: 0 }
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
impl Registers {
    fn is_at_system_call(&self) -> bool {
        let _ = self.instruction;
        false
    }

    fn is_after_yield(&self) -> bool {
        false
    }
}

/// The maximum number of bytes that the kernel needs on a stack that a tick interrupts.
pub fn signal_frame_size() -> usize {
    // SAFETY: a query without preconditions. Kernels that do not support it need less than this.
    (unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize).max(4 << 10)
}

/// The handler of ticks, called with the word of the [`Ticker`]. It runs on the interrupted stack,
/// and preserves `errno` if it returns. No further tick comes while it runs. It may leave the stack
/// [temporarily](Interrupted::allow_ticks_during), and return later on any thread.
pub type Handler = unsafe fn(word: usize, interrupted: &Interrupted);

/// The installed handler of ticks, and the previous handler of the signal.
static INSTALLED: OnceLock<(Handler, PreviousHandler)> = OnceLock::new();

/// The number of forks that lead to this process since the handler was installed. A child has no
/// timers, and timers that it creates may have the IDs of its parent.
static FORKS: AtomicUsize = AtomicUsize::new(0);

/// Runs in the child of a fork.
extern "C" fn count_fork() {
    FORKS.fetch_add(1, Relaxed);
}

/// Installs a handler, called at each tick with SIGURG blocked in addition to the signals blocked
/// before. Only the first call has an effect.
///
/// # Safety
/// `handler` must be async-signal-safe at any point of the threads that have tickers.
pub unsafe fn handle(handler: Handler) -> io::Result<()> {
    static ONE_BY_ONE: Mutex<()> = Mutex::new(());
    let _one = ONE_BY_ONE.lock().unwrap_or_else(PoisonError::into_inner);
    if INSTALLED.get().is_some() {
        return Ok(());
    }
    // SAFETY: the function only increments a counter. An error means that there is no memory.
    if unsafe { libc::pthread_atfork(None, None, Some(count_fork)) } != 0 {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    // Before the handler, which needs it.
    INSTALLED.get_or_init(|| (handler, PreviousHandler::of(libc::SIGURG)));
    // SAFETY: the handler is async-signal-safe by the promise of the caller.
    unsafe { previous_handler::install(libc::SIGURG, run, libc::SA_RESTART, &[]) }
}

/// The address of the handler that [`handle`] installs.
pub fn handler_address() -> usize {
    run as *const () as usize
}

/// The handler of the signal. It is async-signal-safe: it allocates no memory, takes no lock, and
/// preserves `errno`. It ends with the handler of a ticker, which may return on another thread.
///
/// # Safety
/// The kernel calls it for a signal, or another handler with the kernel's arguments.
unsafe extern "C" fn run(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let Some((handler, previous)) = INSTALLED.get() else { return };
    // SAFETY: the kernel has filled in the structure, with a value if it says so.
    let word = unsafe {
        match (*info).si_code {
            libc::SI_TIMER | libc::SI_QUEUE => word_of((*info).si_value().sival_ptr.addr()),
            _ => None,
        }
    };
    // The kernel keeps one pending signal of a kind: another one may have been merged with a tick.
    // SAFETY: by the promise to `handle` the handler may be called at any point, and the previous
    // one is called as by the kernel.
    unsafe {
        previous.call(signal, info, context);
        if let Some(word) = word {
            handler(word, &Interrupted::at(context));
        }
    }
}

/// The mark and the word of a ticker.
struct Slot {
    mark: AtomicUsize,
    word: AtomicUsize,
    alarm: scripted::Alarm,
}

/// A mark value: the slot is free.
const FREE: usize = 0;

/// The kernel passes the mark, which tells our timers from others and deleted ones.
static SLOTS: [Slot; MOST] =
    [const { Slot { mark: AtomicUsize::new(FREE), word: AtomicUsize::new(0), alarm: scripted::Alarm::new() } }; MOST];

/// The maximum number of tickers. Slots use no memory before they are used.
const MOST: usize = 1 << 12;

// A limit of data (`ulimit -d`) counts them nevertheless, and a program beyond it cannot begin.
const _: () = assert!(size_of_val(&SLOTS) <= 256 << 10);

/// A new unique mark for this slot: neither an address nor a small number, as others pass.
fn mark_of(slot: usize) -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    NEXT.fetch_add(SLOTS.len(), Relaxed) | slot | 1 << (usize::BITS - 1)
}

/// Lets the ticker with this [mark](Ticker::mark) tick once, now, if it exists. It may be called in
/// a signal handler, and preserves `errno`.
pub fn fire(mark: usize) {
    if word_of(mark).is_some() {
        scripted::send(&SLOTS[mark % SLOTS.len()]);
    }
}

/// The word of the ticker with this mark, if it exists.
fn word_of(mark: usize) -> Option<usize> {
    let slot = &SLOTS[mark % SLOTS.len()];
    // The slot may be reused by another ticker meanwhile.
    let is_same = || slot.mark.load(Acquire) == mark;
    let word = is_same().then(|| slot.word.load(Acquire))?;
    (is_same() && mark != FREE).then_some(word)
}

/// A timer, set by any thread, that interrupts its creator. It does nothing in the child of a fork.
///
/// After it has been dropped, a last tick may still be in progress or begin on that thread: data
/// that the word refers to must live until then.
#[derive(Debug)]
pub struct Ticker {
    timer: libc::c_int,
    mark: usize,
    /// The value of `FORKS` when it was created.
    forks: usize,
}

impl Ticker {
    /// Creates an unset timer for the calling thread. The [handler](handle) is passed the word. The
    /// thread no longer blocks SIGURG. Returns the error of the kernel if the limit of timers or
    /// pending signals is reached, and `EAGAIN` if there are 4096 tickers.
    pub fn for_this_thread(word: usize) -> io::Result<Ticker> {
        let take = |slot: usize| {
            let mark = mark_of(slot);
            SLOTS[slot].mark.compare_exchange(FREE, mark, AcqRel, Relaxed).is_ok().then_some(mark)
        };
        let none = || io::Error::from_raw_os_error(libc::EAGAIN);
        let mark = (0..SLOTS.len()).find_map(take).ok_or_else(none)?;
        let slot = &SLOTS[mark % SLOTS.len()];
        slot.word.store(word, Release);
        slot.alarm.bind_to_this_thread();
        allow(libc::SIG_UNBLOCK);
        let mut timer: libc::c_int = 0;
        // SAFETY: zeros are a valid event, and the relevant fields are set; there is room for the
        // timer ID. The system call is made directly: it returns an ID, while the C library returns
        // a pointer that other threads may not use.
        let result = unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_value.sival_ptr = std::ptr::without_provenance_mut(mark);
            event.sigev_signo = libc::SIGURG;
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_notify_thread_id = libc::gettid();
            libc::syscall(libc::SYS_timer_create, libc::CLOCK_MONOTONIC, &raw const event, &raw mut timer)
        };
        errno::check(result).inspect_err(|_| slot.mark.store(FREE, Release))?;
        Ok(Ticker { timer, mark, forks: FORKS.load(Relaxed) })
    }

    /// Ticks after `first`, at once if that is zero, and then after each `interval`, or never again
    /// if that is zero. It may be called in a signal handler, and preserves `errno`.
    pub fn start(&self, first: Duration, interval: Duration) {
        self.slot().alarm.clear();
        self.set(first.max(Duration::from_nanos(1)), interval);
    }

    /// The same by a scripted clock. Makes no system call if the ticker used one before.
    pub fn start_by(&self, clock: &ScriptedClock, first: Duration, interval: Duration) {
        if !self.slot().alarm.is_set() {
            self.stop();
        }
        if self.exists() {
            clock.set(self.mark % SLOTS.len(), first, interval);
        }
    }

    /// A number by which any thread can [fire] the ticker. It is not 0.
    pub fn mark(&self) -> usize {
        self.mark
    }

    /// Stops the ticks. Otherwise as [`start`](Ticker::start).
    pub fn stop(&self) {
        if self.slot().alarm.is_set() {
            self.slot().alarm.stop();
        } else {
            self.set(Duration::ZERO, Duration::ZERO);
        }
    }

    fn slot(&self) -> &'static Slot {
        &SLOTS[self.mark % SLOTS.len()]
    }

    /// Whether the timer exists: not in the child of a fork.
    fn exists(&self) -> bool {
        self.forks == FORKS.load(Relaxed)
    }

    fn set(&self, first: Duration, interval: Duration) {
        if !self.exists() {
            return;
        }
        let time = |time: Duration| libc::timespec {
            // The kernel supports no later times.
            tv_sec: libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: time.subsec_nanos().into(),
        };
        let times = libc::itimerspec { it_interval: time(interval), it_value: time(first) };
        // SAFETY: the times are only read, and valid, so the call does not fail and change `errno`.
        unsafe { libc::syscall(libc::SYS_timer_settime, self.timer, 0, &raw const times, std::ptr::null_mut::<u8>()) };
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        if self.exists() {
            // SAFETY: the timer is owned by this ticker. The call cannot fail.
            unsafe { libc::syscall(libc::SYS_timer_delete, self.timer) };
        }
        self.slot().alarm.clear();
        self.slot().mark.store(FREE, Release);
    }
}

#[cfg(test)]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod tests;
