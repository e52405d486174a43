//! The heap of the C library.

/// Lets all threads of this process share one heap, and returns large blocks to the kernel as soon
/// as they are freed. The C library otherwise reserves 64 MiB of address space for each of several
/// heaps. Heaps that exist remain, so call it before the first thread is started.
pub fn share() {
    // SAFETY: the calls change parameters of the allocator, which is valid at any time.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
    }
}

/// The size from which the kernel provides a block, in bytes. It is the C library's own initial
/// value, which would grow otherwise.
#[cfg(target_env = "gnu")]
const LARGE: libc::c_int = 128 << 10;
