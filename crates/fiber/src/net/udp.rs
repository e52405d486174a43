//! UDP.

use std::io;
use std::net::SocketAddr;

use super::address::{Address, first};
use super::socket::socket;

socket! {
    /// Sends and receives datagrams over UDP.
    UdpSocket is std::net::UdpSocket
}

impl UdpSocket {
    /// Receives at the first of these addresses at which that is possible.
    ///
    /// # Errors
    /// As for [`std::net::UdpSocket::bind`].
    pub fn bind(address: impl Address) -> io::Result<UdpSocket> {
        first(address, std::net::UdpSocket::bind).and_then(UdpSocket::from_std)
    }

    /// Connects the socket: it then sends to this address, and receives only from there.
    ///
    /// # Errors
    /// As for [`std::net::UdpSocket::connect`].
    pub fn connect(&self, address: impl Address) -> io::Result<()> {
        first(address, |address| self.0.get_ref().connect(address))
    }

    /// Sends a datagram to the first of these addresses. Returns how many bytes were sent.
    ///
    /// # Errors
    /// As for [`std::net::UdpSocket::send_to`].
    pub fn send_to(&self, datagram: &[u8], address: impl Address) -> io::Result<usize> {
        let address = address.addresses()?.first().copied();
        let address = address.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "there is no address"))?;
        self.0.write_with(|socket| socket.send_to(datagram, address))
    }

    /// Waits for a datagram, and returns its sender's address. Bytes that do not fit are lost.
    ///
    /// # Errors
    /// As for [`std::net::UdpSocket::recv_from`].
    pub fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.read_with(|socket| socket.recv_from(buffer))
    }

    /// The same, without consuming it.
    ///
    /// # Errors
    /// As for [`std::net::UdpSocket::peek_from`].
    pub fn peek_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.read_with(|socket| socket.peek_from(buffer))
    }

    /// Sends a datagram to the [connected](UdpSocket::connect) address.
    ///
    /// # Errors
    /// As for [`std::net::UdpSocket::send`].
    pub fn send(&self, datagram: &[u8]) -> io::Result<usize> {
        self.0.write_with(|socket| socket.send(datagram))
    }

    /// Waits for a datagram from the [connected](UdpSocket::connect) address.
    ///
    /// # Errors
    /// As for [`std::net::UdpSocket::recv`].
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_with(|socket| socket.recv(buffer))
    }

    /// The local address.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.get_ref().local_addr()
    }

    /// The [connected](UdpSocket::connect) address.
    ///
    /// # Errors
    /// If it is not connected.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.get_ref().peer_addr()
    }
}
