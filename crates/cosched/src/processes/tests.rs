//! Tests with real processes.

use std::os::unix::process::CommandExt;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Instant;

use rustix::process::{Pid, Resource, Rlimit, Signal, Uid, WaitOptions, getrlimit, setrlimit, waitpid};
use sys::identity::{Identity, Stat};
use testing::Child;

use super::{Outcome, Process, Processes, mark};

pub(crate) fn identity(pid: u32) -> Identity {
    Identity { pid, started: Stat::of(pid).unwrap().started }
}

/// The state of the main thread.
pub(crate) fn state(pid: u32) -> u8 {
    Stat::of(pid).unwrap().state
}

/// Waits until a condition holds.
#[track_caller]
pub(crate) fn until(mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + testing::child::limit();
    while !holds() {
        assert!(Instant::now() < deadline, "a condition that does not come true");
        std::thread::yield_now();
    }
}

fn shell(script: &str) -> std::process::Command {
    let mut shell = testing::command("sh");
    shell.args(["-c", script]);
    shell
}

/// A process with its mark.
struct Subject {
    child: Child,
    process: Process,
    mark: AtomicU32,
}

impl Subject {
    fn start() -> Subject {
        Subject::of(Child::start(testing::command("sleep").arg("1000")))
    }

    fn of(child: Child) -> Subject {
        let process = Process::open(identity(child.id())).unwrap();
        Subject { child, process, mark: AtomicU32::new(0) }
    }

    fn stop(&self) -> Outcome {
        self.process.stop(&self.mark)
    }

    fn resume(&self) -> Outcome {
        self.process.resume(&self.mark)
    }

    fn send(&self, signal: Signal) {
        self.child.send(signal.as_raw());
    }

    fn is_stopped(&self) -> bool {
        state(self.child.id()) == b'T'
    }

    fn stop_fully(&self) {
        assert_eq!(self.stop(), Outcome::Done);
        until(|| self.is_stopped());
    }

    fn is_ours(&self) -> bool {
        mark::is_ours(self.mark.load(SeqCst))
    }
}

#[test]
fn a_process_is_stopped_and_continued_however_often_that_is_asked() {
    let subject = Subject::start();
    for count in 1..4 {
        subject.stop_fully();
        let mark = subject.mark.load(SeqCst);
        assert_eq!(subject.stop(), Outcome::Done);
        assert_eq!((subject.mark.load(SeqCst), mark::stops(mark)), (mark, count));
        assert!(subject.is_ours());
        for _ in 0..2 {
            assert_eq!(subject.resume(), Outcome::Done);
            assert!(!subject.is_stopped() && !subject.is_ours());
        }
    }
}

#[test]
fn a_process_that_a_user_has_stopped_is_left_alone() {
    let subject = Subject::start();
    subject.send(Signal::STOP);
    until(|| subject.is_stopped());
    assert_eq!(subject.stop(), Outcome::Foreign);
    assert_eq!(subject.resume(), Outcome::Done);
    assert!(subject.is_stopped());
    assert_eq!(subject.mark.load(SeqCst), 0);
}

#[test]
fn a_stop_by_a_user_during_ours_remains_until_the_user_continues_it() {
    let subject = Subject::start();
    subject.stop_fully();
    subject.send(Signal::STOP);
    assert_eq!(subject.resume(), Outcome::Foreign);
    assert!(subject.is_stopped() && !subject.is_ours());
    assert_eq!((subject.resume(), subject.stop()), (Outcome::Done, Outcome::Foreign));
    assert!(subject.is_stopped());
    subject.send(Signal::CONT);
    assert!(!subject.is_stopped());
    subject.stop_fully();
    assert_eq!(subject.resume(), Outcome::Done);
    assert!(!subject.is_stopped());
}

#[test]
fn a_process_that_a_user_continues_during_our_stop_is_stopped_again() {
    let subject = Subject::start();
    subject.stop_fully();
    subject.send(Signal::CONT);
    subject.stop_fully();
    assert!(subject.is_ours());
    // A second signal of another switcher, which acts no more.
    subject.send(Signal::STOP);
    assert_eq!(subject.resume(), Outcome::Done);
    assert!(!subject.is_stopped());
}

#[test]
fn a_stop_whose_switcher_died_is_carried_out_or_undone_by_the_next_one() {
    let subject = Subject::start();
    subject.mark.store(mark::stopped(0), SeqCst);
    subject.stop_fully();
    assert_eq!(subject.resume(), Outcome::Done);
    assert!(!subject.is_stopped());
    subject.mark.store(mark::stopped(0), SeqCst);
    assert_eq!(subject.resume(), Outcome::Done);
    assert!(!subject.is_ours());
}

#[test]
fn a_process_whose_switcher_died_before_it_continued_it_is_continued_or_remains_stopped() {
    let subject = Subject::start();
    let die = || {
        subject.stop_fully();
        let stops = mark::stops(subject.mark.load(SeqCst));
        subject.mark.store(mark::resuming(subject.mark.load(SeqCst)), SeqCst);
        stops
    };
    die();
    assert_eq!(subject.resume(), Outcome::Done);
    assert!(!subject.is_stopped() && !subject.is_ours());
    let stops = die();
    assert_eq!(subject.stop(), Outcome::Done);
    let mark = subject.mark.load(SeqCst);
    assert!(subject.is_stopped() && mark::stays(mark) && mark::stops(mark) == stops + 1);
    assert_eq!(subject.resume(), Outcome::Done);
    assert!(!subject.is_stopped() && !subject.is_ours());
}

#[test]
fn switchers_that_disagree_leave_no_process_stopped() {
    for round in 1..=10_u64 {
        let subject = Subject::of(Child::start(&mut shell("while :; do :; done")));
        let switch = |seed: u64| {
            let choices = std::iter::successors(Some(seed), |last| {
                let next = last ^ last << 13;
                let next = next ^ next >> 7;
                Some(next ^ next << 17)
            });
            for choice in choices.take(500) {
                let _ = if choice % 2 == 0 { subject.stop() } else { subject.resume() };
            }
        };
        std::thread::scope(|scope| {
            for seed in round * 4..round * 4 + 4 {
                scope.spawn(move || switch(seed));
            }
        });
        assert_eq!(subject.resume(), Outcome::Done);
        assert!(!subject.is_stopped() && !subject.is_ours());
        subject.stop_fully();
    }
}

#[test]
fn a_terminal_stop_during_ours_acts_when_the_process_is_continued() {
    let signal = |subject: &Subject| {
        let pid = Pid::from_raw(subject.child.id() as i32);
        let mut signal = None;
        until(|| {
            let status = waitpid(pid, WaitOptions::UNTRACED | WaitOptions::NOHANG).unwrap();
            signal = status.and_then(|(_, status)| status.stopping_signal());
            signal.is_some()
        });
        signal
    };
    // In its own group, whose parent is this process: it is not orphaned.
    let subject = Subject::of(Child::start(testing::command("sleep").arg("1000").process_group(0)));
    for terminal in [Signal::TSTP, Signal::TTIN, Signal::TTOU] {
        subject.stop_fully();
        assert_eq!(signal(&subject), Some(Signal::STOP.as_raw()));
        subject.send(terminal);
        assert_eq!(subject.resume(), Outcome::Done);
        assert_eq!(signal(&subject), Some(terminal.as_raw()));
        assert!(!subject.is_ours());
        assert_eq!(subject.stop(), Outcome::Foreign);
        subject.send(Signal::CONT);
    }
}

#[test]
fn a_terminal_stop_during_ours_is_caught_or_has_no_effect_as_without_it() {
    let mut child = Child::start_piped(&mut shell("trap 'exit 7' TSTP; echo ready; while :; do :; done"));
    child.read_line();
    let subject = Subject::of(child);
    subject.stop_fully();
    subject.send(Signal::TSTP);
    assert_eq!(subject.resume(), Outcome::Done);
    subject.child.wait().expect_exit(7);
    // A session of its own: its group is orphaned, and the signal would not stop it.
    let mut child = Child::start_piped(&mut shell("exec setsid sh -c 'echo ready; read word; exit 8'"));
    child.read_line();
    let mut subject = Subject::of(child);
    subject.stop_fully();
    subject.send(Signal::TSTP);
    assert_eq!(subject.resume(), Outcome::Done);
    subject.child.write_line("word");
    subject.child.wait().expect_exit(8);
}

#[test]
fn a_process_that_has_ended_is_neither_stopped_nor_continued() {
    let mut subject = Subject::start();
    let identity = identity(subject.child.id());
    subject.child.process().kill().unwrap();
    assert!(subject.child.wait_until_ended());
    let expect_ended = |subject: &Subject| {
        assert_eq!((subject.stop(), subject.mark.load(SeqCst)), (Outcome::Ended, 0));
        let mark = AtomicU32::new(mark::stopped(0));
        assert_eq!(subject.process.resume(&mark), Outcome::Ended);
        assert!(Process::open(identity).is_none());
    };
    expect_ended(&subject);
    subject.child.process().wait().unwrap();
    expect_ended(&subject);
}

#[test]
fn a_process_with_another_start_time_or_an_impossible_id_is_not_opened() {
    let own = Identity::own();
    assert!(Process::open(own).is_some());
    for started in [0, own.started - 1, own.started + 1] {
        assert!(Process::open(Identity { started, ..own }).is_none());
    }
    for pid in [0, i32::MAX as u32, i32::MAX as u32 + 1, u32::MAX] {
        assert!(Process::open(Identity { pid, ..own }).is_none());
    }
}

#[test]
fn a_traced_process_is_left_alone_and_keeps_its_mark() {
    let call = if cfg!(target_arch = "x86_64") { 101 } else { 117 };
    let Some(perl) = testing::tool("PERL", "perl") else { return };
    // The program makes this process its tracer: PTRACE_TRACEME.
    let script = format!("$| = 1; syscall({call}, 0, 0, 0, 0) == 0 or die $!; print qq(ready\n); sleep 1000");
    let mut child = Child::start_piped(testing::command(perl).args(["-e", &script]));
    assert_eq!(child.read_line(), "ready");
    let subject = Subject::of(child);
    assert_eq!((subject.stop(), subject.mark.load(SeqCst)), (Outcome::Traced, 0));
    let ours = mark::stopped(0);
    subject.mark.store(ours, SeqCst);
    assert_eq!((subject.stop(), subject.resume()), (Outcome::Traced, Outcome::Traced));
    assert_eq!(subject.mark.load(SeqCst), ours);
    until(|| state(subject.child.id()) == b'S');
}

#[test]
fn a_process_of_another_user_is_reported_and_not_marked() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("not tested: it takes root to start a process of another user");
    }
    // In a session of its own: any user may continue a process of the same session.
    let mut child = Child::start_piped(&mut shell("exec setsid sh -c 'echo ready; exec sleep 1000'"));
    child.read_line();
    let subject = Subject::of(child);
    // Only this thread becomes another user.
    let expect_forbidden = || {
        rustix::thread::set_thread_uid(Uid::from_raw(testing::NOBODY)).unwrap();
        assert_eq!((subject.stop(), subject.mark.load(SeqCst)), (Outcome::Forbidden, 0));
        let ours = mark::stopped(0);
        subject.mark.store(ours, SeqCst);
        assert_eq!((subject.stop(), subject.resume()), (Outcome::Forbidden, Outcome::Forbidden));
        assert_eq!(subject.mark.load(SeqCst), ours);
    };
    std::thread::scope(|scope| scope.spawn(expect_forbidden).join()).unwrap();
}

/// How many descriptors this process has.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn a_process_is_kept_open_as_long_as_it_is_used_in_each_round() {
    testing::isolated(|| {
        let [first, second] = [Subject::start(), Subject::start()];
        let [first, second] = [&first, &second].map(|subject| identity(subject.child.id()));
        let (before, mut processes) = (descriptors(), Processes::new());
        let mut expect_open = |used: &[Identity], open: usize| {
            for &identity in used {
                assert!(processes.get(identity).is_some());
            }
            processes.forget_unused();
            assert_eq!(descriptors(), before + 2 * open);
        };
        expect_open(&[first, second, first], 2);
        expect_open(&[second], 1);
        expect_open(&[first, second], 2);
        expect_open(&[], 0);
        let mut processes = Processes::new();
        assert!(processes.get(Identity { started: 1, ..first }).is_none());
    });
}

#[test]
fn there_may_be_more_processes_than_descriptors() {
    testing::isolated(|| {
        let subjects: Vec<Subject> = (0..8).map(|_| Subject::start()).collect();
        let marks = || subjects.iter().map(|subject| (identity(subject.child.id()), &subject.mark));
        let limit = |descriptors: usize| {
            let limit = Rlimit { current: Some(descriptors as u64), ..getrlimit(Resource::Nofile) };
            setrlimit(Resource::Nofile, limit).unwrap();
        };
        let in_use = descriptors();
        let mut unaware = Processes::new();
        limit(4 * 3);
        let mut aware = Processes::new();
        for (processes, left) in [(&mut unaware, 6), (&mut aware, 100)] {
            limit(in_use + left);
            processes.stop_all(marks(), None, |_, outcome| assert_eq!(outcome, Outcome::Done));
            limit(in_use + 100);
            assert!(descriptors() <= in_use + 2 * 3);
            subjects.iter().for_each(|subject| until(|| subject.is_stopped()));
            let mut resume = || processes.resume_all(marks(), |_, outcome| assert_eq!(outcome, Outcome::Done));
            assert!(resume().is_some() && resume().is_none());
            processes.forget_unused();
            processes.forget_unused();
            assert!(subjects.iter().all(|subject| !subject.is_stopped()));
        }
    });
}

#[test]
fn a_parent_does_not_see_that_its_child_was_stopped() {
    let Some(perl) = testing::tool("PERL", "perl") else { return };
    let script = "use POSIX qw(:sys_wait_h); $| = 1; my $child = fork(); if (!$child) { sleep 1000; exit }
                  print qq($child\n); waitpid($child, WUNTRACED); print WIFSTOPPED($?) ? qq(stopped\n) : qq(ended\n);";
    let mut parent = Child::start_piped(testing::command(perl).args(["-e", script]));
    let child: u32 = parent.read_line().parse().unwrap();
    let marks = [AtomicU32::new(0), AtomicU32::new(0)];
    let family = [parent.id(), child].map(identity);
    let list = || family.into_iter().zip(&marks);
    let mut processes = Processes::new();
    let mut order = Vec::new();
    processes.stop_all(list().take(1), None, |identity, _| order.push(identity.pid));
    until(|| state(parent.id()) == b'T');
    processes.stop_all(list(), None, |identity, _| order.push(identity.pid));
    until(|| state(child) == b'T');
    processes.resume_all(list(), |identity, _| order.push(identity.pid));
    assert_eq!(order, [parent.id(), parent.id(), child, child, parent.id()]);
    sys::signals::send(Pid::from_raw(child as i32).unwrap(), Signal::KILL.as_raw()).unwrap();
    assert_eq!(parent.read_line(), "ended");
}
