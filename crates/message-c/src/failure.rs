//! The failures of this library, and what C learns of them.

use std::ffi::{c_char, c_int};
use std::io::ErrorKind;

use c_abi::Failure;
use message::{Error, JoinError};

/// The failure of a call with this error.
pub(crate) fn failed(why: Error) -> Failure {
    let code = match why {
        Error::NoSuchRank { .. } | Error::WrongLength { .. } | Error::OtherType { .. } => libc::EINVAL,
        Error::TooShort { .. } | Error::OtherLength { .. } | Error::OtherValues { .. } => libc::EMSGSIZE,
        Error::Lost { .. } => libc::EOWNERDEAD,
        Error::Left { .. } => libc::EPIPE,
        Error::Withdrawn { .. } | Error::GivenUp { .. } => libc::ECANCELED,
        Error::Damaged { .. } => libc::EBADMSG,
        Error::System { .. } | Error::Window { .. } => libc::EIO,
        Error::BeyondWindow { .. } => libc::ERANGE,
        Error::Contexts { .. } => libc::EOVERFLOW,
    };
    Failure::new(code, why)
}

/// The failure of joining with this error.
pub(crate) fn not_joined(why: JoinError) -> Failure {
    let code = match &why {
        JoinError::Ranks { .. } | JoinError::NoSuchRank { .. } | JoinError::OtherRanks { .. } => libc::EINVAL,
        JoinError::Environment { .. } => libc::ENOENT,
        JoinError::Joined { .. } => libc::EEXIST,
        JoinError::Foreign { .. } | JoinError::Version { .. } | JoinError::Length { .. } => libc::EBADMSG,
        JoinError::System { why, .. } if why.kind() == ErrorKind::NotFound => libc::ENOENT,
        JoinError::System { why, .. } => why.raw_os_error().unwrap_or(libc::EIO),
    };
    Failure::new(code, why)
}

/// A short description of a number that a function of this library returns. Never NULL. The text
/// remains valid forever.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_message_strerror(code: c_int) -> *const c_char {
    let text = match code {
        0 => c"success",
        libc::EINVAL => c"an argument is not valid",
        libc::EBUSY => c"the call would have to wait",
        libc::EMSGSIZE => c"a message has another length than expected",
        libc::EOWNERDEAD => c"a rank has died",
        libc::EPIPE => c"the awaited rank has left the job",
        libc::ECANCELED => c"a message was given up",
        libc::ERANGE => c"the words are beyond the window",
        libc::EOVERFLOW => c"there are too many communicators",
        libc::ENOENT => c"the environment tells no job, or there is no such file",
        libc::EEXIST => c"the rank has joined already",
        libc::EBADMSG => c"the shared memory is damaged, or not that of such a job",
        libc::ENOMEM => c"there is not enough memory",
        _ => c"the system refused something: rowlock_message_error_text() says what",
    };
    text.as_ptr()
}

/// A message about the last failed call of this thread, with names and numbers. Empty if no call
/// has failed. Never NULL. The text remains valid until the next failed call of this thread.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_message_error_text() -> *const c_char {
    c_abi::message()
}
