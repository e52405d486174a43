//! The part of the C interface of libpmix that is used here, from the standard (PMIx 4 and 5, which
//! versions 4 to 6 of the library implement): types, constants and signatures. It has no code.
//!
//! The types are the same in all these versions. Only the end of [`Module`] differs.

use std::ffi::{CStr, c_char, c_int, c_void};

/// A status. Errors are negative.
pub(crate) type Status = c_int;

pub(crate) const SUCCESS: Status = 0;
pub(crate) const NOT_FOUND: Status = -46;
pub(crate) const NOT_SUPPORTED: Status = -47;
/// The connection of a rank has ended early.
pub(crate) const LOST_CONNECTION: Status = -61;
/// The call was successful, and there will be no callback.
pub(crate) const OPERATION_SUCCEEDED: Status = -157;
/// A handler of events needs no other handlers.
pub(crate) const EVENT_ACTION_COMPLETE: Status = -334;

pub(crate) const NAMESPACE_LENGTH: usize = 256;
pub(crate) const KEY_LENGTH: usize = 512;

pub(crate) type Namespace = [c_char; NAMESPACE_LENGTH];

/// `pmix_proc_t`: a rank of a job.
#[repr(C)]
pub(crate) struct Process {
    pub(crate) namespace: Namespace,
    pub(crate) rank: u32,
}

/// `pmix_value_t`.
#[repr(C)]
pub(crate) struct Value {
    pub(crate) kind: u16,
    pub(crate) data: Data,
}

#[repr(C)]
pub(crate) union Data {
    pub(crate) boolean: bool,
    pub(crate) uint16: u16,
    pub(crate) uint32: u32,
    pub(crate) string: *mut c_char,
    pub(crate) array: *mut DataArray,
    /// As large as the largest member.
    pub(crate) all: [u64; 3],
}

/// `pmix_data_array_t`.
#[repr(C)]
pub(crate) struct DataArray {
    pub(crate) kind: u16,
    pub(crate) size: usize,
    pub(crate) array: *mut c_void,
}

/// `pmix_info_t`: an attribute.
#[repr(C)]
pub(crate) struct Info {
    /// Characters, which are signed on some machines only.
    pub(crate) key: [u8; KEY_LENGTH],
    pub(crate) flags: u32,
    pub(crate) value: Value,
}

/// The kinds of values (`pmix_data_type_t`).
pub(crate) mod kind {
    pub(crate) const BOOLEAN: u16 = 1;
    pub(crate) const STRING: u16 = 3;
    pub(crate) const UINT16: u16 = 13;
    pub(crate) const UINT32: u16 = 14;
    pub(crate) const INFO: u16 = 24;
    pub(crate) const DATA_ARRAY: u16 = 39;
    pub(crate) const RANK: u16 = 40;
}

/// The keys of attributes.
pub(crate) mod key {
    use super::CStr;

    pub(crate) const APPLICATION: &CStr = c"pmix.appnum";
    pub(crate) const APPLICATIONS: &CStr = c"pmix.job.napps";
    pub(crate) const APPLICATION_INFO: &CStr = c"pmix.app.arr";
    pub(crate) const APPLICATION_LEADER: &CStr = c"pmix.aldr";
    pub(crate) const APPLICATION_RANK: &CStr = c"pmix.apprank";
    pub(crate) const APPLICATION_SIZE: &CStr = c"pmix.app.size";
    /// The server also does what only one of several servers does.
    pub(crate) const GATEWAY: &CStr = c"pmix.srv.gway";
    pub(crate) const GLOBAL_RANK: &CStr = c"pmix.grank";
    pub(crate) const HOST_NAME: &CStr = c"pmix.hname";
    pub(crate) const JOB: &CStr = c"pmix.jobid";
    pub(crate) const JOB_SIZE: &CStr = c"pmix.job.size";
    pub(crate) const LOCAL_LEADER: &CStr = c"pmix.lldr";
    pub(crate) const LOCAL_PEERS: &CStr = c"pmix.lpeers";
    pub(crate) const LOCAL_RANK: &CStr = c"pmix.lrank";
    pub(crate) const LOCAL_SIZE: &CStr = c"pmix.local.size";
    pub(crate) const MOST_PROCESSES: &CStr = c"pmix.max.size";
    pub(crate) const NAMESPACE_FOLDER: &CStr = c"pmix.nsdir";
    pub(crate) const NODE: &CStr = c"pmix.nodeid";
    pub(crate) const NODES: &CStr = c"pmix.num.nodes";
    pub(crate) const NODE_MAP: &CStr = c"pmix.nmap";
    pub(crate) const NODE_RANK: &CStr = c"pmix.nrank";
    pub(crate) const NODE_SIZE: &CStr = c"pmix.node.size";
    /// The server writes what a rank tells it to say.
    pub(crate) const OUTPUT_HERE: &CStr = c"pmix.iof.local";
    pub(crate) const PROCESS_DATA: &CStr = c"pmix.pdata";
    pub(crate) const PROCESS_MAP: &CStr = c"pmix.pmap";
    pub(crate) const RANK: &CStr = c"pmix.rank";
    pub(crate) const SERVER_FOLDER: &CStr = c"pmix.srvr.tmpdir";
    pub(crate) const SYSTEM_FOLDER: &CStr = c"pmix.sys.tmpdir";
    pub(crate) const TEMPORARY_FOLDER: &CStr = c"pmix.tmpdir";
    /// The folders are removed for the ranks.
    pub(crate) const TEMPORARY_FOLDERS_ARE_REMOVED: &CStr = c"pmix.tdir.rmclean";
    pub(crate) const UNIVERSE_SIZE: &CStr = c"pmix.univ.size";
}

pub(crate) type Release = unsafe extern "C" fn(data: *mut c_void);
/// `pmix_op_cbfunc_t`.
pub(crate) type OnDone = unsafe extern "C" fn(status: Status, data: *mut c_void);
/// `pmix_modex_cbfunc_t`.
pub(crate) type OnModex = unsafe extern "C" fn(
    status: Status,
    blob: *const c_char,
    length: usize,
    data: *mut c_void,
    release: Option<Release>,
    released: *mut c_void,
);
/// `pmix_event_notification_cbfunc_fn_t`.
pub(crate) type OnHandled = unsafe extern "C" fn(
    status: Status,
    results: *mut Info,
    count: usize,
    on_done: Option<OnDone>,
    done: *mut c_void,
    data: *mut c_void,
);
/// `pmix_hdlr_reg_cbfunc_t`.
pub(crate) type OnRegistered = unsafe extern "C" fn(status: Status, handler: usize, data: *mut c_void);
/// `pmix_notification_fn_t`: a handler of events.
pub(crate) type Handler = unsafe extern "C" fn(
    handler: usize,
    status: Status,
    source: *const Process,
    info: *mut Info,
    count: usize,
    results: *mut Info,
    result_count: usize,
    on_handled: Option<OnHandled>,
    data: *mut c_void,
);

/// `client_connected` and `client_finalized`.
pub(crate) type AboutClient = unsafe extern "C" fn(
    process: *const Process,
    object: *mut c_void,
    on_done: Option<OnDone>,
    data: *mut c_void,
) -> Status;
pub(crate) type Abort = unsafe extern "C" fn(
    process: *const Process,
    object: *mut c_void,
    status: c_int,
    message: *const c_char,
    processes: *mut Process,
    count: usize,
    on_done: Option<OnDone>,
    data: *mut c_void,
) -> Status;
pub(crate) type Fence = unsafe extern "C" fn(
    processes: *const Process,
    count: usize,
    info: *const Info,
    info_count: usize,
    blob: *mut c_char,
    length: usize,
    on_modex: Option<OnModex>,
    data: *mut c_void,
) -> Status;
pub(crate) type DirectModex = unsafe extern "C" fn(
    process: *const Process,
    info: *const Info,
    count: usize,
    on_modex: Option<OnModex>,
    data: *mut c_void,
) -> Status;
/// `publish`.
pub(crate) type Publish = unsafe extern "C" fn(
    process: *const Process,
    info: *const Info,
    count: usize,
    on_done: Option<OnDone>,
    data: *mut c_void,
) -> Status;
/// `lookup` and `unpublish`, whose callbacks differ.
pub(crate) type AboutNames = unsafe extern "C" fn(
    process: *const Process,
    names: *mut *mut c_char,
    info: *const Info,
    count: usize,
    on_done: *mut c_void,
    data: *mut c_void,
) -> Status;
pub(crate) type Spawn = unsafe extern "C" fn(
    process: *const Process,
    info: *const Info,
    count: usize,
    applications: *const c_void,
    application_count: usize,
    on_spawned: *mut c_void,
    data: *mut c_void,
) -> Status;
/// `connect` and `disconnect`.
pub(crate) type Join = unsafe extern "C" fn(
    processes: *const Process,
    count: usize,
    info: *const Info,
    info_count: usize,
    on_done: Option<OnDone>,
    data: *mut c_void,
) -> Status;
pub(crate) type RegisterEvents = unsafe extern "C" fn(
    codes: *mut Status,
    count: usize,
    info: *const Info,
    info_count: usize,
    on_done: Option<OnDone>,
    data: *mut c_void,
) -> Status;
pub(crate) type DeregisterEvents =
    unsafe extern "C" fn(codes: *mut Status, count: usize, on_done: Option<OnDone>, data: *mut c_void) -> Status;
pub(crate) type NotifyEvent = unsafe extern "C" fn(
    code: Status,
    source: *const Process,
    range: u8,
    info: *mut Info,
    count: usize,
    on_done: Option<OnDone>,
    data: *mut c_void,
) -> Status;

/// `pmix_server_module_t`: the functions by which the library asks its host. It copies as much of
/// this as its version knows, so there must be enough of it: version 6 has 32 functions.
#[repr(C)]
pub(crate) struct Module {
    pub(crate) client_connected: Option<AboutClient>,
    pub(crate) client_finalized: Option<AboutClient>,
    pub(crate) abort: Option<Abort>,
    pub(crate) fence: Option<Fence>,
    pub(crate) direct_modex: Option<DirectModex>,
    pub(crate) publish: Option<Publish>,
    pub(crate) lookup: Option<AboutNames>,
    pub(crate) unpublish: Option<AboutNames>,
    pub(crate) spawn: Option<Spawn>,
    pub(crate) connect: Option<Join>,
    pub(crate) disconnect: Option<Join>,
    pub(crate) register_events: Option<RegisterEvents>,
    pub(crate) deregister_events: Option<DeregisterEvents>,
    pub(crate) listener: Option<Release>,
    pub(crate) notify_event: Option<NotifyEvent>,
    /// Functions that are not offered.
    pub(crate) others: [Option<Release>; 113],
}

pub(crate) type GetVersion = unsafe extern "C" fn() -> *const c_char;
pub(crate) type ErrorString = unsafe extern "C" fn(status: Status) -> *const c_char;
pub(crate) type ServerInit = unsafe extern "C" fn(module: *mut Module, info: *mut Info, count: usize) -> Status;
pub(crate) type ServerFinalize = unsafe extern "C" fn() -> Status;
pub(crate) type RegisterNamespace = unsafe extern "C" fn(
    namespace: *const c_char,
    local_processes: c_int,
    info: *mut Info,
    count: usize,
    on_done: Option<OnDone>,
    data: *mut c_void,
) -> Status;
pub(crate) type DeregisterNamespace =
    unsafe extern "C" fn(namespace: *const c_char, on_done: Option<OnDone>, data: *mut c_void);
pub(crate) type RegisterClient = unsafe extern "C" fn(
    process: *const Process,
    user: libc::uid_t,
    group: libc::gid_t,
    object: *mut c_void,
    on_done: Option<OnDone>,
    data: *mut c_void,
) -> Status;
pub(crate) type DeregisterClient =
    unsafe extern "C" fn(process: *const Process, on_done: Option<OnDone>, data: *mut c_void);
pub(crate) type SetupFork = unsafe extern "C" fn(process: *const Process, environment: *mut *mut *mut c_char) -> Status;
pub(crate) type RegisterHandler = unsafe extern "C" fn(
    codes: *mut Status,
    count: usize,
    info: *mut Info,
    info_count: usize,
    handler: Option<Handler>,
    on_registered: Option<OnRegistered>,
    data: *mut c_void,
) -> Status;

pub(crate) type StartList = unsafe extern "C" fn() -> *mut c_void;
pub(crate) type AddToList =
    unsafe extern "C" fn(list: *mut c_void, key: *const c_char, value: *const c_void, kind: u16) -> Status;
pub(crate) type ConvertList = unsafe extern "C" fn(list: *mut c_void, array: *mut DataArray) -> Status;
pub(crate) type ReleaseList = unsafe extern "C" fn(list: *mut c_void);
