//! Tables from which a debugger finds the fibers of a process, dead or alive: where runtimes have
//! their records, and the layout of a record.
//!
//! Both are words at symbols with plain names, because optimized programs have no description of
//! their types. `gdb/fibers.py` reads them.

use std::mem::{offset_of, size_of};
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

use policy::feedback::FeedbackQueue;

use crate::lock::Lock;
use crate::record::{Extras, Record};
use crate::stack::Stack;
use crate::worker::Worker;

/// A runtime's records.
pub(crate) struct Listed {
    records: AtomicPtr<Record>,
    made: AtomicU32,
}

/// The maximum number of runtimes in the list; further ones are missing.
const MOST: usize = 64;

/// The list of runtimes.
#[used]
#[unsafe(export_name = "rowlock_fiber_runtimes")]
static RUNTIMES: [Listed; MOST] =
    [const { Listed { records: AtomicPtr::new(std::ptr::null_mut()), made: AtomicU32::new(0) } }; MOST];

/// A clock's ticks become nanoseconds by this factor and a right shift by 24. 0 before the first
/// runtime.
#[used]
#[unsafe(export_name = "rowlock_fiber_pace")]
pub(crate) static PACE: AtomicU64 = AtomicU64::new(0);

/// The layout, in this order. New words are added at the end.
#[used]
#[unsafe(export_name = "rowlock_fiber_layout")]
static LAYOUT: [u64; 26] = [
    // The number of words.
    26,
    MOST as u64,
    size_of::<Listed>() as u64,
    offset_of!(Listed, records) as u64,
    offset_of!(Listed, made) as u64,
    size_of::<Record>() as u64,
    offset_of!(Record, context) as u64,
    offset_of!(Record, stack) as u64,
    Stack::LAYOUT[0],
    Stack::LAYOUT[1],
    offset_of!(Record, home) as u64,
    offset_of!(Record, number) as u64,
    offset_of!(Record, state) as u64,
    offset_of!(Record, spent) as u64,
    offset_of!(Record, used) as u64,
    offset_of!(Record, waits) as u64,
    offset_of!(Record, meeting) as u64,
    offset_of!(Record, extras) as u64,
    offset_of!(Extras, name) as u64,
    Lock::WORD,
    Worker::READY,
    FeedbackQueue::LAYOUT[0],
    FeedbackQueue::LAYOUT[1],
    FeedbackQueue::LAYOUT[2],
    FeedbackQueue::LAYOUT[3],
    FeedbackQueue::LAYOUT[4],
];

/// A place in the list, which is released when this is dropped.
pub(crate) struct Place(Option<&'static Listed>);

impl Place {
    pub(crate) fn new(records: *mut Record) -> Place {
        let claim =
            |listed: &&Listed| listed.records.compare_exchange(std::ptr::null_mut(), records, AcqRel, Relaxed).is_ok();
        Place(RUNTIMES.iter().find(claim))
    }

    /// Sets how many records have been made.
    pub(crate) fn made(&self, many: u32) {
        if let Some(listed) = self.0 {
            listed.made.store(many, Release);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(listed) = self.0 {
            listed.made.store(0, Relaxed);
            listed.records.store(std::ptr::null_mut(), Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn the_script_knows_each_word_of_the_table() {
        let script = include_str!("../gdb/fibers.py");
        let (_, names) = script.split_once("LAYOUT = \"\"\"").unwrap();
        let names: Vec<_> = names.split_once("\"\"\"").unwrap().0.split_whitespace().collect();
        assert_eq!(names.len(), LAYOUT.len());
        assert_eq!(LAYOUT[0], LAYOUT.len() as u64);
        for (name, offset) in [
            ("record_size", size_of::<Record>()),
            ("context", offset_of!(Record, context)),
            ("number", offset_of!(Record, number)),
            ("state", offset_of!(Record, state)),
            ("waits", offset_of!(Record, waits)),
            ("meeting", offset_of!(Record, meeting)),
            ("extras", offset_of!(Record, extras)),
            ("used", offset_of!(Record, used)),
        ] {
            let index = names.iter().position(|other| *other == name).unwrap();
            assert_eq!(LAYOUT[index], offset as u64, "{name}");
        }
        // The widths that the script reads.
        let widths = |record: &Record| {
            [
                size_of_val(&record.number),
                size_of_val(&record.state),
                size_of_val(&record.spent),
                size_of_val(&record.used),
            ]
        };
        let _: fn(&Record) -> [usize; 4] = widths;
        assert_eq!([size_of::<Cell<u32>>(), size_of::<AtomicUsize>()], [4, 8]);
    }

    #[test]
    fn a_runtime_has_a_place_in_the_list_until_it_is_over() {
        let mut record = std::mem::MaybeUninit::<Record>::uninit();
        let address = record.as_mut_ptr();
        let listed = || RUNTIMES.iter().any(|listed| listed.records.load(Relaxed) == address);
        let place = Place::new(address);
        place.made(3);
        assert!(listed());
        drop(place);
        assert!(!listed());
    }
}
