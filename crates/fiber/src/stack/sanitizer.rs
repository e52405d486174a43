//! Tells ThreadSanitizer of each switch between fibers. Otherwise it would see one thread whose
//! stack jumps about.
//!
//! This is active if everything is compiled with `--cfg rowlock_tsan` and `-Zsanitizer=thread`. To
//! the sanitizer each stack is a fiber, and so is each worker's own.

#[cfg(rowlock_tsan)]
pub(crate) use self::on::Shadow;

/// The sanitizer's record of a stack, from the start of its first fiber until it is left.
#[cfg(not(rowlock_tsan))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shadow;

#[cfg(not(rowlock_tsan))]
impl Shadow {
    /// The shadow of a stack on which no fiber has started.
    pub(crate) fn none() -> Shadow {
        Shadow
    }

    /// The shadow of a stack on which a fiber starts now.
    pub(crate) fn new() -> Shadow {
        Shadow
    }

    /// The shadow of the current stack.
    pub(crate) fn current() -> Shadow {
        Shadow
    }

    /// The next instructions switch to this stack.
    #[inline(always)]
    pub(crate) fn enter(self) {}

    /// The stack was left, and another one [entered](Shadow::enter).
    pub(crate) fn forget(self) {}
}

#[cfg(rowlock_tsan)]
mod on {
    use std::ffi::c_void;

    unsafe extern "C" {
        fn __tsan_get_current_fiber() -> *mut c_void;
        fn __tsan_create_fiber(flags: u32) -> *mut c_void;
        fn __tsan_destroy_fiber(fiber: *mut c_void);
        fn __tsan_switch_to_fiber(fiber: *mut c_void, flags: u32);
    }

    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Shadow(*mut c_void);

    impl Shadow {
        pub(crate) fn none() -> Shadow {
            Shadow(std::ptr::null_mut())
        }

        pub(crate) fn new() -> Shadow {
            // SAFETY: it only allocates memory.
            Shadow(unsafe { __tsan_create_fiber(0) })
        }

        pub(crate) fn current() -> Shadow {
            // SAFETY: it only reads.
            Shadow(unsafe { __tsan_get_current_fiber() })
        }

        #[inline(always)]
        pub(crate) fn enter(self) {
            // SAFETY: the fiber exists, and the stacks are switched next. Without flags, what was
            // done before happens before what is done then.
            unsafe { __tsan_switch_to_fiber(self.0, 0) };
        }

        pub(crate) fn forget(self) {
            // SAFETY: the stack is not used any more.
            unsafe { __tsan_destroy_fiber(self.0) };
        }
    }
}
