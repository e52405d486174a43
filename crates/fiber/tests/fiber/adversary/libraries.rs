//! The C library and the dynamic linker: state for a thread or a process, callbacks, and code that
//! inspects stacks.

use std::backtrace::Backtrace;
use std::cmp::Ordering;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::adversary::case::{PREEMPTIBLE, alone, hazard, hazard_until};

#[test]
fn names_of_hosts_are_looked_up() {
    alone(|| {
        let known: Option<Vec<_>> = ("localhost", 80).to_socket_addrs().ok().map(Iterator::collect);
        hazard(move |who, _| {
            let port = 1_000 + who as u16;
            let found: Vec<SocketAddr> = ("127.0.0.1", port).to_socket_addrs().unwrap().collect();
            assert_eq!(found, [SocketAddr::from(([127, 0, 0, 1], port))]);
            if let Some(known) = &known {
                let again: Vec<_> = ("localhost", 80).to_socket_addrs().unwrap().collect();
                assert_eq!(again, *known);
            }
        });
    });
}

/// A function of a library.
///
/// # Safety
/// The library is loaded, and its function of this name has this type.
unsafe fn function<F: Copy>(library: *mut c_void, name: &CStr) -> F {
    unsafe {
        let address = libc::dlsym(library, name.as_ptr());
        assert!(!address.is_null(), "{name:?}");
        std::mem::transmute_copy(&address)
    }
}

#[test]
fn libraries_are_loaded_used_and_unloaded() {
    alone(|| {
        hazard(|who, _| unsafe {
            for name in [c"libm.so.6", c"libresolv.so.2"] {
                let library = libc::dlopen(name.as_ptr(), if who % 2 == 0 { libc::RTLD_NOW } else { libc::RTLD_LAZY });
                assert!(!library.is_null(), "{name:?}");
                if name == c"libm.so.6" {
                    let cosine: extern "C" fn(f64) -> f64 = function(library, c"cos");
                    assert!((cosine(who as f64) - (who as f64).cos()).abs() < 1e-12);
                }
                assert_eq!(libc::dlclose(library), 0);
            }
            assert!(libc::dlopen(c"libthere-is-none.so".as_ptr(), libc::RTLD_NOW).is_null());
            let said = libc::dlerror();
            assert!(!said.is_null() && CStr::from_ptr(said).to_bytes().starts_with(b"libthere-is-none.so"));
        });
    });
}

/// A library with thread-local variables, built by the C compiler, and its folder. `None` without a
/// compiler.
fn library_with_thread_locals() -> Option<(tempfile::TempDir, PathBuf)> {
    const SOURCE: &str = "
        static __thread long counts[4] = { 7, 7, 7, 7 };
        static __thread char room[3000];
        long *own(void) { room[2999]++; return counts; }
    ";
    let folder = tempfile::tempdir().unwrap();
    let (source, library) = (folder.path().join("locals.c"), folder.path().join("locals.so"));
    std::fs::write(&source, SOURCE).unwrap();
    let mut compiler = testing::command("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).args([&library, &source]);
    match testing::try_run(&mut compiler) {
        Ok(output) => drop(output.expect_success()),
        Err(why) => {
            eprintln!("skipped, because there is no C compiler: {why}");
            return None;
        }
    }
    Some((folder, library))
}

#[test]
fn thread_locals_of_libraries_that_are_loaded_late_belong_to_the_fiber() {
    alone(|| {
        let Some((_folder, library)) = library_with_thread_locals() else { return };
        let path = CString::new(library.as_os_str().as_bytes()).unwrap();
        hazard(move |who, round| unsafe {
            let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
            assert!(!library.is_null());
            let own: extern "C" fn() -> *mut i64 = function(library, c"own");
            let value = (who << 32 | round) as i64;
            // The initial value, or what was left here.
            assert!([7, -1].contains(&*own()));
            (0..4).for_each(|i| *own().add(i) = value);
            (0..500).for_each(|i| assert_eq!(*own().add(i % 4), value));
            (0..4).for_each(|i| *own().add(i) = -1);
            assert_eq!(libc::dlclose(library), 0);
        });
    });
}

#[test]
fn a_function_that_the_c_library_calls_back_is_called_in_the_right_place() {
    static MANY: AtomicU64 = AtomicU64::new(0);

    /// # Safety
    /// Both point to a number.
    unsafe extern "C" fn compare(one: *const c_void, other: *const c_void) -> c_int {
        MANY.fetch_add(1, Relaxed);
        // SAFETY: the caller's promise.
        match unsafe { *one.cast::<u64>() }.cmp(&unsafe { *other.cast::<u64>() }) {
            Ordering::Less => -1,
            Ordering::Equal => 0,
            Ordering::Greater => 1,
        }
    }

    alone(|| {
        hazard(|who, round| {
            let mut numbers: Vec<u64> = (0..500).map(|i| ((i * 7919 + round) % 500) | (who << 32)).collect();
            // SAFETY: the array has this many elements of this size.
            unsafe { libc::qsort(numbers.as_mut_ptr().cast(), numbers.len(), 8, Some(compare)) };
            assert!((0..500).zip(&numbers).all(|(i, number)| *number == i | who << 32));
        });
        assert!(MANY.load(Relaxed) > 1_000);
    });
}

#[test]
fn text_times_and_the_environment_are_written_and_read() {
    alone(|| {
        // SAFETY: no other thread reads the environment.
        unsafe { std::env::set_var("ROWLOCK_ADVERSARY_VARIABLE", "value") };
        hazard(|who, round| unsafe {
            let mut text = [0 as c_char; 64];
            let number = who as f64 + 0.125;
            libc::snprintf(text.as_mut_ptr(), text.len(), c"%.3f %ld".as_ptr(), number, round);
            assert_eq!(CStr::from_ptr(text.as_ptr()).to_str().unwrap(), format!("{number:.3} {round}"));
            let mut end = std::ptr::null_mut();
            assert_eq!(libc::strtod(text.as_ptr(), &raw mut end), number);
            assert_eq!(*end as u8, b' ');
            let (time, mut broken) = ((who * 86_400) as libc::time_t, std::mem::zeroed::<libc::tm>());
            libc::gmtime_r(&raw const time, &raw mut broken);
            assert_eq!((broken.tm_mday, broken.tm_hour), (who as c_int + 1, 0));
            libc::localtime_r(&raw const time, &raw mut broken);
            assert_eq!(libc::mktime(&raw mut broken), time);
            assert_eq!(std::env::var("ROWLOCK_ADVERSARY_VARIABLE").unwrap(), "value");
            assert!(std::fs::read_to_string("/proc/self/stat").unwrap().ends_with('\n'));
        });
    });
}

/// Recurses to this depth.
#[inline(never)]
fn looks_back(depth: u64) -> Backtrace {
    if depth == 0 { Backtrace::force_capture() } else { std::hint::black_box(looks_back(depth - 1)) }
}

#[test]
fn backtraces_show_the_fibers_own_stack() {
    alone(|| {
        static SHOWN: [AtomicU64; PREEMPTIBLE as usize] = [const { AtomicU64::new(0) }; PREEMPTIBLE as usize];
        // The slow part, reading the program's own symbols, is done.
        assert!(looks_back(0).to_string().contains("looks_back"));
        let enough = || SHOWN.iter().all(|shown| shown.load(Relaxed) > 1);
        hazard_until(
            |who, round| {
                let depth = who + round % 3;
                let backtrace = looks_back(depth);
                if round % 64 == 0 {
                    let text = backtrace.to_string();
                    assert_eq!(text.matches("looks_back").count() as u64, depth + 1, "{text}");
                    if let Some(shown) = SHOWN.get(who as usize) {
                        shown.fetch_add(1, Relaxed);
                    }
                }
            },
            enough,
        );
    });
}
