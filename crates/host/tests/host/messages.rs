//! Jobs of ranks that exchange messages.

use std::fs;
use std::sync::atomic::Ordering;

use policy::Span;
use policy::gang::Gang;
use policy::layout::{Request, Shape};
use policy::table::WAITING;
use policy::waiting::WaitingRule;
use rowlock_host::Error;
use rustix::process::{Pid, Signal, kill_process};
use scenario::message::Pattern;
use scenario::result::JobOutcome;
use scenario::{Arrival, Attributes, Distribution, Job, JobKind, Message, Setting};
use sys::scheduling::{Thread, affinity};
use testing::processes::is_stopped;

use crate::family::wait_until;
use crate::processes::{own_name, processes, processes_of_ranks};
use crate::runs::{self, hogs, job, run_while, setting, shell};
use crate::turns;

pub(crate) const TRIALS: &[(&str, fn())] = &[
    ("ranks_exchange_messages_in_every_pattern_by_every_waiting_rule", every_pattern_and_rule),
    ("ranks_exchange_messages_that_are_longer_than_a_ring", long_messages),
    ("ranks_begin_when_their_job_arrives_and_sleep_as_long_as_it_says", late_job),
    ("ranks_that_keep_running_are_counted_once", keep_running),
    ("ranks_take_turns_in_every_way_to_share_cells", every_way_to_share_cells),
    ("ranks_get_the_requested_scheduling", requested_scheduling),
    ("a_rank_that_is_killed_ends_its_job_and_no_process_is_left", killed_rank),
    ("a_cancelled_run_ends_all_ranks", cancelled_run),
    ("a_cancelled_run_ends_ranks_that_are_stopped", stopped_ranks),
    ("a_run_that_is_cancelled_while_ranks_are_prepared_ends_them", unprepared_ranks),
    ("lists_of_processes_tell_the_number_and_the_job_of_a_rank", named_ranks),
    ("states_of_ranks_are_sampled", sampled),
    ("more_ranks_than_can_share_memory_are_refused", too_many_ranks),
];

fn ranks(pattern: Pattern, ranks: u32, rounds: u64, waiting: WaitingRule) -> Message {
    Message {
        request: Request::Ranks(ranks),
        pattern,
        bytes: 10,
        rounds,
        compute: Some(Distribution::Normal { mean: Span::from_micros(10), sd: Span::from_micros(1) }),
        sleep: None,
        waiting,
        weight: 1,
    }
}

/// A job of two ranks that does not end by itself.
pub(crate) fn endless(name: &str) -> Job {
    let of = ranks(Pattern::Exchange, 2, 1 << 40, WaitingRule::AlwaysBlock);
    job(name, JobKind::Message(of))
}

fn check(outcome: &JobOutcome, rounds: u64) {
    assert_eq!(outcome.rounds, Some(rounds), "{outcome:?}");
    assert!(outcome.start_ns <= outcome.completion_ns && outcome.start_ns.is_some(), "{outcome:?}");
    assert!(outcome.delivered_work_ns > Some(Span::ZERO) && outcome.cpu_ns > Some(Span::ZERO), "{outcome:?}");
}

fn every_pattern_and_rule() {
    for entry in WAITING {
        let jobs = Pattern::ALL.map(|pattern| {
            let request = Request::Rectangle(Shape { columns: 3, rows: 1 });
            job(pattern.name(), JobKind::Message(Message { request, ..ranks(pattern, 3, 20, entry.example) }))
        });
        let outcomes = runs::run(&setting(jobs.to_vec())).unwrap().outcome.jobs;
        for outcome in outcomes {
            check(&outcome, 20);
            // Whether a rank ever waited depends on timing.
            let may_spin = !matches!(entry.example, WaitingRule::AlwaysBlock | WaitingRule::AlwaysYield);
            let spins = (outcome.ssr_percent, outcome.spin_ns);
            assert!(may_spin || spins == (None, Some(Span::ZERO)), "{}: {outcome:?}", entry.form);
        }
    }
}

fn long_messages() {
    let kinds = Pattern::ALL
        .map(|pattern| JobKind::Message(Message { bytes: 300_000, ..ranks(pattern, 4, 10, WaitingRule::AlwaysBlock) }));
    let jobs = kinds.into_iter().zip(["a", "b", "c"]).map(|(kind, name)| Job::new(name, 2, kind));
    let outcomes = runs::run(&setting(jobs.collect())).unwrap().outcome.jobs;
    assert_eq!(outcomes.len(), 6);
    outcomes.iter().for_each(|outcome| check(outcome, 10));
}

fn late_job() {
    let arrival = Arrival { at: Span::from_millis(50), every: None };
    let of = ranks(Pattern::Ring, 2, 20, WaitingRule::AlwaysBlock);
    let sleep = Message { sleep: Some(Span::from_millis(1).into()), ..of.clone() };
    let jobs = vec![job("first", JobKind::Message(sleep)), Job { arrival, ..job("late", JobKind::Message(of)) }];
    let outcomes = runs::run(&setting(jobs)).unwrap().outcome.jobs;
    outcomes.iter().for_each(|outcome| check(outcome, 20));
    // Each of its two ranks sleeps in each round.
    assert!(outcomes[0].completion_ns >= Some(Span::from_millis(40)), "{outcomes:?}");
}

fn keep_running() {
    let (name, place) = (own_name("on"), tempfile::tempdir().unwrap());
    let end = place.path().join("end");
    let script = format!("until [ -e {} ]; do sleep 0.01; done", end.display());
    let of = ranks(Pattern::OneToAll, 2, 5, WaitingRule::AlwaysBlock);
    let jobs = vec![job(&name, JobKind::Message(of)), job("script", shell(&script))];
    let run = run_while(&Setting { keep_running: true, ..setting(jobs) }, |_| {
        // Five rounds have ten waits.
        wait_until("two ranks that go on", || {
            processes_of_ranks(&name).into_iter().filter(|&id| blocks(id) > 1_000).count() == 2
        });
        fs::write(&end, "").unwrap();
    });
    check(&run.unwrap().outcome.jobs[0], 5);
}

/// How often the threads of a process have blocked.
fn blocks(id: u32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
    let of_thread = |status: String| {
        let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        count.and_then(|count| count.trim().parse::<u64>().ok())
    };
    threads.filter_map(|thread| of_thread(fs::read_to_string(thread.path().join("status")).ok()?)).sum()
}

fn every_way_to_share_cells() {
    for how in [Gang::None, Gang::Implicit, Gang::Adaptive, Gang::Strict, Gang::Moderate] {
        let of = Message { weight: 2, ..ranks(Pattern::Exchange, 2, 200, WaitingRule::AlwaysSpin) };
        let jobs = vec![Job::new("ranks", 2, JobKind::Message(of)), job("hogs", hogs(1))];
        let run = match runs::run(&turns::setting(how, jobs)) {
            Err(refused) if how == Gang::Moderate && cosched::find_lower_mechanism().is_err() => {
                assert!(refused.is_input() && refused.to_string().contains("cannot be lowered"), "{refused}");
                continue;
            }
            run => run.unwrap(),
        };
        run.outcome.jobs[..2].iter().for_each(|outcome| check(outcome, 200));
        let shared = run.outcome.machine.coscheduling.unwrap();
        match how {
            Gang::None | Gang::Implicit => assert_eq!(shared.slices_most, 0, "{how}: {shared:?}"),
            Gang::Moderate | Gang::Strict => assert!(shared.slices_most > 0, "{how}: {shared:?}"),
            // Whether they take turns depends on how they wait.
            _ => {}
        }
    }
}

fn stopped_ranks() {
    let name = own_name("stopped");
    let jobs = vec![endless(&name), job("hogs", hogs(runs::sys_cpus())), job("other", hogs(runs::sys_cpus()))];
    let cancelled = run_while(&turns::setting(Gang::Strict, jobs), |cancel| {
        wait_until("both ranks to be stopped", || {
            let ranks = processes_of_ranks(&name);
            ranks.len() == 2 && ranks.into_iter().all(|id| is_stopped(id) == Some(true))
        });
        cancel.store(true, Ordering::Relaxed);
    });
    assert!(matches!(cancelled, Err(Error::Cancelled)), "{cancelled:?}");
    assert_eq!(processes(&name), Vec::<u32>::new());
}

fn requested_scheduling() {
    let name = own_name("niced");
    // Every user may choose a nice value that is not better than the present one.
    let nice = sys::scheduling::nice(Thread::current()).unwrap().max(7);
    let cpu = policy::CpuId(rowlock_host::Machine::current().unwrap().cpus_allowed[0]);
    let attributes = Attributes { nice: nice as i8, cpus: Some([cpu].into_iter().collect()), slice: None };
    let _ = run_while(&setting(vec![Job { attributes, ..endless(&name) }]), |cancel| {
        let threads = |id: u32| fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
        let of_rank = |id: u32| {
            let named =
                threads(id).find(|thread| fs::read(thread.path().join("comm")).is_ok_and(|name| name == b"rank\n"));
            named.and_then(|thread| Thread::from_number(thread.file_name().to_str()?.parse().ok()?))
        };
        wait_until("two ranks", || processes_of_ranks(&name).into_iter().filter_map(of_rank).count() == 2);
        let found = processes_of_ranks(&name).into_iter().filter_map(of_rank);
        let found: Vec<_> = found.map(|rank| (sys::scheduling::nice(rank).unwrap(), affinity(rank).unwrap())).collect();
        assert_eq!(found, [(nice, vec![cpu.0]), (nice, vec![cpu.0])]);
        cancel.store(true, Ordering::Relaxed);
    });
}

fn killed_rank() {
    let name = own_name("doomed");
    let died = run_while(&setting(vec![endless(&name), job("hogs", hogs(1))]), |_| {
        wait_until("two ranks", || processes_of_ranks(&name).len() == 2);
        let id = processes_of_ranks(&name).first().and_then(|&id| Pid::from_raw(id as i32)).unwrap();
        kill_process(id, Signal::KILL).unwrap();
    });
    let why = died.unwrap_err();
    // The other rank may report the death first.
    assert!(!why.is_input() && why.to_string().starts_with(&format!("job `{name}`: rank ")), "{why}");
    assert_eq!(processes(&name), Vec::<u32>::new());
}

fn cancelled_run() {
    let name = own_name("cut");
    for keep_running in [false, true] {
        let cancelled = run_while(&Setting { keep_running, ..setting(vec![endless(&name)]) }, |cancel| {
            wait_until("two ranks", || processes_of_ranks(&name).len() == 2);
            cancel.store(true, Ordering::Relaxed);
        });
        assert!(matches!(cancelled, Err(Error::Cancelled)), "{cancelled:?}");
        assert_eq!(processes(&name), Vec::<u32>::new());
    }
}

/// How the name of a job begins whose second rank is never prepared.
const UNPREPARED: &str = "unprepared";

/// Waits forever, if this process was started for such a rank.
pub(crate) fn wait_if_asked() {
    let mut arguments = std::env::args().skip(2);
    let is_of_job = arguments.next().is_some_and(|job| job.starts_with(UNPREPARED));
    if is_of_job && arguments.next().is_some_and(|rank| rank == "rank 1") {
        loop {
            std::thread::park();
        }
    }
}

fn unprepared_ranks() {
    let name = own_name(UNPREPARED);
    let of = |setting: Setting| {
        let cancelled = run_while(&setting, |cancel| {
            wait_until("two ranks", || processes_of_ranks(&name).len() == 2);
            cancel.store(true, Ordering::Relaxed);
        });
        assert!(matches!(cancelled, Err(Error::Cancelled)), "{cancelled:?}");
        assert_eq!(processes(&name), Vec::<u32>::new());
    };
    of(setting(vec![endless(&name)]));
    of(turns::setting(Gang::Strict, vec![endless(&name), job("hogs", hogs(1))]));
}

fn named_ranks() {
    let name = own_name("named");
    let _ = run_while(&setting(vec![endless(&name)]), |cancel| {
        let names = || {
            let of_process = |id| fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
            let mut names: Vec<_> = processes_of_ranks(&name).into_iter().map(of_process).collect();
            names.sort();
            names
        };
        wait_until("both names", || names() == ["rank 0\n", "rank 1\n"]);
        let program = std::env::current_exe().unwrap();
        for id in processes_of_ranks(&name) {
            let line = fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap();
            assert_eq!(line.split('\0').next(), program.to_str());
        }
        cancel.store(true, Ordering::Relaxed);
    });
}

fn sampled() {
    let of = ranks(Pattern::Ring, 3, 1, WaitingRule::AlwaysBlock);
    // Threads that keep running live until the end of the run.
    let run = runs::run(&Setting { keep_running: true, ..setting(vec![job("ranks", JobKind::Message(of))]) }).unwrap();
    let sample = run.timeline.first().unwrap();
    assert_eq!((sample.job.0, sample.runnable + sample.sleeping), (0, 3));
}

fn too_many_ranks() {
    let kind = JobKind::Message(ranks(Pattern::Ring, 257, 1, WaitingRule::AlwaysBlock));
    let refused = runs::run(&setting(vec![job("ring", kind)])).unwrap_err();
    let why = "job `ring`: it has 257 ranks, and on this machine at most 256 exchange messages";
    assert!(refused.is_input() && refused.to_string() == why, "{refused}");
}
