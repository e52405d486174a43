//! Objects in memory that C provides. An object is created by an initializing function, or when it
//! is first used, as its static initializer describes it.

use std::cell::{Cell, UnsafeCell};
use std::ffi::c_int;
use std::mem::MaybeUninit;

use crate::runtime::Here;

/// A kind of objects.
pub trait Kind: Sized {
    /// Distinguishes the kinds.
    const TAG: &[u8; 8];

    /// The number of words that the header reserves.
    const WORDS: usize = 16;

    /// A new object. `None` if it cannot have this number, whose meaning depends on the kind.
    fn new(number: u64) -> Option<Self>;

    /// Whether the object must not be destroyed now.
    fn is_busy(&self) -> bool {
        false
    }
}

/// Memory of C for an object.
#[repr(C)]
pub struct Object<T> {
    /// 0 before the object is created, then its [mark](Object::mark), and at last [`DESTROYED`].
    state: Cell<u64>,
    /// The number with which a static initializer lets it be created.
    number: Cell<u64>,
    value: UnsafeCell<MaybeUninit<T>>,
}

/// A pointer to an object, and one to memory for an object.
pub(crate) type Pointer<T> = Option<&'static Object<T>>;
pub(crate) type Place<'a, T> = Option<&'a mut MaybeUninit<Object<T>>>;

const DESTROYED: u64 = u64::MAX;

impl<T: Kind> Object<T> {
    /// The state of a created object of this kind at this address. A copy of an object has another
    /// address.
    #[inline(always)]
    fn mark(object: *const Object<T>) -> u64 {
        u64::from_ne_bytes(*T::TAG) ^ object.addr() as u64
    }

    #[cold]
    fn create(&self) -> Result<(), c_int> {
        if self.state.get() != 0 {
            return Err(libc::EINVAL);
        }
        let value = T::new(self.number.get()).ok_or(libc::EINVAL)?;
        // SAFETY: nothing uses the value before the object is created. No other fiber creates it
        // meanwhile, because the caller is in the runtime.
        unsafe { (*self.value.get()).write(value) };
        self.state.set(Object::mark(self));
        Ok(())
    }
}

/// Initializes an object, and ignores what was there. EINVAL if it cannot have this number.
pub(crate) fn init<T: Kind>(place: Place<T>, number: u64) -> Result<(), c_int> {
    let (place, value) = place.zip(T::new(number)).ok_or(libc::EINVAL)?;
    let state = Cell::new(Object::mark(place.as_ptr()));
    place.write(Object { state, number: Cell::new(0), value: UnsafeCell::new(MaybeUninit::new(value)) });
    Ok(())
}

/// An object, which exists until it is destroyed. EINVAL if this is none.
#[inline(always)]
pub(crate) fn get<T: Kind>(_: Here, pointer: Pointer<T>) -> Result<&'static T, c_int> {
    const { assert!(size_of::<Object<T>>() <= T::WORDS * 8 && align_of::<Object<T>>() <= 8) };
    let object = pointer.ok_or(libc::EINVAL)?;
    if object.state.get() != Object::mark(object) {
        object.create()?;
    }
    // SAFETY: it was created, and is only shared.
    Ok(unsafe { (*object.value.get()).assume_init_ref() })
}

/// Destroys an object: it must be initialized before it is used again. EBUSY if it is in use.
pub(crate) fn destroy<T: Kind>(here: Here, pointer: Pointer<T>) -> Result<(), c_int> {
    if get(here, pointer)?.is_busy() {
        return Err(libc::EBUSY);
    }
    if let Some(object) = pointer {
        object.state.set(DESTROYED);
        // SAFETY: it was created, and is not busy.
        unsafe { (*object.value.get()).assume_init_drop() };
    }
    Ok(())
}
