//! Sockets that block only the fiber that waits for them.
//!
//! They are like the standard library's, with the same names and meanings, with these exceptions:
//! * Fibers of any worker and any runtime may use them, and so may other threads, which simply
//!   block.
//! * Time-outs belong to a handle and not to the socket, and fail with
//!   [`TimedOut`](std::io::ErrorKind::TimedOut).
//! * Names are looked up by [`blocking`](crate::blocking), and not at all if an [`Address`] needs
//!   no lookup.
//! * A fiber that waits borrows the socket, so it cannot be closed meanwhile. To end a wait from
//!   elsewhere, [shut the socket down](TcpStream::shutdown): a reader gets the end of the stream,
//!   and a writer the error for a broken pipe.
//!
//! For what is missing here, use the [`Pollable`](crate::Pollable) inside (`get_ref`), or set up
//! the socket before it is [taken over](TcpStream::from_std).

mod address;
mod socket;
mod tcp;
mod udp;
mod unix;

pub use self::address::Address;
pub use self::tcp::{TcpListener, TcpStream};
pub use self::udp::UdpSocket;
pub use self::unix::{UnixListener, UnixStream};
