//! What the kernel keeps for a thread. Fibers on the same kernel thread share it.

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Mutex;

use ways::{switch, together, until};

fn numbers_of_threads_are_different_and_stay() -> (Vec<bool>, usize) {
    let numbers = Mutex::new(Vec::new());
    let stay = together(4, |_| {
        // SAFETY: it has no conditions.
        let own = || unsafe { libc::gettid() };
        let before = own();
        numbers.lock().unwrap().push(before);
        until(|| numbers.lock().unwrap().len() == 4);
        own() == before
    });
    (stay, numbers.into_inner().unwrap().into_iter().collect::<BTreeSet<_>>().len())
}

fn names_belong_to_a_strand() -> Vec<bool> {
    let own = |thread| std::fs::read_to_string(format!("/proc/self/task/{thread}/comm")).unwrap();
    together(3, |who| {
        let mut name = format!("strand-{who}\0").into_bytes();
        // SAFETY: it is a string.
        unsafe { libc::prctl(libc::PR_SET_NAME, name.as_mut_ptr()) };
        switch();
        // SAFETY: it has no conditions.
        own(unsafe { libc::gettid() }) == format!("strand-{who}\n")
    })
}

/// Whether this thread blocks a signal, after it has blocked or unblocked it.
fn mask(how: i32) -> bool {
    let mut set = MaybeUninit::uninit();
    let mut now = MaybeUninit::uninit();
    // SAFETY: sets are initialised before they are used.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGUSR2);
        libc::pthread_sigmask(how, set.as_ptr(), ptr::null_mut());
        libc::pthread_sigmask(how, ptr::null(), now.as_mut_ptr());
        libc::sigismember(now.as_ptr(), libc::SIGUSR2) == 1
    }
}

fn blocked_signals_belong_to_a_strand() -> Vec<bool> {
    together(3, |who| {
        if who == 0 {
            mask(libc::SIG_BLOCK);
        }
        switch();
        let mut now = MaybeUninit::uninit();
        // SAFETY: there is room for the set.
        let blocked = unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), now.as_mut_ptr());
            libc::sigismember(now.as_ptr(), libc::SIGUSR2) == 1
        };
        switch();
        mask(libc::SIG_UNBLOCK);
        blocked
    })
}

fn the_alternate_stack_belongs_to_a_strand() -> Vec<bool> {
    together(3, |_| {
        let mut room = vec![0_u8; 64 << 10];
        let pointer: *mut c_void = room.as_mut_ptr().cast();
        let own = libc::stack_t { ss_sp: pointer, ss_flags: 0, ss_size: room.len() };
        let mut before = MaybeUninit::uninit();
        let mut now = MaybeUninit::<libc::stack_t>::uninit();
        // SAFETY: the room outlives its use, and there is room for the answers.
        unsafe {
            libc::sigaltstack(&raw const own, before.as_mut_ptr());
            switch();
            libc::sigaltstack(before.as_ptr(), now.as_mut_ptr());
            switch();
            now.assume_init().ss_sp == pointer
        }
    })
}

/// A set of CPUs.
fn cpus() -> Vec<usize> {
    let mut set = MaybeUninit::zeroed();
    // SAFETY: there is room for the set.
    unsafe {
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), set.as_mut_ptr());
        let set = set.assume_init();
        (0..libc::CPU_SETSIZE as usize).filter(|&cpu| libc::CPU_ISSET(cpu, &set)).collect()
    }
}

fn set_cpus(cpus: &[usize]) {
    // SAFETY: zeros are an empty set.
    unsafe {
        let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed().assume_init();
        cpus.iter().for_each(|&cpu| libc::CPU_SET(cpu, &mut set));
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}

/// With one CPU there is nothing to see.
fn cpus_belong_to_a_strand() -> Vec<bool> {
    together(3, |who| {
        let before = cpus();
        let own = &before[..if who == 0 { 1 } else { before.len() }];
        set_cpus(own);
        switch();
        let same = cpus() == own;
        set_cpus(&before);
        switch();
        same
    })
}

ways::in_every_way! {
    only_on_kernel_threads: "it belongs to the kernel's thread, which fibers of a worker share";
    numbers_of_threads_are_different_and_stay
    names_belong_to_a_strand
    blocked_signals_belong_to_a_strand
    the_alternate_stack_belongs_to_a_strand
    cpus_belong_to_a_strand
}
