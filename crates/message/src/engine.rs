//! The engine of a rank: its ends of all rings, what it has yet to send, and what has arrived.
//!
//! A rank has no thread of its own for messages. Each call makes *progress*: it takes the records
//! that have arrived, and writes what waits for room. A call that waits repeats that. So a rank
//! that waits for room in one ring takes what comes in the others, and ranks that send to each
//! other do not lock up.
//!
//! A call that wants a message brings its buffer, and gets the content without a copy in between if
//! it arrives meanwhile. All else becomes an unexpected message.
//!
//! The content of a long message stays in the memory of its sender, which may wait for that. So a
//! call that has waited for a while also *fetches* those that no receive takes yet.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::io::Errno;
use sys::process_memory::ProcessMemory;

use crate::error::Error;
use crate::matching::{Envelope, Matching, Message, Ticket};
use crate::record::{Announcement, Header, Kind};
use crate::ring::Nonsense;
use crate::sending::{Answer, Outgoing, Payload, Sending};
use crate::transport::{Reader, Transport};

/// How much of a long message is fetched at once. So a length of nonsense is noticed before
/// there is memory for all of it.
const PIECE: usize = 1 << 20;

/// How many records of one ring are taken before those of the others.
const MOST_RECORDS: u32 = 1_000;

/// Where the content of a message that has arrived is.
#[derive(Debug)]
pub(crate) enum Body {
    Here(Vec<u8>),
    /// In the memory of the sender.
    Remote(Announcement),
    /// The parts so far, of the message with this number.
    Parts(u64, Vec<u8>),
    /// The sender has withdrawn it.
    Withdrawn,
}

/// A receive that is being completed.
#[derive(Debug)]
pub(crate) struct Want<'a> {
    pub(crate) ticket: Ticket,
    pub(crate) buffer: &'a mut [u8],
    /// The size of a value.
    pub(crate) size: usize,
    /// The message, if it is in the buffer.
    pub(crate) got: Option<Envelope>,
}

impl Want<'_> {
    #[inline]
    fn check(&self, envelope: &Envelope) -> Result<(), Error> {
        let (rank, tag, length) = (envelope.source, envelope.tag, envelope.length);
        let (room, size) = (self.buffer.len() as u64, self.size as u64);
        if length > room {
            Err(Error::TooShort { rank, tag, length, room })
        } else if length % size != 0 {
            Err(Error::OtherType { rank, tag, length, size })
        } else {
            Ok(())
        }
    }
}

/// How a sending that no call waits for ended. `None` before that.
pub(crate) type Delivery = Arc<Mutex<Option<Result<(), Error>>>>;

/// A message, or a part of one, that waits for room in a ring.
enum Queued {
    Answer(Answer, u64),
    Message(Sending<Arc<dyn Payload + Send + Sync>>, Delivery),
}

/// A ring that this rank reads.
struct Incoming {
    rank: u32,
    reader: Reader,
}

pub(crate) struct Engine {
    transport: Transport,
    rank: u32,
    pub(crate) matching: Matching<Body>,
    incoming: Vec<Incoming>,
    /// Their ranks, as bits of words.
    writers: Vec<u64>,
    /// By rank.
    outgoing: Vec<Option<Outgoing>>,
    /// By rank.
    queues: Vec<VecDeque<Queued>>,
    /// Chooses the ring that comes first.
    turn: usize,
    /// The number of messages whose content is in the memory of the sender.
    remote: usize,
    /// Whether there is news for other threads of this rank.
    has_news: bool,
}

impl Payload for Arc<dyn Payload + Send + Sync> {
    fn bytes(&self) -> &[u8] {
        (**self).bytes()
    }
}

impl Engine {
    pub(crate) fn new(transport: Transport, rank: u32) -> Engine {
        let ranks = transport.ranks() as usize;
        Engine {
            transport,
            rank,
            matching: Matching::new(),
            incoming: Vec::new(),
            writers: vec![0; ranks.div_ceil(64)],
            outgoing: (0..ranks).map(|_| None).collect(),
            queues: (0..ranks).map(|_| VecDeque::new()).collect(),
            turn: 0,
            remote: 0,
            has_news: false,
        }
    }

    /// Takes what has arrived, until the want has its message, and writes what waits for room.
    pub(crate) fn progress(&mut self, mut want: Option<&mut Want<'_>>) -> Result<(), Error> {
        self.transport.poll()?;
        self.find_writers()?;
        // Each ring comes first in turn.
        let count = self.incoming.len();
        self.turn = self.turn.wrapping_add(1);
        for at in 0..count {
            self.take((self.turn + at) % count, &mut want)?;
        }
        for rank in 0..self.queues.len() {
            if !self.queues[rank].is_empty() {
                self.flush(rank as u32)?;
            }
        }
        match want {
            Some(want) if want.got.is_none() => self.complete(want),
            _ => Ok(()),
        }
    }

    /// Opens the rings of ranks that have written to this one for the first time.
    #[inline]
    fn find_writers(&mut self) -> Result<(), Error> {
        for word in 0..self.writers.len() {
            let writers = self.transport.writers(self.rank, word);
            if writers != self.writers[word] {
                self.open_rings(word, writers)?;
            }
        }
        Ok(())
    }

    #[cold]
    fn open_rings(&mut self, word: usize, writers: u64) -> Result<(), Error> {
        for bit in (0..64).filter(|bit| writers >> bit & 1 != 0) {
            let rank = word as u32 * 64 + bit;
            if self.writers[word] >> bit & 1 == 0 && rank < self.transport.ranks() {
                let reader = self.transport.reader(rank, self.rank).map_err(Error::system(rank))?;
                self.incoming.push(Incoming { rank, reader });
            }
            self.writers[word] |= 1 << bit;
        }
        Ok(())
    }

    /// Takes the records of one ring until it is empty or the want has its message. Not more than
    /// [`MOST_RECORDS`], so that a rank that sends without end does not keep others from it.
    #[inline]
    fn take(&mut self, at: usize, want: &mut Option<&mut Want<'_>>) -> Result<(), Error> {
        let mut has_freed = false;
        let rank = self.incoming[at].rank;
        let damaged = |what| Error::Damaged { rank, what };
        let mut records = 0;
        while want.as_ref().is_none_or(|want| want.got.is_none()) {
            if records == MOST_RECORDS {
                // A caller that would sleep looks again.
                self.has_news = true;
                break;
            }
            records += 1;
            let next = self.incoming[at].reader.next();
            let Some(header) = next.map_err(|Nonsense| damaged("it has written no record"))? else { break };
            self.accept(at, &header, want).map_err(damaged)?;
            has_freed |= self.incoming[at].reader.remove(&header);
        }
        if has_freed {
            self.transport.ring(rank);
        }
        Ok(())
    }

    /// Accepts a record, which is removed then. The error says what is wrong with it.
    fn accept(&mut self, at: usize, header: &Header, want: &mut Option<&mut Want<'_>>) -> Result<(), &'static str> {
        let Incoming { rank: source, reader } = &self.incoming[at];
        let source = *source;
        let envelope = |length| Envelope { source, context: header.context, tag: header.word as u32, length };
        let payload = || {
            let mut bytes = vec![0; header.length];
            reader.copy(header, &mut bytes);
            bytes
        };
        match header.kind {
            Kind::Whole => {
                let envelope = envelope(header.length as u64);
                let receiver = self.matching.receiver(&envelope);
                match want {
                    Some(want) if receiver == Some(want.ticket) && want.check(&envelope).is_ok() => {
                        reader.copy(header, want.buffer);
                        self.matching.withdraw(want.ticket);
                        want.got = Some(envelope);
                    }
                    _ => {
                        self.matching.arrive(envelope, Body::Here(payload()));
                        self.has_news = true;
                    }
                }
            }
            Kind::Announced => {
                let bytes = payload().try_into().map_err(|_| "an announcement has another length")?;
                let announcement = Announcement::decode(bytes);
                let body = if announcement.address == 0 {
                    Body::Parts(announcement.number, Vec::new())
                } else {
                    self.remote += 1;
                    Body::Remote(announcement)
                };
                self.matching.arrive(envelope(announcement.length), body);
                self.has_news = true;
            }
            Kind::Part => {
                let part = payload();
                let is_it = |message: &&mut Message<Body>| {
                    message.envelope.source == source
                        && matches!(message.body, Body::Parts(number, _) if number == header.word)
                };
                let message = self.matching.messages().find(is_it).ok_or("a part belongs to no message")?;
                if let Body::Parts(_, content) = &mut message.body {
                    if (content.len() + part.len()) as u64 > message.envelope.length {
                        return Err("a message is longer than was announced");
                    }
                    content.extend(part);
                }
                self.has_news = true;
            }
            Kind::Done | Kind::Refused => {
                let answer = if header.kind == Kind::Done { Answer::Done } else { Answer::Refused };
                // It may be about a message that has been withdrawn.
                if let Some(outgoing) = &mut self.outgoing[source as usize] {
                    outgoing.answer(header.word, answer);
                }
                self.has_news = true;
            }
        }
        Ok(())
    }

    /// Completes a receive if its message is there.
    #[inline]
    fn complete(&mut self, want: &mut Want<'_>) -> Result<(), Error> {
        let Some(message) = self.matching.message(want.ticket) else { return Ok(()) };
        let envelope = message.envelope;
        let length = envelope.length;
        want.check(&envelope)?;
        let to = &mut want.buffer[..length as usize];
        match &message.body {
            Body::Here(content) => to.copy_from_slice(content),
            Body::Parts(_, content) if content.len() as u64 == length => to.copy_from_slice(content),
            &Body::Parts(number, _) => {
                return if self.is_cut_off(want.ticket, envelope.source, number)? {
                    self.matching.remove(want.ticket);
                    Err(withdrawn(&envelope))
                } else {
                    Ok(())
                };
            }
            &Body::Remote(announcement) => {
                let read = self.read(envelope.source, announcement.address, to);
                let body = self.after_read(&envelope, announcement, read)?;
                match (body, self.matching.message(want.ticket)) {
                    (Some(body @ Body::Parts(..)), Some(message)) => {
                        message.body = body;
                        return Ok(());
                    }
                    (Some(Body::Withdrawn), _) => {
                        self.matching.remove(want.ticket);
                        return Err(withdrawn(&envelope));
                    }
                    (Some(_), _) => {}
                    (None, _) => return Ok(()),
                }
            }
            Body::Withdrawn => {
                self.matching.remove(want.ticket);
                return Err(withdrawn(&envelope));
            }
        }
        self.matching.remove(want.ticket);
        want.got = Some(envelope);
        Ok(())
    }

    /// Whether the sender has given up a message of which parts are missing.
    fn is_cut_off(&mut self, ticket: Ticket, source: u32, number: u64) -> Result<bool, Error> {
        let Some(at) = self.incoming.iter().position(|incoming| incoming.rank == source) else { return Ok(false) };
        if !self.incoming[at].reader.is_withdrawn(number) {
            return Ok(false);
        }
        // The last parts may have come just before that.
        self.take(at, &mut None)?;
        let message = self.matching.message(ticket);
        let is_complete = |message: &mut Message<Body>| matches!(&message.body, Body::Parts(_, content) if content.len() as u64 == message.envelope.length);
        Ok(!message.is_some_and(is_complete))
    }

    fn read(&self, source: u32, address: u64, to: &mut [u8]) -> io::Result<()> {
        let pid = self.transport.pid(source).ok_or(Errno::PERM)?;
        ProcessMemory { pid }.read(address, to)
    }

    /// Answers the sender of a long message after its content has been read, or not. Returns what
    /// becomes of the message: `Here`, without the content, if it was read.
    fn after_read(
        &mut self,
        envelope: &Envelope,
        announcement: Announcement,
        read: io::Result<()>,
    ) -> Result<Option<Body>, Error> {
        let (rank, number) = (envelope.source, announcement.number);
        let is_withdrawn = || {
            let from = self.incoming.iter().find(|incoming| incoming.rank == rank);
            from.is_some_and(|from| from.reader.is_withdrawn(number))
        };
        let why = match read {
            _ if is_withdrawn() => {
                self.remote -= 1;
                return Ok(Some(Body::Withdrawn));
            }
            Ok(()) => {
                self.remote -= 1;
                self.answer(rank, Answer::Done, number)?;
                return Ok(Some(Body::Here(Vec::new())));
            }
            Err(why) => why,
        };
        match Errno::from_io_error(&why) {
            Some(Errno::PERM | Errno::NOSYS | Errno::ACCESS) => {
                self.remote -= 1;
                self.answer(rank, Answer::Refused, number)?;
                Ok(Some(Body::Parts(number, Vec::new())))
            }
            // It has died: the wait notices that.
            Some(Errno::SRCH) => Ok(None),
            Some(Errno::FAULT) => Err(Error::Damaged { rank, what: "it has announced memory that it does not have" }),
            _ => Err(Error::system(rank)(why)),
        }
    }

    fn answer(&mut self, rank: u32, answer: Answer, number: u64) -> Result<(), Error> {
        self.queues[rank as usize].push_back(Queued::Answer(answer, number));
        self.flush(rank)
    }

    /// Gives a ticket back, whose message may be for another thread then.
    pub(crate) fn give_back(&mut self, ticket: Ticket) {
        self.matching.give_back(ticket);
        self.has_news = true;
        self.tell_news();
    }

    /// Fetches the content of long messages that no receive has asked for, except for this one.
    pub(crate) fn fetch(&mut self, except: Option<Ticket>) -> Result<(), Error> {
        if self.remote == 0 {
            return Ok(());
        }
        let is_due = |message: &&mut Message<Body>| except.is_none() || message.ticket != except;
        let wanted = self.matching.messages().filter(is_due);
        let found: Vec<_> = wanted
            .filter_map(|message| match message.body {
                Body::Remote(announcement) => Some((message.envelope, announcement)),
                _ => None,
            })
            .collect();
        for (envelope, announcement) in found {
            let mut content = Vec::new();
            let read = self.read_all(&envelope, announcement.address, &mut content);
            let Some(body) = self.after_read(&envelope, announcement, read)? else { continue };
            let body = if matches!(body, Body::Here(_)) { Body::Here(content) } else { body };
            let is_it = |message: &&mut Message<Body>| {
                message.envelope.source == envelope.source
                    && matches!(message.body, Body::Remote(other) if other == announcement)
            };
            if let Some(message) = self.matching.messages().find(is_it) {
                message.body = body;
            }
            self.has_news = true;
        }
        Ok(())
    }

    fn read_all(&self, envelope: &Envelope, address: u64, content: &mut Vec<u8>) -> io::Result<()> {
        while (content.len() as u64) < envelope.length {
            let begin = content.len();
            let piece = (envelope.length - begin as u64).min(PIECE as u64) as usize;
            content.try_reserve(piece).map_err(|_| io::ErrorKind::OutOfMemory)?;
            content.resize(begin + piece, 0);
            let at = address.checked_add(begin as u64).ok_or(Errno::FAULT)?;
            self.read(envelope.source, at, &mut content[begin..])?;
        }
        Ok(())
    }

    /// This rank's end of the ring to another rank.
    #[inline]
    fn outgoing(&mut self, rank: u32) -> Result<&mut Outgoing, Error> {
        let slot = &mut self.outgoing[rank as usize];
        if slot.is_none() {
            let writer = self.transport.writer(self.rank, rank).map_err(Error::system(rank))?;
            *slot = Some(Outgoing::new(rank, writer, self.transport.longest_payload()));
        }
        slot.as_mut().ok_or(Error::NoSuchRank { rank, ranks: self.transport.ranks() })
    }

    /// Goes on with sending a message. Returns whether it is complete.
    pub(crate) fn send<P: Payload>(&mut self, rank: u32, sending: &mut Sending<P>) -> Result<bool, Error> {
        if rank == self.rank {
            let content = sending.payload.bytes().to_vec();
            let (context, tag, length) = (sending.context, sending.tag, content.len() as u64);
            self.matching.arrive(Envelope { source: rank, context, tag, length }, Body::Here(content));
            self.has_news = true;
            return Ok(true);
        }
        self.flush(rank)?;
        let is_behind = || self.queues[rank as usize].iter().any(Queued::waits_for_room);
        if !sending.is_begun() && is_behind() {
            return Ok(false);
        }
        let outgoing = self.outgoing(rank)?;
        let is_complete = sending.step(outgoing)?;
        self.ring(rank);
        Ok(is_complete)
    }

    /// Gives up a message. The receiver gets an error if it knows of it.
    pub(crate) fn abandon<P: Payload>(&mut self, rank: u32, sending: &Sending<P>) {
        if let (true, Some(outgoing)) = (sending.is_begun(), &mut self.outgoing[rank as usize]) {
            outgoing.withdraw();
            self.transport.ring(rank);
        }
    }

    /// Withdraws all messages whose content others could still read.
    pub(crate) fn withdraw(&mut self) {
        for outgoing in self.outgoing.iter_mut().flatten() {
            outgoing.withdraw();
        }
    }

    /// Sends a message as soon as there is room, which no call waits for.
    pub(crate) fn enqueue(
        &mut self,
        rank: u32,
        message: Sending<Arc<dyn Payload + Send + Sync>>,
        delivery: Delivery,
    ) -> Result<(), Error> {
        self.queues[rank as usize].push_back(Queued::Message(message, delivery));
        self.flush(rank)
    }

    /// The first rank for which something waits for room.
    pub(crate) fn first_queued(&self) -> Option<u32> {
        self.queues.iter().position(|queue| queue.iter().any(Queued::waits_for_room)).map(|rank| rank as u32)
    }

    /// Forgets what waits for a rank that has left.
    pub(crate) fn forget_queued(&mut self, rank: u32) {
        self.queues[rank as usize].clear();
    }

    /// Writes what waits for room, in its order. Announced messages do not delay later ones.
    #[inline]
    fn flush(&mut self, rank: u32) -> Result<(), Error> {
        if self.queues[rank as usize].is_empty() {
            return Ok(());
        }
        let mut queue = std::mem::take(&mut self.queues[rank as usize]);
        let mut kept = VecDeque::new();
        let mut result = Ok(());
        while let Some(mut queued) = queue.pop_front() {
            match self.write(rank, &mut queued) {
                Ok(true) => self.has_news = true,
                Ok(false) if queued.waits_for_room() => {
                    kept.push_back(queued);
                    break;
                }
                Ok(false) => kept.push_back(queued),
                Err(why) => {
                    result = Err(why);
                    break;
                }
            }
        }
        kept.append(&mut queue);
        self.queues[rank as usize] = kept;
        self.ring(rank);
        result
    }

    /// Goes on with what is queued. Returns whether it is complete. An error of a message becomes
    /// that of its delivery.
    fn write(&mut self, rank: u32, queued: &mut Queued) -> Result<bool, Error> {
        match queued {
            Queued::Answer(answer, number) => {
                let kind = if *answer == Answer::Done { Kind::Done } else { Kind::Refused };
                self.outgoing(rank)?.write(Header { kind, context: 0, word: *number, length: 0 }, &[])
            }
            Queued::Message(sending, delivery) => {
                let result = if rank == self.rank {
                    self.send(rank, sending)
                } else {
                    self.outgoing(rank).and_then(|outgoing| sending.step(outgoing))
                };
                let result = match result {
                    Ok(false) => return Ok(false),
                    Ok(true) => Ok(()),
                    Err(why) => Err(why),
                };
                *delivery.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
                Ok(true)
            }
        }
    }

    /// Rings the bell of a rank to which records have been written.
    #[inline]
    fn ring(&mut self, rank: u32) {
        if self.outgoing[rank as usize].as_mut().is_some_and(Outgoing::take_ring) {
            self.transport.ring(rank);
        }
    }

    /// Wakes other threads of this rank if there is news for them.
    #[inline]
    pub(crate) fn tell_news(&mut self) {
        if std::mem::take(&mut self.has_news) {
            self.transport.ring(self.rank);
        }
    }
}

impl Queued {
    fn waits_for_room(&self) -> bool {
        match self {
            Queued::Answer(..) => true,
            Queued::Message(sending, _) => !sending.is_announced(),
        }
    }
}

fn withdrawn(envelope: &Envelope) -> Error {
    Error::Withdrawn { rank: envelope.source, tag: envelope.tag, length: envelope.length }
}
