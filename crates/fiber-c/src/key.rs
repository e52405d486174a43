//! Keys of values that each thread has of its own.

use std::cell::RefCell;
use std::ffi::{c_int, c_uint, c_void};
use std::mem::MaybeUninit;
use std::ptr::null_mut;

use crate::runtime::{Here, State, enter, visit};
use crate::thread::{self, Function};

/// The maximum number of keys at a time.
const MOST: usize = 1024;

/// How many times a thread that ends calls destructors, if these set values again.
const ROUNDS: usize = 4;

/// A destructor. It returns nothing: the register of the result is ignored.
type Destructor = Function;

/// A key, or the place of one that was deleted.
#[derive(Clone, Copy)]
struct Key {
    /// How often the place has been used.
    generation: u64,
    exists: bool,
    destructor: Option<Destructor>,
}

static KEYS: State<Vec<Key>> = State::new(Vec::new());

thread_local! {
    /// The thread's values by their keys, and the generations of these.
    static VALUES: RefCell<Vec<(u64, *mut c_void)>> = const { RefCell::new(Vec::new()) };
}

/// A key that exists. EINVAL otherwise.
fn find(here: Here, index: usize) -> Result<Key, c_int> {
    KEYS.with(here, |keys| keys.get(index).copied().filter(|key| key.exists).ok_or(libc::EINVAL))
}

/// The place of the calling thread's value of a key, which is valid until the thread sets another.
fn with_value<R>(here: Here, index: usize, then: impl FnOnce(&mut *mut c_void) -> R) -> Result<R, c_int> {
    let key = find(here, index)?;
    let with = |values: &RefCell<Vec<_>>| {
        let values = &mut *values.borrow_mut();
        values.resize(values.len().max(index + 1), (0, null_mut()));
        let (generation, value) = &mut values[index];
        if *generation != key.generation {
            (*generation, *value) = (key.generation, null_mut());
        }
        then(value)
    };
    // Destructors of thread-locals may run when the values are gone.
    VALUES.try_with(with).map_err(|_| libc::EINVAL)
}

/// Calls the destructors of the calling thread's values.
pub(crate) fn destroy_values() {
    for _ in 0..ROUNDS {
        let (mut next, mut any) = (0, false);
        while let Ok(Some((index, destructor, value))) = visit(|here| Ok(take_from(here, next))) {
            thread::call(destructor, value);
            (next, any) = (index + 1, true);
        }
        if !any {
            return;
        }
    }
}

/// Takes the first value from this index on that has a destructor.
fn take_from(here: Here, from: usize) -> Option<(usize, Destructor, *mut c_void)> {
    let many = VALUES.with_borrow(Vec::len);
    (from..many).find_map(|index| {
        let destructor = find(here, index).ok()?.destructor?;
        let value = with_value(here, index, |value| std::mem::replace(value, null_mut())).ok()?;
        (!value.is_null()).then_some((index, destructor, value))
    })
}

/// # Safety
/// The destructor may be called, at the end of any thread, with each value that is not null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn my_pthread_key_create(
    key: Option<&mut MaybeUninit<c_uint>>,
    destructor: Option<Destructor>,
) -> c_int {
    enter(|here| {
        let key = key.ok_or(libc::EINVAL)?;
        let index = KEYS.with(here, |keys| {
            let index = keys.iter().position(|key| !key.exists).unwrap_or(keys.len());
            if index == keys.len() && index < MOST {
                keys.push(Key { generation: 0, exists: false, destructor: None });
            }
            let place = keys.get_mut(index).ok_or(libc::EAGAIN)?;
            *place = Key { generation: place.generation + 1, exists: true, destructor };
            Ok::<_, c_int>(index)
        })?;
        key.write(index as c_uint);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn my_pthread_getspecific(key: c_uint) -> *mut c_void {
    visit(|here| with_value(here, key as usize, |value| *value)).unwrap_or(null_mut())
}

exports! { enter:
    fn my_pthread_setspecific(key: c_uint, value: *mut c_void) = |here| {
        with_value(here, key as usize, |place| *place = value)
    };
    fn my_pthread_key_delete(key: c_uint) = |here| {
        find(here, key as usize)?;
        Ok(KEYS.with(here, |keys| keys[key as usize].exists = false))
    };
}
