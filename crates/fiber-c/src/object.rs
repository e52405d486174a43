//! Objects in memory that C provides: they start as zeros, or as an initializing function leaves
//! them.

use std::cell::{Cell, UnsafeCell};
use std::ffi::c_int;
use std::mem::MaybeUninit;

/// Memory of C for a value, which is created when it is first needed.
#[repr(C)]
pub(crate) struct Object<T> {
    /// 0 before the value is created, then [`CREATED`].
    state: Cell<u64>,
    value: UnsafeCell<MaybeUninit<T>>,
}

const CREATED: u64 = u64::from_le_bytes(*b"rowlock\0");

/// The number of words that the header reserves for each object.
const WORDS: usize = 16;

impl<T: Default> Object<T> {
    const FITS: () = assert!(size_of::<Object<T>>() <= WORDS * 8 && align_of::<Object<T>>() <= 8);

    /// Creates the value, and ignores what was there.
    ///
    /// # Safety
    /// The memory suffices, and nothing uses what was there.
    pub(crate) unsafe fn make(object: *const Object<T>) -> Result<(), c_int> {
        let () = Self::FITS;
        // SAFETY: the caller's promise.
        let object = unsafe { object.as_ref() }.ok_or(libc::EINVAL)?;
        // SAFETY: only one kernel thread gets here, because there is one worker, and nothing uses
        // the value now.
        unsafe { (*object.value.get()).write(T::default()) };
        object.state.set(CREATED);
        Ok(())
    }

    /// The value. EINVAL if the object is neither zero nor created.
    ///
    /// # Safety
    /// It is an object, and exists until it is destroyed, which does not happen while it is in use.
    #[inline(always)]
    pub(crate) unsafe fn get(object: *const Object<T>) -> Result<&'static T, c_int> {
        // SAFETY: the caller's promise.
        let this = unsafe { object.as_ref() }.ok_or(libc::EINVAL)?;
        if this.state.get() != CREATED {
            if this.state.get() != 0 {
                return Err(libc::EINVAL);
            }
            // SAFETY: the caller's promise.
            unsafe { Self::make(object)? };
        }
        // SAFETY: it was created, and is only shared.
        Ok(unsafe { (*this.value.get()).assume_init_ref() })
    }

    /// Destroys the value: it must be created again before it is used.
    ///
    /// # Safety
    /// As for [`get`](Object::get).
    pub(crate) unsafe fn destroy(object: *const Object<T>) {
        // SAFETY: the caller's promise.
        let Some(object) = (unsafe { object.as_ref() }) else { return };
        if object.state.replace(!CREATED) == CREATED {
            // SAFETY: it was created, and nothing uses it any more.
            unsafe { (*object.value.get()).assume_init_drop() };
        }
    }
}
