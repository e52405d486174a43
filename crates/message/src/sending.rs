//! Sending one message: the steps that lead to its end, each of which can be repeated when there is
//! room.
//!
//! A short message is one record. A long one is *announced*, with the address of its content.
//! The receiver reads that from the memory of the sender (`process_vm_readv`), as soon as a receive
//! takes the message, and says that it is *done*. If the system does not allow that to the
//! receiver, it
//! *refuses*, and the content follows in *parts* through the ring. The sender remembers that for
//! later messages, and their parts follow the announcement immediately.
//!
//! The content must not change until the message is done, but an error can end the sending earlier.
//! Then the sender *withdraws* its announced messages: a word in the ring says up to which number.
//! The receiver looks at it after it has read the content, and if the message was withdrawn by
//! then, it reports that and uses nothing. So content that may have changed is never taken for a
//! message.

use crate::error::Error;
use crate::record::{Announcement, Header, Kind};
use crate::ring::Nonsense;
use crate::transport::Writer;

/// The content of a message, which stays where it is.
pub(crate) trait Payload {
    fn bytes(&self) -> &[u8];
}

impl Payload for &[u8] {
    fn bytes(&self) -> &[u8] {
        self
    }
}

/// A message to be sent.
#[derive(Debug)]
pub(crate) struct Sending<P> {
    pub(crate) context: u32,
    pub(crate) tag: u32,
    pub(crate) payload: P,
    pub(crate) stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Nothing has been written.
    New,
    /// The message is announced, with its address, by this number.
    Announced(u64),
    /// The next part of the message of this number begins here.
    Parts(u64, usize),
    Complete,
}

/// The end of a ring that this rank writes, and what it knows about the reader.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// The reader.
    rank: u32,
    writer: Writer,
    longest: usize,
    /// The number of announced messages so far.
    announced: u64,
    /// Those up to this number have been withdrawn.
    withdrawn: u64,
    /// Those whose content the reader has yet to read, and what it has answered.
    answers: Vec<(u64, Option<Answer>)>,
    /// Whether the reader may read memory of this process. It may, until it refuses.
    can_read: bool,
    /// Records have been written since the reader's bell was rung.
    is_to_ring: bool,
}

/// How the reader of an announced message has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Done,
    Refused,
}

impl Outgoing {
    pub(crate) fn new(rank: u32, writer: Writer, longest: usize) -> Outgoing {
        Outgoing {
            can_read: writer.is_local(),
            rank,
            writer,
            longest,
            announced: 0,
            withdrawn: 0,
            answers: Vec::new(),
            is_to_ring: false,
        }
    }

    /// Writes a record, if there is room.
    #[inline]
    pub(crate) fn write(&mut self, header: Header, payload: &[u8]) -> Result<bool, Error> {
        let written = self.writer.write(header, payload).map_err(|Nonsense| Error::Damaged {
            rank: self.rank,
            what: "it has freed more of the ring than was used",
        })?;
        self.is_to_ring |= written;
        Ok(written)
    }

    /// Whether the reader's bell is to be rung. Not again, then.
    #[inline]
    pub(crate) fn take_ring(&mut self) -> bool {
        std::mem::take(&mut self.is_to_ring)
    }

    /// The reader has answered an announcement, unless that has been withdrawn.
    pub(crate) fn answer(&mut self, number: u64, answer: Answer) {
        self.can_read &= answer == Answer::Done;
        let awaited = self.answers.iter_mut().find(|(announced, _)| *announced == number);
        awaited.into_iter().for_each(|(_, answered)| *answered = Some(answer));
    }

    /// Withdraws all announced messages.
    pub(crate) fn withdraw(&mut self) {
        self.withdrawn = self.announced;
        self.writer.withdraw(self.withdrawn);
        self.answers.clear();
    }

    fn announce<P: Payload>(&mut self, sending: &Sending<P>) -> Result<Option<Stage>, Error> {
        let bytes = sending.payload.bytes();
        let number = self.announced + 1;
        let address = if self.can_read { bytes.as_ptr().expose_provenance() as u64 } else { 0 };
        let announcement = Announcement { number, length: bytes.len() as u64, address }.encode();
        if !self.write(sending.header(Kind::Announced, sending.tag.into(), announcement.len()), &announcement)? {
            return Ok(None);
        }
        self.announced = number;
        if address == 0 {
            return Ok(Some(Stage::Parts(number, 0)));
        }
        self.answers.push((number, None));
        Ok(Some(Stage::Announced(number)))
    }

    /// Whether a message may go on. It has been withdrawn if another one has failed.
    fn check(&self, number: u64) -> Result<(), Error> {
        if number > self.withdrawn { Ok(()) } else { Err(Error::GivenUp { rank: self.rank }) }
    }

    /// The reader's answer, once.
    fn take_answer(&mut self, number: u64) -> Result<Option<Answer>, Error> {
        self.check(number)?;
        let Some(at) = self.answers.iter().position(|&(announced, _)| announced == number) else { return Ok(None) };
        let answer = self.answers[at].1;
        if answer.is_some() {
            self.answers.swap_remove(at);
        }
        Ok(answer)
    }
}

impl<P: Payload> Sending<P> {
    pub(crate) fn new(context: u32, tag: u32, payload: P) -> Sending<P> {
        Sending { context, tag, payload, stage: Stage::New }
    }

    fn header(&self, kind: Kind, word: u64, length: usize) -> Header {
        Header { kind, context: self.context, word, length }
    }

    /// Goes on as far as there is room and the reader has answered. Returns whether the message is
    /// complete.
    #[inline]
    pub(crate) fn step(&mut self, to: &mut Outgoing) -> Result<bool, Error> {
        loop {
            self.stage = match self.stage {
                Stage::New => {
                    let bytes = self.payload.bytes();
                    if bytes.len() > to.longest {
                        let Some(stage) = to.announce(self)? else { return Ok(false) };
                        stage
                    } else if to.write(self.header(Kind::Whole, self.tag.into(), bytes.len()), bytes)? {
                        Stage::Complete
                    } else {
                        return Ok(false);
                    }
                }
                Stage::Announced(number) => match to.take_answer(number)? {
                    None => return Ok(false),
                    Some(Answer::Done) => Stage::Complete,
                    Some(Answer::Refused) => Stage::Parts(number, 0),
                },
                Stage::Parts(number, sent) => {
                    to.check(number)?;
                    let rest = &self.payload.bytes()[sent..];
                    let part = &rest[..rest.len().min(to.longest)];
                    if !to.write(self.header(Kind::Part, number, part.len()), part)? {
                        return Ok(false);
                    }
                    let sent = sent + part.len();
                    if part.len() == rest.len() { Stage::Complete } else { Stage::Parts(number, sent) }
                }
                Stage::Complete => return Ok(true),
            };
        }
    }

    /// Whether the receiver is to read the content, or is doing so.
    pub(crate) fn is_announced(&self) -> bool {
        matches!(self.stage, Stage::Announced(_))
    }

    /// Whether the receiver has been told of a message that is not complete.
    pub(crate) fn is_begun(&self) -> bool {
        matches!(self.stage, Stage::Announced(_) | Stage::Parts(..))
    }
}
