//! The server of one job.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsString, c_char, c_void};
use std::io;
use std::mem::forget;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::Duration;

use crate::attributes::Attributes;
use crate::callbacks::{self, Answer, on_done, on_lost, on_registered, tell_all_lost};
use crate::event::Event;
use crate::interface::{LOST_CONNECTION, NAMESPACE_LENGTH, OPERATION_SUCCEEDED, OnDone, Process, SUCCESS, Status, key};
use crate::library::Library;

/// How long the library may take for a call.
const LIMIT: Duration = Duration::from_secs(10);
/// The longest name of a job.
const LONGEST_NAME: usize = NAMESPACE_LENGTH - 1;
/// The highest number of ranks: their numbers on a node are 16 bits wide.
const MOST_RANKS: usize = 0xFFFF;

/// A job to serve.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The name of the job. No other job on this machine has it at the same time, and only a
    /// process that may use the server knows it.
    pub name: &'a str,
    /// The number of the application that each rank executes, from 0.
    pub applications: &'a [u32],
    /// A folder of this user alone for all files of the library and of the ranks, which the caller
    /// removes.
    pub folder: &'a Path,
}

/// Why a job is not served.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// A job has too few ranks, or too many.
    #[error("libpmix cannot serve {0} ranks, but 1 to {MOST_RANKS}")]
    Ranks(usize),
    /// The name is empty, too long or contains a zero byte.
    #[error("libpmix cannot serve a job of the name `{0}`: it takes 1 to {LONGEST_NAME} bytes")]
    Name(String),
    /// The applications have numbers below that of ranks.
    #[error("the ranks of libpmix cannot execute application {0}: it is beyond their number")]
    Application(u32),
    /// The path of the folder contains a zero byte.
    #[error("libpmix cannot use the folder {0}")]
    Folder(String),
    /// This process has served a job already.
    #[error("libpmix serves one job per process")]
    Second,
    /// A function of the library has failed.
    #[error("libpmix cannot serve the job: {function} has failed: {status}")]
    Failed {
        /// The name of the function.
        function: &'static str,
        /// The name of the status.
        status: String,
    },
    /// The library has not answered in time.
    #[error("libpmix does not answer: {0} has not ended within {LIMIT:?}")]
    NoAnswer(&'static str),
    /// The name of this machine is unknown.
    #[error("the name of this machine is unknown: {0}")]
    Host(io::Error),
}

/// A running server. When it is dropped, ranks can no longer use it.
#[derive(Debug)]
pub struct Server {
    library: Library,
    name: CString,
    ranks: u32,
}

impl Server {
    /// Starts the server, and tells the library of all ranks. `listener` learns of events on a
    /// thread of the library, which waits for it: it must not call this server.
    ///
    /// # Errors
    /// If the job cannot be served.
    pub fn start(
        library: Library,
        job: Job<'_>,
        listener: impl Fn(Event) + Send + Sync + 'static,
    ) -> Result<Server, ServerError> {
        let count = job.applications.len();
        let ranks = u32::try_from(count).ok().filter(|_| (1..=MOST_RANKS).contains(&count));
        let ranks = ranks.ok_or(ServerError::Ranks(count))?;
        if let Some(&beyond) = job.applications.iter().find(|&&application| application >= ranks) {
            return Err(ServerError::Application(beyond));
        }
        let name = CString::new(job.name).ok().filter(|name| (1..=LONGEST_NAME).contains(&name.count_bytes()));
        let name = name.ok_or_else(|| ServerError::Name(job.name.to_owned()))?;
        let folder = CString::new(job.folder.as_os_str().as_bytes());
        let folder = folder.map_err(|_| ServerError::Folder(job.folder.display().to_string()))?;
        let host = host_name().map_err(ServerError::Host)?;
        if !callbacks::set_listener(Box::new(listener)) {
            return Err(ServerError::Second);
        }
        let mut module = callbacks::MODULE;
        let mut attributes = Attributes::default()
            .string(key::SERVER_FOLDER, &folder)
            .string(key::SYSTEM_FOLDER, &folder)
            .string(key::HOST_NAME, &host)
            // Without it, messages of Open MPI 5 get lost, or end a server of version 6.
            .boolean(key::OUTPUT_HERE, true)
            .boolean(key::GATEWAY, true);
        let (infos, length) = attributes.as_mut();
        // SAFETY: the library copies the module and the attributes, which live until it returns.
        let status = unsafe { (library.functions.server_init)(&raw mut module, infos, length) };
        // From here on, it is finalized when this is dropped.
        let server = match status {
            SUCCESS => Server { library, name, ranks },
            status => {
                return Err(ServerError::Failed { function: "PMIx_server_init", status: library.name_of(status) });
            }
        };
        server.handle_losses()?;
        server.register(describe(job.applications, &server.name, &host, &folder))?;
        (0..ranks).try_for_each(|rank| server.register_rank(rank))?;
        Ok(server)
    }

    /// The variables by which a rank finds this server.
    ///
    /// # Errors
    /// If there is no such rank.
    pub fn variables(&self, rank: u32) -> Result<Vec<(OsString, OsString)>, ServerError> {
        let mut list: *mut *mut c_char = null_mut();
        // SAFETY: the process lives until the function returns, which creates the list, ended by
        // null, and its strings by `malloc`.
        let (status, strings) = unsafe {
            let status = (self.library.functions.setup_fork)(&self.process(rank), &raw mut list);
            (status, take_strings(list))
        };
        self.expect("PMIx_server_setup_fork", status)?;
        let pair = |string: CString| {
            let bytes = string.into_bytes();
            let end = bytes.iter().position(|&byte| byte == b'=')?;
            Some((OsString::from_vec(bytes[..end].to_vec()), OsString::from_vec(bytes[end + 1..].to_vec())))
        };
        Ok(strings.into_iter().filter_map(pair).collect())
    }

    /// Tells the server that the process of a rank has ended. If it has never connected, others may
    /// wait for it in vain, of which the listener learns.
    pub fn note_ended(&self, rank: u32) {
        callbacks::note_ended(rank);
    }

    fn handle_losses(&self) -> Result<(), ServerError> {
        let mut codes = [LOST_CONNECTION];
        let register = |data| {
            let on_registered = Some(on_registered as _);
            // SAFETY: the library copies the code. It passes the data back to the function.
            unsafe {
                let register = self.library.functions.register_handler;
                register(codes.as_mut_ptr(), codes.len(), null_mut(), 0, Some(on_lost), on_registered, data)
            }
        };
        self.wait("PMIx_Register_event_handler", register)
    }

    fn register(&self, mut attributes: Attributes) -> Result<(), ServerError> {
        let (infos, length) = attributes.as_mut();
        let ranks = self.ranks.cast_signed();
        let register = |data| {
            // SAFETY: the name is a string. The attributes live until the library has answered. It
            // passes the data back to the function.
            unsafe {
                let register = self.library.functions.register_namespace;
                register(self.name.as_ptr(), ranks, infos, length, Some(on_done as OnDone), data)
            }
        };
        let registered = self.wait("PMIx_server_register_nspace", register);
        if matches!(registered, Err(ServerError::NoAnswer(_))) {
            // It may still read them.
            forget(attributes);
        }
        registered
    }

    fn register_rank(&self, rank: u32) -> Result<(), ServerError> {
        let process = self.process(rank);
        let register = |data| {
            // SAFETY: the library copies the process, and passes the data back to the function. The
            // other functions return numbers.
            unsafe {
                let (user, group) = (libc::getuid(), libc::getgid());
                let register = self.library.functions.register_client;
                register(&process, user, group, null_mut(), Some(on_done as OnDone), data)
            }
        };
        self.wait("PMIx_server_register_client", register)
    }

    /// Makes a call of the library with data for [`on_done`], and waits until it is done.
    fn wait(&self, function: &'static str, call: impl FnOnce(*mut c_void) -> Status) -> Result<(), ServerError> {
        let answer = Arc::default();
        let data = Answer::as_data(&answer);
        let status = call(data);
        if status != SUCCESS {
            // SAFETY: the library has not kept the data if it has failed or is already done.
            unsafe { Answer::drop_data(data) };
            return self.expect(function, status);
        }
        self.expect(function, answer.wait(LIMIT).ok_or(ServerError::NoAnswer(function))?)
    }

    fn expect(&self, function: &'static str, status: Status) -> Result<(), ServerError> {
        match status {
            SUCCESS | OPERATION_SUCCEEDED => Ok(()),
            status => Err(ServerError::Failed { function, status: self.library.name_of(status) }),
        }
    }

    fn process(&self, rank: u32) -> Process {
        let mut process = Process { namespace: [0; NAMESPACE_LENGTH], rank };
        for (to, &byte) in process.namespace.iter_mut().zip(self.name.as_bytes()) {
            *to = byte as c_char;
        }
        process
    }
}

impl Drop for Server {
    /// All ranks have ended. Without the deregistration, the library would leave folders.
    fn drop(&mut self) {
        tell_all_lost();
        let functions = &self.library.functions;
        for rank in 0..self.ranks {
            let process = self.process(rank);
            let deregister = |data| {
                // SAFETY: the library copies the process, and passes the data back to the function.
                unsafe { (functions.deregister_client)(&process, Some(on_done as OnDone), data) };
                SUCCESS
            };
            if self.wait("PMIx_server_deregister_client", deregister).is_err() {
                break;
            }
        }
        let deregister = |data| {
            // SAFETY: the name is a string. The library passes the data back to the function.
            unsafe { (functions.deregister_namespace)(self.name.as_ptr(), Some(on_done as OnDone), data) };
            SUCCESS
        };
        let _ = self.wait("PMIx_server_deregister_nspace", deregister);
        // SAFETY: it was initialized once, and nothing calls it afterwards.
        unsafe { (functions.server_finalize)() };
    }
}

/// Takes the strings of a list that ends with null, and frees it.
///
/// # Safety
/// The list is null, or it and its strings were allocated by `malloc` and belong to the caller.
unsafe fn take_strings(list: *mut *mut c_char) -> Vec<CString> {
    let mut strings = Vec::new();
    if list.is_null() {
        return strings;
    }
    // SAFETY: each item before the null is a string.
    unsafe {
        let mut item = list;
        while !(*item).is_null() {
            strings.push(CStr::from_ptr(*item).to_owned());
            libc::free((*item).cast());
            item = item.add(1);
        }
        libc::free(list.cast());
    }
    strings
}

/// All that ranks can ask about the job and each other.
fn describe(applications: &[u32], name: &CStr, host: &CStr, folder: &CStr) -> Attributes {
    let size = applications.len() as u32;
    let numbers = (0..size).map(|rank| rank.to_string()).collect::<Vec<_>>().join(",");
    let text = |text: String| CString::new(text).unwrap_or_default();
    let nodes = CString::new([b"raw:", host.to_bytes()].concat()).unwrap_or_default();
    // The ranks of each application.
    let mut ranks = BTreeMap::<u32, Vec<u32>>::new();
    let mut processes = Vec::new();
    for (rank, &application) in (0..size).zip(applications) {
        let of_application = ranks.entry(application).or_default();
        let process = Attributes::default()
            .rank(key::RANK, rank)
            .uint32(key::APPLICATION, application)
            .rank(key::APPLICATION_RANK, of_application.len() as u32)
            .rank(key::GLOBAL_RANK, rank)
            .uint16(key::LOCAL_RANK, rank as u16)
            .uint16(key::NODE_RANK, rank as u16)
            .uint32(key::NODE, 0)
            .string(key::HOST_NAME, host);
        of_application.push(rank);
        processes.push(process);
    }
    let mut job = Attributes::default()
        .string(key::JOB, name)
        .uint32(key::UNIVERSE_SIZE, size)
        .uint32(key::JOB_SIZE, size)
        .uint32(key::MOST_PROCESSES, size)
        .uint32(key::LOCAL_SIZE, size)
        .uint32(key::NODE_SIZE, size)
        .uint32(key::NODES, 1)
        .uint32(key::APPLICATIONS, ranks.len() as u32)
        .rank(key::LOCAL_LEADER, 0)
        .string(key::LOCAL_PEERS, &text(numbers.clone()))
        .string(key::NODE_MAP, &nodes)
        .string(key::PROCESS_MAP, &text(format!("raw:{numbers}")))
        .string(key::TEMPORARY_FOLDER, folder)
        .string(key::NAMESPACE_FOLDER, folder)
        .boolean(key::TEMPORARY_FOLDERS_ARE_REMOVED, true);
    for (application, ranks) in ranks {
        let info = Attributes::default()
            .uint32(key::APPLICATION, application)
            .uint32(key::APPLICATION_SIZE, ranks.len() as u32)
            .rank(key::APPLICATION_LEADER, ranks[0]);
        job = job.array(key::APPLICATION_INFO, info);
    }
    processes.into_iter().fold(job, |job, process| job.array(key::PROCESS_DATA, process))
}

fn host_name() -> io::Result<CString> {
    let mut name = [0_u8; 256];
    // SAFETY: the function writes at most this number of bytes. The last one remains zero.
    if unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();
    Ok(if name.is_empty() { c"localhost" } else { name }.to_owned())
}
