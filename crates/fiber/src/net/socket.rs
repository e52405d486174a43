//! The operations that all sockets have in common.

/// Defines a socket around the standard library's of the same name.
macro_rules! socket {
    ($(#[$about:meta])* $Socket:ident is $Std:ty) => {
        $(#[$about])*
        #[derive(Debug)]
        pub struct $Socket($crate::Pollable<$Std>);

        impl $Socket {
            /// Takes over a socket of the standard library, and makes it non-blocking for all who
            /// share it.
            ///
            /// # Errors
            /// If it cannot be made non-blocking.
            pub fn from_std(socket: $Std) -> std::io::Result<$Socket> {
                $crate::Pollable::new(socket).map($Socket)
            }

            /// Returns the socket of the standard library, and makes it blocking again.
            ///
            /// # Errors
            /// If it cannot be made blocking.
            pub fn into_std(self) -> std::io::Result<$Std> {
                self.0.into_inner()
            }

            /// The inner [`Pollable`](crate::Pollable).
            pub fn get_ref(&self) -> &$crate::Pollable<$Std> {
                &self.0
            }

            /// Another handle of the same socket, with the current time-outs of this one.
            ///
            /// # Errors
            /// If there is no descriptor left for it.
            pub fn try_clone(&self) -> std::io::Result<$Socket> {
                let other = $Socket::from_std(self.0.get_ref().try_clone()?)?;
                other.0.set_read_timeout(self.0.read_timeout())?;
                other.0.set_write_timeout(self.0.write_timeout())?;
                Ok(other)
            }

            /// Takes an error that has occurred in the meantime.
            ///
            /// # Errors
            /// If it cannot be read.
            pub fn take_error(&self) -> std::io::Result<Option<std::io::Error>> {
                self.0.get_ref().take_error()
            }

            /// Sets how long a read (or an accept) may wait; `None` is forever. It then fails with
            /// [`TimedOut`](std::io::ErrorKind::TimedOut).
            ///
            /// # Errors
            /// If it is zero.
            pub fn set_read_timeout(&self, timeout: Option<std::time::Duration>) -> std::io::Result<()> {
                self.0.set_read_timeout(timeout)
            }

            /// Sets how long a write may wait; `None` is forever. It then fails with
            /// [`TimedOut`](std::io::ErrorKind::TimedOut).
            ///
            /// # Errors
            /// If it is zero.
            pub fn set_write_timeout(&self, timeout: Option<std::time::Duration>) -> std::io::Result<()> {
                self.0.set_write_timeout(timeout)
            }

            /// How long a read may wait.
            pub fn read_timeout(&self) -> Option<std::time::Duration> {
                self.0.read_timeout()
            }

            /// How long a write may wait.
            pub fn write_timeout(&self) -> Option<std::time::Duration> {
                self.0.write_timeout()
            }
        }

        impl std::os::fd::AsFd for $Socket {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                self.0.as_fd()
            }
        }
    };
}

/// Defines reading and writing, by value and by shared reference.
macro_rules! stream {
    ($Stream:ident) => {
        impl $Stream {
            /// Ends reading, writing or both, for all who share the socket. Fibers that wait for it
            /// continue.
            ///
            /// # Errors
            /// If it is not connected.
            pub fn shutdown(&self, how: std::net::Shutdown) -> std::io::Result<()> {
                self.0.get_ref().shutdown(how)
            }
        }

        impl std::io::Read for &$Stream {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                (&self.0).read(buffer)
            }

            fn read_vectored(&mut self, buffers: &mut [std::io::IoSliceMut<'_>]) -> std::io::Result<usize> {
                (&self.0).read_vectored(buffers)
            }
        }

        impl std::io::Write for &$Stream {
            fn write(&mut self, buffer: &[u8]) -> std::io::Result<usize> {
                (&self.0).write(buffer)
            }

            fn write_vectored(&mut self, buffers: &[std::io::IoSlice<'_>]) -> std::io::Result<usize> {
                (&self.0).write_vectored(buffers)
            }

            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }

        impl std::io::Read for $Stream {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                (&*self).read(buffer)
            }

            fn read_vectored(&mut self, buffers: &mut [std::io::IoSliceMut<'_>]) -> std::io::Result<usize> {
                (&*self).read_vectored(buffers)
            }
        }

        impl std::io::Write for $Stream {
            fn write(&mut self, buffer: &[u8]) -> std::io::Result<usize> {
                (&*self).write(buffer)
            }

            fn write_vectored(&mut self, buffers: &[std::io::IoSlice<'_>]) -> std::io::Result<usize> {
                (&*self).write_vectored(buffers)
            }

            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
    };
}

pub(super) use {socket, stream};
