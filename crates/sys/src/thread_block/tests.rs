use std::cell::Cell;
use std::collections::BTreeSet;
use std::ffi::CString;
use std::mem::MaybeUninit;
use std::path::Path;

use super::*;

/// How a block is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Donor,
    Copy,
}

pub(super) const KINDS: [Kind; 2] = [Kind::Donor, Kind::Copy];

/// Memory that is never freed.
fn memory(length: usize) -> Range<*mut u8> {
    let memory = Reservation::new(length).unwrap();
    let base = memory.base().as_ptr();
    let range = base..base.wrapping_add(memory.length());
    forget(memory);
    range
}

/// A block on memory that is never freed; `None` if blocks are not supported.
fn block_with(kind: Kind, prepare: unsafe extern "C" fn(*mut ()), argument: *mut ()) -> Option<ThreadBlock> {
    let layout = match layout() {
        Ok(layout) => layout,
        Err(why @ ThreadBlockError::Number) => panic!("{why}"),
        Err(why) => {
            eprintln!("not tested: {why}");
            return None;
        }
    };
    let memory = memory(layout.needed);
    let addresses = memory.start.addr()..memory.end.addr();
    // SAFETY: no other code uses the memory, which is never freed.
    let block = unsafe {
        match kind {
            Kind::Donor => donate(memory, prepare, argument, Some(layout.identity)).unwrap().block,
            Kind::Copy => copy::model(&layout).expect("copies").make(memory, prepare, argument).unwrap(),
        }
    };
    assert!(addresses.contains(&block.thread_pointer) && addresses.contains(&block.stack_top));
    assert!(block.stack_top.is_multiple_of(16));
    Some(block)
}

pub(super) fn block(kind: Kind) -> Option<ThreadBlock> {
    block_with(kind, nothing, null_mut())
}

/// Calls a function while the block is in use. It must not access thread-local variables of Rust.
pub(super) fn within(block: ThreadBlock, call: unsafe extern "C" fn(usize) -> usize, argument: usize) -> usize {
    struct Call {
        call: unsafe extern "C" fn(usize) -> usize,
        argument: usize,
        result: usize,
    }
    /// # Safety
    /// It points to a call, whose argument suits its function.
    unsafe extern "C" fn run(call: *mut ()) {
        let call = call.cast::<Call>();
        // SAFETY: the caller's promise.
        unsafe { (*call).result = ((*call).call)((*call).argument) };
    }
    let mut call = Call { call, argument, result: 0 };
    // SAFETY: no other code uses the block, and no handler is installed.
    unsafe { call_within(block.thread_pointer, run, (&raw mut call).cast()) };
    call.result
}

#[test]
fn blocks_differ_and_have_thread_ids_of_no_thread() {
    let blocks: Vec<ThreadBlock> = [KINDS; 8].as_flattened().iter().filter_map(|&kind| block(kind)).collect();
    let Ok(layout) = layout() else { return };
    let pointers: BTreeSet<usize> = blocks.iter().map(|block| block.thread_pointer).collect();
    // SAFETY: there is a number in each block.
    let number =
        |block: &ThreadBlock| unsafe { word(block.thread_pointer.wrapping_add(layout.identity.number)).read() };
    let numbers: BTreeSet<u32> = blocks.iter().map(number).collect();
    assert_eq!((pointers.len(), numbers.len()), (16, 16));
    assert!(numbers.iter().all(|&number| (1 << 24..1 << 29).contains(&number)));
}

thread_local! { static MARK: Cell<u32> = const { Cell::new(1) } }

#[test]
fn thread_local_variables_set_during_preparation_persist() {
    /// # Safety
    /// There is room for an address.
    unsafe extern "C" fn prepare(mark: *mut ()) {
        MARK.with(|own| {
            assert_eq!(own.replace(7), 1);
            // SAFETY: the maker waits with room for it.
            unsafe { mark.cast::<*const Cell<u32>>().write(own) };
        });
    }
    MARK.set(3);
    for kind in KINDS {
        let mut mark: *const Cell<u32> = null_mut();
        if block_with(kind, prepare, (&raw mut mark).cast()).is_none() {
            return;
        }
        assert!(!mark.is_null());
        // SAFETY: it lies in the block, which stays.
        assert_eq!((MARK.get(), unsafe { (*mark).get() }), (3, 7), "{kind:?}");
        assert!(!MARK.with(|own| std::ptr::eq(own, mark)));
    }
}

#[test]
fn signals_are_blocked_only_while_a_block_is_prepared() {
    /// # Safety
    /// There is room for a set of signals.
    unsafe extern "C" fn prepare(blocked: *mut ()) {
        // SAFETY: there is room.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), blocked.cast()) };
    }
    for kind in KINDS {
        let mut masks = [MaybeUninit::<libc::sigset_t>::zeroed(), MaybeUninit::<libc::sigset_t>::zeroed()];
        if block_with(kind, prepare, masks[0].as_mut_ptr().cast()).is_none() {
            return;
        }
        // SAFETY: there is room.
        let blocked = unsafe {
            prepare(masks[1].as_mut_ptr().cast());
            masks.map(|mask| libc::sigismember(mask.as_ptr(), libc::SIGURG))
        };
        assert_eq!(blocked, [1, 0], "{kind:?}");
    }
}

/// The number of kernel threads of this process.
fn threads() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("Threads:")).unwrap();
    line.trim().parse().unwrap()
}

#[test]
fn no_kernel_threads_remain_of_many_blocks() {
    // No other test starts threads in this process.
    testing::isolated(|| {
        let before = threads();
        for kind in [KINDS; 100].as_flattened() {
            if block(*kind).is_none() {
                return;
            }
        }
        assert_eq!(threads(), before);
    });
}

#[test]
fn a_recursive_mutex_belongs_to_one_block() {
    /// # Safety
    /// It is the address of a mutex.
    unsafe extern "C" fn try_lock(mutex: usize) -> usize {
        // SAFETY: it is one.
        unsafe { libc::pthread_mutex_trylock(with_exposed_provenance_mut(mutex)) as usize }
    }
    /// # Safety
    /// It is the address of a mutex.
    unsafe extern "C" fn unlock(mutex: usize) -> usize {
        // SAFETY: as above.
        unsafe { libc::pthread_mutex_unlock(with_exposed_provenance_mut(mutex)) as usize }
    }
    let mut mutex = libc::PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    let mutex = (&raw mut mutex).expose_provenance();
    let busy = libc::EBUSY as usize;
    for kinds in [KINDS, [Kind::Copy; 2]] {
        let [Some(one), Some(other)] = kinds.map(block) else { return };
        assert_eq!(within(one, try_lock, mutex), 0);
        assert_eq!((within(other, try_lock, mutex), within(one, try_lock, mutex)), (busy, 0));
        // SAFETY: as above.
        assert_eq!(unsafe { try_lock(mutex) }, busy, "nor the kernel thread's");
        assert_eq!(within(other, unlock, mutex), libc::EPERM as usize);
        assert_eq!((within(one, unlock, mutex), within(one, unlock, mutex)), (0, 0));
        assert_eq!((within(other, try_lock, mutex), within(other, unlock, mutex)), (0, 0));
    }
}

#[test]
fn the_kernel_is_asked_for_the_cpu_while_a_block_is_in_use() {
    extern "C" fn cpu(_: usize) -> usize {
        // SAFETY: a question.
        unsafe { libc::sched_getcpu() as usize }
    }
    for kind in KINDS {
        let Some(block) = block(kind) else { return };
        for number in crate::cpus::allowed().unwrap() {
            let _pinned = crate::cpus::pin(number).unwrap();
            assert_eq!(within(block, cpu, 0), number as usize, "{kind:?}");
        }
    }
}

/// Compiles a library with a thread-local variable that is initially 41, and a function `next` that
/// increments and returns it.
pub(crate) fn library(folder: &Path, model: &str) -> CString {
    let (source, library) = (folder.join("next.c"), folder.join(format!("lib{model}.so")));
    std::fs::write(&source, "__thread unsigned long own = 41; unsigned long next(void) { return ++own; }").unwrap();
    let mut compile = testing::command("cc");
    compile.args(["-shared", "-fPIC", &format!("-ftls-model={model}"), "-o"]).args([&library, &source]);
    testing::run(&mut compile).expect_success();
    CString::new(library.into_os_string().into_encoded_bytes()).unwrap()
}

/// Loads a library, which runs nothing when it is loaded, and returns the address of `next`, or 0.
///
/// # Safety
/// It is the address of the path, a C string.
pub(crate) unsafe extern "C" fn load(path: usize) -> usize {
    // SAFETY: the caller's promise. The handle is null or the library's.
    unsafe {
        let handle = libc::dlopen(with_exposed_provenance_mut::<libc::c_char>(path), libc::RTLD_NOW);
        if handle.is_null() { 0 } else { libc::dlsym(handle, c"next".as_ptr()).expose_provenance() }
    }
}

/// # Safety
/// It is the address of a C function without arguments that returns a number.
pub(crate) unsafe extern "C" fn next(function: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe { std::mem::transmute::<*mut (), extern "C" fn() -> usize>(with_exposed_provenance_mut(function))() }
}

#[test]
fn thread_local_variables_of_a_library_loaded_later_are_initialized_in_blocks() {
    let folder = tempfile::tempdir().unwrap();
    for (model, loading) in [("initial-exec", Kind::Donor), ("global-dynamic", Kind::Copy)] {
        let before = [KINDS; 3].as_flattened().iter().filter_map(|&kind| block(kind)).collect::<Vec<_>>();
        let Some(loading) = block(loading) else { return };
        let path = library(folder.path(), model);
        let function = within(loading, load, path.as_ptr().expose_provenance());
        assert_ne!(function, 0, "{model}");
        let after = KINDS.map(|kind| block(kind).unwrap());
        for block in before.into_iter().chain([loading]).chain(after) {
            assert_eq!([0; 3].map(|_| within(block, next, function)), [42, 43, 44], "{model}");
        }
        // SAFETY: as above.
        assert_eq!(unsafe { next(function) }, 42, "{model}");
    }
}

#[test]
fn the_c_library_never_believes_that_there_is_one_thread() {
    testing::isolated(|| {
        let Some(one) = block(Kind::Copy) else { return };
        // SAFETY: the name is a C string, and the variable a byte.
        let is_single = || unsafe {
            let variable = libc::dlsym(libc::RTLD_DEFAULT, c"__libc_single_threaded".as_ptr());
            assert!(!variable.is_null());
            variable.cast::<u8>().read_volatile()
        };
        std::thread::spawn(|| {}).join().unwrap();
        assert_eq!(is_single(), 0);
        extern "C" fn spawn_and_join(_: usize) -> usize {
            extern "C" fn nothing(argument: *mut libc::c_void) -> *mut libc::c_void {
                argument
            }
            let (mut thread, mut result) = (MaybeUninit::uninit(), null_mut());
            // SAFETY: there is room for a handle and a result.
            unsafe {
                assert_eq!(
                    libc::pthread_create(thread.as_mut_ptr(), null_mut(), nothing, thread.as_mut_ptr().cast()),
                    0
                );
                assert_eq!(libc::pthread_join(thread.assume_init(), &raw mut result), 0);
            }
            usize::from(result == thread.as_mut_ptr().cast())
        }
        assert_eq!((within(one, spawn_and_join, 0), is_single()), (1, 0));
    });
}

/// Checks that the C library works for the calling thread.
extern "C" fn use_the_c_library(_: usize) -> usize {
    // SAFETY: all strings end with zero, and there is room for all results.
    unsafe {
        for size in (0..20).map(|power| 1 << power) {
            let [one, other] = [0; 2].map(|_| libc::malloc(size).cast::<u8>());
            one.write_bytes(1, size);
            other.write_bytes(2, size);
            assert_eq!((one.read(), other.add(size - 1).read()), (1, 2));
            libc::free(one.cast());
            libc::free(libc::realloc(other.cast(), 2 * size));
        }
        assert_eq!((libc::close(-1), *libc::__errno_location()), (-1, libc::EBADF));
        assert_eq!((libc::isalpha(i32::from(b'a')), libc::toupper(i32::from(b'a'))), (1024, i32::from(b'A')));
        assert!(libc::strtod(c"1.5e3".as_ptr(), null_mut()) == 1500.0);
        let mut text = [0; 16];
        libc::snprintf(text.as_mut_ptr(), text.len(), c"%.2f".as_ptr(), 2.25);
        assert_eq!(std::ffi::CStr::from_ptr(text.as_ptr()), c"2.25");
        assert_eq!(std::ffi::CStr::from_ptr(libc::strerror(54_321)), c"Unknown error 54321");
        let mut found = null_mut();
        assert_eq!(libc::getaddrinfo(c"127.0.0.1".as_ptr(), c"80".as_ptr(), std::ptr::null(), &raw mut found), 0);
        libc::freeaddrinfo(found);
        usize::from(libc::pthread_self() as usize != 0)
    }
}

#[test]
fn the_c_library_works_within_blocks() {
    for kind in KINDS {
        let Some(block) = block(kind) else { return };
        // SAFETY: the address of a word of this thread.
        unsafe { *libc::__errno_location() = 7 };
        assert_eq!(within(block, use_the_c_library, 0), 1, "{kind:?}");
        // SAFETY: as above.
        assert_eq!(unsafe { *libc::__errno_location() }, 7);
    }
}

#[test]
fn the_child_of_a_fork_within_a_copy_has_blocks() {
    /// # Safety
    /// As for [`load`].
    unsafe extern "C" fn fork(path: usize) -> usize {
        let mut status = 0;
        // SAFETY: the child only calls functions of the C library, and makes its blocks itself.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                use_the_c_library(0);
                let blocks = [Kind::Copy; 3].map(|kind| block(kind).unwrap());
                let function = load(path);
                let all = blocks.iter().all(|&block| within(block, next, function) == 42);
                libc::_exit(if all && next(function) == 42 { 3 } else { 4 });
            }
            libc::waitpid(child, &raw mut status, 0);
        }
        status as usize
    }
    testing::isolated(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = library(folder.path(), "initial-exec");
        for within_one in [true, false] {
            let Some(one) = block(Kind::Copy) else { return };
            let path = path.as_ptr().expose_provenance();
            // SAFETY: it is the path.
            let status = if within_one { within(one, fork, path) } else { unsafe { fork(path) } };
            assert_eq!(status, 3 << 8);
        }
    });
}

#[test]
fn a_change_of_group_takes_place_beside_blocks() {
    testing::isolated(|| {
        let blocks: Vec<_> = [KINDS; 20].as_flattened().iter().filter_map(|&kind| block(kind)).collect();
        // SAFETY: the group stays the same.
        assert_eq!(unsafe { libc::setgid(libc::getgid()) }, 0);
        assert!(blocks.iter().all(|&block| within(block, use_the_c_library, 0) == 1));
    });
}

#[test]
fn too_little_memory_is_refused() {
    let Ok(needed) = minimum_stack() else { return };
    // SAFETY: nothing is made there.
    let result = unsafe { make(memory(page_size()), nothing, null_mut()) };
    assert_eq!(result, Err(ThreadBlockError::Memory { given: page_size(), needed }));
}

/// Prints the time that a block takes. Run it alone, on a quiet machine.
#[test]
#[ignore = "a measurement"]
fn time_per_block() {
    let Ok(layout) = layout() else { return };
    let pitch = layout.needed.next_multiple_of(1 << 16);
    let each = |name: &str, many: usize, make: &dyn Fn(Range<*mut u8>)| {
        let start = memory(many * pitch).start;
        let begin = std::time::Instant::now();
        (0..many).for_each(|index| make(start.wrapping_add(index * pitch)..start.wrapping_add((index + 1) * pitch)));
        println!("{name}: {} ns", begin.elapsed().as_nanos() / many as u128);
    };
    for _ in 0..5 {
        each("donor", 1000, &|memory| {
            // SAFETY: no other code uses the memory, which is never freed.
            unsafe { donate(memory, nothing, null_mut(), Some(layout.identity)) }.unwrap();
        });
        each("copy", 20_000, &|memory| {
            // SAFETY: as above.
            unsafe { make(memory, nothing, null_mut()) }.unwrap();
        });
        // SAFETY: it is within the memory.
        each("the first access to a page", 20_000, &|memory| unsafe { memory.end.wrapping_sub(1).write_volatile(1) });
    }
}
