//! How much memory fibers take, and that it is returned. Alone in its file: a counting allocator
//! belongs to the whole process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot continue has failed")]
#![allow(unsafe_code, reason = "the test uses an allocator of its own")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use rowlock_fiber::{current, spawn, yield_now};

#[path = "fiber/calm.rs"]
mod calm;

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    /// How many bytes this thread has allocated and not freed.
    static LIVE: Cell<isize> = const { Cell::new(0) };
}

// SAFETY: it is the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.set(LIVE.get() + layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE.set(LIVE.get() - layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// The page of the calling fiber's stack.
fn page() -> usize {
    let local = 0_u8;
    black_box(&raw const local).addr() / rustix::param::page_size()
}

#[test]
fn a_million_successive_fibers_take_one_record_one_stack_and_no_memory() {
    calm::run(|| {
        let some = || {
            let mut seen = BTreeSet::new();
            for number in 0..1_000_u64 {
                let fiber = spawn(move || (number, current().number, page()));
                let (joined, record, page) = fiber.join().unwrap();
                assert_eq!(joined, number);
                seen.insert((record, page));
            }
            assert_eq!(seen.len(), 1);
            seen.pop_first()
        };
        let first = some();
        let before = LIVE.get();
        assert!((0..1_000).all(|_| some() == first));
        assert_eq!(LIVE.get(), before);
    });
}

/// A page of the calling fiber's stack that has nothing of its thread control block, whose memory
/// stays.
#[inline(never)]
fn deep_page() -> usize {
    let deep = black_box([0_u8; 3 << 12]);
    black_box(&raw const deep).addr() / rustix::param::page_size()
}

/// Whether a page has memory, or was swapped out.
fn has_memory(pagemap: &File, page: usize) -> bool {
    let mut entry = [0; 8];
    pagemap.read_exact_at(&mut entry, page as u64 * 8).unwrap();
    u64::from_ne_bytes(entry) >> 62 > 0
}

#[test]
fn the_memory_of_many_waiting_fibers_is_returned_when_they_have_ended() {
    const MANY: usize = 20_000;
    /// Of the default size, of which 64 MiB may be kept.
    const KEPT: usize = (64 << 20) / (64 << 10);
    let pagemap = File::open("/proc/self/pagemap").unwrap();
    let pages = Arc::new(std::sync::Mutex::new(BTreeSet::new()));
    let with_memory = || pages.lock().unwrap().iter().filter(|page| has_memory(&pagemap, **page)).count();
    calm::run(|| {
        let over = Arc::new(AtomicBool::new(false));
        let seen = over.clone();
        let mut last = spawn(move || {
            while !seen.load(Relaxed) {
                yield_now();
            }
        });
        for _ in 0..MANY {
            let pages = Arc::clone(&pages);
            last = spawn(move || {
                pages.lock().unwrap().insert(deep_page());
                last.join().unwrap();
            });
        }
        // All start to wait.
        yield_now();
        assert_eq!(with_memory(), MANY);
        over.store(true, Relaxed);
        last.join().unwrap();
        let kept = with_memory();
        assert!((1..=KEPT).contains(&kept), "{kept}");
    });
}
