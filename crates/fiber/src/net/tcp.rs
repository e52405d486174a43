//! TCP.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with};

use super::address::{Address, first};
use super::socket::{socket, stream};
use crate::Pollable;
use crate::reactor::{self, Direction};
use crate::worker::CurrentWorker;

socket! {
    /// Waits for connections over TCP.
    TcpListener is std::net::TcpListener
}

socket! {
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
    TcpStream is std::net::TcpStream
}

stream!(TcpStream);

impl TcpListener {
    /// Listens at the first of these addresses at which that is possible.
    ///
    /// # Errors
    /// As for [`std::net::TcpListener::bind`].
    pub fn bind(address: impl Address) -> io::Result<TcpListener> {
        first(address, std::net::TcpListener::bind).and_then(TcpListener::from_std)
    }

    /// Waits for a connection, and returns its peer's address.
    ///
    /// # Errors
    /// As for [`std::net::TcpListener::accept`]. If there are too many open descriptors, the
    /// connection stays in the queue, and can be accepted later.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, from) = self.0.read_with(std::net::TcpListener::accept)?;
        Ok((TcpStream::from_std(stream)?, from))
    }

    /// All connections, one after the other, without end.
    pub fn incoming(&self) -> impl Iterator<Item = io::Result<TcpStream>> {
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

impl TcpStream {
    /// Connects to the first of these addresses that answers.
    ///
    /// # Errors
    /// As for [`std::net::TcpStream::connect`].
    pub fn connect(address: impl Address) -> io::Result<TcpStream> {
        first(address, |address| connect(address, None))
    }

    /// Connects to an address within this time.
    ///
    /// # Errors
    /// As for [`std::net::TcpStream::connect_timeout`].
    pub fn connect_timeout(address: &SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
        connect(
            *address,
            CurrentWorker::visit(|here| here.map_or_else(Instant::now, |here| here.now())).checked_add(timeout),
        )
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

    /// Sets whether written data is sent immediately, instead of waiting for more.
    ///
    /// # Errors
    /// If it cannot be set.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.0.get_ref().set_nodelay(nodelay)
    }

    /// Waits for something to read, and copies it without consuming it.
    ///
    /// # Errors
    /// As for a read.
    pub fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_with(|stream| stream.peek(buffer))
    }
}

fn connect(address: SocketAddr, deadline: Option<Instant>) -> io::Result<TcpStream> {
    crate::pollable::safepoint();
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let stream = std::net::TcpStream::from(socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?);
    match rustix::net::connect(&stream, &address) {
        // An interrupted attempt continues, too.
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => (),
        Err(why) => return Err(why.into()),
    }
    let stream = Pollable::new(stream)?;
    loop {
        if let Some(why) = stream.get_ref().take_error()? {
            return Err(why);
        }
        match stream.get_ref().peer_addr() {
            Ok(_) => return Ok(TcpStream(stream)),
            Err(why) if why.kind() == ErrorKind::NotConnected => (),
            Err(why) => return Err(why),
        }
        reactor::wait(std::os::fd::AsFd::as_fd(&stream), Direction::Out, deadline)?;
    }
}
