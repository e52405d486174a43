//! Records of a thread's context switches, in memory that the kernel writes: perf events.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::Ordering::Acquire;
use std::sync::atomic::{AtomicU64, fence};

/// The first version of `perf_event_attr`, which every kernel accepts.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config_1: u64,
}

const SOFTWARE: u32 = 1;
const DUMMY: u64 = 9;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const CONTEXT_SWITCH: u64 = 1 << 26;
const CLOSE_ON_EXEC: libc::c_ulong = 8;

const PAGE: usize = 4096;
/// The offset of `data_head` in the first page.
const HEAD: usize = 1024;
/// A record of a switch is a header of 8 bytes: a type, 16 bits of which the 14th says that the
/// switch is away from the thread, and a size.
const RECORD: u64 = 8;
const SWITCH_OUT: u64 = 1 << (32 + 13);

/// A ring of the last switches of one thread.
pub struct Ring {
    memory: *const u8,
    _event: OwnedFd,
}

// SAFETY: the memory is mapped as long as the ring exists, and is only read, atomically.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

impl Ring {
    /// A ring for a thread of this process. `None` if the kernel or a system call filter refuses.
    pub fn of(thread: u32) -> Option<Ring> {
        let attributes = Attributes {
            kind: SOFTWARE,
            size: size_of::<Attributes>() as u32,
            config: DUMMY,
            flags: EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR | CONTEXT_SWITCH,
            ..Attributes::default()
        };
        // SAFETY: the kernel reads as many bytes as `size` says, which exist, and may write that
        // field.
        let opened = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                thread as libc::pid_t,
                -1,
                -1,
                CLOSE_ON_EXEC,
            )
        };
        if opened < 0 {
            return None;
        }
        // SAFETY: the kernel has just opened this file, and no other code knows the descriptor.
        let event = unsafe { OwnedFd::from_raw_fd(opened as libc::c_int) };
        // SAFETY: new memory, of which no other code knows. Since it is mapped for reading only,
        // the kernel overwrites old records.
        let memory = unsafe {
            libc::mmap(std::ptr::null_mut(), 2 * PAGE, libc::PROT_READ, libc::MAP_SHARED, event.as_raw_fd(), 0)
        };
        (memory != libc::MAP_FAILED).then_some(Ring { memory: memory.cast(), _event: event })
    }

    fn word(&self, offset: usize) -> u64 {
        // SAFETY: the offset is within the two mapped pages and a multiple of 8. The kernel writes
        // the word as a whole.
        unsafe { &*self.memory.add(offset).cast::<AtomicU64>() }.load(Acquire)
    }

    /// Whether the thread is on a CPU, by its last record. `None` if there is none yet.
    pub fn is_on_cpu(&self) -> Option<bool> {
        let head = self.word(HEAD);
        let last = head.checked_sub(RECORD)? as usize % PAGE;
        let record = self.word(PAGE + last);
        fence(Acquire);
        Some(record & SWITCH_OUT == 0)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: mapped in `of`, and no reference to it outlives a call.
        unsafe { libc::munmap(self.memory.cast_mut().cast(), 2 * PAGE) };
    }
}
