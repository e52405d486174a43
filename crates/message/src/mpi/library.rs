//! MPI as safe calls.
//!
//! There is one value of [`Library`] in a process, and each call needs it alone. So no two threads
//! are in MPI at the same time, which is what it was initialized for. The file `shim.c` says why
//! the calls go through C.

use std::ffi::{c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// Codes of `shim.c` besides those of MPI, which are positive.
const HAS_ENDED: c_int = -1;
const NO_THREADS: c_int = -2;
const FEW_THREADS: c_int = -3;

// SAFETY: these are the functions of `shim.c`.
unsafe extern "C" {
    fn rowlock_mpi_join(rank: *mut c_int, ranks: *mut c_int) -> c_int;
    fn rowlock_mpi_send(bytes: *const c_void, length: c_int, to: c_int, tag: c_int, request: *mut u64) -> c_int;
    fn rowlock_mpi_test(request: *mut u64, is_complete: *mut c_int) -> c_int;
    fn rowlock_mpi_probe(
        is_there: *mut c_int,
        from: *mut c_int,
        tag: *mut c_int,
        length: *mut c_int,
        message: *mut u64,
    ) -> c_int;
    fn rowlock_mpi_receive(bytes: *mut c_void, length: c_int, message: u64, request: *mut u64) -> c_int;
    fn rowlock_mpi_text(code: c_int, text: *mut c_char, room: c_int);
    fn rowlock_mpi_leave() -> c_int;
}

/// MPI, after it has been initialized.
#[derive(Debug)]
pub(super) struct Library {
    pub(super) rank: u32,
    pub(super) ranks: u32,
}

/// A message that was found, and is to be received.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) from: u32,
    pub(super) tag: u32,
    length: c_int,
    message: u64,
}

/// Bytes that are being sent or received. If this is dropped before they are, they stay in memory.
#[derive(Debug)]
pub(super) struct Transfer {
    bytes: ManuallyDrop<Vec<u8>>,
    request: u64,
}

impl Library {
    /// Initializes MPI, unless the program has done so, once. All processes of the job must call
    /// this.
    pub(super) fn join() -> Result<Library, String> {
        static HAS_JOINED: AtomicBool = AtomicBool::new(false);
        let because = |why: &str| Err(why.to_owned());
        if HAS_JOINED.swap(true, Relaxed) {
            return because("this process has joined before, or tried to, and that is possible once");
        }
        let mut library = Library { rank: 0, ranks: 0 };
        let (mut rank, mut ranks) = (0, 0);
        // SAFETY: there is no other value, and each pointer is that of a variable.
        let code = unsafe { rowlock_mpi_join(&raw mut rank, &raw mut ranks) };
        match code {
            HAS_ENDED => because("the program has finalized MPI before"),
            NO_THREADS => because("this MPI library cannot be used by several threads, not even by one after another"),
            FEW_THREADS => because("the program has initialized MPI for fewer threads: ask for MPI_THREAD_MULTIPLE"),
            code => {
                library.check(code)?;
                (library.rank, library.ranks) = (rank.unsigned_abs(), ranks.unsigned_abs());
                Ok(library)
            }
        }
    }

    /// The error of a call that returned this code, as MPI says it.
    fn check(&mut self, code: c_int) -> Result<(), String> {
        if code == 0 {
            return Ok(());
        }
        let mut text = [0_u8; 512];
        // SAFETY: no other thread is in MPI, as this takes the only value by a unique reference. At
        // most as many bytes are written as there is room for.
        unsafe { rowlock_mpi_text(code, text.as_mut_ptr().cast(), text.len() as c_int) };
        let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
        Err(String::from_utf8_lossy(&text[..end]).trim().to_owned())
    }

    /// Begins to send bytes, fewer than `i32::MAX`, to a rank.
    pub(super) fn send(&mut self, to: u32, tag: u32, bytes: Vec<u8>) -> Result<Transfer, String> {
        let mut sent = Transfer { bytes: ManuallyDrop::new(bytes), request: 0 };
        let length = c_int::try_from(sent.bytes.len()).unwrap_or(c_int::MAX);
        // SAFETY: no other thread is in MPI, as above. The bytes are not freed before the request
        // is complete, and nothing changes them: they are private to `Transfer`, from which only
        // `complete` takes them.
        let code = unsafe {
            rowlock_mpi_send(sent.bytes.as_ptr().cast(), length, to as c_int, tag as c_int, &raw mut sent.request)
        };
        self.check(code)?;
        Ok(sent)
    }

    /// The bytes of a transfer that is complete. `None` if it is not. Not to be called again after
    /// it was.
    pub(super) fn complete(&mut self, transfer: &mut Transfer) -> Result<Option<Vec<u8>>, String> {
        let mut is_complete = 0;
        // SAFETY: no other thread is in MPI, as above. The request was made by `send` or
        // `receive`. One that was complete is the null request, which MPI takes for complete.
        let code = unsafe { rowlock_mpi_test(&raw mut transfer.request, &raw mut is_complete) };
        self.check(code)?;
        Ok((is_complete != 0).then(|| std::mem::take(&mut *transfer.bytes)))
    }

    /// Looks for a message, which is to be received. The first one from a rank is found first.
    pub(super) fn probe(&mut self) -> Result<Option<Found>, String> {
        let (mut is_there, mut from, mut tag, mut length, mut message) = (0, 0, 0, 0, 0);
        // SAFETY: no other thread is in MPI, as above, and each pointer is that of a variable.
        let code = unsafe {
            rowlock_mpi_probe(&raw mut is_there, &raw mut from, &raw mut tag, &raw mut length, &raw mut message)
        };
        self.check(code)?;
        Ok((is_there != 0).then_some(Found { from: from.unsigned_abs(), tag: tag.unsigned_abs(), length, message }))
    }

    /// Begins to receive a message that was found.
    pub(super) fn receive(&mut self, found: Found) -> Result<Transfer, String> {
        let bytes = ManuallyDrop::new(vec![0; found.length.unsigned_abs() as usize]);
        let mut received = Transfer { bytes, request: 0 };
        // SAFETY: no other thread is in MPI, as above. The buffer has the length of the message,
        // which was found and not received: `found` is not kept. The bytes are neither used nor
        // freed before the request is complete, as those of `send`.
        let code = unsafe {
            let bytes = received.bytes.as_mut_ptr().cast();
            rowlock_mpi_receive(bytes, found.length, found.message, &raw mut received.request)
        };
        self.check(code)?;
        Ok(received)
    }

    /// Ends MPI, if `join` has initialized it. All processes of the job must call this, after all
    /// messages have been received.
    pub(super) fn leave(mut self) -> Result<(), String> {
        // SAFETY: no other thread is in MPI, as above, and none will be: no value is left.
        let code = unsafe { rowlock_mpi_leave() };
        self.check(code)
    }
}
