//! A wrapper that lets fibers wait for anything with a file descriptor.

use std::io::{self, ErrorKind, Read, Write};
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rustix::io::ioctl_fionbio;

use crate::current_worker::CurrentWorker;
use crate::outside::Direction::{self, In, Out};
use crate::reactor;

/// Anything with a file descriptor that the kernel can watch (a socket, a pipe, a child's output, a
/// terminal, a signalfd, ...). Only the fiber waits for it: others run meanwhile. [Sockets
/// ](crate::net) are made of it.
///
/// The methods here wait. Those of the inner value, to which it dereferences, do not: they fail
/// with [`WouldBlock`](ErrorKind::WouldBlock) if they would have to.
///
/// Fibers of any worker and any runtime may use it, several at a time, and so may other threads,
/// which block. A fiber that waits borrows it, so it cannot be closed meanwhile. Code with another
/// descriptor of the same socket or pipe can end a wait by shutting that down. If the descriptor is
/// closed behind its owner's back, waiting fibers continue to wait, until their time-outs.
///
/// A descriptor that never blocks, such as that of a file on a disk, counts as ready.
///
/// ```
/// use std::io::{Read, Write};
/// use rowlock_fiber::{self as fiber, Pollable};
///
/// let (output, mut input) = std::io::pipe()?;
/// fiber::run(|| {
///     let reader = fiber::spawn(move || {
///         let mut text = String::new();
///         Pollable::new(output)?.read_to_string(&mut text).map(|_| text)
///     });
///     // The reader waits for the pipe, and this fiber runs on.
///     fiber::yield_now();
///     input.write_all(b"from a pipe")?;
///     drop(input);
///     assert_eq!(reader.join().unwrap()?, "from a pipe");
///     Ok::<_, std::io::Error>(())
/// })?;
/// # Ok::<_, std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Pollable<T> {
    inner: T,
    timeouts: Timeouts,
}

/// Time-outs in nanoseconds, by direction; 0 is none.
#[derive(Debug, Default)]
struct Timeouts([AtomicU64; 2]);

impl Timeouts {
    fn set(&self, direction: Direction, timeout: Option<Duration>) -> io::Result<()> {
        if timeout == Some(Duration::ZERO) {
            return Err(io::Error::new(
                ErrorKind::InvalidInput,
                "a time-out cannot be zero: None waits forever, and a nanosecond does not wait",
            ));
        }
        let nanos = timeout.map_or(0, |timeout| u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
        self.0[direction as usize].store(nanos, Relaxed);
        Ok(())
    }

    fn get(&self, direction: Direction) -> Option<Duration> {
        let nanos = self.0[direction as usize].load(Relaxed);
        (nanos > 0).then(|| Duration::from_nanos(nanos))
    }

    /// The deadline of a call that starts now.
    fn deadline(&self, direction: Direction) -> Option<Instant> {
        deadline(self.get(direction)?)
    }
}

/// The deadline of a call that starts now; `None` if it is too far away.
pub(crate) fn deadline(timeout: Duration) -> Option<Instant> {
    CurrentWorker::visit(|here| here.map_or_else(Instant::now, |here| here.now())).checked_add(timeout)
}

impl<T: AsFd> Pollable<T> {
    /// Takes something with a descriptor, and makes that non-blocking. This affects all who share
    /// it, including other processes.
    ///
    /// # Errors
    /// If the descriptor cannot be made non-blocking.
    pub fn new(inner: T) -> io::Result<Pollable<T>> {
        ioctl_fionbio(&inner, true)?;
        Ok(Pollable { inner, timeouts: Timeouts::default() })
    }

    /// Returns the inner value and makes its descriptor blocking again.
    ///
    /// # Errors
    /// If the descriptor cannot be made blocking.
    pub fn into_inner(self) -> io::Result<T> {
        ioctl_fionbio(&self.inner, false)?;
        Ok(self.inner)
    }

    /// Another handle of the same socket or pipe, with the current time-outs of this one.
    ///
    /// # Errors
    /// If there is no descriptor left for it.
    pub fn try_clone(&self) -> io::Result<Pollable<T>>
    where
        T: From<OwnedFd>,
    {
        let inner = self.as_fd().try_clone_to_owned()?.into();
        let timeouts = Timeouts([In, Out].map(|direction| self.timeouts.0[direction as usize].load(Relaxed).into()));
        Ok(Pollable { inner, timeouts })
    }

    /// Sets how long a read, or an accept, may wait; `None` is forever. It then fails with
    /// [`TimedOut`](ErrorKind::TimedOut). This belongs to the handle, not to the descriptor.
    ///
    /// # Errors
    /// If it is zero.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.timeouts.set(In, timeout)
    }

    /// The same for a write.
    ///
    /// # Errors
    /// If it is zero.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.timeouts.set(Out, timeout)
    }

    /// How long a read may wait.
    pub fn read_timeout(&self) -> Option<Duration> {
        self.timeouts.get(In)
    }

    /// How long a write may wait.
    pub fn write_timeout(&self) -> Option<Duration> {
        self.timeouts.get(Out)
    }

    /// Waits until there is something to read, or its end.
    ///
    /// # Errors
    /// [`TimedOut`](ErrorKind::TimedOut) if the [time-out](Pollable::set_read_timeout) has passed.
    /// Also if the kernel cannot watch the descriptor, for example if the process has no descriptor
    /// left for that.
    pub fn readable(&self) -> io::Result<()> {
        self.wait(In)
    }

    /// Waits until there is room to write.
    ///
    /// # Errors
    /// As for [`readable`](Pollable::readable).
    pub fn writable(&self) -> io::Result<()> {
        self.wait(Out)
    }

    fn wait(&self, direction: Direction) -> io::Result<()> {
        let deadline = self.timeouts.deadline(direction);
        // The wakeup may have been for the other direction.
        while !reactor::is_ready(self.as_fd(), direction, Some(Instant::now()))? {
            reactor::wait(self.as_fd(), direction, deadline)?;
        }
        Ok(())
    }

    /// Calls a function that reads until it does not fail because it would block.
    ///
    /// # Errors
    /// Those of `read` except [`WouldBlock`](ErrorKind::WouldBlock) and
    /// [`Interrupted`](ErrorKind::Interrupted), and those of [`readable`](Pollable::readable).
    pub fn read_with<R>(&self, mut read: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        until_ready(In, &self.timeouts, &self.inner, |inner| read(inner))
    }

    /// Calls a function that writes until it does not fail because it would block.
    ///
    /// # Errors
    /// Those of `write` except [`WouldBlock`](ErrorKind::WouldBlock) and
    /// [`Interrupted`](ErrorKind::Interrupted), and those of [`writable`](Pollable::writable).
    pub fn write_with<R>(&self, mut write: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        until_ready(Out, &self.timeouts, &self.inner, |inner| write(inner))
    }
}

impl<T> Deref for Pollable<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: AsFd> AsFd for Pollable<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

/// Reading and writing.
macro_rules! stream {
    (impl<$($lifetime:lifetime)?> $Stream:ty, |$stream:ident| $inner:expr, $Inner:ty) => {
        impl<$($lifetime,)? T: AsFd> Read for $Stream
        where
            $Inner: Read,
        {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let $stream = self;
                until_ready(In, &$stream.timeouts, $inner, |inner| inner.read(buffer))
            }

            fn read_vectored(&mut self, buffers: &mut [io::IoSliceMut<'_>]) -> io::Result<usize> {
                let $stream = self;
                until_ready(In, &$stream.timeouts, $inner, |inner| inner.read_vectored(buffers))
            }
        }

        impl<$($lifetime,)? T: AsFd> Write for $Stream
        where
            $Inner: Write,
        {
            fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
                let $stream = self;
                until_ready(Out, &$stream.timeouts, $inner, |inner| inner.write(buffer))
            }

            fn write_vectored(&mut self, buffers: &[io::IoSlice<'_>]) -> io::Result<usize> {
                let $stream = self;
                until_ready(Out, &$stream.timeouts, $inner, |inner| inner.write_vectored(buffers))
            }

            fn flush(&mut self) -> io::Result<()> {
                let $stream = self;
                until_ready(Out, &$stream.timeouts, $inner, Write::flush)
            }
        }
    };
}

stream!(impl<> Pollable<T>, |stream| &mut stream.inner, T);
stream!(impl<'a> &'a Pollable<T>, |stream| &stream.inner, &'a T);

/// Calls a function until it does not fail because it would block.
fn until_ready<T: AsFd, R>(
    direction: Direction,
    timeouts: &Timeouts,
    mut inner: T,
    mut call: impl FnMut(&mut T) -> io::Result<R>,
) -> io::Result<R> {
    safepoint();
    let mut deadline = None;
    loop {
        match call(&mut inner) {
            Err(why) if why.kind() == ErrorKind::WouldBlock => (),
            Err(why) if why.kind() == ErrorKind::Interrupted => continue,
            done => return done,
        }
        let by = *deadline.get_or_insert_with(|| timeouts.deadline(direction));
        reactor::wait(inner.as_fd(), direction, by)?;
    }
}

/// A safepoint for fibers that never have to wait for their descriptors.
pub(crate) fn safepoint() {
    CurrentWorker::visit(|here| here.map(|here| here.safepoint()));
}
