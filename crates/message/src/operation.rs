//! The operations that calls wait for.

use crate::endpoint::Operation;
use crate::engine::{Engine, Want};
use crate::error::Error;
use crate::matching::{Envelope, Pattern, Ticket};
use crate::sending::{Payload, Sending};

/// Sends a message to a rank.
pub(crate) struct Send<P> {
    pub(crate) to: u32,
    pub(crate) sending: Sending<P>,
    pub(crate) is_complete: bool,
}

impl<P: Payload> Send<P> {
    pub(crate) fn new(to: u32, sending: Sending<P>) -> Send<P> {
        Send { to, sending, is_complete: false }
    }
}

impl<P: Payload> Operation for Send<P> {
    fn step(&mut self, engine: &mut Engine) -> Result<bool, Error> {
        if !self.is_complete {
            self.is_complete = engine.send(self.to, &mut self.sending)?;
        }
        if !self.is_complete {
            engine.progress(None)?;
        }
        Ok(self.is_complete)
    }

    fn awaited(&self) -> Option<u32> {
        Some(self.to)
    }

    fn abandon(&mut self, engine: &mut Engine) {
        if !self.is_complete {
            engine.abandon(self.to, &self.sending);
        }
    }
}

/// Completes a posted receive.
pub(crate) struct Receive<'a> {
    pub(crate) want: Want<'a>,
    pub(crate) from: Option<u32>,
}

impl Operation for Receive<'_> {
    fn step(&mut self, engine: &mut Engine) -> Result<bool, Error> {
        if self.want.got.is_none() {
            engine.progress(Some(&mut self.want))?;
        }
        Ok(self.want.got.is_some())
    }

    fn awaited(&self) -> Option<u32> {
        self.from
    }

    fn ticket(&self) -> Option<Ticket> {
        Some(self.want.ticket)
    }
}

/// Sends a message and receives one, at the same time.
pub(crate) struct Exchange<'a, P> {
    pub(crate) send: Send<P>,
    pub(crate) receive: Receive<'a>,
}

impl<P: Payload> Operation for Exchange<'_, P> {
    fn step(&mut self, engine: &mut Engine) -> Result<bool, Error> {
        let is_sent = self.send.step(engine)?;
        Ok(self.receive.step(engine)? && is_sent)
    }

    fn awaited(&self) -> Option<u32> {
        if self.receive.want.got.is_none() { self.receive.awaited() } else { self.send.awaited() }
    }

    fn ticket(&self) -> Option<Ticket> {
        self.receive.ticket()
    }

    fn abandon(&mut self, engine: &mut Engine) {
        self.send.abandon(engine);
    }
}

/// Waits for a message without receiving it.
pub(crate) struct Probe {
    pub(crate) pattern: Pattern,
    pub(crate) found: Option<Envelope>,
}

impl Operation for Probe {
    fn step(&mut self, engine: &mut Engine) -> Result<bool, Error> {
        engine.progress(None)?;
        self.found = engine.matching.probe(&self.pattern);
        Ok(self.found.is_some())
    }

    fn awaited(&self) -> Option<u32> {
        self.pattern.source
    }
}

/// Looks for the message of a posted receive without receiving it.
pub(crate) struct Arrival {
    pub(crate) ticket: Ticket,
    pub(crate) from: Option<u32>,
    pub(crate) found: Option<Envelope>,
}

impl Operation for Arrival {
    fn step(&mut self, engine: &mut Engine) -> Result<bool, Error> {
        engine.progress(None)?;
        self.found = engine.matching.message(self.ticket).map(|message| message.envelope);
        Ok(self.found.is_some())
    }

    fn awaited(&self) -> Option<u32> {
        self.from
    }
}

/// Makes progress, and looks whether something has become true.
pub(crate) struct Until<F> {
    pub(crate) rank: u32,
    pub(crate) condition: F,
}

impl<F: FnMut() -> bool> Operation for Until<F> {
    fn step(&mut self, engine: &mut Engine) -> Result<bool, Error> {
        if !(self.condition)() {
            engine.progress(None)?;
        }
        Ok((self.condition)())
    }

    fn awaited(&self) -> Option<u32> {
        Some(self.rank)
    }
}
