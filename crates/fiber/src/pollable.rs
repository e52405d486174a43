//! A wrapper that lets fibers wait for anything with a file descriptor.

use std::io::{self, ErrorKind, Read, Write};
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rustix::io::ioctl_fionbio;

use crate::current_worker::CurrentWorker;
use crate::reactor::Direction::{self, In, Out};
use crate::{readiness, time, trust};

/// Anything with a file descriptor that the kernel can watch (a socket, a pipe, a child's output, a
/// terminal, a signalfd, ...). Only the fiber waits for it: others run meanwhile.
///
/// Most programs do not need it: types of the standard library do the same in a fiber, where
/// [calls of the C library wait](crate::soundness#calls-of-the-c-library). This type is for
/// programs without that, such as those that are linked statically, for descriptors that are read
/// by other means, and for waits that end with the runtime.
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
/// use std::net::{TcpListener, TcpStream};
/// use rowlock_fiber::{self as fiber, Pollable};
///
/// fiber::run(|| {
///     let listener = Pollable::new(TcpListener::bind("127.0.0.1:0")?)?;
///     let mut client = TcpStream::connect(listener.local_addr()?)?;
///     let server = fiber::spawn(move || {
///         let (stream, _) = listener.read_with(|listener| listener.accept())?;
///         let mut text = String::new();
///         Pollable::new(stream)?.read_to_string(&mut text).map(|_| text)
///     });
///     // The server waits for the client, and this fiber runs on.
///     fiber::yield_now();
///     client.write_all(b"from a client")?;
///     drop(client);
///     assert_eq!(server.join().unwrap()?, "from a client");
///     Ok::<_, std::io::Error>(())
/// })?;
/// # Ok::<_, std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Pollable<T> {
    inner: T,
    /// In nanoseconds, by direction; 0 is none.
    timeouts: [AtomicU64; 2],
}

impl<T: AsFd> Pollable<T> {
    /// Takes something with a descriptor, and makes that non-blocking. This affects all who share
    /// it, including other processes.
    ///
    /// # Errors
    /// If the descriptor cannot be made non-blocking.
    pub fn new(inner: T) -> io::Result<Pollable<T>> {
        ioctl_fionbio(&inner, true)?;
        trust::end();
        Ok(Pollable { inner, timeouts: Default::default() })
    }

    /// Returns the inner value and makes its descriptor blocking again.
    ///
    /// # Errors
    /// If the descriptor cannot be made blocking.
    pub fn into_inner(self) -> io::Result<T> {
        ioctl_fionbio(&self.inner, false)?;
        Ok(self.inner)
    }

    /// Sets how long a read, or an accept, may wait; `None` is forever. It then fails with
    /// [`TimedOut`](ErrorKind::TimedOut). This belongs to the handle, not to the descriptor.
    ///
    /// # Errors
    /// If it is zero.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.set_timeout(In, timeout)
    }

    /// The same for a write.
    ///
    /// # Errors
    /// If it is zero.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.set_timeout(Out, timeout)
    }

    fn set_timeout(&self, direction: Direction, timeout: Option<Duration>) -> io::Result<()> {
        if timeout == Some(Duration::ZERO) {
            let why = "a time-out cannot be zero: None waits forever, and a nanosecond does not wait";
            return Err(io::Error::new(ErrorKind::InvalidInput, why));
        }
        let nanos = timeout.map_or(0, |timeout| u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
        self.timeouts[direction as usize].store(nanos, Relaxed);
        Ok(())
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
        let deadline = deadline(&self.timeouts, direction);
        // The wakeup may have been for the other direction.
        while !readiness::is_ready(self.as_fd(), direction, Some(Instant::now()))? {
            readiness::wait(self.as_fd(), direction, deadline)?;
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

impl<T: AsFd + Read> Read for Pollable<T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        until_ready(In, &self.timeouts, &mut self.inner, |inner| inner.read(buffer))
    }
}

impl<T: AsFd + Write> Write for Pollable<T> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        until_ready(Out, &self.timeouts, &mut self.inner, |inner| inner.write(buffer))
    }

    fn flush(&mut self) -> io::Result<()> {
        until_ready(Out, &self.timeouts, &mut self.inner, Write::flush)
    }
}

impl<'a, T: AsFd> Read for &'a Pollable<T>
where
    &'a T: Read,
{
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        until_ready(In, &self.timeouts, &self.inner, |inner| inner.read(buffer))
    }
}

impl<'a, T: AsFd> Write for &'a Pollable<T>
where
    &'a T: Write,
{
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        until_ready(Out, &self.timeouts, &self.inner, |inner| inner.write(buffer))
    }

    fn flush(&mut self) -> io::Result<()> {
        until_ready(Out, &self.timeouts, &self.inner, Write::flush)
    }
}

/// The deadline of a call that starts now.
fn deadline(timeouts: &[AtomicU64; 2], direction: Direction) -> Option<Instant> {
    let nanos = timeouts[direction as usize].load(Relaxed);
    (nanos > 0).then(|| time::after(Duration::from_nanos(nanos)))
}

/// Calls a function until it does not fail because it would block.
fn until_ready<T: AsFd, R>(
    direction: Direction,
    timeouts: &[AtomicU64; 2],
    mut inner: T,
    mut call: impl FnMut(&mut T) -> io::Result<R>,
) -> io::Result<R> {
    // For fibers that never have to wait.
    CurrentWorker::visit(|here| here.map(|here| here.safepoint()));
    let mut until = None;
    loop {
        match call(&mut inner) {
            Err(why) if why.kind() == ErrorKind::WouldBlock => (),
            Err(why) if why.kind() == ErrorKind::Interrupted => continue,
            done => return done,
        }
        let until = *until.get_or_insert_with(|| deadline(timeouts, direction));
        readiness::wait(inner.as_fd(), direction, until)?;
    }
}
