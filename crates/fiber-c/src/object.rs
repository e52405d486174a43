//! Objects in memory that C provides: they start as zeros, or as an initializing function leaves
//! them.

use std::cell::{Cell, UnsafeCell};
use std::ffi::c_int;
use std::mem::MaybeUninit;

use crate::runtime::enter;

/// Memory of C for a value, which is created when it is first needed.
#[repr(C)]
pub struct Object<T> {
    /// 0 before the value is created, then [`CREATED`].
    state: Cell<u64>,
    value: UnsafeCell<MaybeUninit<T>>,
}

const CREATED: u64 = u64::from_le_bytes(*b"rowlock\0");

/// The number of words that the header reserves for each object.
const WORDS: usize = 16;

/// Initializes an object, and ignores what was there.
pub(crate) fn init<T: Default>(object: Option<&mut MaybeUninit<Object<T>>>) -> c_int {
    enter(|_| {
        let value = UnsafeCell::new(MaybeUninit::new(T::default()));
        object.ok_or(libc::EINVAL)?.write(Object { state: Cell::new(CREATED), value });
        Ok(())
    })
}

/// The value of an object, which exists until it is destroyed. EINVAL if the object is neither zero
/// nor created.
#[inline(always)]
pub(crate) fn get<T: Default>(object: Option<&'static Object<T>>) -> Result<&'static T, c_int> {
    const { assert!(size_of::<Object<T>>() <= WORDS * 8 && align_of::<Object<T>>() <= 8) };
    let object = object.ok_or(libc::EINVAL)?;
    if object.state.get() != CREATED {
        if object.state.get() != 0 {
            return Err(libc::EINVAL);
        }
        // SAFETY: only one kernel thread gets here, because there is one worker, and nothing uses
        // the value now.
        unsafe { (*object.value.get()).write(T::default()) };
        object.state.set(CREATED);
    }
    // SAFETY: it was created, and is only shared.
    Ok(unsafe { (*object.value.get()).assume_init_ref() })
}

/// Destroys the value of an object: it must be created again before it is used.
///
/// # Safety
/// Nothing uses the value.
pub(crate) unsafe fn destroy<T>(object: Option<&Object<T>>) {
    let Some(object) = object else { return };
    if object.state.replace(!CREATED) == CREATED {
        // SAFETY: it was created, and nothing uses it any more.
        unsafe { (*object.value.get()).assume_init_drop() };
    }
}
