//! The process at the other end of a Unix socket.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, BorrowedFd};

/// The process that has connected a socket, or made it listen, as the kernel noted it then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its id, which may be used by another process by now. Zero if it is in a PID namespace that
    /// this process does not see.
    pub pid: u32,
    /// Its effective user.
    pub user: u32,
}

impl Peer {
    /// The peer of a connected Unix socket.
    ///
    /// # Errors
    /// If it is no such socket.
    pub fn of(socket: BorrowedFd<'_>) -> io::Result<Peer> {
        let mut found = MaybeUninit::<libc::ucred>::zeroed();
        let mut length = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes to the address, which has room for them.
        // Zeros, which may remain, are valid as well.
        let (done, found) = unsafe {
            let to = found.as_mut_ptr().cast();
            let done = libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, to, &raw mut length);
            (done, found.assume_init())
        };
        match u32::try_from(found.pid) {
            Ok(pid) if done == 0 => Ok(Peer { pid, user: found.uid }),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn the_peer_is_known_and_a_pipe_has_none() {
        let (one, _other) = UnixStream::pair().unwrap();
        let user = rustix::process::geteuid().as_raw();
        assert_eq!(Peer::of(one.as_fd()).unwrap(), Peer { pid: std::process::id(), user });
        assert!(Peer::of(io::pipe().unwrap().0.as_fd()).is_err());
    }
}
