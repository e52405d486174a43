use std::arch::asm;
use std::cell::Cell;
use std::collections::BTreeSet;

use super::*;

extern "C" fn nothing(_: *mut ()) {}

/// A block on memory that is never freed; `None` if blocks are not supported.
fn block_with(prepare: unsafe extern "C" fn(*mut ()), argument: *mut ()) -> Option<ThreadBlock> {
    if let Err(why) = check_support() {
        eprintln!("not tested: {why}");
        return None;
    }
    let memory = Reservation::new(minimum_stack().unwrap()).unwrap();
    let base = memory.base().as_ptr();
    let range = base..base.wrapping_add(memory.length());
    forget(memory);
    // SAFETY: no other code uses the memory, which is never freed.
    let block = unsafe { make(range.clone(), prepare, argument).unwrap() };
    let addresses = range.start.addr()..range.end.addr();
    assert!(addresses.contains(&block.thread_pointer) && addresses.contains(&block.stack_top));
    assert!(block.stack_top.is_multiple_of(16));
    Some(block)
}

fn block() -> Option<ThreadBlock> {
    block_with(nothing, null_mut())
}

/// Calls a function while the block is in use. It must not access thread-local variables of Rust.
fn within(block: ThreadBlock, call: unsafe extern "C" fn(usize) -> usize, argument: usize) -> usize {
    let result;
    // SAFETY: the thread pointer only differs during the call, which preserves the named registers.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!(
            "wrfsbase r12",
            "call {call}",
            "wrfsbase r13",
            call = in(reg) call,
            in("r12") block.thread_pointer,
            in("r13") thread_pointer(),
            in("rdi") argument,
            lateout("rax") result,
            clobber_abi("C"),
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!(
            "msr tpidr_el0, x20",
            "blr {call}",
            "msr tpidr_el0, x21",
            call = in(reg) call,
            in("x20") block.thread_pointer,
            in("x21") thread_pointer(),
            inlateout("x0") argument => result,
            clobber_abi("C"),
        );
    }
    result
}

#[test]
fn blocks_differ_and_have_thread_ids_of_no_thread() {
    let Some(first) = block() else { return };
    let blocks: Vec<ThreadBlock> = std::iter::once(first).chain((0..7).filter_map(|_| block())).collect();
    let pointers: BTreeSet<usize> = blocks.iter().map(|block| block.thread_pointer).collect();
    let at = layout().unwrap().number;
    // SAFETY: there is a number in each block.
    let number = |block: &ThreadBlock| unsafe { word(block.thread_pointer.wrapping_add(at)).read() };
    let numbers: BTreeSet<u32> = blocks.iter().map(number).collect();
    assert_eq!((pointers.len(), numbers.len()), (8, 8));
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
    let mut mark: *const Cell<u32> = null_mut();
    MARK.set(3);
    if block_with(prepare, (&raw mut mark).cast()).is_none() {
        return;
    }
    assert!(!mark.is_null());
    // SAFETY: it lies in the block, which stays.
    assert_eq!((MARK.get(), unsafe { (*mark).get() }), (3, 7));
    assert!(!MARK.with(|own| std::ptr::eq(own, mark)));
}

#[test]
fn signals_are_blocked_only_while_a_block_is_prepared() {
    /// # Safety
    /// There is room for a set of signals.
    unsafe extern "C" fn prepare(blocked: *mut ()) {
        // SAFETY: there is room.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), blocked.cast()) };
    }
    let mut masks = [MaybeUninit::<libc::sigset_t>::zeroed(), MaybeUninit::<libc::sigset_t>::zeroed()];
    if block_with(prepare, masks[0].as_mut_ptr().cast()).is_none() {
        return;
    }
    // SAFETY: there is room.
    let blocked = unsafe {
        prepare(masks[1].as_mut_ptr().cast());
        masks.map(|mask| libc::sigismember(mask.as_ptr(), libc::SIGURG))
    };
    assert_eq!(blocked, [1, 0]);
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
        for _ in 0..200 {
            if block().is_none() {
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
    let (Some(one), Some(other)) = (block(), block()) else { return };
    let mut mutex = libc::PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    let mutex = (&raw mut mutex).expose_provenance();
    let busy = libc::EBUSY as usize;
    assert_eq!(within(one, try_lock, mutex), 0);
    assert_eq!((within(other, try_lock, mutex), within(one, try_lock, mutex)), (busy, 0));
    // SAFETY: as above.
    assert_eq!(unsafe { try_lock(mutex) }, busy, "nor the kernel thread's");
    assert_eq!(within(other, unlock, mutex), libc::EPERM as usize);
    assert_eq!((within(one, unlock, mutex), within(one, unlock, mutex)), (0, 0));
    assert_eq!((within(other, try_lock, mutex), within(other, unlock, mutex)), (0, 0));
}

#[test]
fn the_kernel_is_asked_for_the_cpu_while_a_block_is_in_use() {
    extern "C" fn cpu(_: usize) -> usize {
        // SAFETY: a question.
        unsafe { libc::sched_getcpu() as usize }
    }
    let Some(block) = block() else { return };
    for number in crate::cpus::allowed().unwrap() {
        let _pinned = crate::cpus::pin(number).unwrap();
        assert_eq!(within(block, cpu, 0), number as usize);
    }
}

#[test]
fn thread_local_variables_of_a_library_loaded_later_are_initialized_in_blocks() {
    /// # Safety
    /// It is the address of a C string, the path of a library that runs nothing when it is loaded.
    unsafe extern "C" fn load(path: usize) -> usize {
        // SAFETY: the caller's promise.
        unsafe { libc::dlopen(with_exposed_provenance_mut::<libc::c_char>(path), libc::RTLD_NOW).expose_provenance() }
    }
    /// # Safety
    /// It is the address of a C function without arguments that returns a number.
    unsafe extern "C" fn next(function: usize) -> usize {
        // SAFETY: the caller's promise.
        unsafe { std::mem::transmute::<*mut (), extern "C" fn() -> usize>(with_exposed_provenance_mut(function))() }
    }
    let (Some(one), Some(other)) = (block(), block()) else { return };
    let folder = tempfile::tempdir().unwrap();
    for (model, loads) in [("initial-exec", one), ("global-dynamic", other)] {
        let (source, library) = (folder.path().join("next.c"), folder.path().join(format!("lib{model}.so")));
        std::fs::write(&source, "__thread unsigned long own = 41; unsigned long next(void) { return ++own; }").unwrap();
        let mut compile = testing::command("cc");
        compile.args(["-shared", "-fPIC", &format!("-ftls-model={model}"), "-o"]).args([&library, &source]);
        testing::run(&mut compile).expect_success();
        let path = std::ffi::CString::new(library.into_os_string().into_encoded_bytes()).unwrap();
        let handle = within(loads, load, path.as_ptr().expose_provenance());
        // SAFETY: the name is a C string, and the handle null or the library's.
        let function = unsafe { libc::dlsym(with_exposed_provenance_mut(handle), c"next".as_ptr()) };
        assert!(handle != 0 && !function.is_null(), "{model}");
        let function = function.expose_provenance();
        assert_eq!([0; 3].map(|_| within(one, next, function)), [42, 43, 44], "{model}");
        // SAFETY: as above.
        assert_eq!((within(other, next, function), unsafe { next(function) }), (42, 42), "{model}");
    }
}

#[test]
fn too_little_memory_is_refused() {
    let Ok(needed) = minimum_stack() else { return };
    let memory = Reservation::new(page_size()).unwrap();
    let base = memory.base().as_ptr();
    // SAFETY: it is the caller's; nothing is started there.
    let result = unsafe { make(base..base.wrapping_add(memory.length()), nothing, null_mut()) };
    assert_eq!(result, Err(ThreadBlockError::Memory { given: page_size(), needed }));
}
