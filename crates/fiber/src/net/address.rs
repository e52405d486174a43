//! Socket addresses and names.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, ToSocketAddrs};

use crate::blocking;

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
        if let Ok(address) = self.parse() {
            return Ok(vec![address]);
        }
        let text = self.to_owned();
        blocking(move || Ok(text.to_socket_addrs()?.collect()))
    }
}

impl Address for String {
    fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.as_str().addresses()
    }
}

impl Address for (&str, u16) {
    fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        if let Ok(address) = self.0.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, self.1)]);
        }
        let (name, port) = (self.0.to_owned(), self.1);
        blocking(move || Ok((name, port).to_socket_addrs()?.collect()))
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

/// Tries one address after another until one succeeds.
pub(super) fn first<R>(address: impl Address, mut attempt: impl FnMut(SocketAddr) -> io::Result<R>) -> io::Result<R> {
    let mut error = None;
    for address in address.addresses()? {
        match attempt(address) {
            Ok(done) => return Ok(done),
            Err(why) => error = Some(why),
        }
    }
    Err(error.unwrap_or_else(|| io::Error::new(ErrorKind::InvalidInput, "there is no address")))
}
