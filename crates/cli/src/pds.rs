//! `rowlock pds`, and how other commands find it. `cosched::pds` says what it may do.

use std::collections::BTreeMap;
use std::fmt::Arguments;
use std::io::{self, stdin};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Acquire;

use anyhow::{Context, anyhow};
use cosched::pds::{CONNECTION_LIMIT, Client, JobTable, OwnTable, PdsError, Peer, SOCKET, Surroundings, serve};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::Mode;
use rustix::net::sockopt::socket_acceptconn;
use rustix::process::{geteuid, setsid, umask};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use sys::descriptors::keep_only_streams_in;
use sys::files::Folder;
use sys::process::own_program;

use crate::arguments::prun::Pds;
use crate::output::print_message;
use crate::stop::{OrStop, Stop};

/// The folder of the table, which only root may use.
const TABLE: &str = "/run/rowlock/table";
const PRIVATE: u32 = 0o700;
/// Every user may connect.
const SOCKET_MASK: u32 = 0o111;
/// The time between two looks at processes that may have ended.
const INTERVAL: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// A connection to pds, if it is there and may be used.
pub(crate) fn find() -> Result<Option<Client>, Stop> {
    match JobTable::find().map_err(stop)? {
        JobTable::OfAll(client) => Ok(Some(client)),
        JobTable::OfUser(OwnTable::Unreachable(why)) => {
            print_message(format_args!("rowlock: {why}; jobs take turns only with those of this user"));
            Ok(None)
        }
        JobTable::OfUser(_) => Ok(None),
    }
}

/// The reason to end because of pds.
pub(crate) fn stop(why: PdsError) -> Stop {
    match why {
        PdsError::Wrong(_) => Stop::Input(why.into()),
        why => Stop::Failed(why.into()),
    }
}

/// Serves the jobs of all users until a signal asks for the end. Running jobs go on.
pub(crate) fn pds(arguments: &Pds) -> Result<(), Stop> {
    if !geteuid().is_root() {
        return Err(Stop::Input(anyhow!("`rowlock pds` is for root: it stops and continues the jobs of all users")));
    }
    let table = arguments.table.clone().unwrap_or_else(|| TABLE.into());
    if arguments.connection {
        return serve_connection(&table);
    }
    let failed = || format!("cannot use the folder {}", table.display());
    Folder::create_private(&table, PRIVATE).with_context(failed).or_failed()?;
    let is_over = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&is_over)).context("cannot catch signals").or_failed()?;
    }
    let socket = Socket::listen(arguments.socket.as_deref())?;
    Log.log(format_args!("serves all users"));
    let mut connections = Connections::default();
    while !is_over.load(Acquire) {
        let _ = poll(&mut [PollFd::new(&socket.listener, PollFlags::IN)], Some(&INTERVAL));
        connections.forget_ended();
        // A client can be gone before it is accepted.
        if let Ok((stream, _)) = socket.listener.accept() {
            connections.start(stream, &table);
        }
    }
    Ok(())
}

/// The socket that waits for clients.
struct Socket {
    listener: UnixListener,
    /// Its path, if this process has made it.
    path: Option<PathBuf>,
}

impl Socket {
    /// That of systemd if it is standard input, or a new one.
    fn listen(path: Option<&Path>) -> Result<Socket, Stop> {
        let socket = match path {
            None if socket_acceptconn(stdin()).unwrap_or(false) => {
                let inherited: OwnedFd = stdin().as_fd().try_clone_to_owned().or_failed()?;
                Socket { listener: inherited.into(), path: None }
            }
            path => Socket::bind(path.unwrap_or(Path::new(SOCKET)))?,
        };
        socket.listener.set_nonblocking(true).or_failed()?;
        Ok(socket)
    }

    fn bind(path: &Path) -> Result<Socket, Stop> {
        let failed = || format!("cannot listen at {}", path.display());
        match UnixStream::connect(path) {
            Ok(_) => return Err(Stop::Input(anyhow!("another `rowlock pds` listens at {}", path.display()))),
            // It was killed.
            Err(why) if why.kind() == io::ErrorKind::ConnectionRefused => remove(path).with_context(failed)?,
            Err(_) => {}
        }
        let before = umask(Mode::from_raw_mode(SOCKET_MASK));
        let bound = UnixListener::bind(path);
        umask(before);
        Ok(Socket { listener: bound.with_context(failed).or_failed()?, path: Some(path.to_owned()) })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = self.path.as_deref().map(remove);
    }
}

fn remove(socket: &Path) -> io::Result<()> {
    let (Some(folder), Some(name)) = (socket.parent(), socket.file_name()) else { return Ok(()) };
    Folder::open(folder)?.remove(name)
}

/// The processes that serve clients, with their users.
#[derive(Default)]
struct Connections(BTreeMap<u32, Vec<Child>>);

impl Connections {
    /// Starts a process for a client. It outlives this one.
    fn start(&mut self, stream: UnixStream, table: &Path) {
        let Ok(peer) = Peer::of(stream.as_fd()) else { return };
        let of_user = self.0.entry(peer.user).or_default();
        if of_user.len() >= CONNECTION_LIMIT {
            return Log.of(peer, format_args!("refused: there are {CONNECTION_LIMIT} connections of this user"));
        }
        let start = || {
            let mut command = own_program();
            command.args(["pds", "--connection", "--table"]).arg(table);
            command.env_remove(cosched::VARIABLE).current_dir("/");
            command.stdin(OwnedFd::from(stream)).stdout(Stdio::null());
            keep_only_streams_in(&mut command);
            command.spawn()
        };
        match start() {
            Ok(child) => of_user.push(child),
            Err(why) => Log.of(peer, format_args!("cannot be served: {why}")),
        }
    }

    fn forget_ended(&mut self) {
        self.0.retain(|_, children| {
            children.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
            !children.is_empty()
        });
    }
}

/// Serves the client at the other end of standard input.
fn serve_connection(table: &Path) -> Result<(), Stop> {
    // It goes on if pds is ended with its group. It fails only for a leader of a group.
    let _ = setsid();
    // Otherwise, other programs list it as `exe`.
    let _ = rustix::thread::set_name(c"rowlock");
    let socket = stdin().as_fd().try_clone_to_owned().or_failed()?;
    let peer = Peer::of(socket.as_fd()).context("standard input is no connection").or_input()?;
    let log = OfPeer(peer);
    if let Err(why) = serve(socket.into(), peer, table, &log) {
        log.log(format_args!("the connection ends: {why}"));
    }
    Ok(())
}

/// The log on standard error, a line for each event.
struct Log;

impl Log {
    fn log(&self, message: Arguments<'_>) {
        // What clients have sent is in it.
        let escaped: String = message.to_string().chars().flat_map(escape).collect();
        print_message(format_args!("rowlock pds: {escaped}"));
    }

    fn of(&self, Peer { pid, user }: Peer, message: Arguments<'_>) {
        self.log(format_args!("user {user}, process {pid}: {message}"));
    }
}

fn escape(character: char) -> impl Iterator<Item = char> {
    let is_plain = !character.is_control();
    let escaped = (!is_plain).then(|| character.escape_default());
    is_plain.then_some(character).into_iter().chain(escaped.into_iter().flatten())
}

/// The surroundings of the service of a client.
struct OfPeer(Peer);

impl Surroundings for OfPeer {
    fn log(&self, message: Arguments<'_>) {
        Log.of(self.0, message);
    }

    fn available_memory(&self) -> u64 {
        ::sort::available_memory()
    }

    fn most_memory(&self) -> Option<u64> {
        ::sort::available::most_memory().or(Some(u64::MAX))
    }
}
