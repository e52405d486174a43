//! A clock's tick for a single kernel thread, which interrupts what runs there, wherever that is: a POSIX timer that sends SIGURG, or a [clock](ScriptedClock) that a test advances.
//!
//! SIGURG is ignored unless somebody wants it, it interrupts no system call that would not be begun again, and debuggers let it pass without stopping. It can
//! be sent with other meanings, and goes where it went before then. So does each tick, since the kernel does not say whether another signal of the kind came with it: whoever handles SIGURG
//! looks at what there is, and may find nothing.

use std::io;
use std::num::NonZeroU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crate::previous_handler::PreviousHandler;

mod scripted;

pub use scripted::ScriptedClock;

/// The signals that a thread has blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalMask(u64);

impl SignalMask {
    /// The calling thread's.
    pub fn of_this_thread() -> SignalMask {
        let mut mask = std::mem::MaybeUninit::zeroed();
        // SAFETY: nothing is set, and there is room for the answer; zeros are one as well.
        unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), mask.as_mut_ptr());
            SignalMask::of(mask.as_ptr())
        }
    }

    /// From now on the calling thread has these blocked.
    pub fn apply_to_this_thread(&self) {
        // SAFETY: zeros are a set, which begins with the kernel's; no room is asked for.
        unsafe {
            let mut mask: libc::sigset_t = std::mem::zeroed();
            (&raw mut mask).cast::<u64>().write_unaligned(self.0);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, std::ptr::null_mut());
        }
    }

    /// These, and ticks.
    #[must_use]
    pub fn with_ticks(self) -> SignalMask {
        SignalMask(self.0 | 1 << (libc::SIGURG - 1))
    }

    /// That of a set, of which the kernel knows 64 bits, and the C library has room for more.
    ///
    /// # Safety
    /// It points to a set.
    unsafe fn of(set: *const libc::sigset_t) -> SignalMask {
        // SAFETY: by the caller's promise; the C library's sets begin with the kernel's.
        SignalMask(unsafe { set.cast::<u64>().read_unaligned() })
    }
}

/// How much later than asked for the kernel may wake a thread whose time has come: its timer slack, 50 us mostly.
///
/// A sleep that a signal interrupts has what the kernel says left of it, and that includes the slack. So each interruption makes it longer by as much, and it never
/// ends if they come more often than that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slack(Duration);

impl Slack {
    /// The calling thread's.
    pub fn of_this_thread() -> Slack {
        // The kernel does not refuse. Threads under a real-time policy have none.
        Slack(rustix::thread::current_timer_slack().map_or(Duration::ZERO, Duration::from_nanos))
    }

    /// The calling thread has as much from now on, and so have threads and processes that it starts. None becomes a nanosecond.
    pub fn apply_to_this_thread(&self) {
        let nanoseconds = u64::try_from(self.0.as_nanos()).ok().and_then(NonZeroU64::new).unwrap_or(NonZeroU64::MIN);
        // Where it is forbidden sleeps are as late as they were.
        let _ = rustix::thread::set_current_timer_slack(Some(nanoseconds));
    }

    /// So much if it is more, so that interruptions after each `interval` do not make a sleep longer by more than an eighth.
    #[must_use]
    pub fn limit_for(self, interval: Duration) -> Slack {
        Slack(self.0.min(interval / 8))
    }
}

/// Blocks ticks on the calling thread, or does so no more. It leaves `errno` alone.
pub(crate) fn allow(how: libc::c_int) {
    // SAFETY: zeros are a set, to which the signal is added; there is no room for an answer, and none is asked for.
    unsafe {
        let mut urgent: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&raw mut urgent, libc::SIGURG);
        libc::pthread_sigmask(how, &raw const urgent, std::ptr::null_mut());
    }
}

/// What a tick has interrupted.
#[derive(Debug)]
pub struct Interrupted {
    context: *mut libc::ucontext_t,
}

impl Interrupted {
    /// What a signal has interrupted whose handler was given this.
    ///
    /// # Safety
    /// It was, and does not return before this is gone.
    pub(crate) unsafe fn at(context: *mut libc::c_void) -> Interrupted {
        Interrupted { context: context.cast() }
    }

    /// Where its stack ended.
    pub fn stack_pointer(&self) -> usize {
        self.registers().stack_pointer
    }

    /// Whether it waited at a futex, and waits again when the handler returns; or was just about to. A wait with a timeout is not begun again, but ends with `EINTR`.
    pub fn is_in_futex_wait(&self) -> bool {
        const WAITS: [i32; 4] = [libc::FUTEX_WAIT, libc::FUTEX_WAIT_BITSET, libc::FUTEX_LOCK_PI, libc::FUTEX_LOCK_PI2];
        let registers = self.registers();
        // The kernel's operations are 32 bits, of which some are flags.
        let operation = registers.operation as i32 & libc::FUTEX_CMD_MASK;
        registers.call == libc::SYS_futex as usize && WAITS.contains(&operation) && registers.is_at_system_call()
    }

    /// Whether it has just let other kernel threads run, by `sched_yield`, as code does that looks again and again for what another thread is about to do.
    pub fn has_yielded(&self) -> bool {
        self.registers().is_behind_a_yield()
    }

    /// Whether this is handled on the thread's alternate stack for signals, which the kernel takes to be free as soon as it is left: a handler was interrupted there, or somebody has
    /// installed ours again so that it begins there, as runtimes of other languages do.
    pub fn is_on_alternate_stack(&self) -> bool {
        // SAFETY: the kernel has written it.
        let stack = unsafe { &(*self.context).uc_stack };
        let low = stack.ss_sp.addr();
        // The context is where the handler began.
        stack.ss_flags & libc::SS_DISABLE == 0 && (low..low + stack.ss_size).contains(&self.context.addr())
    }

    /// When the handler returns, the thread has no alternate stack for signals. Without this it has the one that was there when the tick came, also if that
    /// was on another kernel thread.
    pub fn disable_alternate_stack(&self) {
        // SAFETY: the kernel has written it, and reads it when the handler returns; nobody else does meanwhile.
        unsafe { (*self.context).uc_stack.ss_flags = libc::SS_DISABLE };
    }

    /// Leaves its stack, and lets ticks come until it is gone on with. Were they let come all the time, a machine that is late could begin one handler upon
    /// another until the stack is full.
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

/// What matters of the registers.
struct Registers {
    stack_pointer: usize,
    instruction: usize,
    /// If this is a system call, its number, and its second argument. Behind one, on x86-64, its result.
    call: usize,
    operation: usize,
}

#[cfg(target_arch = "x86_64")]
impl Interrupted {
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
        // SAFETY: it is code, which runs next. An instruction that begins with this byte has a second one.
        unsafe { at.read() == 0x0f && at.add(1).read() == 0x05 }
    }

    /// Whether the last instructions were a `syscall` of `sched_yield`, with its number, which is not in a register any more.
    fn is_behind_a_yield(&self) -> bool {
        // mov eax, number; syscall
        const CODE: [u8; 7] = [0xb8, libc::SYS_sched_yield as u8, 0, 0, 0, 0x0f, 0x05];
        let is_on_one_page = self.instruction % 4096 >= CODE.len();
        let at = std::ptr::with_exposed_provenance::<[u8; 7]>(self.instruction.wrapping_sub(CODE.len()));
        // SAFETY: it is on the page of the code that runs next.
        self.call == 0 && is_on_one_page && unsafe { at.read() } == CODE
    }
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
        // SAFETY: it is code, which runs next.
        unsafe { std::ptr::with_exposed_provenance::<u32>(self.instruction).read() == 0xd400_0001 }
    }

    /// Whether the last instruction was such a one, of `sched_yield`.
    fn is_behind_a_yield(&self) -> bool {
        let is_on_one_page = self.instruction % 4096 >= 4;
        let before = Registers { instruction: self.instruction.wrapping_sub(4), ..*self };
        self.call == libc::SYS_sched_yield as usize && is_on_one_page && before.is_at_system_call()
    }
}

/// What is known nowhere else.
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

    fn is_behind_a_yield(&self) -> bool {
        false
    }
}

/// How many bytes the kernel needs, at most, on a stack that a tick interrupts.
pub fn signal_frame_size() -> usize {
    // SAFETY: a question. Kernels that do not answer it need less than this.
    (unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize).max(4 << 10)
}

/// What is done at a tick, with the word that its [`Ticker`] has. It runs on the stack of what was interrupted, and leaves
/// `errno` as it was if it returns. No further tick comes while it runs. It may leave the stack for another one [for a while](Interrupted::meanwhile), and return later, on
/// any thread.
pub type Handler = unsafe fn(word: usize, interrupted: &Interrupted);

/// Who handles ticks, and what the signal did before.
static INSTALLED: OnceLock<(Handler, PreviousHandler)> = OnceLock::new();

/// How often this process has come from a fork since its tickers' handler was installed. A child has no timers, and its own may have the numbers of its parent's.
static FORKS: AtomicUsize = AtomicUsize::new(0);

/// In the child of a fork.
extern "C" fn count_fork() {
    FORKS.fetch_add(1, Relaxed);
}

/// From now on, `handler` is called at each tick, with SIGURG blocked and no other signal that was not. The first call counts, and further ones do nothing.
///
/// # Errors
/// Where there is no memory.
///
/// # Safety
/// `handler` does only what a signal handler may do, at any point of the threads that have tickers.
pub unsafe fn handle(handler: Handler) -> io::Result<()> {
    static ONE_BY_ONE: Mutex<()> = Mutex::new(());
    let _one = ONE_BY_ONE.lock().unwrap_or_else(PoisonError::into_inner);
    if INSTALLED.get().is_some() {
        return Ok(());
    }
    // SAFETY: zeros are the default action, of which the fields that matter are written. No signals are in the set.
    let action = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = run as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        action
    };
    // SAFETY: what is called in a child does next to nothing. An error means that there is no memory.
    if unsafe { libc::pthread_atfork(None, None, Some(count_fork)) } != 0 {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    // Before the handler, which needs it.
    INSTALLED.get_or_init(|| (handler, PreviousHandler::of(libc::SIGURG)));
    // SAFETY: the handler does what a handler may, by the caller's promise.
    if unsafe { libc::sigaction(libc::SIGURG, &raw const action, std::ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The signal's handler. It is async-signal-safe: no memory is allocated, no lock taken, and `errno` is left alone. Where it comes back from a ticker's handler
/// it does nothing more, as that may be on another thread.
unsafe extern "C" fn run(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let Some((handler, earlier)) = INSTALLED.get() else { return };
    // SAFETY: the kernel has filled it in, with a value if it says so: for a timer, or for a program that sent one.
    let word = unsafe {
        match (*info).si_code {
            libc::SI_TIMER | libc::SI_QUEUE => word_of((*info).si_value().sival_ptr.addr()),
            _ => None,
        }
    };
    // SAFETY: the handler may be called at any point, by the promise to `handle`, and the other one as it would be.
    unsafe {
        match word {
            Some(word) => {
                // The kernel keeps one signal of a kind: another one may have come before the tick was handled.
                earlier.call(signal, info, context);
                handler(word, &Interrupted::at(context));
            }
            None => {
                earlier.call(signal, info, context);
            }
        }
    }
}

/// A ticker's mark, and its word.
struct Slot {
    mark: AtomicUsize,
    word: AtomicUsize,
    alarm: scripted::Alarm,
}

/// In place of a mark: none.
const FREE: usize = 0;

/// The kernel passes a mark on with the signal. By these our timers are told from others, and from those that are no more.
static SLOTS: [Slot; MOST] =
    [const { Slot { mark: AtomicUsize::new(FREE), word: AtomicUsize::new(0), alarm: scripted::Alarm::new() } }; MOST];

/// How many there may be. They take no memory before they are used.
const MOST: usize = 1 << 14;

/// A mark that no ticker had before, for this slot. Others pass on addresses and small numbers; it is neither.
fn mark_of(slot: usize) -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    NEXT.fetch_add(SLOTS.len(), Relaxed) | slot | 1 << (usize::BITS - 1)
}

/// The word of the ticker that has this mark, if there is one.
fn word_of(mark: usize) -> Option<usize> {
    let slot = &SLOTS[mark % SLOTS.len()];
    // The slot may become another ticker's meanwhile.
    let is_same = || slot.mark.load(Acquire) == mark;
    let word = is_same().then(|| slot.word.load(Acquire))?;
    (is_same() && mark != FREE).then_some(word)
}

/// A timer that interrupts the kernel thread that has made it. It may be set from any thread. In the child of a fork it does nothing.
///
/// When it has been dropped, a last tick may still be under way on that thread, or begin: what the word leads to must be there until the thread is past it.
#[derive(Debug)]
pub struct Ticker {
    timer: libc::c_int,
    mark: usize,
    /// In the process after so many.
    forks: usize,
}

impl Ticker {
    /// One for the calling thread, which is not set yet. The [handler](handle) gets the word. From now on the thread does not block SIGURG.
    ///
    /// # Errors
    /// The kernel's, when there are as many timers, or signals under way, as there may be; and `EAGAIN` when there are 16384 tickers.
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
        // The kernel's own call: it gives a number, where the C library gives a pointer that no other thread may be handed.
        // SAFETY: zeros are one, of which the fields that matter are written; there is room for the timer's number.
        let result = unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_value.sival_ptr = std::ptr::without_provenance_mut(mark);
            event.sigev_signo = libc::SIGURG;
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_notify_thread_id = libc::gettid();
            libc::syscall(libc::SYS_timer_create, libc::CLOCK_MONOTONIC, &raw const event, &raw mut timer)
        };
        if result != 0 {
            let why = io::Error::last_os_error();
            slot.mark.store(FREE, Release);
            return Err(why);
        }
        Ok(Ticker { timer, mark, forks: FORKS.load(Relaxed) })
    }

    /// Ticks after `first`, or at once if that is zero, and then each `interval`, or no more if that is zero. It may be called in a signal's handler, and leaves
    /// `errno` as it was.
    pub fn start(&self, first: Duration, interval: Duration) {
        self.slot().alarm.clear();
        self.set(first.max(Duration::from_nanos(1)), interval);
    }

    /// The same by a clock that a test advances. It costs a system call only where the ticker went by the real one before.
    pub fn start_by(&self, clock: &ScriptedClock, first: Duration, interval: Duration) {
        if !self.slot().alarm.is_set() {
            self.stop();
        }
        if self.is_there() {
            clock.set(self.mark % SLOTS.len(), first, interval);
        }
    }

    /// Ticks no more. As [`start`](Ticker::start) otherwise.
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

    /// Whether the timer is there: not in the child of a fork.
    fn is_there(&self) -> bool {
        self.forks == FORKS.load(Relaxed)
    }

    fn set(&self, first: Duration, interval: Duration) {
        if !self.is_there() {
            return;
        }
        let time = |time: Duration| libc::timespec {
            // The kernel knows no times beyond.
            tv_sec: libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: time.subsec_nanos().into(),
        };
        let times = libc::itimerspec { it_interval: time(interval), it_value: time(first) };
        // It cannot fail: the timer is there, and the times are times. So `errno` is not set.
        // SAFETY: the times are read.
        unsafe { libc::syscall(libc::SYS_timer_settime, self.timer, 0, &raw const times, std::ptr::null_mut::<u8>()) };
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        if self.is_there() {
            // SAFETY: the timer is this one's own. It cannot fail.
            unsafe { libc::syscall(libc::SYS_timer_delete, self.timer) };
        }
        self.slot().alarm.clear();
        self.slot().mark.store(FREE, Release);
    }
}

#[cfg(test)]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod tests;
