//! The call that opens a perf event.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// The beginning of `perf_event_attr`. An older kernel, which knows less of it, accepts the rest if
/// that is zero.
#[repr(C)]
#[derive(Default)]
pub(super) struct Attributes {
    pub(super) kind: u32,
    pub(super) size: u32,
    pub(super) config: u64,
    pub(super) sample_period: u64,
    pub(super) sample_type: u64,
    pub(super) read_format: u64,
    pub(super) flags: u64,
    pub(super) wakeup_events: u32,
    pub(super) breakpoint_type: u32,
    pub(super) config_1: u64,
    pub(super) config_2: u64,
    pub(super) branch_sample_type: u64,
    pub(super) sample_registers: u64,
    pub(super) sample_stack: u32,
    pub(super) clock: libc::clockid_t,
}

pub(super) const SOFTWARE: u32 = 1;

pub(super) const DISABLED: u64 = 1;
pub(super) const INHERIT: u64 = 1 << 1;
pub(super) const EXCLUDE_KERNEL: u64 = 1 << 5;
pub(super) const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
pub(super) const TASK: u64 = 1 << 13;
pub(super) const SAMPLE_ID_ALL: u64 = 1 << 18;
pub(super) const USE_CLOCK: u64 = 1 << 25;
pub(super) const CONTEXT_SWITCH: u64 = 1 << 26;

pub(super) const THIS_THREAD: libc::pid_t = 0;
/// Any CPU, or any thread.
pub(super) const ANY: libc::c_int = -1;
const NO_GROUP: libc::c_int = -1;
const CLOSE_ON_EXEC: libc::c_ulong = 8;

/// Opens an event of a thread on a CPU.
pub(super) fn open(attributes: Attributes, thread: libc::pid_t, cpu: libc::c_int) -> io::Result<OwnedFd> {
    let attributes = Attributes { size: size_of::<Attributes>() as u32, ..attributes };
    // SAFETY: the kernel reads as many bytes as `size` says, which exist, and may write that field.
    let opened = unsafe {
        libc::syscall(libc::SYS_perf_event_open, &raw const attributes, thread, cpu, NO_GROUP, CLOSE_ON_EXEC)
    };
    let Ok(file @ 0..) = libc::c_int::try_from(opened) else { return Err(io::Error::last_os_error()) };
    // SAFETY: the kernel has just opened this file, and no other code knows the descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(file) })
}
