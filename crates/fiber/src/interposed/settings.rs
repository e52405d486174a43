//! Calls after which a descriptor may have another mode, time-out or file: they end
//! [trust](crate::trust).

use libc::{c_int, c_long, c_ulong, c_void, socklen_t};

use super::{Outcome, interposed, outcome_of};
use crate::trust;

/// Makes a real call, after which there is no trust.
pub(super) fn change(call: impl FnOnce() -> c_int) -> Option<Outcome> {
    let outcome = outcome_of(c_long::from(call()));
    trust::end();
    Some(outcome)
}

/// Whether an option of a socket is one of its time-outs.
fn is_timeout(level: c_int, option: c_int) -> bool {
    level == libc::SOL_SOCKET && [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO].contains(&option)
}

interposed! {
    fn ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int =
        if request == libc::FIONBIO { change(|| real::ioctl(fd, request, argument)) } else { None };
    fn setsockopt(fd: c_int, level: c_int, option: c_int, value: *const c_void, size: socklen_t) -> c_int =
        if is_timeout(level, option) { change(|| real::setsockopt(fd, level, option, value, size)) } else { None };
    fn dup(fd: c_int) -> c_int = change(|| real::dup(fd));
    fn dup2(fd: c_int, to: c_int) -> c_int = change(|| real::dup2(fd, to));
    fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int = change(|| real::dup3(fd, to, flags));
}
