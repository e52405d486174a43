//! What C keeps the memory of: an object that begins with zeros, or as an initialising function leaves it.

use std::cell::{Cell, UnsafeCell};
use std::ffi::c_int;
use std::mem::MaybeUninit;

/// Memory of C for a value, which is made when it is first needed.
#[repr(C)]
pub(crate) struct Object<T> {
    /// Zero before it is made, and [`IS_THERE`] then.
    state: Cell<u64>,
    value: UnsafeCell<MaybeUninit<T>>,
}

const IS_THERE: u64 = u64::from_le_bytes(*b"rowlock\0");

/// The words that the header sets aside for each object.
const WORDS: usize = 16;

impl<T: Default> Object<T> {
    const FITS: () = assert!(size_of::<Object<T>>() <= WORDS * 8 && align_of::<Object<T>>() <= 8);

    /// Makes it, whatever was there.
    ///
    /// # Safety
    /// There is room for it, and nobody uses what was there.
    pub(crate) unsafe fn make(object: *const Object<T>) -> Result<(), c_int> {
        let () = Self::FITS;
        // SAFETY: the caller's promise.
        let object = unsafe { object.as_ref() }.ok_or(libc::EINVAL)?;
        // SAFETY: only one kernel thread comes here, as there is one worker, and nobody has the value now.
        unsafe { (*object.value.get()).write(T::default()) };
        object.state.set(IS_THERE);
        Ok(())
    }

    /// The value. EINVAL where the object is neither zero nor made.
    ///
    /// # Safety
    /// It is one, and stays until it is destroyed, which nobody does while it is in use.
    #[inline(always)]
    pub(crate) unsafe fn get(object: *const Object<T>) -> Result<&'static T, c_int> {
        // SAFETY: the caller's promise.
        let this = unsafe { object.as_ref() }.ok_or(libc::EINVAL)?;
        if this.state.get() != IS_THERE {
            if this.state.get() != 0 {
                return Err(libc::EINVAL);
            }
            // SAFETY: the caller's promise.
            unsafe { Self::make(object)? };
        }
        // SAFETY: it was made, and is only shared.
        Ok(unsafe { (*this.value.get()).assume_init_ref() })
    }

    /// Ends its life: it has to be made anew before it is used again.
    ///
    /// # Safety
    /// As with [`get`](Object::get).
    pub(crate) unsafe fn destroy(object: *const Object<T>) {
        // SAFETY: the caller's promise.
        let Some(object) = (unsafe { object.as_ref() }) else { return };
        if object.state.replace(!IS_THERE) == IS_THERE {
            // SAFETY: it was made, and nobody uses it any more.
            unsafe { (*object.value.get()).assume_init_drop() };
        }
    }
}
