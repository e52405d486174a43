//! Objects that another process shares, and may have overwritten.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use wait::shared::{Barrier, Event, MemoryError, Mutex, Semaphore};
use wait::{Reset, Waiting};

use crate::texts::refused;

const PROCESSES: u32 = 3;

/// A shared object. The first byte chooses its kind and the place of the others.
pub(crate) fn shared_object(bytes: &[u8]) {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    // The header begins with the magic number, and is not read again once the object is open.
    let place = if choice & 4 == 0 { 128 } else { 8 };
    let waiting = Waiting::default();
    match choice & 3 {
        0 => overwrite(Barrier::nameless(PROCESSES, waiting), Barrier::from_fd, place, bytes, barrier),
        1 => overwrite(Mutex::nameless(PROCESSES, waiting), Mutex::from_fd, place, bytes, mutex),
        2 => overwrite(Semaphore::nameless(PROCESSES, 1, waiting), Semaphore::from_fd, place, bytes, semaphore),
        _ => overwrite(Event::nameless(PROCESSES, Reset::Auto, waiting), Event::from_fd, place, bytes, event),
    }
}

/// Overwrites an object, uses it, opens it again and uses it again.
fn overwrite<O: AsFd>(
    object: Result<O, MemoryError>,
    from_fd: fn(OwnedFd, Waiting) -> Result<O, MemoryError>,
    place: u64,
    bytes: &[u8],
    act: fn(&O),
) {
    let object = object.expect("there is memory");
    let file = File::from(object.as_fd().try_clone_to_owned().expect("a descriptor is free"));
    let room = file.metadata().expect("it is open").len() - place;
    file.write_all_at(&bytes[..bytes.len().min(room as usize)], place).expect("it has this length");
    act(&object);
    match from_fd(file.into(), Waiting::default()) {
        Ok(again) => act(&again),
        Err(why) => refused(&why),
    }
}

fn barrier(barrier: &Barrier) {
    let _ = barrier.statistics();
    match barrier.join() {
        Ok(mut party) => {
            let arrival = party.arrive();
            let _ = party.has_completed(&arrival);
            let _ = party.complete_timeout(arrival, Duration::ZERO).map_err(|why| refused(&why));
            let _ = party.arrive_and_leave();
        }
        Err(why) => refused(&why),
    }
}

fn mutex(mutex: &Mutex) {
    match mutex.try_lock() {
        Ok(guard) => drop(guard),
        Err(died) => drop(died.recover()),
    }
    let _ = mutex.lock_timeout(Duration::ZERO).map(drop).map_err(|why| refused(&why));
    let _ = mutex.statistics();
}

fn semaphore(semaphore: &Semaphore) {
    let _ = (semaphore.value(), semaphore.try_down());
    let _ = semaphore.up_by(PROCESSES).map_err(|why| refused(&why));
    let _ = semaphore.down_timeout(Duration::ZERO).map_err(|why| refused(&why));
    let _ = (semaphore.forget_dead_processes(), semaphore.statistics());
}

fn event(event: &Event) {
    let _ = (event.is_set(), event.try_wait());
    let _ = event.wait_timeout(Duration::ZERO).map_err(|why| refused(&why));
    event.set();
    let _ = (event.reset(), event.forget_dead_processes(), event.statistics());
}
