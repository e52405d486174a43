//! ThreadSanitizer is told where one fiber stops and another goes on: it would otherwise take them for one thread whose stack jumps about.
//!
//! That is done where everything is compiled with `--cfg rowlock_tsan` and `-Zsanitizer=thread`, and nothing otherwise. Each stack is a fiber to it, and so is each worker's own.

#[cfg(rowlock_tsan)]
pub(crate) use self::on::Shadow;

/// What the sanitizer knows of a stack from when a first fiber begins there until it is left.
#[cfg(not(rowlock_tsan))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shadow;

#[cfg(not(rowlock_tsan))]
impl Shadow {
    /// Of a stack where nobody has begun.
    pub(crate) fn none() -> Shadow {
        Shadow
    }

    /// Of one where somebody begins now.
    pub(crate) fn new() -> Shadow {
        Shadow
    }

    /// Of the stack that runs.
    pub(crate) fn current() -> Shadow {
        Shadow
    }

    /// The next instructions go there.
    #[inline(always)]
    pub(crate) fn enter(self) {}

    /// The stack was left, and another [entered](Shadow::enter).
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
            // SAFETY: it takes no more than memory.
            Shadow(unsafe { __tsan_create_fiber(0) })
        }

        pub(crate) fn current() -> Shadow {
            // SAFETY: a question.
            Shadow(unsafe { __tsan_get_current_fiber() })
        }

        #[inline(always)]
        pub(crate) fn enter(self) {
            // SAFETY: it is one's that is there, and the stacks are switched next. Without flags what was done before happens before what is done then.
            unsafe { __tsan_switch_to_fiber(self.0, 0) };
        }

        pub(crate) fn forget(self) {
            // SAFETY: nobody goes on there.
            unsafe { __tsan_destroy_fiber(self.0) };
        }
    }
}
