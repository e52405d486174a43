//! A last word before a process ends because it touched memory that it must not touch.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::mem::{MaybeUninit, zeroed};
use std::ptr::null_mut;
use std::sync::OnceLock;

use crate::previous_handler::PreviousHandler;
use crate::reservation::{Guard, Reservation, page_size};
use crate::tick::{self, Interrupted};

/// A text of bounded length, which takes no memory but its own. What is too long is cut off.
pub struct Text {
    bytes: [u8; 480],
    length: usize,
}

impl Text {
    /// Nothing yet.
    pub const fn new() -> Text {
        Text { bytes: [0; 480], length: 0 }
    }

    /// What was written; of what was cut off the last character may be there in part.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Default for Text {
    fn default() -> Text {
        Text::new()
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = &mut self.bytes[self.length..];
        let many = room.len().min(text.len());
        room[..many].copy_from_slice(&text.as_bytes()[..many]);
        self.length += many;
        Ok(())
    }
}

/// Says what it means that the calling thread has touched this address, if it knows.
pub type Explain = fn(address: usize, text: &mut Text) -> bool;

/// Who explains faults, and what the signal did before.
static INSTALLED: OnceLock<(Explain, PreviousHandler)> = OnceLock::new();

/// From now on, a fault (SIGSEGV) that `explain` knows of ends the process by SIGABRT, after what it says was written to standard error. All other faults go
/// where they went before. The first call counts, and further ones do nothing. A thread that has no stack left needs an [`AlternateStack`].
///
/// # Errors
/// None on Linux.
///
/// # Safety
/// `explain` does only what a signal handler may do, at any point of the program.
pub unsafe fn explain(explain: Explain) -> io::Result<()> {
    let mut first = false;
    INSTALLED.get_or_init(|| {
        first = true;
        (explain, PreviousHandler::of(libc::SIGSEGV))
    });
    if !first {
        return Ok(());
    }
    // SAFETY: zeros are the default action, of which the fields that matter are written.
    let action = unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = handle as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // An alternate stack has no room for a tick besides.
        libc::sigaddset(&raw mut action.sa_mask, libc::SIGURG);
        action
    };
    // SAFETY: the handler does what a handler may, by the caller's promise.
    if unsafe { libc::sigaction(libc::SIGSEGV, &raw const action, null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The handler. It is async-signal-safe: no memory is allocated, no lock taken.
unsafe extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let Some((explain, earlier)) = INSTALLED.get() else { return };
    let mut text = Text::new();
    // SAFETY: the kernel has filled it in.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr().addr()) };
    let by_kernel = code > 0;
    let mut explains = |address| explain(address, &mut text);
    let tells_no_address = code == SI_KERNEL && address == 0;
    // SAFETY: it is this handler's.
    let interrupted = unsafe { Interrupted::at(context) };
    if by_kernel && (explains(address) || tells_no_address && below(&interrupted).any(explains)) {
        let text = text.as_bytes();
        // SAFETY: the text is there; both may be called in handlers. If it cannot be written nobody can be told.
        unsafe {
            libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len());
            libc::abort();
        }
    }
    // SAFETY: the kernel's.
    let handled = unsafe { earlier.call(signal, info, context) };
    if !handled && (by_kernel || !earlier.is_ignored()) {
        // SAFETY: the default action runs no code. A fault happens again on return; what was sent is sent again, and comes on return as well.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            if !by_kernel {
                libc::raise(signal);
            }
        }
    }
}

/// Where the kernel would have written to for another signal's handler: if it cannot, that is a fault as well, for which it tells no address.
fn below(interrupted: &Interrupted) -> impl Iterator<Item = usize> {
    let end = interrupted.stack_pointer();
    let most = tick::signal_frame_size() + RED_ZONE;
    (0..most).step_by(page_size()).chain([most]).map(move |below| end.saturating_sub(below))
}

/// What the kernel gives as the reason for a fault of which it tells no address.
const SI_KERNEL: libc::c_int = 0x80;

/// So much below the stack pointer code may use, and the kernel leaves alone.
const RED_ZONE: usize = 128;

/// A stack for handlers of the thread that made it, for as long as this is there.
#[derive(Debug)]
pub struct AlternateStack {
    memory: Reservation,
    /// It is a thread's own.
    thread: PhantomData<Cell<*mut ()>>,
}

/// Besides what the kernel saves there.
const ROOM: usize = 32 << 10;

impl AlternateStack {
    /// One for the calling thread; none if it has one already, as threads of Rust's standard library do.
    ///
    /// # Errors
    /// The kernel's, where there is no memory.
    pub fn for_this_thread() -> io::Result<Option<AlternateStack>> {
        if current().ss_flags & libc::SS_DISABLE == 0 {
            return Ok(None);
        }
        // SAFETY: a question; 0 where the kernel does not say.
        let saved = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize;
        let memory = Reservation::new(page_size() + ROOM + saved)?;
        memory.guard(0..page_size(), Guard::Protection)?;
        // SAFETY: behind the guard, within the memory.
        let start = unsafe { memory.base().add(page_size()) };
        let stack = libc::stack_t { ss_sp: start.as_ptr().cast(), ss_flags: 0, ss_size: memory.length() - page_size() };
        // SAFETY: the memory is nobody else's, and stays until it is taken back when this is dropped.
        if unsafe { libc::sigaltstack(&raw const stack, null_mut()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Some(AlternateStack { memory, thread: PhantomData }))
    }
}

impl Drop for AlternateStack {
    fn drop(&mut self) {
        if self.memory.offset(current().ss_sp.addr()).is_some() {
            let none = libc::stack_t { ss_sp: null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
            // SAFETY: a handler that runs there does not drop this.
            unsafe { libc::sigaltstack(&raw const none, null_mut()) };
        }
    }
}

/// The calling thread's.
fn current() -> libc::stack_t {
    let mut current = MaybeUninit::<libc::stack_t>::zeroed();
    // SAFETY: nothing is set, and there is room for the answer; zeros are one as well.
    unsafe {
        libc::sigaltstack(std::ptr::null(), current.as_mut_ptr());
        current.assume_init()
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    #[test]
    fn a_text_that_is_too_long_is_cut_off() {
        let mut text = Text::new();
        write!(text, "{} {}", 17, "a".repeat(1_000)).unwrap();
        assert_eq!((text.as_bytes().len(), &text.as_bytes()[..4]), (480, "17 a".as_bytes()));
    }

    #[test]
    fn a_thread_that_has_a_stack_for_handlers_keeps_it_and_one_that_has_none_gets_one() {
        std::thread::spawn(|| {
            let before = current();
            let kept = AlternateStack::for_this_thread().unwrap();
            assert_eq!(kept.is_none(), before.ss_flags & libc::SS_DISABLE == 0);
            assert!(kept.is_some() || current().ss_sp == before.ss_sp);
            drop(kept);
            let none = libc::stack_t { ss_sp: null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
            // SAFETY: no handler runs; the thread's own is put back below, as the standard library takes it back itself.
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
