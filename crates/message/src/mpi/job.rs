//! A job whose ranks are connected by MPI.
//!
//! MPI keeps the order of messages between two ranks, and the tag says what one is: a record, or a
//! note about the sender. A note takes effect when all records before it have been read.
//!
//! A record is copied, so the caller is not delayed by the receiver. Not without bound: a rank that
//! has many bytes under way to another one has no room for more.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::library::{Library, Transfer};
use crate::error::Error;
use crate::record::Header;
use crate::ring::Nonsense;

/// The longest payload of a record. MPI has its best bandwidth from about this length on.
pub(crate) const LONGEST: usize = 1 << 20;
/// A rank that has as many bytes under way to another one sends no more of them.
const MOST_UNDER_WAY: usize = 1 << 20;
/// The most messages that one poll takes, so that a rank that sends without end delays nothing.
const MOST_MESSAGES: u32 = 100;
/// A rank that waits until all have left yields so often, and sleeps then: they may compute.
const YIELDS: u32 = 1_000;
const NAP: Duration = Duration::from_micros(200);

/// The meaning of a message of MPI: its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum Meaning {
    /// A record. All others are notes, with one word.
    Record,
    /// The messages up to this number are withdrawn.
    Withdrawn,
    /// The sender has left.
    Left,
    /// The sender, whose process has this number, has died.
    Died,
}

/// A message that has arrived.
#[derive(Debug)]
enum Arrived {
    /// With a header behind which the payload begins. `None` if it is nonsense.
    Record(Option<Header>, Vec<u8>),
    Note(Meaning, u64),
}

/// The end of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Left,
    Died(u32),
}

/// The state of another rank, as far as this one knows.
#[derive(Debug, Default)]
struct Peer {
    arrived: VecDeque<Arrived>,
    /// Messages that are being received, in order, with their tags.
    arriving: VecDeque<(Transfer, u32)>,
    /// Whether any message has come from it.
    has_written: bool,
    withdrawn: u64,
    end: Option<End>,
    /// Bytes that are being sent to it, in order, with their number.
    sent: VecDeque<(Transfer, usize)>,
    under_way: usize,
}

/// The job, as one of its ranks sees it.
pub(crate) struct Job {
    rank: u32,
    ranks: u32,
    /// The state of the waiting rule. Other than in shared memory, each rank has its own.
    pub(crate) team_state: AtomicU64,
    state: Mutex<State>,
}

struct State {
    /// `None` after this rank has left.
    library: Option<Library>,
    peers: Vec<Peer>,
    /// MPI has failed, and then nothing more is sent or received.
    failure: Option<String>,
}

/// The link to or from another rank.
#[derive(Debug)]
pub(crate) struct Link {
    job: Arc<Job>,
    peer: u32,
}

const WORD: usize = size_of::<u64>();
/// The bytes of a header.
const HEAD: usize = 2 * WORD;

fn words(bytes: &[u8]) -> Option<[u64; 2]> {
    let words = bytes.as_chunks::<WORD>().0.first_chunk::<2>()?;
    Some(words.map(u64::from_ne_bytes))
}

impl Arrived {
    fn decode(tag: u32, bytes: Vec<u8>) -> Arrived {
        let meanings = [Meaning::Withdrawn, Meaning::Left, Meaning::Died];
        let meaning = meanings.into_iter().find(|&meaning| meaning as u32 == tag);
        match (meaning, words(&bytes)) {
            (Some(meaning), Some([word, _])) => Arrived::Note(meaning, word),
            (None, Some([first, word])) => {
                let header = Header::decode(first, word);
                Arrived::Record(header.filter(|header| header.length == bytes.len() - HEAD), bytes)
            }
            _ => Arrived::Record(None, bytes),
        }
    }
}

impl Peer {
    /// The next record, after the notes before it have taken effect.
    fn next(&mut self) -> Option<&Arrived> {
        while let Some(&Arrived::Note(meaning, word)) = self.arrived.front() {
            self.arrived.pop_front();
            match meaning {
                Meaning::Withdrawn => self.withdrawn = word,
                Meaning::Died => self.end = Some(End::Died(word as u32)),
                _ => self.end = Some(End::Left),
            }
        }
        self.arrived.front()
    }
}

impl State {
    /// Makes a call of MPI. `None` if it fails, or one has failed before.
    fn call<T>(&mut self, call: impl FnOnce(&mut Library) -> Result<T, String>) -> Option<T> {
        let library = self.library.as_mut().filter(|_| self.failure.is_none())?;
        call(library).map_err(|why| self.failure = Some(why)).ok()
    }

    fn send(&mut self, to: u32, meaning: Meaning, [first, word]: [u64; 2], payload: &[u8]) {
        let bytes = [&first.to_ne_bytes()[..], &word.to_ne_bytes(), payload].concat();
        let length = bytes.len();
        if let Some(sent) = self.call(|library| library.send(to, meaning as u32, bytes)) {
            let peer = &mut self.peers[to as usize];
            peer.sent.push_back((sent, length));
            peer.under_way += length;
        }
    }

    /// Forgets what has been sent to a rank.
    fn complete_sent(&mut self, to: usize) {
        while let Some((mut sent, length)) = self.peers[to].sent.pop_front() {
            if self.call(|library| library.complete(&mut sent)).flatten().is_none() {
                return self.peers[to].sent.push_front((sent, length));
            }
            self.peers[to].under_way -= length;
        }
    }

    /// Takes what has been received from a rank.
    fn complete_arriving(&mut self, from: usize) {
        while let Some((mut arriving, tag)) = self.peers[from].arriving.pop_front() {
            let Some(bytes) = self.call(|library| library.complete(&mut arriving)).flatten() else {
                return self.peers[from].arriving.push_front((arriving, tag));
            };
            let peer = &mut self.peers[from];
            peer.has_written = true;
            peer.arrived.push_back(Arrived::decode(tag, bytes));
        }
    }

    /// Takes what has arrived, and completes what has been sent.
    fn poll(&mut self) {
        for _ in 0..MOST_MESSAGES {
            let Some(Some(found)) = self.call(Library::probe) else { break };
            let (from, tag) = (found.from as usize, found.tag);
            let Some(arriving) = self.call(|library| library.receive(found)) else { break };
            if let Some(peer) = self.peers.get_mut(from) {
                peer.arriving.push_back((arriving, tag));
            }
        }
        for peer in 0..self.peers.len() {
            self.complete_arriving(peer);
            self.complete_sent(peer);
        }
    }
}

impl Job {
    pub(super) fn new(library: Library) -> Job {
        let (rank, ranks) = (library.rank, library.ranks);
        let peers = (0..ranks).map(|_| Peer::default()).collect();
        let state = Mutex::new(State { library: Some(library), peers, failure: None });
        Job { rank, ranks, team_state: AtomicU64::new(0), state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Takes what has arrived.
    pub(crate) fn poll(&self) -> Result<(), Error> {
        let mut state = self.state();
        state.poll();
        match &state.failure {
            Some(why) => Err(Error::System { rank: self.rank, why: format!("MPI has failed: {why}") }),
            None => Ok(()),
        }
    }

    /// From which of 64 ranks messages have come, as bits.
    pub(crate) fn writers(&self, word: usize) -> u64 {
        let state = self.state();
        let peers = state.peers.iter().skip(word * 64).take(64);
        peers.enumerate().fold(0, |bits, (bit, peer)| bits | u64::from(peer.has_written) << bit)
    }

    pub(crate) fn link(self: &Arc<Job>, peer: u32) -> Link {
        Link { job: self.clone(), peer }
    }

    /// The first rank that has died, with its process id.
    pub(crate) fn lost(&self) -> Option<(u32, u32)> {
        self.state().peers.iter().zip(0..).find_map(|(peer, rank)| match peer.end {
            Some(End::Died(pid)) => Some((rank, pid)),
            _ => None,
        })
    }

    pub(crate) fn has_left(&self, rank: u32) -> bool {
        self.state().peers[rank as usize].end == Some(End::Left)
    }

    fn tell_all(&self, meaning: Meaning, word: u64) {
        let mut state = self.state();
        (0..self.ranks).filter(|&rank| rank != self.rank).for_each(|rank| state.send(rank, meaning, [word, 0], &[]));
    }

    /// Tells all that this rank has died. MPI does not end, so its launcher notices it as well when
    /// this process ends.
    pub(crate) fn die(&self) {
        self.tell_all(Meaning::Died, std::process::id().into());
        self.state().poll();
    }

    /// Leaves, waits until all others have, and ends MPI. If a rank has died, MPI does not end.
    pub(crate) fn leave(&self) {
        self.tell_all(Meaning::Left, 0);
        for round in 0_u32.. {
            let mut state = self.state();
            state.poll();
            for peer in &mut state.peers {
                // Nothing receives that any more.
                while peer.next().is_some() {
                    peer.arrived.pop_front();
                }
            }
            let mut others = state.peers.iter().zip(0..).filter(|&(_, rank)| rank != self.rank);
            if state.failure.is_some() || others.clone().any(|(peer, _)| matches!(peer.end, Some(End::Died(_)))) {
                return;
            }
            if others.all(|(peer, _)| peer.end.is_some() && peer.sent.is_empty()) {
                // An error is one of MPI's own end, which this process cannot repair.
                let _ = state.library.take().map(Library::leave);
                return;
            }
            drop(state);
            if round < YIELDS { std::thread::yield_now() } else { std::thread::sleep(NAP) }
        }
    }
}

impl Link {
    /// Sends a record if there is room. Returns whether it did. A rank that has left has no room.
    pub(crate) fn write(&self, header: &Header, payload: &[u8]) -> bool {
        let mut state = self.job.state();
        state.complete_sent(self.peer as usize);
        let peer = &state.peers[self.peer as usize];
        // After a failure, the next poll says why.
        let has_room = peer.under_way < MOST_UNDER_WAY && peer.end.is_none() && state.failure.is_none();
        if has_room {
            state.send(self.peer, Meaning::Record, [header.first(), header.word], payload);
        }
        has_room
    }

    /// Withdraws announced messages up to this number.
    pub(crate) fn withdraw(&self, number: u64) {
        self.job.state().send(self.peer, Meaning::Withdrawn, [number, 0], &[]);
    }

    /// The header of the next record.
    pub(crate) fn next(&self) -> Result<Option<Header>, Nonsense> {
        match self.job.state().peers[self.peer as usize].next() {
            None => Ok(None),
            Some(&Arrived::Record(Some(header), _)) => Ok(Some(header)),
            Some(_) => Err(Nonsense),
        }
    }

    /// Copies the beginning of the payload of the next record.
    pub(crate) fn copy(&self, to: &mut [u8]) {
        if let Some(Arrived::Record(_, bytes)) = self.job.state().peers[self.peer as usize].next() {
            let payload = &bytes[HEAD..];
            let length = to.len().min(payload.len());
            to[..length].copy_from_slice(&payload[..length]);
        }
    }

    /// Removes the next record.
    pub(crate) fn remove(&self) {
        self.job.state().peers[self.peer as usize].arrived.pop_front();
    }

    pub(crate) fn is_withdrawn(&self, number: u64) -> bool {
        number <= self.job.state().peers[self.peer as usize].withdrawn
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").field("rank", &self.rank).field("ranks", &self.ranks).finish_non_exhaustive()
    }
}
