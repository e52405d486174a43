//! Initialization that happens once.

use std::cell::Cell;
use std::ffi::c_int;

use crate::mutex::Mutex;
use crate::object::{Kind, Pointer, get};
use crate::runtime::enter;
use crate::time::Limit;

/// Whether a routine has been called, and a mutex that is locked meanwhile.
pub struct Once {
    mutex: Mutex,
    is_done: Cell<bool>,
}

impl Kind for Once {
    const TAG: &[u8; 8] = b"once    ";

    fn new(_: u64) -> Option<Once> {
        Some(Once { mutex: Mutex::new(0)?, is_done: Cell::new(false) })
    }
}

/// # Safety
/// The routine may be called.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn my_pthread_once(once: Pointer<Once>, routine: Option<unsafe extern "C" fn()>) -> c_int {
    let mut first = None;
    let status = enter(|here| {
        let (once, routine) = (get(here, once)?, routine.ok_or(libc::EINVAL)?);
        if !once.is_done.get() {
            once.mutex.lock(here, Limit::Never)?;
            if once.is_done.get() {
                return once.mutex.unlock(here);
            }
            first = Some((once, routine));
        }
        Ok(())
    });
    let Some((once, routine)) = first else { return status };
    // SAFETY: the caller guarantees it.
    unsafe { routine() };
    enter(|here| {
        once.is_done.set(true);
        once.mutex.unlock(here)
    })
}
