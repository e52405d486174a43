//! `rowlock pds`, and how other commands find it. `cosched::pds` says what it may do.

use std::collections::BTreeMap;
use std::fmt::Arguments;
use std::fs::File;
use std::io::{self, ErrorKind, stdin, stdout};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Acquire;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use cosched::pds::{
    CONNECTION_LIMIT, Client, JobTable, OwnTable, Pace, PdsError, Peer, SOCKET, Surroundings, TOTAL_LIMIT, account,
    refuse, serve,
};
use policy::Span;
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
use crate::prun::SLICE;
use crate::stop::{OrStop, Stop};

/// The folder of the table, which only root may use.
const TABLE: &str = "/run/rowlock/table";
const PRIVATE: u32 = 0o700;
/// The permissions of the folder around it, if it is made.
const PUBLIC: u32 = 0o755;
/// Every user may connect.
const SOCKET_MASK: u32 = 0o111;
/// How long it waits after an error, and holds connections that it has refused.
const PAUSE: Duration = Duration::from_secs(1);
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
    let table = std::path::absolute(arguments.table.as_deref().unwrap_or(Path::new(TABLE))).or_failed()?;
    let slice = arguments.slice.unwrap_or(SLICE);
    if arguments.connection {
        return serve_connection(&table, slice);
    }
    let failed = || format!("cannot use the folder {}", table.display());
    if let Some(around) = table.parent().filter(|around| !around.exists()) {
        // Users must reach the socket there.
        Folder::create_private(around, PUBLIC).with_context(failed).or_failed()?;
    }
    Folder::create_private(&table, PRIVATE).with_context(failed).or_failed()?;
    let is_over = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&is_over)).context("cannot catch signals").or_failed()?;
    }
    let socket = Socket::listen(arguments.socket.as_deref())?;
    Log.log(format_args!("serves all users"));
    let mut connections = Connections { of_users: BTreeMap::new(), refused: Vec::new(), table, slice };
    while !is_over.load(Acquire) {
        let _ = poll(&mut [PollFd::new(&socket.listener, PollFlags::IN)], Some(&INTERVAL));
        connections.forget_ended();
        match socket.listener.accept() {
            Ok((stream, _)) => connections.start(stream),
            Err(why) if is_of_client(&why) => {}
            Err(why) => {
                // Not at once again: there may be too many descriptors.
                Log.log(format_args!("cannot accept a connection: {why}"));
                sleep(PAUSE);
            }
        }
    }
    Ok(())
}

/// Whether a connection is not accepted because there is none: a client can be gone before.
fn is_of_client(why: &io::Error) -> bool {
    matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted)
}

/// The socket that waits for clients.
struct Socket {
    listener: UnixListener,
    /// Its path and its number there, if this process has made it.
    made: Option<(PathBuf, u64)>,
}

impl Socket {
    /// That of systemd if it is standard input, or a new one.
    fn listen(path: Option<&Path>) -> Result<Socket, Stop> {
        let socket = match path {
            None if socket_acceptconn(stdin()).unwrap_or(false) => {
                let inherited: OwnedFd = stdin().as_fd().try_clone_to_owned().or_failed()?;
                Socket { listener: inherited.into(), made: None }
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
            // It was killed. A file that is no socket refuses a connection as well.
            Err(why) if why.kind() == ErrorKind::ConnectionRefused && number(path).is_some() => {
                remove(path).with_context(failed)?;
            }
            Err(_) => {}
        }
        let before = umask(Mode::from_raw_mode(SOCKET_MASK));
        let bound = UnixListener::bind(path);
        umask(before);
        let listener = bound.with_context(failed).or_failed()?;
        Ok(Socket { listener, made: number(path).map(|number| (path.to_owned(), number)) })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Another process may have made another one there.
        let own = self.made.as_ref().filter(|(path, made)| number(path) == Some(*made));
        let _ = own.map(|(path, _)| remove(path));
    }
}

/// The number of the socket with this path in its file system. `None` if it is something else.
fn number(path: &Path) -> Option<u64> {
    path.symlink_metadata().ok().filter(|about| about.file_type().is_socket()).map(|about| about.ino())
}

fn remove(socket: &Path) -> io::Result<()> {
    let (Some(folder), Some(name)) = (socket.parent(), socket.file_name()) else { return Ok(()) };
    Folder::open(folder)?.remove(name)
}

/// The processes that serve clients.
struct Connections {
    /// Those of each [`account`].
    of_users: BTreeMap<u32, OfUser>,
    /// Clients that were refused, as long as they may not have read why.
    refused: Vec<(Instant, UnixStream)>,
    table: PathBuf,
    slice: Span,
}

/// The connections of a user.
#[derive(Default)]
struct OfUser {
    processes: Vec<Child>,
    /// The file of the pace, once there was a connection.
    pace: Option<File>,
    refusals: Refusals,
}

impl Connections {
    /// Starts a process for a client, or refuses it. The process outlives this one.
    fn start(&mut self, stream: UnixStream) {
        let Ok(peer) = Peer::of(stream.as_fd()) else { return };
        let all: usize = self.of_users.values().map(|user| user.processes.len()).sum();
        let of_user = self.of_users.entry(account(peer.user)).or_default();
        let (is_wrong, why) = match of_user.processes.len() {
            CONNECTION_LIMIT.. => (true, format!("a user has at most {CONNECTION_LIMIT} connections at a time")),
            _ if peer.user != 0 && all >= TOTAL_LIMIT => {
                (false, format!("all users have {TOTAL_LIMIT} connections together, which is the most"))
            }
            _ => match of_user.start(&stream, &self.table, self.slice) {
                Ok(()) => return,
                Err(why) => (false, format!("it cannot serve the connection: {why}")),
            },
        };
        if of_user.refusals.count(Instant::now()) {
            Log.of(peer, format_args!("refused: {why}"));
        }
        refuse(&stream, is_wrong, &why);
        // Each takes a descriptor.
        if self.refused.len() < CONNECTION_LIMIT {
            self.refused.push((Instant::now(), stream));
        }
    }

    fn forget_ended(&mut self) {
        self.refused.retain(|(since, _)| since.elapsed() < PAUSE);
        self.of_users.retain(|user, of_user| {
            if let Some(more) = of_user.refusals.take_more(Instant::now()) {
                Log.log(format_args!("user {user}: refused {more} more connections"));
            }
            of_user.processes.retain_mut(|process| matches!(process.try_wait(), Ok(None)));
            !of_user.is_idle()
        });
    }
}

impl OfUser {
    fn start(&mut self, stream: &UnixStream, table: &Path, slice: Span) -> io::Result<()> {
        let pace = self.pace.take().map_or_else(Pace::create, Ok)?;
        self.processes.push(start(stream, self.pace.insert(pace), table, slice)?);
        Ok(())
    }

    /// Whether it is as one that was not there before.
    fn is_idle(&self) -> bool {
        let is_paid = || self.pace.as_ref().is_none_or(|pace| Pace::open(pace).is_ok_and(|pace| pace.is_paid()));
        self.processes.is_empty() && self.refusals.since.is_none() && is_paid()
    }
}

/// Refusals of a user, of which the log tells one at a time and then the number of the others.
#[derive(Default)]
struct Refusals {
    /// When one was logged.
    since: Option<Instant>,
    /// How many there were since then.
    more: u64,
}

impl Refusals {
    /// Counts another one. Returns whether to log it.
    fn count(&mut self, now: Instant) -> bool {
        let is_first = self.since.is_none();
        self.more += u64::from(!is_first);
        self.since.get_or_insert(now);
        is_first
    }

    /// How many were not logged, once it is time to log that.
    fn take_more(&mut self, now: Instant) -> Option<u64> {
        self.since.take_if(|since| now.duration_since(*since) >= PAUSE)?;
        Some(std::mem::take(&mut self.more)).filter(|&more| more > 0)
    }
}

/// Starts a process for a client.
fn start(stream: &UnixStream, pace: &File, table: &Path, slice: Span) -> io::Result<Child> {
    let mut command = own_program();
    command.args(["pds", "--connection", "--slice", &format!("{} ns", slice.as_nanos()), "--table"]).arg(table);
    command.env_remove(cosched::VARIABLE).current_dir("/");
    // Standard output is not for text here, but for the memory that all of them share.
    command.stdin(stream.as_fd().try_clone_to_owned()?).stdout(pace.try_clone()?);
    keep_only_streams_in(&mut command);
    command.spawn()
}

/// Serves the client at the other end of standard input.
fn serve_connection(table: &Path, slice: Span) -> Result<(), Stop> {
    // It goes on if pds is ended with its group. It fails only for a leader of a group.
    let _ = setsid();
    // Otherwise, other programs list it as `exe`.
    let _ = rustix::thread::set_name(c"rowlock");
    let socket = stdin().as_fd().try_clone_to_owned().or_failed()?;
    let peer = Peer::of(socket.as_fd()).context("standard input is no connection").or_input()?;
    let pace = Pace::open(stdout()).context("standard output is no pace of a user").or_input()?;
    let log = OfPeer { peer, slice, pace };
    if let Err(why) = serve(socket.into(), peer, table, &log) {
        log.log(format_args!("the connection ends: {why}"));
    }
    Ok(())
}

/// The log on standard error, a line for each event.
struct Log;

impl Log {
    fn log(&self, message: Arguments<'_>) {
        // It contains text of clients.
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
struct OfPeer {
    peer: Peer,
    slice: Span,
    pace: Pace,
}

impl Surroundings for OfPeer {
    fn log(&self, message: Arguments<'_>) {
        Log.of(self.peer, message);
    }

    fn available_memory(&self) -> u64 {
        sys::memory::available()
    }

    fn most_memory(&self) -> Option<u64> {
        sys::memory::most()
    }

    fn slice(&self) -> Span {
        self.slice
    }

    fn pace(&self) -> &Pace {
        &self.pace
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_refusal_of_a_user_is_logged_at_a_time_and_then_the_number_of_the_others() {
        let (mut refusals, now) = (Refusals::default(), Instant::now());
        let refused = |refusals: &mut Refusals, now| [(); 5].map(|()| refusals.count(now));
        assert_eq!(refused(&mut refusals, now), [true, false, false, false, false]);
        assert_eq!(refusals.take_more(now), None);
        assert_eq!(refusals.take_more(now + PAUSE), Some(4));
        assert_eq!(refused(&mut refusals, now + PAUSE), [true, false, false, false, false]);
        assert!(!OfUser { refusals, ..OfUser::default() }.is_idle(), "the number is not lost");
        assert!(OfUser::default().is_idle());
    }

    #[test]
    fn the_pace_of_a_user_remains_until_all_calls_are_paid() {
        let pace = Pace::create().unwrap();
        assert!(OfUser { pace: Some(pace.try_clone().unwrap()), ..OfUser::default() }.is_idle());
        let owed = (u64::MAX / 2).to_ne_bytes();
        std::os::unix::fs::FileExt::write_all_at(&pace, &owed, 0).unwrap();
        assert!(!OfUser { pace: Some(pace), ..OfUser::default() }.is_idle());
    }
}
