//! Relays the output of ranks by whole lines that begin with the rank.
//!
//! Two threads do it, for standard output and standard error. They end when all ranks have ended
//! and everything that those have written has been passed on. A process of a rank that survives it
//! and holds a pipe does not delay that.
//!
//! When nothing reads the output any more, the thread ends and closes the pipes of its ranks. So
//! they are told as they would be without a relay: by SIGPIPE, once they write.

use std::io::{self, PipeReader, PipeWriter, pipe};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, read, retry_on_intr, write};
use rustix::process::{Signal, getpid, kill_process};
use rustix::stdio::{stderr, stdout};

use crate::service_thread;

/// The longest line that is not divided, at least, in bytes.
const LONGEST: usize = 1 << 16;
/// The most that is read at once, in bytes.
const PIECE: usize = 1 << 14;

/// The threads that relay output, or none.
#[derive(Debug)]
pub(super) struct Relay {
    /// It is closed when all ranks have ended.
    are_running: Option<PipeWriter>,
    /// How each thread has ended.
    results: Receiver<io::Result<()>>,
    running: usize,
    /// Why output was lost.
    lost: Option<io::Error>,
}

impl Relay {
    /// A relay without a thread.
    pub(super) fn none() -> Relay {
        Relay { are_running: None, results: channel().1, running: 0, lost: None }
    }

    /// Starts to relay these streams of ranks to standard output and to standard error. This
    /// process gets a SIGCHLD when a thread ends, as for ranks.
    pub(super) fn start([outputs, errors]: [Vec<Stream>; 2]) -> io::Result<Relay> {
        let (end, are_running) = pipe()?;
        let (sender, results) = channel();
        run(outputs, end.try_clone()?, sender.clone(), || stdout().try_clone_to_owned())?;
        run(errors, end, sender, || stderr().try_clone_to_owned())?;
        Ok(Relay { are_running: Some(are_running), results, running: 2, lost: None })
    }

    /// Tells the threads to end when everything that is in the pipes has been passed on.
    pub(super) fn end(&mut self) {
        self.are_running = None;
    }

    /// Whether all threads have ended.
    pub(super) fn has_ended(&mut self) -> bool {
        for result in self.results.try_iter() {
            self.running -= 1;
            if let Err(why) = result {
                self.lost.get_or_insert(why);
            }
        }
        self.running == 0
    }

    /// The error because of which output was lost, if any was. That nothing reads the output is no
    /// error.
    pub(super) fn take_lost(&mut self) -> Option<io::Error> {
        self.lost.take().filter(|why| why.kind() != io::ErrorKind::BrokenPipe)
    }
}

fn run(
    streams: Vec<Stream>,
    end: PipeReader,
    result: Sender<io::Result<()>>,
    to: impl FnOnce() -> io::Result<OwnedFd>,
) -> io::Result<()> {
    let to = to()?;
    service_thread::start("relay", move || {
        let _ = result.send(relay(streams, &end, &to));
        let _ = kill_process(getpid(), Signal::CHILD);
    })
}

/// Relays until all streams have ended, or the ranks have and the streams are empty.
fn relay(mut streams: Vec<Stream>, end: &PipeReader, to: impl AsFd) -> io::Result<()> {
    let (mut piece, mut lines) = (vec![0; PIECE], Vec::new());
    while !streams.is_empty() {
        let mut watched: Vec<PollFd<'_>> =
            streams.iter().map(|stream| PollFd::new(&stream.pipe, PollFlags::IN)).collect();
        watched.push(PollFd::new(end, PollFlags::IN));
        retry_on_intr(|| poll(&mut watched, None))?;
        let is_ready: Vec<bool> = watched.iter().map(|watched| !watched.revents().is_empty()).collect();
        let (have_ended, is_ready) = is_ready.split_last().unwrap_or((&true, &[]));
        let is_over = *have_ended && !is_ready.contains(&true);
        let mut index = 0;
        streams.retain_mut(|stream| {
            index += 1;
            let length = match is_ready[index - 1] {
                false if !is_over => return true,
                false => 0,
                true => retry_on_intr(|| read(&stream.pipe, &mut piece[..])).unwrap_or(0),
            };
            stream.add(&piece[..length], &mut lines);
            if length == 0 {
                stream.finish(&mut lines);
            }
            length > 0
        });
        write_all(&to, &lines)?;
        lines.clear();
    }
    Ok(())
}

/// Writes everything, even if another process has made the file non-blocking.
fn write_all(to: impl AsFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match write(&to, bytes) {
            Ok(length) => bytes = &bytes[length..],
            Err(Errno::AGAIN) => {
                let _ = poll(&mut [PollFd::new(&to, PollFlags::OUT)], None);
            }
            Err(Errno::INTR) => {}
            Err(why) => return Err(why.into()),
        }
    }
    Ok(())
}

/// The output of a rank, and its last line as far as it has been read.
#[derive(Debug)]
pub(super) struct Stream {
    label: String,
    pipe: OwnedFd,
    line: Vec<u8>,
}

impl Stream {
    pub(super) fn new(rank: u32, pipe: OwnedFd) -> Stream {
        Stream { label: format!("[{rank}] "), pipe, line: Vec::new() }
    }

    /// Adds what was read, and moves the lines that are complete then.
    pub(super) fn add(&mut self, piece: &[u8], lines: &mut Vec<u8>) {
        for part in piece.split_inclusive(|&byte| byte == b'\n') {
            if self.line.len() >= LONGEST && part != b"\n" {
                self.finish(lines);
            }
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                self.finish(lines);
            }
        }
    }

    /// Moves the line, complete or not.
    pub(super) fn finish(&mut self, lines: &mut Vec<u8>) {
        if self.line.is_empty() {
            return;
        }
        lines.extend_from_slice(self.label.as_bytes());
        lines.append(&mut self.line);
        if !lines.ends_with(b"\n") {
            lines.push(b'\n');
        }
    }
}
