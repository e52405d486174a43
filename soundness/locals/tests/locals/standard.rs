//! `thread_local!` of the standard library.

use std::cell::{Cell, RefCell};
use std::thread;

use ways::{switch, together};

thread_local! {
    static NUMBER: Cell<usize> = const { Cell::new(0) };
    static WORDS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    static FIRST: Cell<bool> = const { Cell::new(true) };
    static TEXT: RefCell<String> = RefCell::new(text());
    static ROOM: Box<Cell<[u64; 8]>> = Box::new(Cell::new([0; 8]));
}

/// An initialiser that lets other strands run.
fn text() -> String {
    if FIRST.replace(false) {
        switch();
        return "second".repeat(50);
    }
    "first".repeat(50)
}

fn an_initialiser_that_switches_runs_once() -> Vec<bool> {
    together(3, |_| {
        TEXT.with(|text| {
            let before = text.borrow().clone();
            switch();
            let noise = vec![b'x'; before.len()];
            switch();
            *text.borrow() == before && noise.len() == before.len()
        })
    })
}

fn a_cell_belongs_to_its_strand() -> Vec<usize> {
    together(4, |who| {
        NUMBER.set(who);
        for _ in 0..20 {
            let number = NUMBER.get();
            switch();
            NUMBER.set(number + 10);
        }
        NUMBER.get()
    })
}

fn a_value_may_be_borrowed_across_a_switch() -> Vec<Vec<String>> {
    together(3, |who| {
        WORDS.with_borrow_mut(|words| {
            words.clear();
            for round in 0..10 {
                words.push(format!("{who} {round}"));
                switch();
            }
        });
        WORDS.with_borrow(|words| {
            switch();
            words.clone()
        })
    })
}

fn a_value_may_be_lent_to_a_thread() -> Vec<[u64; 8]> {
    together(3, |who| {
        ROOM.with(|room| {
            room.set([who as u64; 8]);
            let room = room.get();
            thread::scope(|scope| {
                let reads = scope.spawn(|| {
                    let before = room;
                    thread::yield_now();
                    assert_eq!(room, before);
                    before
                });
                switch();
                reads.join().unwrap()
            })
        })
    })
}

ways::in_every_way! {
    an_initialiser_that_switches_runs_once
    a_cell_belongs_to_its_strand
    a_value_may_be_borrowed_across_a_switch
}

/// Strands start threads. Meanwhile the address sanitizer blocks signals, and waits for a lock. If
/// a fiber of the same worker was interrupted with that, no tick would let it release it.
mod lending {
    use super::*;
    #[cfg(not(rowlock_asan))]
    ways::in_every_way! {
        a_value_may_be_lent_to_a_thread
    }
    #[cfg(rowlock_asan)]
    ways::switching! {
        a_value_may_be_lent_to_a_thread
    }
}
