//! The threads that are looked at.

use std::fs::File;
use std::process::{Child, Command};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;

use rustix::process::Pid;
use rustix::thread::{CpuSet, gettid, sched_setaffinity};
use sys::perf::switches::LastSwitch;

use crate::spin_for;

/// The argument by which this program only computes.
pub const COMPUTE: &str = "--compute";

/// The names of those whose looks are timed.
pub const BUSY: &str = "Computes on CPU 1";
pub const IDLE: &str = "Sleeps";
pub const PROCESS: &str = "Another process that computes on CPU 1";

/// A thread that is looked at.
pub struct Subject {
    pub name: &'static str,
    pub thread: u32,
    pub clock: libc::clockid_t,
    pub stat: File,
    pub schedstat: File,
    pub last_switch: Option<LastSwitch>,
    /// The address of its `rseq` area, for a thread of this process.
    rseq: Option<usize>,
}

impl Subject {
    fn new(name: &'static str, thread: u32, rseq: Option<usize>) -> Subject {
        let file = |which| File::open(format!("/proc/{thread}/task/{thread}/{which}")).unwrap();
        // Clocks of threads have 6 in the lowest three bits, those of processes 2.
        let kind = if rseq.is_some() { 6 } else { 2 };
        let clock = !(thread as libc::clockid_t) << 3 | kind;
        let last_switch = rseq.and_then(|_| LastSwitch::of(thread).ok());
        Subject { name, thread, clock, stat: file("stat"), schedstat: file("schedstat"), last_switch, rseq }
    }

    /// The CPU on which it last returned to user mode.
    pub fn rseq_cpu(&self) -> Option<u32> {
        // SAFETY: the thread lives as long as the program, and so does its area, whose second word
        // is the CPU. The kernel writes it while it is read, so it is read as an atomic.
        Some(unsafe { &*((self.rseq? + 4) as *const AtomicU32) }.load(Relaxed))
    }
}

/// The address of the `rseq` area of the calling thread, which the C library has registered.
fn rseq_area() -> usize {
    // SAFETY: the call has no preconditions, and a C library that has the variable defines it as a
    // constant of this type.
    let offset = unsafe {
        let symbol = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()).cast::<isize>();
        assert!(!symbol.is_null(), "a C library that registers rseq");
        symbol.read()
    };
    let pointer: usize;
    // SAFETY: the first word at the thread pointer is its own address on x86-64.
    unsafe { std::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, readonly)) };
    pointer.wrapping_add_signed(offset)
}

/// Restricts the calling thread to CPUs.
pub fn bind(cpus: &[usize]) {
    restrict(None, cpus);
}

fn restrict(thread: Option<Pid>, cpus: &[usize]) {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(*cpu));
    sched_setaffinity(thread, &set).unwrap();
}

pub struct Subjects {
    pub all: Vec<Subject>,
    gate: Arc<Barrier>,
    process: Child,
}

impl Drop for Subjects {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn compute() {
    loop {
        std::hint::black_box(0);
    }
}

fn compute_and_sleep() {
    loop {
        spin_for(Duration::from_micros(300));
        std::thread::sleep(Duration::from_micros(300));
    }
}

fn sleep() {
    loop {
        std::thread::park();
    }
}

impl Subjects {
    /// Starts them. They wait until [`Subjects::go`].
    pub fn start() -> Subjects {
        type Body = fn();
        let threads: [(&'static str, &'static [usize], Body); 6] = [
            ("Computes anywhere", &[0, 1], compute),
            ("Computes on CPU 0", &[0], compute),
            (BUSY, &[1], compute),
            ("Computes on CPU 1, second", &[1], compute),
            ("Computes 0.3 ms and sleeps 0.3 ms on CPU 1", &[1], compute_and_sleep),
            (IDLE, &[0, 1], sleep),
        ];
        let gate = Arc::new(Barrier::new(threads.len() + 1));
        let mut all = Vec::new();
        for (name, cpus, body) in threads {
            let (gate, (sender, receiver)) = (gate.clone(), mpsc::channel());
            std::thread::spawn(move || {
                bind(cpus);
                sender.send((gettid().as_raw_pid().unsigned_abs(), rseq_area())).unwrap();
                gate.wait();
                body();
            });
            let (thread, rseq) = receiver.recv().unwrap();
            all.push(Subject::new(name, thread, Some(rseq)));
        }
        let process = Command::new("/proc/self/exe").arg(COMPUTE).spawn().unwrap();
        restrict(Some(Pid::from_child(&process)), &[1]);
        all.push(Subject::new(PROCESS, process.id(), None));
        Subjects { all, gate, process }
    }

    /// Lets them begin.
    pub fn go(&self) {
        self.gate.wait();
    }

    /// The one of this name.
    pub fn named(&self, name: &str) -> &Subject {
        self.all.iter().find(|subject| subject.name == name).unwrap()
    }
}
