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

// SAFETY: these are the functions of `shim.c`.
unsafe extern "C" {
    fn rowlock_mpi_join(rank: *mut c_int, ranks: *mut c_int) -> c_int;
    fn rowlock_mpi_send(bytes: *const c_void, length: c_int, to: c_int, tag: c_int, request: *mut u64) -> c_int;
    fn rowlock_mpi_test(request: *mut u64, is_complete: *mut c_int) -> c_int;
    fn rowlock_mpi_probe(is_there: *mut c_int, from: *mut c_int, tag: *mut c_int, length: *mut c_int) -> c_int;
    fn rowlock_mpi_receive(bytes: *mut c_void, length: c_int, from: c_int, tag: c_int) -> c_int;
    fn rowlock_mpi_text(code: c_int, text: *mut c_char, room: c_int);
    fn rowlock_mpi_leave() -> c_int;
}

/// MPI, after it has been initialized.
#[derive(Debug)]
pub(super) struct Library {
    pub(super) rank: u32,
    pub(super) ranks: u32,
}

/// A message that was found, and is to be received next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) from: u32,
    pub(super) tag: u32,
    length: c_int,
}

/// Bytes that are being sent. If this is dropped before they are, they stay in memory.
#[derive(Debug)]
pub(super) struct Sent {
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
            return because("this process has joined before, and that is possible once");
        }
        let mut library = Library { rank: 0, ranks: 0 };
        let (mut rank, mut ranks) = (0, 0);
        // SAFETY: there is no other value, and each pointer is that of a variable.
        let code = unsafe { rowlock_mpi_join(&raw mut rank, &raw mut ranks) };
        match code {
            HAS_ENDED => because("the program has finalized MPI before"),
            NO_THREADS => because("MPI was initialized for fewer threads than are needed: ask for MPI_THREAD_MULTIPLE"),
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
    pub(super) fn send(&mut self, to: u32, tag: u32, bytes: Vec<u8>) -> Result<Sent, String> {
        let mut sent = Sent { bytes: ManuallyDrop::new(bytes), request: 0 };
        let length = c_int::try_from(sent.bytes.len()).unwrap_or(c_int::MAX);
        // SAFETY: no other thread is in MPI, as above. The bytes are not freed before the request
        // is complete, and nothing changes them: they are private to `Sent`, which frees them in
        // `is_complete` alone.
        let code = unsafe {
            rowlock_mpi_send(sent.bytes.as_ptr().cast(), length, to as c_int, tag as c_int, &raw mut sent.request)
        };
        self.check(code)?;
        Ok(sent)
    }

    /// Whether bytes have been sent, so that they were freed. Not to be called again then.
    pub(super) fn is_complete(&mut self, sent: &mut Sent) -> Result<bool, String> {
        let mut is_complete = 0;
        // SAFETY: no other thread is in MPI, as above. The request was made by `send`. A request
        // that was complete is the null request, which MPI takes for complete.
        let code = unsafe { rowlock_mpi_test(&raw mut sent.request, &raw mut is_complete) };
        self.check(code)?;
        if is_complete != 0 {
            drop(std::mem::take(&mut *sent.bytes));
        }
        Ok(is_complete != 0)
    }

    /// Looks for a message. The first one from a rank is found first.
    pub(super) fn probe(&mut self) -> Result<Option<Found>, String> {
        let (mut is_there, mut from, mut tag, mut length) = (0, 0, 0, 0);
        // SAFETY: no other thread is in MPI, as above, and each pointer is that of a variable.
        let code = unsafe { rowlock_mpi_probe(&raw mut is_there, &raw mut from, &raw mut tag, &raw mut length) };
        self.check(code)?;
        Ok((is_there != 0).then_some(Found { from: from.unsigned_abs(), tag: tag.unsigned_abs(), length }))
    }

    /// Receives the message that was found last.
    pub(super) fn receive(&mut self, found: Found) -> Result<Vec<u8>, String> {
        let mut bytes = vec![0; found.length.unsigned_abs() as usize];
        let (from, tag) = (found.from as c_int, found.tag as c_int);
        // SAFETY: no other thread is in MPI, as above. The buffer has this length, and a message
        // that is longer is an error of MPI.
        let code = unsafe { rowlock_mpi_receive(bytes.as_mut_ptr().cast(), found.length, from, tag) };
        self.check(code)?;
        Ok(bytes)
    }

    /// Ends MPI, if `join` has initialized it. All processes of the job must call this, after all
    /// messages have been received.
    pub(super) fn leave(mut self) -> Result<(), String> {
        // SAFETY: no other thread is in MPI, as above, and none will be: no value is left.
        let code = unsafe { rowlock_mpi_leave() };
        self.check(code)
    }
}
