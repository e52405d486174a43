//! Channels: values on their way from senders to receivers.
//!
//! A value that was sent is in the *buffer*. If the buffer is full, the value stays with its
//! sender, which waits; senders wait in the order in which they came. A value that is sent while
//! receivers wait goes to the first of them, which is woken with it: so no other takes it away, and
//! each receiver sees the values in order. A receiver that takes a value from the buffer lets the
//! value of the first sender in, and wakes that. Without a buffer (a *rendezvous*) a value goes
//! straight from a sender that waits.
//!
//! Values are moved inside the object, but not dropped there: destructors are user code.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::current_worker::CurrentWorker;
use crate::objects::channel_error::{
    RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError,
};
use crate::time::after;
use crate::waiting::biased::Biased;
use crate::waiting::list::{TakenList, WaitList};
use crate::waiting::{self, Operation, Performing};

/// A channel with room for this many values on their way. With room for none, a sender waits for a
/// receiver.
///
/// Any number of fibers, threads and futures may send and receive; each value goes to one of them.
/// The values of one sender arrive in the order in which it sends them. The channel ends when there
/// are no senders any more and everything has been received, or when there are no receivers any
/// more.
///
/// ```
/// let (sender, receiver) = rowlock_fiber::channel(4);
/// let thread = std::thread::spawn(move || (0..100).try_for_each(|i| sender.send(i)));
/// let sum = rowlock_fiber::run(|| receiver.iter().sum::<i32>());
/// assert_eq!(sum, 4950);
/// # thread.join().unwrap().unwrap();
/// ```
pub fn channel<T>(room: usize) -> (Sender<T>, Receiver<T>) {
    make(room)
}

/// A channel with room for any number of values: no sender waits.
///
/// Otherwise like [`channel`].
pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    make(usize::MAX)
}

fn make<T>(room: usize) -> (Sender<T>, Receiver<T>) {
    let state = State {
        buffer: VecDeque::new(),
        senders: 1,
        receivers: 1,
        sending: WaitList::new(),
        receiving: WaitList::new(),
    };
    let channel = Arc::new(Channel { room, state: Biased::new(state) });
    (Sender(Arc::clone(&channel)), Receiver(channel))
}

struct Channel<T> {
    room: usize,
    state: Biased<State<T>>,
}

struct State<T> {
    buffer: VecDeque<T>,
    senders: usize,
    receivers: usize,
    /// They have their values.
    sending: WaitList<Option<T>>,
    /// They are woken with a value, or without one if there are no senders any more.
    receiving: WaitList<Option<T>>,
}

impl<T> Channel<T> {
    /// Calls a function with the state, and then wakes waiters.
    fn change<R>(&self, change: impl FnOnce(&mut State<T>, &mut TakenList<Option<T>>) -> R) -> R {
        CurrentWorker::visit(|here| {
            let mut woken = TakenList::new();
            let result = self.state.enter(here.as_deref(), |state| change(state, &mut woken));
            woken.wake(here);
            result
        })
    }
}

struct Sending<'a, T>(&'a Channel<T>);

impl<T> Operation for Sending<'_, T> {
    type State = State<T>;
    type Payload = Option<T>;
    /// The value, if there are no receivers.
    type Output = Result<(), T>;

    fn object(&self) -> &Biased<State<T>> {
        &self.0.state
    }

    fn list<'a>(&self, state: &'a mut State<T>) -> &'a mut WaitList<Option<T>> {
        &mut state.sending
    }

    #[inline]
    fn attempt(
        &self,
        state: &mut State<T>,
        value: &mut Option<T>,
        woken: &mut TakenList<Option<T>>,
    ) -> Option<Result<(), T>> {
        if state.receivers == 0 {
            return value.take().map(Err);
        }
        if let Some(mut receiver) = state.receiving.pop() {
            *receiver.payload() = value.take();
            woken.push(receiver);
        } else if state.buffer.len() < self.0.room {
            state.buffer.extend(value.take());
        } else {
            return None;
        }
        Some(Ok(()))
    }

    fn complete(&self, value: &mut Option<T>) -> Option<Result<(), T>> {
        Some(value.take().map_or(Ok(()), Err))
    }

    fn undo(&self, _: Option<Result<(), T>>) {}

    fn kind(&self) -> &'static str {
        "a channel, to send"
    }
}

struct Receiving<'a, T>(&'a Channel<T>);

impl<T> Operation for Receiving<'_, T> {
    type State = State<T>;
    type Payload = Option<T>;
    type Output = Result<T, RecvError>;

    fn object(&self) -> &Biased<State<T>> {
        &self.0.state
    }

    fn list<'a>(&self, state: &'a mut State<T>) -> &'a mut WaitList<Option<T>> {
        &mut state.receiving
    }

    #[inline]
    fn attempt(
        &self,
        state: &mut State<T>,
        _: &mut Option<T>,
        woken: &mut TakenList<Option<T>>,
    ) -> Option<Result<T, RecvError>> {
        let first = state.buffer.pop_front();
        let sender = state.sending.pop().and_then(|mut sender| {
            let value = sender.payload().take();
            woken.push(sender);
            value
        });
        let value = match first {
            Some(first) => {
                state.buffer.extend(sender);
                Some(first)
            }
            None => sender,
        };
        match value {
            Some(value) => Some(Ok(value)),
            None => (state.senders == 0).then_some(Err(RecvError)),
        }
    }

    fn complete(&self, value: &mut Option<T>) -> Option<Result<T, RecvError>> {
        Some(value.take().ok_or(RecvError))
    }

    /// The next receiver gets the value, before those that were sent after it.
    fn undo(&self, output: Option<Result<T, RecvError>>) {
        let Some(Ok(value)) = output else { return };
        let mut value = Some(value);
        self.0.change(|state, woken| match state.receiving.pop() {
            Some(mut receiver) => {
                *receiver.payload() = value.take();
                woken.push(receiver);
            }
            None if state.receivers > 0 => value.take().into_iter().for_each(|value| state.buffer.push_front(value)),
            None => (),
        });
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
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        match waiting::perform(&Sending(&*self.0), Some(value), None) {
            Ok(Err(value)) | Err(Some(value)) => Err(SendError(value)),
            Ok(Ok(())) | Err(None) => Ok(()),
        }
    }

    /// Sends the value if there is room, or a receiver waits. Never waits, but other fibers may run
    /// first.
    ///
    /// # Errors
    /// If there is no room, or there are no receivers any more; the error contains the value.
    #[inline]
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        match waiting::attempt(&Sending(&*self.0), Some(value)) {
            Ok(Err(value)) => Err(TrySendError::Closed(value)),
            Err(Some(value)) => Err(TrySendError::Full(value)),
            Ok(Ok(())) | Err(None) => Ok(()),
        }
    }

    /// Like [`Sender::send`], but waits only until the deadline.
    ///
    /// # Errors
    /// If the deadline has passed, or there are no receivers any more; the error contains the
    /// value.
    pub fn send_until(&self, value: T, deadline: Instant) -> Result<(), SendTimeoutError<T>> {
        match waiting::perform(&Sending(&*self.0), Some(value), Some(deadline)) {
            Ok(Err(value)) => Err(SendTimeoutError::Closed(value)),
            Err(Some(value)) => Err(SendTimeoutError::TimedOut(value)),
            Ok(Ok(())) | Err(None) => Ok(()),
        }
    }

    /// Like [`Sender::send_until`], with a timeout that starts now.
    ///
    /// # Errors
    /// As for [`Sender::send_until`].
    pub fn send_timeout(&self, value: T, timeout: Duration) -> Result<(), SendTimeoutError<T>> {
        self.send_until(value, after(timeout))
    }

    /// Like [`Sender::send`], in a future. If that is dropped before it is ready, the value is
    /// dropped if it was not sent.
    ///
    /// # Errors
    /// As for [`Sender::send`].
    pub async fn send_async(&self, value: T) -> Result<(), SendError<T>> {
        Performing::new(Sending(&*self.0), Some(value)).await.map_err(SendError)
    }

    /// How many values are in the channel now, without those that senders wait to send.
    pub fn len(&self) -> usize {
        self.0.change(|state, _| state.buffer.len())
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many senders there are.
    pub fn senders(&self) -> usize {
        self.0.change(|state, _| state.senders)
    }

    /// How many receivers there are.
    pub fn receivers(&self) -> usize {
        self.0.change(|state, _| state.receivers)
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        self.0.change(|state, _| state.senders += 1);
        Sender(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.change(|state, woken| {
            state.senders -= 1;
            while state.senders == 0
                && let Some(receiver) = state.receiving.pop()
            {
                woken.push(receiver);
            }
        });
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
    pub fn recv(&self) -> Result<T, RecvError> {
        waiting::perform(&Receiving(&*self.0), None, None).unwrap_or(Err(RecvError))
    }

    /// Takes a value, if there is one. Never waits, but other fibers may run first.
    ///
    /// # Errors
    /// If there is none, or there will never be one.
    #[inline]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        match waiting::attempt(&Receiving(&*self.0), None) {
            Ok(received) => received.map_err(|RecvError| TryRecvError::Closed),
            Err(_) => Err(TryRecvError::Empty),
        }
    }

    /// Like [`Receiver::recv`], but waits only until the deadline.
    ///
    /// # Errors
    /// If the deadline has passed, or there will never be a value.
    pub fn recv_until(&self, deadline: Instant) -> Result<T, RecvTimeoutError> {
        match waiting::perform(&Receiving(&*self.0), None, Some(deadline)) {
            Ok(received) => received.map_err(|RecvError| RecvTimeoutError::Closed),
            Err(_) => Err(RecvTimeoutError::TimedOut),
        }
    }

    /// Like [`Receiver::recv_until`], with a timeout that starts now.
    ///
    /// # Errors
    /// As for [`Receiver::recv_until`].
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        self.recv_until(after(timeout))
    }

    /// Like [`Receiver::recv`], in a future. If that is dropped before it is ready, it receives
    /// nothing.
    ///
    /// # Errors
    /// As for [`Receiver::recv`].
    pub async fn recv_async(&self) -> Result<T, RecvError> {
        Performing::new(Receiving(&*self.0), None).await
    }

    /// The values as they come, until the channel ends.
    pub fn iter(&self) -> impl Iterator<Item = T> {
        std::iter::from_fn(|| self.recv().ok())
    }

    /// How many values are in the channel now, without those that senders wait to send.
    pub fn len(&self) -> usize {
        self.0.change(|state, _| state.buffer.len())
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many senders there are.
    pub fn senders(&self) -> usize {
        self.0.change(|state, _| state.senders)
    }

    /// How many receivers there are.
    pub fn receivers(&self) -> usize {
        self.0.change(|state, _| state.receivers)
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Receiver<T> {
        self.0.change(|state, _| state.receivers += 1);
        Receiver(Arc::clone(&self.0))
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let left = self.0.change(|state, woken| {
            state.receivers -= 1;
            while state.receivers == 0
                && let Some(sender) = state.sending.pop()
            {
                woken.push(sender);
            }
            if state.receivers == 0 { std::mem::take(&mut state.buffer) } else { VecDeque::new() }
        });
        // No receiver will take them. They are dropped outside the object.
        drop(left);
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
