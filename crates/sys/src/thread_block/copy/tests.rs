use std::collections::BTreeSet;
use std::ffi::CString;
use std::mem::MaybeUninit;
use std::sync::Mutex;

use super::super::tests::{Kind, block, library, load, next, within};
use super::super::{layout, make};
use super::*;

/// Two donors for a model. `None` if blocks are not supported.
fn donors(prepare: unsafe extern "C" fn(*mut ())) -> Option<[Donation; 2]> {
    let Layout { identity, needed } = layout().ok()?;
    let lengths = [needed, needed + page_size()];
    // SAFETY: no other code knows of the memory.
    Some(
        lengths.map(|length| unsafe { donate(reserve(length).unwrap(), prepare, null_mut(), Some(identity)).unwrap() }),
    )
}

/// Whether these donors lead to a model.
fn is_model(donors: [&Donation; 2], functions: Functions) -> bool {
    Model::new(donors, functions).unwrap().is_some()
}

#[test]
fn two_adjacent_donors_lead_to_a_model() {
    testing::isolated(|| {
        let Some([one, other]) = donors(nothing) else { return };
        let functions = Functions::new().unwrap();
        let model = Model::new([&one, &other], functions).unwrap().unwrap();
        let sources = model.own.iter().map(|(_, source)| source);
        let of_memory = sources.filter(|source| matches!(source, Source::Start | Source::Length));
        assert!(of_memory.count() >= 2, "{:?}", model.own);
        assert!(!is_model([&other, &one], functions), "in the wrong order");
        let Some([third, fourth]) = donors(nothing) else { return };
        assert!(!is_model([&one, &third], functions), "one is between them");
        assert!(is_model([&third, &fourth], functions));
        assert!(!is_model([&third, &fourth], functions), "a copy is between them");
    });
}

#[test]
fn donors_that_used_memory_of_their_own_lead_to_no_model() {
    extern "C" fn allocate(_: *mut ()) {
        // SAFETY: a small allocation; the C library notes the thread's cache in the block.
        unsafe { libc::free(libc::malloc(100)) };
    }
    testing::isolated(|| {
        let Some([one, other]) = donors(allocate) else { return };
        assert!(!is_model([&one, &other], Functions::new().unwrap()));
    });
}

#[test]
fn an_unexpected_table_leads_to_no_model() {
    extern "C" fn none(_: *mut libc::c_void) -> *mut libc::c_void {
        null_mut()
    }
    /// # Safety
    /// As for [`MakeTable`].
    unsafe extern "C" fn wrong(block: *mut libc::c_void) -> *mut libc::c_void {
        // SAFETY: the caller's promise. The address of the table's second entry is in the block,
        // and the third entry is a library's.
        unsafe {
            (Functions::new().unwrap().make_table)(block);
            let second = block.byte_add(TABLE).cast::<*mut usize>().read();
            *second.add(2) += 64;
        }
        block
    }
    testing::isolated(|| {
        let Some([one, other]) = donors(nothing) else { return };
        let functions = Functions::new().unwrap();
        assert!(!is_model([&one, &other], Functions { make_table: none, ..functions }));
        assert!(!is_model([&one, &other], Functions { make_table: wrong, ..functions }));
        assert!(is_model([&one, &other], functions), "the attempts left no trace");
    });
}

#[test]
fn a_copy_without_memory_for_its_table_keeps_its_memory() {
    extern "C" fn none(_: *mut libc::c_void) -> *mut libc::c_void {
        null_mut()
    }
    testing::isolated(|| {
        let Ok(layout) = layout() else { return };
        let mut model = model(&layout).unwrap().clone();
        model.functions.make_table = none;
        // SAFETY: no other code knows of the memory.
        let result = unsafe { model.make(reserve(layout.needed).unwrap(), nothing, null_mut()) };
        assert_eq!(result, Err(ThreadBlockError::Table));
        assert!(result.is_err_and(|why| why.has_lost_memory()));
        assert!(block(Kind::Copy).is_some());
    });
}

#[test]
fn a_library_that_is_loaded_while_a_copy_is_made_is_initialized_there() {
    static LIBRARIES: Mutex<Vec<CString>> = Mutex::new(Vec::new());
    static LOADED: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    /// # Safety
    /// As for [`MakeTable`].
    unsafe extern "C" fn load_before_and_after(block: *mut libc::c_void) -> *mut libc::c_void {
        let load_one = || {
            let path = LIBRARIES.lock().unwrap().pop().unwrap();
            // SAFETY: it is the path of a library.
            LOADED.lock().unwrap().push(unsafe { load(path.as_ptr().expose_provenance()) });
        };
        load_one();
        // SAFETY: the caller's promise.
        let made = unsafe { (Functions::new().unwrap().make_table)(block) };
        load_one();
        made
    }
    testing::isolated(|| {
        let Ok(layout) = layout() else { return };
        let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
        LIBRARIES.lock().unwrap().extend(folders.iter().map(|folder| library(folder.path(), "initial-exec")));
        let mut model = model(&layout).unwrap().clone();
        model.functions.make_table = load_before_and_after;
        // SAFETY: no other code knows of the memory.
        let block = unsafe { model.make(reserve(layout.needed).unwrap(), nothing, null_mut()).unwrap() };
        let loaded: Vec<usize> = LOADED.lock().unwrap().iter().map(|&function| within(block, next, function)).collect();
        assert_eq!(loaded, [42, 42]);
    });
}

#[test]
fn blocks_have_donors_if_there_are_no_copies() {
    testing::isolated(|| {
        let Ok(layout) = layout() else { return };
        let needed = layout.needed;
        let reserved = Reservation::new(2 * needed).unwrap();
        let [start, middle, end] = [0, 1, 2].map(|times| reserved.base().as_ptr().wrapping_add(times * needed));
        // SAFETY: no other code knows of the memory.
        let of = |memory| unsafe { make(memory, nothing, null_mut()).unwrap() };
        let copy = of(start..middle);
        STATE.store(REFUSED, Relaxed);
        let other = of(middle..end);
        let above = |block: ThreadBlock, end: *mut u8| {
            [block.stack_top, block.thread_pointer].map(|address| end.addr() - address)
        };
        assert_eq!(above(copy, middle), above(other, end), "they are alike");
        // SAFETY: both addresses are in the memory.
        let frames = [copy, other].map(|block| unsafe { word(block.stack_top + 16).cast::<[usize; 64]>().read() });
        assert_eq!(frames.map(|words| words == [0; 64]), [true, false], "only a donor has used its stack");
        assert!(model(&layout).is_none());
        for (block, low) in [(copy, start), (other, middle)] {
            let [low, high] = [low.addr(), block.stack_top].map(|address| address - start.addr());
            assert_eq!(reserved.used_at_end(low..high / page_size() * page_size()).unwrap(), 0);
        }
        forget(reserved);
    });
}

/// Starts a thread, on given memory if there is some, and joins it.
fn start_thread(memory: Option<&Range<usize>>) {
    extern "C" fn nothing(_: *mut libc::c_void) -> *mut libc::c_void {
        null_mut()
    }
    let (mut attributes, mut thread) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: there is room for attributes and a handle, and no other thread has the memory.
    unsafe {
        libc::pthread_attr_init(attributes.as_mut_ptr());
        if let Some(memory) = memory {
            let start = with_exposed_provenance::<libc::c_void>(memory.start).cast_mut();
            assert_eq!(libc::pthread_attr_setstack(attributes.as_mut_ptr(), start, memory.len()), 0);
        }
        assert_eq!(libc::pthread_create(thread.as_mut_ptr(), attributes.as_ptr(), nothing, null_mut()), 0);
        assert_eq!(libc::pthread_join(thread.assume_init(), null_mut()), 0);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
    }
}

/// Loads such a library, and unloads it.
fn load_and_unload(path: &CStr) {
    // SAFETY: it is the path. The variable is initially 41, at each time.
    unsafe {
        let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
        assert!(!handle.is_null());
        assert_eq!(next(libc::dlsym(handle, c"next".as_ptr()).expose_provenance()), 42);
        assert_eq!(libc::dlclose(handle), 0);
    }
}

#[test]
fn copies_are_listed_while_threads_and_libraries_come_and_go() {
    const MAKERS: usize = 2;
    const EACH: usize = 300;
    testing::isolated(|| {
        let Ok(layout) = layout() else { return };
        let needed = layout.needed;
        let model = model(&layout).unwrap();
        let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let [one, other] = folders.each_ref().map(|folder| library(folder.path(), "initial-exec"));
        let (blocks, function) = std::thread::scope(|scope| {
            for given in [true, false] {
                scope.spawn(move || {
                    let memory = reserve(needed).unwrap();
                    let memory = memory.start.expose_provenance()..memory.end.addr();
                    (0..EACH).for_each(|_| start_thread(given.then_some(&memory)));
                });
            }
            let makers = [(); MAKERS].map(|()| {
                scope.spawn(|| (0..EACH).map(|_| block(Kind::Copy).unwrap().thread_pointer).collect::<Vec<_>>())
            });
            // SAFETY: it is the path of a library.
            let function = unsafe { load(one.as_ptr().expose_provenance()) };
            (0..EACH).for_each(|_| load_and_unload(&other));
            (makers.map(|maker| maker.join().unwrap()).concat(), function)
        });
        let mut node = model.left.word(model.links).cast_const();
        let listed: BTreeSet<usize> = std::iter::repeat_with(|| {
            // SAFETY: it is a node.
            node = with_exposed_provenance(unsafe { node.read() });
            node.addr().wrapping_sub(model.links)
        })
        .take(MAKERS * EACH)
        .collect();
        let made: BTreeSet<usize> = blocks.iter().copied().collect();
        assert!(listed == made, "{} of {} are listed", listed.intersection(&made).count(), made.len());
        // SAFETY: it is the path of a library.
        let functions = [function, unsafe { load(other.as_ptr().expose_provenance()) }];
        for block in blocks.into_iter().map(|thread_pointer| ThreadBlock { thread_pointer, stack_top: 0 }) {
            assert_eq!(functions.map(|function| within(block, next, function)), [42, 42]);
        }
    });
}
