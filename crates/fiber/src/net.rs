//! Sockets that block only the fiber that waits for them.
//!
//! They are the standard library's in a [`Pollable`], with the same names and meanings, with these
//! exceptions:
//! * Fibers of any worker and any runtime may use them, and so may other threads, which simply
//!   block.
//! * Time-outs belong to a handle and not to the socket, and fail with
//!   [`TimedOut`](std::io::ErrorKind::TimedOut).
//! * Names are looked up by [`blocking`], and not at all if an [`Address`] needs
//!   no lookup.
//! * A fiber that waits borrows the socket, so it cannot be closed meanwhile. To end a wait from
//!   elsewhere, [shut the socket down](std::net::TcpStream::shutdown): a reader gets the end of the
//!   stream, and a writer the error for a broken pipe.
//!
//! [`new`](Pollable::new) takes over a socket of the standard library, and
//! [`into_inner`](Pollable::into_inner) returns it. Methods that wait are here and in `Pollable`;
//! all others are the standard library's.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net as unix;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use crate::outside::Direction;
use crate::pollable::{Pollable, deadline, safepoint};
use crate::{blocking, reactor};

/// Waits for connections over TCP.
pub type TcpListener = Pollable<std::net::TcpListener>;

/// A connection over TCP.
///
/// ```
/// use std::io::{Read, Write};
/// use std::net::Shutdown;
/// use rowlock_fiber::{self as fiber, net::{TcpListener, TcpStream}};
///
/// fiber::run(|| {
///     let listener = TcpListener::bind("127.0.0.1:0")?;
///     let address = listener.local_addr()?;
///     let echo = fiber::spawn(move || {
///         let (stream, _) = listener.accept()?;
///         std::io::copy(&mut &stream, &mut &stream)
///     });
///     let mut stream = TcpStream::connect(address)?;
///     stream.write_all(b"is anybody there?")?;
///     stream.shutdown(Shutdown::Write)?;
///     let mut answer = String::new();
///     stream.read_to_string(&mut answer)?;
///     assert_eq!(answer, "is anybody there?");
///     assert_eq!(echo.join().unwrap()?, 17);
///     Ok::<_, std::io::Error>(())
/// })?;
/// # Ok::<_, std::io::Error>(())
/// ```
pub type TcpStream = Pollable<std::net::TcpStream>;

/// Sends and receives datagrams over UDP.
pub type UdpSocket = Pollable<std::net::UdpSocket>;

/// Waits for connections at a path.
pub type UnixListener = Pollable<unix::UnixListener>;

/// A connection to another process, or another fiber, of this machine.
pub type UnixStream = Pollable<unix::UnixStream>;

impl TcpListener {
    /// Listens at the first of these addresses at which that is possible.
    ///
    /// # Errors
    /// As for [`std::net::TcpListener::bind`].
    pub fn bind(address: impl Address) -> io::Result<TcpListener> {
        first(address, std::net::TcpListener::bind).and_then(Pollable::new)
    }

    /// Waits for a connection, and returns its peer's address.
    ///
    /// # Errors
    /// As for [`std::net::TcpListener::accept`]. If there are too many open descriptors, the
    /// connection stays in the queue, and can be accepted later.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, from) = self.read_with(std::net::TcpListener::accept)?;
        Ok((Pollable::new(stream)?, from))
    }

    /// All connections, one after the other, without end.
    pub fn incoming(&self) -> impl Iterator<Item = io::Result<TcpStream>> {
        std::iter::repeat_with(|| self.accept().map(|(stream, _)| stream))
    }
}

impl TcpStream {
    /// Connects to the first of these addresses that answers.
    ///
    /// # Errors
    /// As for [`std::net::TcpStream::connect`].
    pub fn connect(address: impl Address) -> io::Result<TcpStream> {
        first(address, |address| connect_by(address, None))
    }

    /// Connects to an address within this time.
    ///
    /// # Errors
    /// As for [`std::net::TcpStream::connect_timeout`].
    pub fn connect_timeout(address: &SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
        connect_by(*address, deadline(timeout))
    }

    /// Waits for something to read, and copies it without consuming it.
    ///
    /// # Errors
    /// As for a read.
    pub fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_with(|stream| stream.peek(buffer))
    }
}

impl UdpSocket {
    /// Receives at the first of these addresses at which that is possible.
    ///
    /// # Errors
    /// As for [`std::net::UdpSocket::bind`].
    pub fn bind(address: impl Address) -> io::Result<UdpSocket> {
        first(address, std::net::UdpSocket::bind).and_then(Pollable::new)
    }

    /// Connects the socket: it then sends to this address, and receives only from there.
    ///
    /// # Errors
    /// As for [`std::net::UdpSocket::connect`].
    pub fn connect(&self, address: impl Address) -> io::Result<()> {
        first(address, |address| (**self).connect(address))
    }

    /// Sends a datagram to the first of these addresses. Returns how many bytes were sent.
    ///
    /// # Errors
    /// As for [`std::net::UdpSocket::send_to`].
    pub fn send_to(&self, datagram: &[u8], address: impl Address) -> io::Result<usize> {
        let address = *address.addresses()?.first().ok_or_else(no_address)?;
        self.write_with(|socket| socket.send_to(datagram, address))
    }

    /// Waits for a datagram, and returns its sender's address. Bytes that do not fit are lost.
    ///
    /// # Errors
    /// As for [`std::net::UdpSocket::recv_from`].
    pub fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.read_with(|socket| socket.recv_from(buffer))
    }

    /// The same, without consuming it.
    ///
    /// # Errors
    /// As for [`std::net::UdpSocket::peek_from`].
    pub fn peek_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.read_with(|socket| socket.peek_from(buffer))
    }

    /// Sends a datagram to the [connected](UdpSocket::connect) address.
    ///
    /// # Errors
    /// As for [`std::net::UdpSocket::send`].
    pub fn send(&self, datagram: &[u8]) -> io::Result<usize> {
        self.write_with(|socket| socket.send(datagram))
    }

    /// Waits for a datagram from the [connected](UdpSocket::connect) address.
    ///
    /// # Errors
    /// As for [`std::net::UdpSocket::recv`].
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_with(|socket| socket.recv(buffer))
    }
}

impl UnixListener {
    /// Listens at a path, which must not exist.
    ///
    /// # Errors
    /// As for [`std::os::unix::net::UnixListener::bind`].
    pub fn bind(path: impl AsRef<Path>) -> io::Result<UnixListener> {
        unix::UnixListener::bind(path).and_then(Pollable::new)
    }

    /// Waits for a connection.
    ///
    /// # Errors
    /// As for [`std::os::unix::net::UnixListener::accept`].
    pub fn accept(&self) -> io::Result<(UnixStream, unix::SocketAddr)> {
        let (stream, from) = self.read_with(unix::UnixListener::accept)?;
        Ok((Pollable::new(stream)?, from))
    }

    /// All connections, one after the other, without end.
    pub fn incoming(&self) -> impl Iterator<Item = io::Result<UnixStream>> {
        std::iter::repeat_with(|| self.accept().map(|(stream, _)| stream))
    }
}

impl UnixStream {
    /// Connects to the listener at a path. Waits while its queue is full.
    ///
    /// # Errors
    /// As for [`std::os::unix::net::UnixStream::connect`].
    pub fn connect(path: impl AsRef<Path>) -> io::Result<UnixStream> {
        /// The interval of attempts if the queue is full.
        const FULL: Duration = Duration::from_millis(1);
        let (socket, address) = (stream_socket(AddressFamily::UNIX)?, SocketAddrUnix::new(path.as_ref())?);
        loop {
            match connect(&socket, &address) {
                Ok(()) => return Pollable::new(socket.into()),
                Err(Errno::INTR) => (),
                // The kernel does not report when the queue has room again.
                Err(Errno::AGAIN) => crate::time::pause(FULL),
                Err(why) => return Err(why.into()),
            }
        }
    }

    /// Both ends of a new connection.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn pair() -> io::Result<(UnixStream, UnixStream)> {
        let (one, other) = unix::UnixStream::pair()?;
        Ok((Pollable::new(one)?, Pollable::new(other)?))
    }
}

fn stream_socket(family: AddressFamily) -> io::Result<OwnedFd> {
    safepoint();
    Ok(socket_with(family, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)?)
}

fn connect_by(address: SocketAddr, deadline: Option<Instant>) -> io::Result<TcpStream> {
    let socket = stream_socket(if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 })?;
    match connect(&socket, &address) {
        // An interrupted attempt continues, too.
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => (),
        Err(why) => return Err(why.into()),
    }
    let stream = TcpStream::new(socket.into())?;
    loop {
        if let Some(why) = stream.take_error()? {
            return Err(why);
        }
        match stream.peer_addr() {
            Ok(_) => return Ok(stream),
            Err(why) if why.kind() == ErrorKind::NotConnected => (),
            Err(why) => return Err(why),
        }
        reactor::wait(stream.as_fd(), Direction::Out, deadline)?;
    }
}

/// A name or value that can be resolved to addresses, as in [`ToSocketAddrs`]. A name is looked up
/// on another kernel thread.
pub trait Address {
    /// The addresses.
    ///
    /// # Errors
    /// If a name is invalid, or has no address.
    fn addresses(&self) -> io::Result<Vec<SocketAddr>>;
}

/// Types that need no lookup.
macro_rules! addresses {
    ($($Type:ty),*) => {$(
        impl Address for $Type {
            fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
                Ok(self.to_socket_addrs()?.collect())
            }
        }
    )*};
}

addresses!(SocketAddr, SocketAddrV4, SocketAddrV6, (IpAddr, u16), (Ipv4Addr, u16), (Ipv6Addr, u16), [SocketAddr]);

impl<const N: usize> Address for [SocketAddr; N] {
    fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        Ok(self.to_vec())
    }
}

impl Address for str {
    fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        look_up(self.parse().ok(), self.to_owned())
    }
}

impl Address for String {
    fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.as_str().addresses()
    }
}

impl Address for (&str, u16) {
    fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let (name, port) = *self;
        look_up(name.parse().ok().map(|address: IpAddr| (address, port).into()), (name.to_owned(), port))
    }
}

impl Address for (String, u16) {
    fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        (self.0.as_str(), self.1).addresses()
    }
}

impl<A: Address + ?Sized> Address for &A {
    fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        (**self).addresses()
    }
}

/// The addresses of a name, if it is not an address itself.
fn look_up(address: Option<SocketAddr>, name: impl ToSocketAddrs + Send + 'static) -> io::Result<Vec<SocketAddr>> {
    match address {
        Some(address) => Ok(vec![address]),
        None => blocking(move || Ok(name.to_socket_addrs()?.collect())),
    }
}

/// Tries one address after another until one succeeds.
fn first<R>(address: impl Address, mut attempt: impl FnMut(SocketAddr) -> io::Result<R>) -> io::Result<R> {
    let mut error = None;
    for address in address.addresses()? {
        match attempt(address) {
            Ok(done) => return Ok(done),
            Err(why) => error = Some(why),
        }
    }
    Err(error.unwrap_or_else(no_address))
}

fn no_address() -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, "there is no address")
}
