//! Tables from which a debugger finds the fibers of a process, dead or alive: where runtimes have
//! their records, and the layout of a record.
//!
//! Both are at symbols with plain names, because optimized programs have no description of their
//! types. `gdb/fibers.py` reads them.

use std::mem::{offset_of, size_of};
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU64};

use policy::feedback::FeedbackQueue;

use crate::clock::Clock;
use crate::objects::mutex::RawMutex;
use crate::record::{Extras, Record, Records};
use crate::stack::Stack;
use crate::worker::Worker;

/// The maximum number of runtimes in the list; further ones are missing.
const MOST: usize = 64;

/// The records of the runtimes that are not over.
#[used]
#[unsafe(export_name = "rowlock_fiber_runtimes")]
static RUNTIMES: [AtomicPtr<Records>; MOST] = [const { AtomicPtr::new(std::ptr::null_mut()) }; MOST];

/// A clock's ticks become nanoseconds by this factor and a right shift by 24. 0 before the first
/// runtime.
#[used]
#[unsafe(export_name = "rowlock_fiber_pace")]
static PACE: AtomicU64 = AtomicU64::new(0);

/// A size or offset.
#[repr(C)]
struct Entry {
    name: [u8; 16],
    value: u64,
}

/// An entry whose name has less than 16 bytes.
const fn entry(name: &str, value: u64) -> Entry {
    let mut padded = [0; 16];
    padded.split_at_mut(name.len()).0.copy_from_slice(name.as_bytes());
    Entry { name: padded, value }
}

/// The layout. The last entry has no name.
#[used]
#[unsafe(export_name = "rowlock_fiber_layout")]
static LAYOUT: [Entry; 25] = [
    entry("most", MOST as u64),
    entry("first", offset_of!(Records, first) as u64),
    entry("made", offset_of!(Records, made) as u64),
    entry("record_size", size_of::<Record>() as u64),
    entry("context", offset_of!(Record, context) as u64),
    entry("stack", offset_of!(Record, stack) as u64),
    entry("stack_top", Stack::LAYOUT[0]),
    entry("stack_size", Stack::LAYOUT[1]),
    entry("home", offset_of!(Record, home) as u64),
    entry("number", offset_of!(Record, number) as u64),
    entry("state", offset_of!(Record, state) as u64),
    entry("spent", offset_of!(Record, spent) as u64),
    entry("used", offset_of!(Record, used) as u64),
    entry("waits", offset_of!(Record, waits) as u64),
    entry("meeting", offset_of!(Record, meeting) as u64),
    entry("extras", offset_of!(Record, extras) as u64),
    entry("name", offset_of!(Extras, name) as u64),
    entry("lock_word", RawMutex::WORD),
    entry("ready", Worker::READY),
    entry("threads", FeedbackQueue::LAYOUT[0]),
    entry("boosts", FeedbackQueue::LAYOUT[1]),
    entry("standing_size", FeedbackQueue::LAYOUT[2]),
    entry("standing_level", FeedbackQueue::LAYOUT[3]),
    entry("standing_boosts", FeedbackQueue::LAYOUT[4]),
    entry("", 0),
];

/// A place in the list of runtimes, which is given back when this is dropped.
pub(crate) struct Listed(Option<&'static AtomicPtr<Records>>);

/// Lists a runtime with these records, which must exist until the result is dropped.
pub(crate) fn list(records: &Records) -> Listed {
    PACE.store(Clock::real().multiplier(), Relaxed);
    let records = std::ptr::from_ref(records).cast_mut();
    let claim =
        |place: &&AtomicPtr<Records>| place.compare_exchange(std::ptr::null_mut(), records, AcqRel, Relaxed).is_ok();
    Listed(RUNTIMES.iter().find(claim))
}

impl Drop for Listed {
    fn drop(&mut self) {
        if let Some(place) = self.0 {
            place.store(std::ptr::null_mut(), Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_asks_for_what_the_table_has_and_reads_its_widths() {
        let script = include_str!("../../gdb/fibers.py");
        let table = LAYOUT.iter().flat_map(|entry| entry.name).map(char::from).collect::<String>();
        let asked = script.split("layout.").skip(1);
        let asked = asked.filter_map(|rest| rest.split(|char: char| char != '_' && !char.is_alphabetic()).next());
        let missing: Vec<_> = asked.filter(|name| !table.contains(&format!("{name}\0"))).collect();
        assert!(missing.is_empty() && script.matches("layout.").count() > 20, "{missing:?} in {table}");
        let records = Records::new(1).unwrap();
        // SAFETY: no other thread makes any.
        let fiber = unsafe { records.make() }.unwrap();
        assert_eq!([size_of_val(&fiber.number), size_of_val(&fiber.state), size_of_val(&fiber.spent)], [4, 1, 4]);
        assert_eq!([size_of_val(&fiber.used), size_of_val(&fiber.meeting)], [8, 8]);
    }

    #[test]
    fn a_runtime_is_listed_until_it_is_over() {
        let records = Records::new(1).unwrap();
        let is_listed = || RUNTIMES.iter().any(|place| std::ptr::eq(place.load(Relaxed), std::ptr::from_ref(&records)));
        let listed = list(&records);
        assert!(is_listed());
        drop(listed);
        assert!(!is_listed());
    }
}
