//! Unix stream sockets.

use std::io;
use std::os::unix::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};

use super::socket::{socket, stream};

/// The interval of attempts if a listener's queue is full.
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
    /// Listens at a path, which must not exist.
    ///
    /// # Errors
    /// As for [`std::os::unix::net::UnixListener::bind`].
    pub fn bind(path: impl AsRef<Path>) -> io::Result<UnixListener> {
        std::os::unix::net::UnixListener::bind(path).and_then(UnixListener::from_std)
    }

    /// Waits for a connection.
    ///
    /// # Errors
    /// As for [`std::os::unix::net::UnixListener::accept`].
    pub fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        let (stream, from) = self.0.read_with(std::os::unix::net::UnixListener::accept)?;
        Ok((UnixStream::from_std(stream)?, from))
    }

    /// All connections, one after the other, without end.
    pub fn incoming(&self) -> impl Iterator<Item = io::Result<UnixStream>> {
        std::iter::repeat_with(|| self.accept().map(|(stream, _)| stream))
    }

    /// The local address.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.get_ref().local_addr()
    }
}

impl UnixStream {
    /// Connects to the listener at a path. Waits while its queue is full.
    ///
    /// # Errors
    /// As for [`std::os::unix::net::UnixStream::connect`].
    pub fn connect(path: impl AsRef<Path>) -> io::Result<UnixStream> {
        crate::pollable::safepoint();
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        let address = SocketAddrUnix::new(path.as_ref())?;
        loop {
            match rustix::net::connect(&socket, &address) {
                Ok(()) => break,
                Err(Errno::INTR) => (),
                // The listener's queue is full, and the kernel does not report when it has room
                // again.
                Err(Errno::AGAIN) => crate::time::pause(FULL),
                Err(why) => return Err(why.into()),
            }
        }
        UnixStream::from_std(socket.into())
    }

    /// Both ends of a new connection.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn pair() -> io::Result<(UnixStream, UnixStream)> {
        let (one, other) = std::os::unix::net::UnixStream::pair()?;
        Ok((UnixStream::from_std(one)?, UnixStream::from_std(other)?))
    }

    /// The peer's address.
    ///
    /// # Errors
    /// If it is not connected.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.get_ref().peer_addr()
    }

    /// The local address.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.get_ref().local_addr()
    }
}
