//! The functions that the library calls. It has one host for the whole process, so they know the
//! listener by a variable of the process.
//!
//! Most run on a thread of the library, which waits for them. A call that they refuse returns an
//! error, which the library passes on to the rank. For one that they accept they call back at once,
//! which the library allows, and queues.

use std::collections::BTreeSet;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::event::{Call, Event};
use crate::interface::{
    EVENT_ACTION_COMPLETE, Info, Module, NOT_FOUND, NOT_SUPPORTED, OnDone, OnHandled, OnModex, Process, SUCCESS, Status,
};

/// Learns of events, on a thread of the library.
pub(crate) type Listener = Box<dyn Fn(Event) + Send + Sync>;

/// The listener of the only server of this process.
static LISTENER: OnceLock<Listener> = OnceLock::new();

/// Sets the listener. Returns false if there is one already.
pub(crate) fn set_listener(listener: Listener) -> bool {
    LISTENER.set(listener).is_ok()
}

/// The ranks of which something is known.
struct Ranks {
    /// Those that have ever connected.
    connected: BTreeSet<u32>,
    /// Of these, those that have neither said that they are done nor been told of as lost.
    present: BTreeSet<u32>,
    /// Those that have ended, and have never connected.
    missing: BTreeSet<u32>,
}

static RANKS: Mutex<Ranks> =
    Mutex::new(Ranks { connected: BTreeSet::new(), present: BTreeSet::new(), missing: BTreeSet::new() });

fn ranks() -> MutexGuard<'static, Ranks> {
    RANKS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ranks {
    /// Tells of a rank that is missing. All ranks meet in `MPI_Init`, so another cannot leave it.
    fn tell_missing(&self) {
        if let (Some(&waiting), Some(&rank)) = (self.present.first(), self.missing.first()) {
            tell(Event::Missing { rank, waiting });
        }
    }
}

/// Notes that a rank has connected. Another process of a rank may do so after the first has ended.
fn note_present(rank: u32) {
    let mut ranks = ranks();
    ranks.connected.insert(rank);
    ranks.present.insert(rank);
    ranks.missing.remove(&rank);
    ranks.tell_missing();
}

/// Notes that the process of a rank has ended.
pub(crate) fn note_ended(rank: u32) {
    let mut ranks = ranks();
    if !ranks.connected.contains(&rank) {
        ranks.missing.insert(rank);
        ranks.tell_missing();
    }
}

/// Tells of a rank that has not said that it is done.
fn tell_lost(rank: u32) {
    if ranks().present.remove(&rank) {
        tell(Event::Lost { rank });
    }
}

/// Tells of all ranks that have not said that they are done, when all have ended: the library may
/// not have noticed yet.
pub(crate) fn tell_all_lost() {
    let present = std::mem::take(&mut ranks().present);
    present.into_iter().for_each(|rank| tell(Event::Lost { rank }));
}

fn tell(event: Event) {
    if let Some(listener) = LISTENER.get() {
        listener(event);
    }
}

/// The functions that the server offers.
pub(crate) const MODULE: Module = Module {
    client_connected: Some(note_connected),
    client_finalized: Some(note_finalized),
    abort: Some(abort),
    fence: Some(fence),
    direct_modex: Some(find_no_data),
    publish: Some(refuse_to_publish),
    lookup: Some(refuse_to_look_up),
    unpublish: Some(refuse_to_unpublish),
    spawn: Some(refuse_to_spawn),
    connect: Some(refuse_to_connect),
    disconnect: Some(refuse_to_disconnect),
    register_events: Some(register_events),
    deregister_events: Some(deregister_events),
    listener: None,
    notify_event: Some(notify_event),
    others: [None; 113],
};

/// A call of the library that is answered by a callback.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    status: Mutex<Option<Status>>,
    is_there: Condvar,
}

impl Answer {
    /// The data that the library gets, and passes back to this module's functions alone.
    pub(crate) fn as_data(this: &Arc<Answer>) -> *mut c_void {
        Arc::into_raw(Arc::clone(this)).cast_mut().cast()
    }

    /// Takes back what no function has got.
    ///
    /// # Safety
    /// It is from [`Answer::as_data`], and the library has not passed it back and will not do so.
    pub(crate) unsafe fn drop_data(data: *mut c_void) {
        // SAFETY: as required.
        drop(unsafe { Arc::from_raw(data.cast::<Answer>()) });
    }

    /// Waits for the status, for at most this time.
    pub(crate) fn wait(&self, limit: Duration) -> Option<Status> {
        let status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.is_there.wait_timeout_while(status, limit, |status| status.is_none());
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn set(&self, status: Status) {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = Some(status);
        self.is_there.notify_all();
    }
}

/// Notes that a call of the library is done.
///
/// # Safety
/// `data` is from [`Answer::as_data`], and passed back once.
pub(crate) unsafe extern "C" fn on_done(status: Status, data: *mut c_void) {
    // SAFETY: as required.
    let answer = unsafe { Arc::from_raw(data.cast::<Answer>()) };
    answer.set(status);
}

/// Notes that a handler of events is registered, or not.
///
/// # Safety
/// As for [`on_done`].
pub(crate) unsafe extern "C" fn on_registered(status: Status, _handler: usize, data: *mut c_void) {
    // SAFETY: as required.
    unsafe { on_done(status, data) };
}

/// Handles the loss of a connection to a rank.
///
/// # Safety
/// The library calls it, as a handler of events.
pub(crate) unsafe extern "C" fn on_lost(
    _handler: usize,
    _status: Status,
    source: *const Process,
    _info: *mut Info,
    _count: usize,
    _results: *mut Info,
    _result_count: usize,
    on_handled: Option<OnHandled>,
    data: *mut c_void,
) {
    // SAFETY: the library passes a process or null, and the data for its own function.
    unsafe {
        tell_lost(rank(source));
        if let Some(on_handled) = on_handled {
            on_handled(EVENT_ACTION_COMPLETE, null_mut(), 0, None, null_mut(), data);
        }
    }
}

/// The rank of a process. There is always one where the library passes one.
///
/// # Safety
/// The pointer is valid or null.
unsafe fn rank(process: *const Process) -> u32 {
    // SAFETY: as required.
    unsafe { process.as_ref() }.map_or(u32::MAX, |process| process.rank)
}

/// Calls back.
///
/// # Safety
/// The data is that for this function.
unsafe fn succeed(on_done: Option<OnDone>, data: *mut c_void) -> Status {
    if let Some(on_done) = on_done {
        // SAFETY: as required.
        unsafe { on_done(SUCCESS, data) };
    }
    SUCCESS
}

/// Tells of a call of a process that is refused.
///
/// # Safety
/// The pointer is valid or null.
unsafe fn refuse(process: *const Process, call: Call) -> Status {
    // SAFETY: as required.
    tell(Event::Refused { rank: unsafe { rank(process) }, call });
    NOT_SUPPORTED
}

/// # Safety
/// The library calls it, as `client_connected`.
unsafe extern "C" fn note_connected(
    process: *const Process,
    _object: *mut c_void,
    on_done: Option<OnDone>,
    data: *mut c_void,
) -> Status {
    // SAFETY: the library passes a process or null, and the data for its own function.
    unsafe {
        note_present(rank(process));
        succeed(on_done, data)
    }
}

/// # Safety
/// The library calls it, as `client_finalized`.
unsafe extern "C" fn note_finalized(
    process: *const Process,
    _object: *mut c_void,
    on_done: Option<OnDone>,
    data: *mut c_void,
) -> Status {
    // SAFETY: as for `note_connected`.
    unsafe {
        ranks().present.remove(&rank(process));
        succeed(on_done, data)
    }
}

/// # Safety
/// The library calls it, as `abort`.
unsafe extern "C" fn abort(
    process: *const Process,
    _object: *mut c_void,
    status: c_int,
    message: *const c_char,
    _processes: *mut Process,
    _count: usize,
    on_done: Option<OnDone>,
    data: *mut c_void,
) -> Status {
    // SAFETY: the library passes the process, a string or null, and the data for its own function.
    unsafe {
        let message = match message.is_null() {
            true => String::new(),
            false => CStr::from_ptr(message).to_string_lossy().into_owned(),
        };
        // It is known before the rank goes on, and ends.
        tell(Event::Abort { rank: rank(process), code: status, message });
        succeed(on_done, data)
    }
}

/// All ranks are here, so what the library has collected is all that there is.
///
/// # Safety
/// The library calls it, as `fence_nb`.
unsafe extern "C" fn fence(
    _processes: *const Process,
    _count: usize,
    _info: *const Info,
    _info_count: usize,
    blob: *mut c_char,
    length: usize,
    on_modex: Option<OnModex>,
    data: *mut c_void,
) -> Status {
    if let Some(on_modex) = on_modex {
        // SAFETY: the library passes the data for its own function, and gives away the blob, which
        // it has allocated by `malloc`. It frees it when it does not read it any more.
        unsafe { on_modex(SUCCESS, blob, length, data, Some(libc::free), blob.cast()) };
    }
    SUCCESS
}

/// There are no other nodes with data.
///
/// # Safety
/// The library calls it, as `direct_modex`.
unsafe extern "C" fn find_no_data(
    _process: *const Process,
    _info: *const Info,
    _count: usize,
    on_modex: Option<OnModex>,
    data: *mut c_void,
) -> Status {
    if let Some(on_modex) = on_modex {
        // SAFETY: the library passes the data for its own function.
        unsafe { on_modex(NOT_FOUND, null(), 0, data, None, null_mut()) };
    }
    SUCCESS
}

/// Functions that refuse a call, each by its arguments after the process, or the first of several.
macro_rules! refusals {
    ($($call:ident: $name:ident($($argument:ty),*);)*) => {$(
        /// # Safety
        /// The library calls it, as the field of [`MODULE`] that has it.
        unsafe extern "C" fn $name(process: *const Process, $(_: $argument),*) -> Status {
            // SAFETY: the library passes the process, or at least one.
            unsafe { refuse(process, Call::$call) }
        }
    )*};
}

refusals! {
    Publish: refuse_to_publish(*const Info, usize, Option<OnDone>, *mut c_void);
    Lookup: refuse_to_look_up(*mut *mut c_char, *const Info, usize, *mut c_void, *mut c_void);
    Unpublish: refuse_to_unpublish(*mut *mut c_char, *const Info, usize, *mut c_void, *mut c_void);
    Spawn: refuse_to_spawn(*const Info, usize, *const c_void, usize, *mut c_void, *mut c_void);
    Connect: refuse_to_connect(usize, *const Info, usize, Option<OnDone>, *mut c_void);
    Disconnect: refuse_to_disconnect(usize, *const Info, usize, Option<OnDone>, *mut c_void);
}

/// The library itself tells ranks of each other's events; there are no others.
///
/// # Safety
/// The library calls it, as `register_events`.
unsafe extern "C" fn register_events(
    _codes: *mut Status,
    _count: usize,
    _info: *const Info,
    _info_count: usize,
    on_done: Option<OnDone>,
    data: *mut c_void,
) -> Status {
    // SAFETY: the library passes the data for its own function.
    unsafe { succeed(on_done, data) }
}

/// # Safety
/// The library calls it, as `deregister_events`.
unsafe extern "C" fn deregister_events(
    _codes: *mut Status,
    _count: usize,
    on_done: Option<OnDone>,
    data: *mut c_void,
) -> Status {
    // SAFETY: the library passes the data for its own function.
    unsafe { succeed(on_done, data) }
}

/// # Safety
/// The library calls it, as `notify_event`.
unsafe extern "C" fn notify_event(
    _code: Status,
    _source: *const Process,
    _range: u8,
    _info: *mut Info,
    _count: usize,
    on_done: Option<OnDone>,
    data: *mut c_void,
) -> Status {
    // SAFETY: the library passes the data for its own function.
    unsafe { succeed(on_done, data) }
}
