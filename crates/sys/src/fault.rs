//! A last message before a process ends because of a forbidden memory access.

use std::cell::Cell;
use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::OnceLock;

use crate::errno;
use crate::previous_handler::{self, PreviousHandler};
use crate::reservation::{Guard, Reservation, page_size};
use crate::tick::{self, Interrupted};

/// A text of bounded length that needs no allocation. Longer texts are truncated, perhaps in the
/// middle of a character.
pub type Text = io::Cursor<[u8; 480]>;

/// Explains an access by the calling thread to this address. Returns `false` if it cannot.
pub type Explain = fn(address: usize, text: &mut Text) -> bool;

/// The installed function, and the previous handler of the signal.
static INSTALLED: OnceLock<(Explain, PreviousHandler)> = OnceLock::new();

/// Installs a function that explains faults (SIGSEGV). If it explains a fault, the text is written
/// to standard error and the process aborts (SIGABRT). All other faults go to the previous handler.
/// Only the first call has an effect. Threads short of stack need an [`AlternateStack`].
///
/// # Safety
/// `explain` must be async-signal-safe at any point of the program.
pub unsafe fn explain(explain: Explain) -> io::Result<()> {
    if INSTALLED.set((explain, PreviousHandler::of(libc::SIGSEGV))).is_err() {
        return Ok(());
    }
    // An alternate stack has no room for a tick as well.
    // SAFETY: the handler is async-signal-safe by the promise of the caller.
    unsafe { previous_handler::install(libc::SIGSEGV, handle, libc::SA_ONSTACK, &[libc::SIGURG]) }
}

/// The handler. It is async-signal-safe: it allocates no memory and takes no lock.
///
/// # Safety
/// The kernel calls it for a signal, or another handler with the kernel's arguments.
unsafe extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let Some((explain, earlier)) = INSTALLED.get() else { return };
    let mut text = Text::new([0; 480]);
    // SAFETY: the kernel has filled in the structure.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr().addr()) };
    let by_kernel = code > 0;
    let mut explains = |address| explain(address, &mut text);
    let tells_no_address = code == SI_KERNEL && address == 0;
    // SAFETY: the context belongs to this handler.
    let interrupted = unsafe { Interrupted::at(context) };
    if by_kernel && (explains(address) || tells_no_address && below(&interrupted).any(explains)) {
        let text = &text.get_ref()[..text.position() as usize];
        // SAFETY: the text is initialized, and both functions are async-signal-safe.
        unsafe {
            libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len());
            libc::abort();
        }
    }
    // SAFETY: the arguments come from the kernel.
    let handled = unsafe { earlier.call(signal, info, context) };
    if !handled && (by_kernel || !earlier.is_ignored()) {
        // SAFETY: the default action runs no code. A fault recurs on return; a signal that was sent
        // is raised again and arrives on return as well.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            if !by_kernel {
                libc::raise(signal);
            }
        }
    }
}

/// The addresses to which the kernel would have written the frame of another signal. If it cannot
/// write there, that is also a fault, for which the kernel reports no address.
fn below(interrupted: &Interrupted) -> impl Iterator<Item = usize> {
    let end = interrupted.stack_pointer();
    let most = tick::signal_frame_size() + RED_ZONE;
    (0..most).step_by(page_size()).chain([most]).map(move |below| end.saturating_sub(below))
}

/// The code of a fault for which the kernel reports no address.
const SI_KERNEL: libc::c_int = 0x80;

/// Bytes below the stack pointer that code may use and the kernel leaves alone.
const RED_ZONE: usize = 128;

/// An alternate signal stack of the thread that created it, removed when dropped.
#[derive(Debug)]
pub struct AlternateStack {
    memory: Reservation,
    /// It belongs to one thread.
    thread: PhantomData<Cell<*mut ()>>,
}

/// Space in addition to the frame that the kernel saves.
const ROOM: usize = 32 << 10;

impl AlternateStack {
    /// Installs one for the calling thread. Returns `None` if it has one, as `std`'s threads do.
    pub fn for_this_thread() -> io::Result<Option<AlternateStack>> {
        if current().ss_flags & libc::SS_DISABLE == 0 {
            return Ok(None);
        }
        // SAFETY: a query without preconditions; 0 if the kernel does not report it.
        let saved = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize;
        let memory = Reservation::new(page_size() + ROOM + saved)?;
        memory.guard(0..page_size(), Guard::Protection)?;
        // SAFETY: the address is above the guard page and within the memory.
        let start = unsafe { memory.base().add(page_size()) };
        let stack = libc::stack_t { ss_sp: start.as_ptr().cast(), ss_flags: 0, ss_size: memory.length() - page_size() };
        // SAFETY: no other code uses the memory, which lives until it is uninstalled in `drop`.
        errno::check(unsafe { libc::sigaltstack(&raw const stack, null_mut()) })?;
        Ok(Some(AlternateStack { memory, thread: PhantomData }))
    }
}

impl Drop for AlternateStack {
    fn drop(&mut self) {
        if self.memory.offset(current().ss_sp.addr()).is_some() {
            let none = libc::stack_t { ss_sp: null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
            // SAFETY: a handler that runs on this stack does not drop it.
            unsafe { libc::sigaltstack(&raw const none, null_mut()) };
        }
    }
}

/// The alternate stack of the calling thread.
fn current() -> libc::stack_t {
    let mut current = MaybeUninit::<libc::stack_t>::zeroed();
    // SAFETY: nothing is set, and there is room for the answer; zeros are a valid value as well.
    unsafe {
        libc::sigaltstack(std::ptr::null(), current.as_mut_ptr());
        current.assume_init()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_long_text_is_truncated() {
        let mut text = Text::new([0; 480]);
        write!(text, "{} {}", 17, "a".repeat(1_000)).unwrap_err();
        assert_eq!((text.position(), &text.get_ref()[..4]), (480, "17 a".as_bytes()));
    }

    #[test]
    fn an_alternate_stack_is_installed_only_if_there_is_none() {
        std::thread::spawn(|| {
            let before = current();
            let kept = AlternateStack::for_this_thread().unwrap();
            assert_eq!(kept.is_none(), before.ss_flags & libc::SS_DISABLE == 0);
            assert!(kept.is_some() || current().ss_sp == before.ss_sp);
            drop(kept);
            let none = libc::stack_t { ss_sp: null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
            // SAFETY: no handler runs; the previous stack is restored below.
            unsafe { libc::sigaltstack(&raw const none, null_mut()) };
            let got = AlternateStack::for_this_thread().unwrap();
            assert!(got.is_some() && current().ss_size >= ROOM);
            assert!(AlternateStack::for_this_thread().unwrap().is_none());
            drop(got);
            assert_ne!(current().ss_flags & libc::SS_DISABLE, 0);
            if before.ss_flags & libc::SS_DISABLE == 0 {
                // SAFETY: as above.
                unsafe { libc::sigaltstack(&raw const before, null_mut()) };
            }
        })
        .join()
        .unwrap();
    }
}
