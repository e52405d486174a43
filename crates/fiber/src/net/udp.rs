//! Datagrams.

use std::io;
use std::net::SocketAddr;

use super::address::{Address, first};
use super::socket::socket;

socket! {
    /// Sends and receives datagrams over UDP.
    UdpSocket is std::net::UdpSocket
}

impl UdpSocket {
    /// Receives at an address: the first of those that it stands for where that is possible.
    ///
    /// # Errors
    /// As [`std::net::UdpSocket::bind`].
    pub fn bind(address: impl Address) -> io::Result<UdpSocket> {
        first(address, std::net::UdpSocket::bind).and_then(UdpSocket::from_std)
    }

    /// Sends to this address from now on, and receives from there only.
    ///
    /// # Errors
    /// As [`std::net::UdpSocket::connect`].
    pub fn connect(&self, address: impl Address) -> io::Result<()> {
        first(address, |address| self.0.get_ref().connect(address))
    }

    /// Sends a datagram to an address: the first of those that it stands for. Returns how many bytes were sent.
    ///
    /// # Errors
    /// As [`std::net::UdpSocket::send_to`].
    pub fn send_to(&self, datagram: &[u8], address: impl Address) -> io::Result<usize> {
        let address = address.addresses()?.first().copied();
        let address = address.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it stands for no address"))?;
        self.0.write_with(|socket| socket.send_to(datagram, address))
    }

    /// Waits for a datagram, and tells from where it comes; what does not fit is lost.
    ///
    /// # Errors
    /// As [`std::net::UdpSocket::recv_from`].
    pub fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.read_with(|socket| socket.recv_from(buffer))
    }

    /// The same, without taking it.
    ///
    /// # Errors
    /// As [`std::net::UdpSocket::peek_from`].
    pub fn peek_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.read_with(|socket| socket.peek_from(buffer))
    }

    /// Sends a datagram to where it is [connected](UdpSocket::connect).
    ///
    /// # Errors
    /// As [`std::net::UdpSocket::send`].
    pub fn send(&self, datagram: &[u8]) -> io::Result<usize> {
        self.0.write_with(|socket| socket.send(datagram))
    }

    /// Waits for a datagram from where it is [connected](UdpSocket::connect).
    ///
    /// # Errors
    /// As [`std::net::UdpSocket::recv`].
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_with(|socket| socket.recv(buffer))
    }

    /// Where it receives.
    ///
    /// # Errors
    /// When it cannot be told.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.get_ref().local_addr()
    }

    /// To where it is [connected](UdpSocket::connect).
    ///
    /// # Errors
    /// When it is not.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.get_ref().peer_addr()
    }
}
