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
use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};
use std::time::{Duration, Instant};

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
/// more. As long as there is a sender, receivers wait, even if no thread ever uses it: drop those
/// that you do not need. If only the fibers of one runtime use its channels,
/// [`Config::closed`](crate::Config::closed) makes it an error that all of them wait.
///
/// ```
/// let (sender, receiver) = rowlock_fiber::channel(4);
/// let thread = std::thread::spawn(move || (0..100).try_for_each(|i| sender.send(i)));
/// let sum = rowlock_fiber::run(|| receiver.iter().sum::<i32>());
/// assert_eq!(sum, 4950);
/// # thread.join().unwrap().unwrap();
/// ```
pub fn channel<T>(room: usize) -> (Sender<T>, Receiver<T>) {
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

/// A [`channel`] with room for any number of values: no sender waits.
pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    channel(usize::MAX)
}

struct Channel<T> {
    room: usize,
    state: Biased<State<T>>,
}

struct State<T> {
    buffer: VecDeque<T>,
    senders: usize,
    receivers: usize,
    /// They have their values, and keep them if there are no receivers any more.
    sending: WaitList<Option<T>>,
    /// They are woken with a value, or without one if there are no senders any more.
    receiving: WaitList<Option<T>>,
}

impl<T> Channel<T> {
    fn change<R>(&self, change: impl FnOnce(&mut State<T>, &mut TakenList<Option<T>>) -> R) -> R {
        waiting::change(&self.state, change)
    }
}

struct Sending<'a, T>(&'a Channel<T>);

impl<T> Operation for Sending<'_, T> {
    type State = State<T>;
    /// The value. It stays if there are no receivers.
    type Payload = Option<T>;
    const KIND: &'static str = "a channel, to send";
    const OBJECT: fn(&Self) -> &Biased<State<T>> = |operation| &operation.0.state;
    const LIST: fn(&mut State<T>) -> &mut WaitList<Option<T>> = |state| &mut state.sending;

    #[inline]
    fn attempt(&self, state: &mut State<T>, value: &mut Option<T>, woken: &mut TakenList<Option<T>>) -> bool {
        if state.receivers == 0 {
            return true;
        }
        if let Some(mut receiver) = state.receiving.pop() {
            *receiver.payload() = value.take();
            woken.push(receiver);
        } else if state.buffer.len() < self.0.room {
            state.buffer.extend(value.take());
        }
        value.is_none()
    }
}

struct Receiving<'a, T>(&'a Channel<T>);

impl<T> Operation for Receiving<'_, T> {
    type State = State<T>;
    /// The value, or none if there are no senders.
    type Payload = Option<T>;
    const KIND: &'static str = "a channel, to receive";
    const OBJECT: fn(&Self) -> &Biased<State<T>> = |operation| &operation.0.state;
    const LIST: fn(&mut State<T>) -> &mut WaitList<Option<T>> = |state| &mut state.receiving;

    #[inline]
    fn attempt(&self, state: &mut State<T>, value: &mut Option<T>, woken: &mut TakenList<Option<T>>) -> bool {
        *value = state.buffer.pop_front();
        if let Some(mut sender) = state.sending.pop() {
            let next = sender.payload().take();
            woken.push(sender);
            if value.is_some() {
                state.buffer.extend(next);
            } else {
                *value = next;
            }
        }
        value.is_some() || state.senders == 0
    }

    /// The next receiver gets the value, before those that were sent after it.
    fn undo(&self, mut value: Option<T>) {
        self.0.change(|state, woken| {
            let Some(value) = value.take_if(|_| state.receivers > 0) else { return };
            if let Some(mut receiver) = state.receiving.pop() {
                *receiver.payload() = Some(value);
                woken.push(receiver);
            } else {
                state.buffer.push_front(value);
            }
        });
    }
}

/// One end of a channel: how it is counted, and how its clones and its drop count.
macro_rules! end {
    ($End:ident, $count:ident, $waiting_others:ident) => {
        impl<T> $End<T> {
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

        impl<T> Clone for $End<T> {
            fn clone(&self) -> $End<T> {
                self.0.change(|state, _| state.$count += 1);
                $End(Arc::clone(&self.0))
            }
        }

        impl<T> Drop for $End<T> {
            fn drop(&mut self) {
                let lost = self.0.change(|state, woken| {
                    state.$count -= 1;
                    if state.$count == 0 {
                        woken.take_all(&mut state.$waiting_others);
                    }
                    if state.receivers == 0 { std::mem::take(&mut state.buffer) } else { VecDeque::new() }
                });
                // No receiver will take them. They are dropped outside the object.
                drop(lost);
            }
        }

        impl<T> fmt::Debug for $End<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($End)).finish_non_exhaustive()
            }
        }
    };
}

end!(Sender, senders, receiving);
end!(Receiver, receivers, sending);

/// The sending end of a [`channel`]. It can be cloned.
pub struct Sender<T>(Arc<Channel<T>>);

impl<T> Sender<T> {
    /// Waits until there is room, and sends the value.
    ///
    /// # Errors
    /// If there are no receivers any more; the error contains the value.
    #[inline]
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        waiting::perform(&Sending(&*self.0), Some(value)).map_or(Ok(()), |value| Err(SendError(value)))
    }

    /// Sends the value if there is room, or a receiver waits. Never waits, but other fibers may run
    /// first.
    ///
    /// # Errors
    /// If there is no room, or there are no receivers any more; the error contains the value.
    #[inline]
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        tried(waiting::attempt(&Sending(&*self.0), Some(value)))
    }

    /// Like [`Sender::send`], but waits only until the deadline.
    ///
    /// # Errors
    /// If there is still no room at the deadline, or there are no receivers any more; the error
    /// contains the value.
    pub fn send_until(&self, value: T, deadline: Instant) -> Result<(), TrySendError<T>> {
        tried(waiting::perform_until(&Sending(&*self.0), Some(value), Some(deadline)))
    }

    /// Like [`Sender::send_until`], with a timeout that starts now.
    ///
    /// # Errors
    /// As for [`Sender::send_until`].
    pub fn send_timeout(&self, value: T, timeout: Duration) -> Result<(), TrySendError<T>> {
        self.send_until(value, after(timeout))
    }

    /// Like [`Sender::send`], in a future. If that is dropped before it is ready, the value is
    /// dropped if it was not sent.
    ///
    /// # Errors
    /// As for [`Sender::send`].
    pub async fn send_async(&self, value: T) -> Result<(), SendError<T>> {
        Performing::new(Sending(&*self.0), Some(value)).await.map_or(Ok(()), |value| Err(SendError(value)))
    }
}

#[inline]
fn tried<T>(sent: Result<Option<T>, Option<T>>) -> Result<(), TrySendError<T>> {
    match sent {
        Ok(Some(value)) => Err(TrySendError::Disconnected(value)),
        Err(Some(value)) => Err(TrySendError::Full(value)),
        Ok(None) | Err(None) => Ok(()),
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
        waiting::perform(&Receiving(&*self.0), None).ok_or(RecvError)
    }

    /// Takes a value, if there is one. Never waits, but other fibers may run first.
    ///
    /// # Errors
    /// If there is none, or there will never be one.
    #[inline]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        let received = waiting::attempt(&Receiving(&*self.0), None);
        received.map_err(|_| TryRecvError::Empty)?.ok_or(TryRecvError::Disconnected)
    }

    /// Like [`Receiver::recv`], but waits only until the deadline.
    ///
    /// # Errors
    /// If the deadline has passed, or there will never be a value.
    pub fn recv_until(&self, deadline: Instant) -> Result<T, RecvTimeoutError> {
        let received = waiting::perform_until(&Receiving(&*self.0), None, Some(deadline));
        received.map_err(|_| RecvTimeoutError::Timeout)?.ok_or(RecvTimeoutError::Disconnected)
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
        Performing::new(Receiving(&*self.0), None).await.ok_or(RecvError)
    }

    /// The values as they come, until the channel ends.
    pub fn iter(&self) -> impl Iterator<Item = T> {
        std::iter::from_fn(|| self.recv().ok())
    }
}
