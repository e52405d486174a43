//! Channels: values on their way from fibers to fibers.
//!
//! # Where a value is
//! A value that was sent is in the *buffer*. If the buffer is full, the value is *offered* by its
//! sender, which waits; offers are in the order in which they came. Or it has been *handed*, by
//! address, to a fiber that waited for one and has been woken: so no other fiber takes it away
//! before that one runs, and each fiber sees the values in order. A fiber that takes a value from
//! the buffer lets the first offer in, and wakes its sender. Without a buffer (a *rendezvous*) a
//! value goes straight from the sender that offers it.
//!
//! If a sender gives up, because its deadline passes or no receiver is left, its value is
//! *returned* by its address.
//!
//! Values are moved inside the gate, but not dropped there: destructors are user code.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicUsize, fence};
use std::time::{Duration, Instant};

use crate::channel_error::{RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError};
use crate::gate::{Gate, Gated};
use crate::queue::Queue;
use crate::record::Fiber;
use crate::time::after;
use crate::waits::{Waitable, Woken};
use crate::worker::CurrentWorker;

/// A channel with room for this many values on their way. With room for none, a sender waits for a
/// receiver.
///
/// Any number of fibers may send and receive; each value goes to one of them. The values of one
/// sender arrive in the order in which it sends them. The channel ends when there are no senders
/// any more and everything has been received, or when there are no receivers any more.
///
/// The last [`Sender`] or [`Receiver`] may be dropped anywhere. But the fibers that wait at the
/// other end are woken only if it is dropped in a fiber of their runtime.
///
/// # Panics
/// Sending and receiving panic on a kernel thread that runs no fibers, and in a runtime to which
/// the channel does not belong.
///
/// ```
/// let (sender, receiver) = rowlock_fiber::channel(4);
/// rowlock_fiber::run(|| {
///     rowlock_fiber::spawn(move || (0..100).try_for_each(|i| sender.send(i))).detach();
///     assert_eq!(receiver.iter().sum::<i32>(), 4950);
/// });
/// ```
pub fn channel<T>(room: usize) -> (Sender<T>, Receiver<T>) {
    make(Some(room))
}

/// A channel with room for any number of values: no sender waits.
///
/// Otherwise like [`channel`].
pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    make(None)
}

fn make<T>(room: Option<usize>) -> (Sender<T>, Receiver<T>) {
    let state = State {
        buffer: VecDeque::new(),
        handed: Vec::new(),
        offered: VecDeque::new(),
        returned: Vec::new(),
        sending: Queue::new(),
        receiving: Queue::new(),
    };
    let ends = || AtomicUsize::new(1);
    let channel = Arc::new(Channel { room, senders: ends(), receivers: ends(), gate: Gate::new(state) });
    (Sender(Arc::clone(&channel)), Receiver(channel))
}

/// The state that both ends share.
struct Channel<T> {
    /// `None` for any number.
    room: Option<usize>,
    senders: AtomicUsize,
    receivers: AtomicUsize,
    gate: Gate<State<T>>,
}

struct State<T> {
    buffer: VecDeque<T>,
    /// To fibers that have been woken, by their addresses.
    handed: Vec<(usize, T)>,
    /// By the fibers in [`sending`](State::sending), in their order.
    offered: VecDeque<T>,
    /// To the fibers that offered them, by their addresses.
    returned: Vec<(usize, T)>,
    sending: Queue,
    receiving: Queue,
}

impl<T> Gated for State<T> {
    fn forget_fibers(&mut self) {
        // Offers of fibers that are gone remain theirs.
        while let Some(value) = self.offered.pop_front() {
            self.returned.push((0, value));
        }
        self.sending.forget_fibers();
        self.receiving.forget_fibers();
    }
}

impl<T> State<T> {
    /// Puts a value where it can be received, if there is room.
    #[inline]
    fn send(&mut self, value: T, room: Option<usize>, here: &CurrentWorker) -> Result<(), T> {
        if let Some(fiber) = self.receiving.pop() {
            self.handed.push((fiber.address(), value));
            here.wake(fiber, Woken::Called);
        } else if room.is_none_or(|room| self.buffer.len() < room) {
            self.buffer.push_back(value);
        } else {
            return Err(value);
        }
        Ok(())
    }

    /// Takes the next value.
    #[inline]
    fn receive(&mut self, here: &CurrentWorker) -> Option<T> {
        let value = self.buffer.pop_front();
        let Some(fiber) = self.sending.pop() else { return value };
        here.wake(fiber, Woken::Called);
        let offered = self.offered.pop_front();
        if value.is_none() {
            return offered;
        }
        self.buffer.extend(offered);
        value
    }

    /// Takes what a fiber offered and no receiver took.
    fn take_returned(&mut self, fiber: Fiber) -> Option<T> {
        take(&mut self.returned, fiber)
    }

    /// Withdraws a fiber's offer. Returns false if there is none.
    fn withdraw(&mut self, fiber: Fiber) -> bool {
        let Some(place) = self.sending.iter().position(|other| other == fiber) else { return false };
        self.returned.extend(self.offered.remove(place).map(|value| (fiber.address(), value)));
        self.sending.remove(fiber)
    }
}

/// Takes out a fiber's value.
#[inline]
fn take<T>(values: &mut Vec<(usize, T)>, fiber: Fiber) -> Option<T> {
    let place = values.iter().position(|(address, _)| *address == fiber.address())?;
    Some(values.swap_remove(place).1)
}

/// Why a value was not sent.
enum Unsent {
    Full,
    TimedOut,
    Closed,
}

/// How long a fiber may wait.
#[derive(Clone, Copy)]
enum WaitLimit {
    NoWait,
    Until(Instant),
    Forever,
}

impl WaitLimit {
    fn deadline(self) -> Option<Instant> {
        if let WaitLimit::Until(deadline) = self { Some(deadline) } else { None }
    }
}

impl<T> Channel<T> {
    #[inline]
    #[track_caller]
    fn send(&self, value: T, limit: WaitLimit) -> Result<(), (Unsent, T)> {
        CurrentWorker::enter(|here| self.send_in(here, value, limit))
    }

    #[inline(always)]
    fn send_in(&self, here: CurrentWorker, value: T, limit: WaitLimit) -> Result<(), (Unsent, T)> {
        here.safepoint();
        let me = here.current();
        let sent = self.gate.enter(&here, |state| {
            if self.receivers.load(Acquire) == 0 {
                return Err(Some((Unsent::Closed, value)));
            }
            match (state.send(value, self.room, &here), limit) {
                (Ok(()), _) => Ok(()),
                (Err(value), WaitLimit::NoWait) => Err(Some((Unsent::Full, value))),
                (Err(value), _) => {
                    state.sending.push(me);
                    state.offered.push_back(value);
                    Err(None)
                }
            }
        });
        match sent {
            Ok(()) => Ok(()),
            Err(Some(unsent)) => Err(unsent),
            Err(None) => self.offer(here, me, limit),
        }
    }

    /// Waits until a receiver has taken what this fiber offers.
    #[cold]
    fn offer(&self, here: CurrentWorker, me: Fiber, limit: WaitLimit) -> Result<(), (Unsent, T)> {
        let woken = here.block_quietly(&Sending(self), limit.deadline());
        let back = self.gate.enter(&here, |state| state.take_returned(me));
        if woken == Woken::Cancelled {
            drop(back);
            crate::ending::unwind();
        }
        match (back, woken) {
            (None, _) => Ok(()),
            (Some(value), Woken::TimedOut) => Err((Unsent::TimedOut, value)),
            (Some(value), _) => Err((Unsent::Closed, value)),
        }
    }

    #[inline]
    #[track_caller]
    fn receive(&self, limit: WaitLimit) -> Result<T, TryRecvError> {
        CurrentWorker::enter(|here| self.receive_in(here, limit))
    }

    #[inline(always)]
    fn receive_in(&self, here: CurrentWorker, limit: WaitLimit) -> Result<T, TryRecvError> {
        here.safepoint();
        let me = here.current();
        let received = self.gate.enter(&here, |state| match state.receive(&here) {
            Some(value) => Ok(value),
            None if self.senders.load(Acquire) == 0 => Err(Some(TryRecvError::Closed)),
            None if matches!(limit, WaitLimit::NoWait) => Err(Some(TryRecvError::Empty)),
            None => {
                state.receiving.push(me);
                Err(None)
            }
        });
        match received {
            Ok(value) => Ok(value),
            Err(Some(why)) => Err(why),
            Err(None) if here.block(&Receiving(self), limit.deadline()) == Woken::TimedOut => Err(TryRecvError::Empty),
            // A fiber is woken without a value only when the channel ends.
            Err(None) => self.gate.enter(&here, |state| take(&mut state.handed, me)).ok_or(TryRecvError::Closed),
        }
    }

    /// Enters the gate to wake the fibers at the other end, if the caller, which has dropped the
    /// last of one end, is in their runtime.
    fn tell(&self, how: impl FnOnce(&mut State<T>, &CurrentWorker)) {
        // Either there is a home, or the fiber that makes its runtime the home sees that this end
        // is gone.
        fence(SeqCst);
        CurrentWorker::visit(|here| {
            if let Some(here) = here.filter(|here| self.gate.is_home(here)) {
                self.gate.enter(&here, |state| how(state, &here));
            }
        });
    }

    fn len(&self) -> usize {
        CurrentWorker::enter(|here| self.gate.enter(&here, |state| state.buffer.len()))
    }
}

/// A wait for room.
struct Sending<'a, T>(&'a Channel<T>);

impl<T> Waitable for Sending<'_, T> {
    fn leave(&self, fiber: Fiber) -> bool {
        self.0.gate.enter(&CurrentWorker::expect(), |state| state.withdraw(fiber))
    }

    fn kind(&self) -> &'static str {
        "a channel, to send"
    }
}

/// A wait for a value.
struct Receiving<'a, T>(&'a Channel<T>);

impl<T> Waitable for Receiving<'_, T> {
    fn leave(&self, fiber: Fiber) -> bool {
        self.0.gate.enter(&CurrentWorker::expect(), |state| state.receiving.remove(fiber))
    }

    fn kind(&self) -> &'static str {
        "a channel, to receive"
    }
}

/// The sending end of a [`channel`]. It can be cloned.
pub struct Sender<T>(Arc<Channel<T>>);

impl<T> Sender<T> {
    /// Waits until there is room, and sends the value.
    ///
    /// # Errors
    /// If there are no receivers any more; the error contains the value.
    #[inline]
    #[track_caller]
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        self.0.send(value, WaitLimit::Forever).map_err(|(_, value)| SendError(value))
    }

    /// Sends the value if there is room, or a receiver waits. Never waits, but other fibers may run
    /// first.
    ///
    /// # Errors
    /// If there is no room, or there are no receivers any more; the error contains the value.
    #[inline]
    #[track_caller]
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        self.0.send(value, WaitLimit::NoWait).map_err(|(why, value)| match why {
            Unsent::Closed => TrySendError::Closed(value),
            Unsent::Full | Unsent::TimedOut => TrySendError::Full(value),
        })
    }

    /// Like [`Sender::send`], but waits only until the deadline.
    ///
    /// # Errors
    /// If the deadline has passed, or there are no receivers any more; the error contains the
    /// value.
    #[track_caller]
    pub fn send_until(&self, value: T, deadline: Instant) -> Result<(), SendTimeoutError<T>> {
        self.0.send(value, WaitLimit::Until(deadline)).map_err(|(why, value)| match why {
            Unsent::Closed => SendTimeoutError::Closed(value),
            Unsent::Full | Unsent::TimedOut => SendTimeoutError::TimedOut(value),
        })
    }

    /// Like [`Sender::send_until`], with a timeout that starts now.
    ///
    /// # Errors
    /// As for [`Sender::send_until`].
    #[track_caller]
    pub fn send_timeout(&self, value: T, timeout: Duration) -> Result<(), SendTimeoutError<T>> {
        self.send_until(value, after(timeout))
    }

    /// How many values are in the channel now, without those that fibers wait to send.
    #[track_caller]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it is empty.
    #[track_caller]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many senders there are.
    pub fn senders(&self) -> usize {
        self.0.senders.load(Acquire)
    }

    /// How many receivers there are.
    pub fn receivers(&self) -> usize {
        self.0.receivers.load(Acquire)
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        self.0.senders.fetch_add(1, Relaxed);
        Sender(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if self.0.senders.fetch_sub(1, AcqRel) == 1 {
            self.0.tell(|state, here| {
                while let Some(fiber) = state.receiving.pop() {
                    here.wake(fiber, Woken::Called);
                }
            });
        }
    }
}

/// The receiving end of a [`channel`]. It can be cloned: each value goes to one receiver.
pub struct Receiver<T>(Arc<Channel<T>>);

impl<T> Receiver<T> {
    /// Waits for a value.
    ///
    /// # Errors
    /// If there are no senders any more, and all values have been received.
    #[inline]
    #[track_caller]
    pub fn recv(&self) -> Result<T, RecvError> {
        self.0.receive(WaitLimit::Forever).map_err(|_| RecvError)
    }

    /// Takes a value, if there is one. Never waits, but other fibers may run first.
    ///
    /// # Errors
    /// If there is none, or there will never be one.
    #[inline]
    #[track_caller]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.0.receive(WaitLimit::NoWait)
    }

    /// Like [`Receiver::recv`], but waits only until the deadline.
    ///
    /// # Errors
    /// If the deadline has passed, or there will never be a value.
    #[track_caller]
    pub fn recv_until(&self, deadline: Instant) -> Result<T, RecvTimeoutError> {
        self.0.receive(WaitLimit::Until(deadline)).map_err(|why| match why {
            TryRecvError::Empty => RecvTimeoutError::TimedOut,
            TryRecvError::Closed => RecvTimeoutError::Closed,
        })
    }

    /// Like [`Receiver::recv_until`], with a timeout that starts now.
    ///
    /// # Errors
    /// As for [`Receiver::recv_until`].
    #[track_caller]
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        self.recv_until(after(timeout))
    }

    /// The values as they come, until the channel ends.
    pub fn iter(&self) -> impl Iterator<Item = T> {
        std::iter::from_fn(|| self.recv().ok())
    }

    /// How many values are in the channel now, without those that fibers wait to send.
    #[track_caller]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it is empty.
    #[track_caller]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many senders there are.
    pub fn senders(&self) -> usize {
        self.0.senders.load(Acquire)
    }

    /// How many receivers there are.
    pub fn receivers(&self) -> usize {
        self.0.receivers.load(Acquire)
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Receiver<T> {
        self.0.receivers.fetch_add(1, Relaxed);
        Receiver(Arc::clone(&self.0))
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        if self.0.receivers.fetch_sub(1, AcqRel) == 1 {
            let mut left = VecDeque::new();
            self.0.tell(|state, here| {
                left = std::mem::take(&mut state.buffer);
                while let Some(fiber) = state.sending.pop() {
                    let value = state.offered.pop_front();
                    state.returned.extend(value.map(|value| (fiber.address(), value)));
                    here.wake(fiber, Woken::Called);
                }
            });
            // No fiber will receive them. They are dropped outside the gate.
            drop(left);
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}
