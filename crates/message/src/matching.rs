//! Matching: which message a receive gets. Pure.
//!
//! A receive *posts* a pattern and holds a ticket. A message that *arrives* is bound to the ticket
//! that was posted first among those whose pattern it matches, or it waits, unexpected. A posted
//! pattern is bound to the message that arrived first among the unexpected ones that match. So
//! order holds for each pair and tag: of two messages that match one pattern, the first comes
//! first.
//!
//! A ticket that is given back leaves its message where it was in the order.
//!
//! Unexpected messages take memory of the receiver until they are received. Their number has no
//! bound: a rank that waits must take what comes from others, or two ranks that send to each other
//! would lock up.

use std::collections::VecDeque;

/// The messages that a receive accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    pub(crate) context: u32,
    /// `None` accepts all sources.
    pub(crate) source: Option<u32>,
    /// `None` accepts all tags.
    pub(crate) tag: Option<u32>,
}

/// A message without its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Envelope {
    pub(crate) source: u32,
    pub(crate) context: u32,
    pub(crate) tag: u32,
    /// In bytes.
    pub(crate) length: u64,
}

/// A posted receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

/// A message that has arrived.
#[derive(Debug)]
pub(crate) struct Message<B> {
    pub(crate) envelope: Envelope,
    /// The receive that gets it.
    pub(crate) ticket: Option<Ticket>,
    pub(crate) body: B,
}

/// Receives and messages that are not complete.
#[derive(Debug)]
pub(crate) struct Matching<B> {
    /// Receives without a message, in the order of their posting.
    posted: VecDeque<(Ticket, Pattern)>,
    /// Messages in the order of their arrival.
    messages: VecDeque<Message<B>>,
    /// The number of tickets so far.
    tickets: u64,
}

impl Pattern {
    #[inline]
    fn accepts(&self, envelope: &Envelope) -> bool {
        self.context == envelope.context
            && self.source.is_none_or(|source| source == envelope.source)
            && self.tag.is_none_or(|tag| tag == envelope.tag)
    }
}

impl<B> Matching<B> {
    pub(crate) fn new() -> Matching<B> {
        Matching { posted: VecDeque::new(), messages: VecDeque::new(), tickets: 0 }
    }

    /// Posts a receive.
    #[inline]
    pub(crate) fn post(&mut self, pattern: Pattern) -> Ticket {
        let ticket = Ticket(self.tickets);
        self.tickets += 1;
        match self.unexpected(&pattern) {
            Some(message) => message.ticket = Some(ticket),
            None => self.posted.push_back((ticket, pattern)),
        }
        ticket
    }

    /// The first unexpected message that a pattern accepts.
    #[inline]
    fn unexpected(&mut self, pattern: &Pattern) -> Option<&mut Message<B>> {
        self.messages.iter_mut().find(|message| message.ticket.is_none() && pattern.accepts(&message.envelope))
    }

    /// The envelope of the message that a receive of this pattern would get.
    pub(crate) fn probe(&mut self, pattern: &Pattern) -> Option<Envelope> {
        self.unexpected(pattern).map(|message| message.envelope)
    }

    /// The receive that gets a message with this envelope, if it arrives next.
    #[inline]
    pub(crate) fn receiver(&self, envelope: &Envelope) -> Option<Ticket> {
        self.posted.iter().find(|(_, pattern)| pattern.accepts(envelope)).map(|&(ticket, _)| ticket)
    }

    /// A message arrives.
    pub(crate) fn arrive(&mut self, envelope: Envelope, body: B) {
        let ticket = self.receiver(&envelope);
        ticket.into_iter().for_each(|ticket| self.withdraw(ticket));
        self.messages.push_back(Message { envelope, ticket, body });
    }

    /// A posted receive without a message is complete, or is not wanted any more.
    #[inline]
    pub(crate) fn withdraw(&mut self, ticket: Ticket) {
        if let Some(place) = self.posted.iter().position(|&(posted, _)| posted == ticket) {
            self.posted.remove(place);
        }
    }

    /// The message that a receive gets.
    #[inline]
    pub(crate) fn message(&mut self, ticket: Ticket) -> Option<&mut Message<B>> {
        // There are mostly fewer receives than unexpected messages.
        if self.posted.iter().any(|&(posted, _)| posted == ticket) {
            return None;
        }
        self.messages.iter_mut().find(|message| message.ticket == Some(ticket))
    }

    /// Removes the message that a receive got, which is complete.
    pub(crate) fn remove(&mut self, ticket: Ticket) {
        if let Some(place) = self.messages.iter().position(|message| message.ticket == Some(ticket)) {
            self.messages.remove(place);
        }
    }

    /// Gives a ticket back. If it had a message, that is there for others, in its old place.
    pub(crate) fn give_back(&mut self, ticket: Ticket) {
        self.withdraw(ticket);
        let Some(place) = self.messages.iter().position(|message| message.ticket == Some(ticket)) else { return };
        // A receive that was posted later had no message until now.
        let next = self.receiver(&self.messages[place].envelope);
        self.messages[place].ticket = next;
        next.into_iter().for_each(|next| self.withdraw(next));
    }

    /// All messages, in the order of their arrival.
    pub(crate) fn messages(&mut self) -> impl Iterator<Item = &mut Message<B>> {
        self.messages.iter_mut()
    }
}

#[cfg(test)]
mod tests;
