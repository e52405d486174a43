//! Sockets that stop only the fiber that waits for them.
//!
//! These are the standard library's, with the same names and meanings, but for this:
//! * They may be used by fibers of any worker and any runtime, and by threads that are no fibers, which simply block.
//! * Time-outs belong to a handle and not to the socket, and what has timed out says [`TimedOut`](std::io::ErrorKind::TimedOut).
//! * Names are looked up by [`blocking`](crate::blocking), and not at all where an [`Address`] is one already.
//! * A fiber that waits borrows the socket, so it cannot be closed meanwhile. To end a wait from elsewhere, [shut it down](TcpStream::shutdown): who reads
//!   is told of the end, and who writes of a broken pipe.
//!
//! What is missing here is in [`Pollable`](crate::Pollable), which they are made of (`get_ref`), or can be set before a socket is
//! [taken over](TcpStream::from_std).

mod address;
mod socket;
mod tcp;
mod udp;
mod unix;

pub use self::address::Address;
pub use self::tcp::{TcpListener, TcpStream};
pub use self::udp::UdpSocket;
pub use self::unix::{UnixListener, UnixStream};
