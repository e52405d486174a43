//! A wrapper that lets fibers wait for anything with a file descriptor.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rustix::io::ioctl_fionbio;

use crate::reactor::{self, Direction};
use crate::worker::CurrentWorker;

/// Anything with a file descriptor that the kernel can watch (a socket, a pipe, a child's output, a
/// terminal, a signalfd, ...). Only the fiber waits for it: others run meanwhile. Sockets are made
/// of it.
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
    read_timeout: Timeout,
    write_timeout: Timeout,
}

/// A time-out in nanoseconds; 0 is none.
#[derive(Debug, Default)]
pub(crate) struct Timeout(AtomicU64);

impl Timeout {
    fn set(&self, timeout: Option<Duration>) -> io::Result<()> {
        if timeout == Some(Duration::ZERO) {
            return Err(io::Error::new(
                ErrorKind::InvalidInput,
                "a time-out cannot be zero: None waits forever, and a nanosecond does not wait",
            ));
        }
        self.0.store(timeout.map_or(0, |timeout| u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX)), Relaxed);
        Ok(())
    }

    fn get(&self) -> Option<Duration> {
        let nanos = self.0.load(Relaxed);
        (nanos > 0).then(|| Duration::from_nanos(nanos))
    }

    /// The deadline of a call that starts now.
    fn deadline(&self) -> Option<Instant> {
        let timeout = self.get()?;
        CurrentWorker::visit(|here| here.map_or_else(Instant::now, |here| here.now())).checked_add(timeout)
    }
}

impl<T: AsFd> Pollable<T> {
    /// Takes something with a descriptor, and makes that non-blocking. This affects all who share
    /// it, including other processes.
    ///
    /// # Errors
    /// If the descriptor cannot be made non-blocking.
    pub fn new(inner: T) -> io::Result<Pollable<T>> {
        ioctl_fionbio(&inner, true)?;
        Ok(Pollable { inner, read_timeout: Timeout::default(), write_timeout: Timeout::default() })
    }

    /// Returns the inner value and makes its descriptor blocking again.
    ///
    /// # Errors
    /// If the descriptor cannot be made blocking.
    pub fn into_inner(self) -> io::Result<T> {
        ioctl_fionbio(&self.inner, false)?;
        Ok(self.inner)
    }

    /// The inner value. Its own methods do not wait: they fail with
    /// [`WouldBlock`](ErrorKind::WouldBlock).
    pub fn get_ref(&self) -> &T {
        &self.inner
    }

    /// Sets how long a read may wait; `None` is forever. This belongs to the handle, not to the
    /// descriptor.
    ///
    /// # Errors
    /// If it is zero.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.read_timeout.set(timeout)
    }

    /// Sets how long a write may wait; `None` is forever. This belongs to the handle, not to the
    /// descriptor.
    ///
    /// # Errors
    /// If it is zero.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.write_timeout.set(timeout)
    }

    /// How long a read may wait.
    pub fn read_timeout(&self) -> Option<Duration> {
        self.read_timeout.get()
    }

    /// How long a write may wait.
    pub fn write_timeout(&self) -> Option<Duration> {
        self.write_timeout.get()
    }

    /// Waits until there is something to read, or its end.
    ///
    /// # Errors
    /// [`TimedOut`](ErrorKind::TimedOut) if the [time-out](Pollable::set_read_timeout) has passed.
    /// Also if the kernel cannot watch the descriptor, for example if the process has no descriptor
    /// left for that.
    pub fn readable(&self) -> io::Result<()> {
        self.wait(Direction::In)
    }

    /// Waits until there is room to write.
    ///
    /// # Errors
    /// As for [`readable`](Pollable::readable).
    pub fn writable(&self) -> io::Result<()> {
        self.wait(Direction::Out)
    }

    fn wait(&self, direction: Direction) -> io::Result<()> {
        let deadline = self.timeout(direction).deadline();
        // The wakeup may have been for the other direction.
        while !reactor::poll(self.inner.as_fd(), direction, Some(Instant::now()))? {
            reactor::wait(self.inner.as_fd(), direction, deadline)?;
        }
        Ok(())
    }

    /// Calls a function that reads until it does not fail because it would block.
    ///
    /// # Errors
    /// Those of `read` except [`WouldBlock`](ErrorKind::WouldBlock) and
    /// [`Interrupted`](ErrorKind::Interrupted), and those of [`readable`](Pollable::readable).
    pub fn read_with<R>(&self, mut read: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        until_ready(Direction::In, &self.read_timeout, &self.inner, |inner| read(inner))
    }

    /// Calls a function that writes until it does not fail because it would block.
    ///
    /// # Errors
    /// Those of `write` except [`WouldBlock`](ErrorKind::WouldBlock) and
    /// [`Interrupted`](ErrorKind::Interrupted), and those of [`writable`](Pollable::writable).
    pub fn write_with<R>(&self, mut write: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        until_ready(Direction::Out, &self.write_timeout, &self.inner, |inner| write(inner))
    }

    fn timeout(&self, direction: Direction) -> &Timeout {
        match direction {
            Direction::In => &self.read_timeout,
            Direction::Out => &self.write_timeout,
        }
    }
}

impl<T: AsFd> AsFd for Pollable<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

impl<T: AsFd> Read for &Pollable<T>
where
    for<'a> &'a T: Read,
{
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_with(|mut inner| inner.read(buffer))
    }

    fn read_vectored(&mut self, buffers: &mut [io::IoSliceMut<'_>]) -> io::Result<usize> {
        self.read_with(|mut inner| inner.read_vectored(buffers))
    }
}

impl<T: AsFd> Write for &Pollable<T>
where
    for<'a> &'a T: Write,
{
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.write_with(|mut inner| inner.write(buffer))
    }

    fn write_vectored(&mut self, buffers: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.write_with(|mut inner| inner.write_vectored(buffers))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_with(|mut inner| inner.flush())
    }
}

impl<T: AsFd + Read> Read for Pollable<T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Pollable { inner, read_timeout, .. } = self;
        until_ready(Direction::In, read_timeout, inner, |inner| inner.read(buffer))
    }
}

impl<T: AsFd + Write> Write for Pollable<T> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let Pollable { inner, write_timeout, .. } = self;
        until_ready(Direction::Out, write_timeout, inner, |inner| inner.write(buffer))
    }

    fn flush(&mut self) -> io::Result<()> {
        let Pollable { inner, write_timeout, .. } = self;
        until_ready(Direction::Out, write_timeout, inner, Write::flush)
    }
}

/// Calls a function until it does not fail because it would block.
fn until_ready<T: AsFd, R>(
    direction: Direction,
    timeout: &Timeout,
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
        let by = *deadline.get_or_insert_with(|| timeout.deadline());
        reactor::wait(inner.as_fd(), direction, by)?;
    }
}

/// A safepoint for fibers that never have to wait for their descriptors.
pub(crate) fn safepoint() {
    CurrentWorker::visit(|here| here.map(|here| here.safepoint()));
}
