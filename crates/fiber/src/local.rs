//! Fiber-local values.

use std::any::Any;
use std::cell::Cell;
use std::rc::Rc;

use crate::record::Fiber;
use crate::worker::CurrentWorker;

/// How often values are dropped that the destructors of others have created.
const ROUNDS: usize = 4;

/// Drops the values of a fiber that has run its function, last first. Still runs as that fiber.
#[cold]
pub(crate) fn end(fiber: Fiber) {
    for _ in 0..ROUNDS {
        let values = fiber.with_extras(|extras| std::mem::take(&mut extras.locals));
        if values.is_empty() {
            break;
        }
        for value in values.into_iter().rev() {
            // A panic in a destructor ends here, because there is no joiner to tell.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(value)));
        }
    }
    fiber.extras.take();
}

/// A key to values of which each fiber has its own. [`fiber_local!`](crate::fiber_local) declares
/// it. A fiber's value is created at its first use there, and dropped when the fiber ends.
pub struct LocalKey<T: 'static> {
    initial: fn() -> T,
    /// Ensures that no two keys have the same address.
    _place: u8,
}

impl<T: 'static> LocalKey<T> {
    #[doc(hidden)]
    pub const fn new(initial: fn() -> T) -> LocalKey<T> {
        LocalKey { initial, _place: 0 }
    }

    /// Calls a function with the fiber's value.
    ///
    /// # Panics
    /// If called outside a runtime.
    pub fn with<R>(&'static self, then: impl FnOnce(&T) -> R) -> R {
        let me = CurrentWorker::enter(|here| here.current());
        let key = std::ptr::from_ref(self).addr();
        let find = || {
            me.with_extras(|extras| {
                let found = extras.locals.iter().find(|(other, _)| *other == key);
                found.map(|(_, value)| Rc::clone(value))
            })
        };
        let value = find().unwrap_or_else(|| {
            let value: Rc<dyn Any> = Rc::new((self.initial)());
            me.with_extras(|extras| extras.locals.push((key, Rc::clone(&value))));
            value
        });
        match value.downcast_ref::<T>() {
            Some(value) => then(value),
            None => unreachable!("a key has one type"),
        }
    }
}

impl<T: Copy + 'static> LocalKey<Cell<T>> {
    /// A copy of the fiber's value.
    pub fn get(&'static self) -> T {
        self.with(Cell::get)
    }

    /// Replaces the fiber's value.
    pub fn set(&'static self, value: T) {
        self.with(|cell| cell.set(value));
    }
}

/// Declares fiber-local values, as `thread_local!` declares thread-local ones.
///
/// ```
/// use std::cell::Cell;
/// rowlock_fiber::fiber_local! { static DEPTH: Cell<u32> = Cell::new(0); }
///
/// rowlock_fiber::run(|| {
///     DEPTH.set(1);
///     let there = rowlock_fiber::spawn(|| DEPTH.get()).join();
///     assert_eq!((DEPTH.get(), there.unwrap()), (1, 0));
/// });
/// ```
#[macro_export]
macro_rules! fiber_local {
    ($($(#[$attribute:meta])* $visibility:vis static $name:ident: $type:ty = $initial:expr;)+) => {
        $($(#[$attribute])* $visibility static $name: $crate::LocalKey<$type> = $crate::LocalKey::new(|| $initial);)+
    };
}
