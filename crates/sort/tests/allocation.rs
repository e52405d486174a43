//! Sorts in a process whose allocator refuses one large block. Alone in its file: the allocator
//! belongs to the whole process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot continue has failed")]
#![allow(unsafe_code, reason = "the test uses an allocator of its own")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Cursor;
use std::ptr::null_mut;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use rowlock_sort::{Algorithm, Format, Input, Key, Order, Output, Sort, SortError, Variant};
use testing::isolated;

/// The size from which a failed allocation is an error. A smaller one aborts the process.
const LARGE: usize = 64 << 10;

/// How many large allocations succeed before one fails.
static ALLOWED: AtomicUsize = AtomicUsize::new(usize::MAX);

struct Refusing;

#[global_allocator]
static ALLOCATOR: Refusing = Refusing;

fn is_refused(size: usize) -> bool {
    size > LARGE && ALLOWED.fetch_sub(1, Relaxed) == 0
}

// SAFETY: it is the system's allocator, which may also return null.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        if is_refused(layout.size()) { null_mut() } else { unsafe { System.alloc(layout) } }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        if is_refused(size) { null_mut() } else { unsafe { System.realloc(memory, layout, size) } }
    }
}

/// Numbers in lines of 16 bytes, except for some long lines that all begin alike.
fn lines() -> Vec<u8> {
    let line = |number: u32| format!("{:015}\n", number.wrapping_mul(2_654_435_761));
    let mut lines: String = (0..60_000).map(line).collect();
    for number in 0..8 {
        lines += &format!("{}{number}\n", "x".repeat(100_000));
    }
    lines.into_bytes()
}

/// Sorts once for each large allocation, which fails, until none does.
fn refuse_each(bytes: &[u8], memory: u64, format: Format, algorithm: Algorithm, is_unique: bool) {
    let (folder, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let target = folder.path().join("sorted");
    for allowed in 0.. {
        let order = Order::new(format, vec![Key::WHOLE]).unwrap();
        let temporary = temporary.path().to_owned();
        let sort = Sort { memory, temporary, algorithm, is_unique, verifies: true, ..Sort::new(order) };
        let (input, output) = (Input::stream("bytes", Cursor::new(bytes.to_vec())), Output::create(&target).unwrap());
        ALLOWED.store(allowed, Relaxed);
        let outcome = sort.run(input, output);
        let left = ALLOWED.swap(usize::MAX, Relaxed);
        assert_eq!(std::fs::read_dir(&sort.temporary).unwrap().count(), 0, "after {allowed} allocations");
        match outcome {
            Ok(_) => {
                assert!(left <= allowed, "allocation {allowed} of {algorithm:?} was refused, and not needed");
                assert!(allowed > 0, "{algorithm:?} of {format:?} made no large allocation");
                return;
            }
            Err(why) => assert!(matches!(why, SortError::Allocation(_)), "after {allowed} allocations: {why}"),
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "after {allowed} allocations");
    }
}

#[test]
fn a_refused_allocation_is_an_error_of_a_merge_sort() {
    isolated(|| {
        let lines = lines();
        for (memory, is_unique) in [(2 << 20, false), (4 << 20, true), (64 << 20, false)] {
            refuse_each(&lines, memory, Format::Lines, Algorithm::Merge, is_unique);
        }
        refuse_each(&lines[..16 * 60_000], 512 << 10, Format::Fixed(16), Algorithm::Merge, false);
    });
}

#[test]
fn a_refused_allocation_is_an_error_of_columnsort() {
    isolated(|| {
        let records = &lines()[..16 * 60_000];
        refuse_each(records, 4 << 20, Format::Fixed(16), Algorithm::Columnsort(Variant::IoBound), true);
    });
}
