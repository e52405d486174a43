//! Streams between the processes of one machine.

use std::io;
use std::os::unix::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};

use super::socket::{socket, stream};

/// How long who finds a listener's queue full waits before it tries again.
const FULL: Duration = Duration::from_millis(1);

socket! {
    /// Waits for connections at a path.
    UnixListener is std::os::unix::net::UnixListener
}

socket! {
    /// A connection to another process, or another fiber, of this machine.
    UnixStream is std::os::unix::net::UnixStream
}

stream!(UnixStream);

impl UnixListener {
    /// Listens at a path, where nothing is yet.
    ///
    /// # Errors
    /// As [`std::os::unix::net::UnixListener::bind`].
    pub fn bind(path: impl AsRef<Path>) -> io::Result<UnixListener> {
        std::os::unix::net::UnixListener::bind(path).and_then(UnixListener::from_std)
    }

    /// Waits for a connection.
    ///
    /// # Errors
    /// As [`std::os::unix::net::UnixListener::accept`].
    pub fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        let (stream, from) = self.0.read_with(std::os::unix::net::UnixListener::accept)?;
        Ok((UnixStream::from_std(stream)?, from))
    }

    /// All connections, one after the other, without end.
    pub fn incoming(&self) -> impl Iterator<Item = io::Result<UnixStream>> {
        std::iter::repeat_with(|| self.accept().map(|(stream, _)| stream))
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When it cannot be told.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.get_ref().local_addr()
    }
}

impl UnixStream {
    /// Connects to who listens at a path; waits where too many others do.
    ///
    /// # Errors
    /// As [`std::os::unix::net::UnixStream::connect`].
    pub fn connect(path: impl AsRef<Path>) -> io::Result<UnixStream> {
        crate::pollable::safepoint();
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        let address = SocketAddrUnix::new(path.as_ref())?;
        loop {
            match rustix::net::connect(&socket, &address) {
                Ok(()) => break,
                Err(Errno::INTR) => (),
                // The listener's queue is full, and the kernel tells nobody when it is not any more.
                Err(Errno::AGAIN) => crate::time::pause(FULL),
                Err(why) => return Err(why.into()),
            }
        }
        UnixStream::from_std(socket.into())
    }

    /// Two ends of a connection.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn pair() -> io::Result<(UnixStream, UnixStream)> {
        let (one, other) = std::os::unix::net::UnixStream::pair()?;
        Ok((UnixStream::from_std(one)?, UnixStream::from_std(other)?))
    }

    /// Who is at the other end.
    ///
    /// # Errors
    /// When it is not connected.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.get_ref().peer_addr()
    }

    /// Where this end is.
    ///
    /// # Errors
    /// When it cannot be told.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.get_ref().local_addr()
    }
}
