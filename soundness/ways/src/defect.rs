//! A defect that the suite must find: strands share the thread-locals of their worker.

use std::mem::transmute;
use std::sync::Mutex;

use rowlock_fiber::Builder;

/// As [`crate::each`].
pub(crate) fn each<V: Send, T: Send>(values: impl Iterator<Item = V>, function: &(impl Fn(V) -> T + Sync)) -> Vec<T> {
    let strands: Vec<_> = values.map(|value| (Mutex::new(Some(value)), Mutex::new(None))).collect();
    let spawn = |(value, result): &(Mutex<Option<V>>, Mutex<Option<T>>)| {
        let value = value.lock().unwrap().take().unwrap();
        let part: Box<dyn FnOnce() + Send + '_> = Box::new(move || {
            let given = function(value);
            *result.lock().unwrap() = Some(given);
        });
        // SAFETY: it is joined below, so it may borrow. That it may not share is the defect.
        let part: Box<dyn FnOnce() + Send + 'static> = unsafe { transmute(part) };
        // SAFETY: as above.
        unsafe { Builder::new().spawn_sharing(part) }.unwrap()
    };
    let fibers: Vec<_> = strands.iter().map(spawn).collect();
    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    strands.into_iter().map(|(_, result)| result.into_inner().unwrap().unwrap()).collect()
}
