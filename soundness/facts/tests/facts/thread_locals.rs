//! A thread's own variables: they are new, and their destructors run before it can be joined.

use std::cell::{Cell, RefCell};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

use ways::{switch, together};

thread_local! {
    static NUMBER: Cell<usize> = const { Cell::new(7) };
    static DROPS: RefCell<Option<Drops>> = const { RefCell::new(None) };
    static AGAIN: Cell<usize> = const { Cell::new(1) };
}

fn thread_locals_belong_to_a_strand() -> Vec<usize> {
    together(4, |who| {
        NUMBER.set(who);
        switch();
        AGAIN.set(NUMBER.get());
        switch();
        AGAIN.replace(1) * 10 + NUMBER.replace(7)
    })
}

fn thread_locals_of_a_new_strand_are_new() -> Vec<usize> {
    let one = |_| NUMBER.replace(8);
    (0..4).flat_map(|_| together(1, one)).collect()
}

static DROPPED: AtomicUsize = AtomicUsize::new(0);

struct Drops;

impl Drop for Drops {
    fn drop(&mut self) {
        switch();
        DROPPED.fetch_add(AGAIN.get(), SeqCst);
    }
}

fn destructors_have_run_when_a_strand_is_joined() -> Vec<usize> {
    let round = |_| {
        let before = DROPPED.load(SeqCst);
        together(3, |_| {
            DROPS.with_borrow_mut(|drops| *drops = Some(Drops));
            switch();
        });
        DROPPED.load(SeqCst) - before
    };
    (0..2).map(round).collect()
}

ways::in_every_way! {
    thread_locals_belong_to_a_strand
    thread_locals_of_a_new_strand_are_new
    destructors_have_run_when_a_strand_is_joined
}
