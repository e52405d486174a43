//! Runs of settings and their results.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use policy::Span;
use policy::table::WAITING;
use policy::waiting::WaitingRule;
use rowlock_host::event_log::Activity;
use rowlock_host::{Error, Host, HostCalibration, HostRun, Machine, Rate, Recording};
use rustix::time::{ClockId, clock_gettime};
use scenario::result::JobOutcome;
use scenario::{Arrival, Attributes, Compute, Distribution, Granularity, Job, JobKind, MachineKeys, Setting};

use sys::perf::switches;
use sys::scheduling::Thread;

use crate::family::{Family, wait_until};

pub(crate) const TRIALS: &[(&str, fn())] = &[
    ("a_barrier_job_runs_with_every_waiting_rule", a_barrier_job_runs_with_every_waiting_rule),
    ("a_lock_job_runs_with_every_waiting_rule", a_lock_job_runs_with_every_waiting_rule),
    ("a_lock_job_delivers_the_drawn_work", a_lock_job_delivers_the_drawn_work),
    ("the_record_of_every_waiting_rule_can_be_replayed", the_record_of_every_waiting_rule_can_be_replayed),
    ("a_barrier_job_delivers_the_drawn_work", a_barrier_job_delivers_the_drawn_work),
    ("threads_log_their_events_on_request", threads_log_their_events),
    ("the_kernel_records_the_switches_of_the_threads_of_a_run", the_kernel_records_the_switches),
    ("an_endless_job_ends_with_the_others_and_has_no_completion", an_endless_job_ends_with_the_others),
    ("copies_of_a_job_have_separate_draws", copies_of_a_job_are_separate),
    ("jobs_that_keep_running_are_counted_once", jobs_that_keep_running_are_counted_once),
    ("a_command_is_measured_with_all_of_its_processes", a_command_is_measured_with_all_of_its_processes),
    ("a_failed_command_is_reported_with_its_status_and_standard_error", a_failed_command_is_reported),
    ("a_killed_command_is_reported_with_its_signal", a_killed_command_is_reported_with_its_signal),
    ("jobs_get_the_requested_scheduling", jobs_get_the_requested_scheduling),
    ("jobs_that_have_not_ended_at_the_limit_are_cut_off", jobs_that_have_not_ended_at_the_limit_are_cut_off),
    ("a_late_job_starts_and_counts_from_its_arrival", a_late_job_starts_at_its_arrival),
    ("missing_resources_are_refused_before_anything_starts", missing_resources_are_refused),
    ("a_daemon_that_a_command_leaves_behind_is_ended", a_daemon_that_a_command_leaves_behind_is_ended),
    ("a_cancelled_run_ends_all_of_its_processes", a_cancelled_run_ends_all_of_its_processes),
    ("a_job_whose_process_dies_ends_the_run", a_job_whose_process_dies_ends_the_run),
    ("states_of_threads_are_sampled", states_of_threads_are_sampled),
    ("a_program_that_cannot_be_a_job_is_an_error", a_program_that_cannot_be_a_job_is_an_error),
];

/// A host with invented costs. The tests do not depend on their values.
pub(crate) fn host() -> Host {
    let rate = Rate { iteration_ps: 2_000, start_ps: 0 };
    let calibration = HostCalibration { rate, ..HostCalibration::invented(Machine::current().unwrap()) };
    Host { program: std::env::current_exe().unwrap(), calibration }
}

pub(crate) fn setting(jobs: Vec<Job>) -> Setting {
    Setting { machine: MachineKeys::default(), jobs, coscheduling: None, keep_running: false }
}

pub(crate) fn job(name: &str, kind: JobKind) -> Job {
    Job::new(name, 1, kind)
}

pub(crate) fn barrier(threads: u32, rounds: u64, rule: WaitingRule) -> JobKind {
    let compute = Compute::Drawn(Distribution::Normal { mean: Span::from_micros(10), sd: Span::from_micros(1) });
    JobKind::Barrier { threads, compute, rounds, waiting: rule }
}

fn lock(threads: u32, rounds: u64, rule: WaitingRule) -> JobKind {
    let [compute, critical] =
        [10, 5].map(|mean| Distribution::Normal { mean: Span::from_micros(mean), sd: Span::from_micros(1) });
    JobKind::Lock { threads, compute, critical, rounds, waiting: rule }
}

pub(crate) fn hogs(threads: u32) -> JobKind {
    JobKind::Cpu { threads, work: None }
}

pub(crate) fn command(argv: &[&str]) -> JobKind {
    JobKind::Command { argv: argv.iter().map(ToString::to_string).collect(), threads: 1, work: None }
}

pub(crate) fn shell(script: &str) -> JobKind {
    command(&["sh", "-c", script])
}

pub(crate) fn run(setting: &Setting) -> Result<HostRun, Error> {
    host().run(setting, 1, Recording::Nothing, &AtomicBool::new(false))
}

fn run_alone(kind: JobKind) -> Result<JobOutcome, Error> {
    run(&setting(vec![job("alone", kind)])).map(|mut run| run.outcome.jobs.remove(0))
}

/// The argument that makes this program compute until it has used a given CPU time in milliseconds.
const COMPUTE: &str = "__compute";

/// Computes and exits if this process was started for that.
pub(crate) fn compute_if_asked() {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some(COMPUTE) {
        let wanted = Duration::from_millis(arguments.next().unwrap().parse().unwrap());
        while Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap() < wanted {}
        std::process::exit(0);
    }
}

/// The shell command that computes for so long.
fn compute_command(millis: u64) -> String {
    format!("'{}' {COMPUTE} {millis}", std::env::current_exe().unwrap().display())
}

/// Cancels a run on drop.
struct Cancel<'a>(&'a AtomicBool);

impl Drop for Cancel<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs a setting that ends by itself or by `meanwhile`. Panics if it does not end.
pub(crate) fn run_while(setting: &Setting, meanwhile: impl FnOnce(&AtomicBool)) -> Result<HostRun, Error> {
    let cancel = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let run = scope.spawn(|| host().run(setting, 1, Recording::Nothing, &cancel));
        // Without the guard, a panic here would wait for a run that does not end.
        let _guard = Cancel(&cancel);
        meanwhile(&cancel);
        wait_until("the end of the run", || run.is_finished());
        run.join().unwrap()
    })
}

fn a_barrier_job_runs_with_every_waiting_rule() {
    for entry in WAITING {
        let crew = run_alone(barrier(3, 20, entry.example)).unwrap();
        assert_eq!(crew.rounds, Some(20), "{}", entry.form);
        assert!(crew.completion_ns > Some(Span::ZERO) && crew.cpu_ns > Some(Span::ZERO), "{crew:?}");
        let spins = match entry.example {
            WaitingRule::TwoPhase(_) | WaitingRule::AlwaysSpin => true,
            WaitingRule::AlwaysBlock | WaitingRule::AlwaysYield => false,
            // Whether the other rules spin depends on the situation.
            _ => continue,
        };
        assert_eq!(crew.ssr_percent.is_some(), spins, "{}: {crew:?}", entry.form);
        assert_eq!(crew.spin_ns.is_some_and(|spin| spin > Span::ZERO), spins, "{}: {crew:?}", entry.form);
    }
}

fn a_lock_job_runs_with_every_waiting_rule() {
    for entry in WAITING {
        let bank = run_alone(lock(3, 20, entry.example)).unwrap();
        assert_eq!(bank.rounds, Some(60), "{}", entry.form);
        assert!(bank.completion_ns > Some(Span::ZERO), "{bank:?}");
        // Whether a thread ever waited depends on timing.
        let may_spin = !matches!(entry.example, WaitingRule::AlwaysBlock | WaitingRule::AlwaysYield);
        assert!(may_spin || (bank.ssr_percent, bank.spin_ns) == (None, Some(Span::ZERO)), "{}: {bank:?}", entry.form);
    }
}

fn a_lock_job_delivers_the_drawn_work() {
    use scenario::draw::{Normal, Stream};
    let bank = run_alone(lock(2, 100, WaitingRule::AlwaysBlock)).unwrap();
    let drawn = |thread| {
        let mut stream = Stream::named(1, "alone", thread);
        let mut draw = |mean| Normal { mean, sd: 1_000.0 }.draw(&mut stream, Span::from_nanos(1));
        (0..100).map(|_| draw(10_000.0) + draw(5_000.0)).sum::<Span>()
    };
    let (drawn, delivered) = (drawn(0) + drawn(1), bank.delivered_work_ns.unwrap());
    // Each of the 400 draws is rounded to iterations of two nanoseconds.
    assert!(drawn.as_nanos().abs_diff(delivered.as_nanos()) <= 402, "{delivered} of {drawn}");
}

fn the_record_of_every_waiting_rule_can_be_replayed() {
    let host = host();
    let costs = rowlock_host::twin(&host.calibration).costs();
    for entry in WAITING {
        let setting = setting(vec![job("crew", barrier(3, 20, entry.example)), job("short", command(&["true"]))]);
        let run = host.run(&setting, 1, Recording::Decisions, &AtomicBool::new(false)).unwrap();
        assert_eq!(run.outcome.jobs[0].rounds, Some(20));
        let [crew, short] = &run.records[..] else { panic!("{run:?}") };
        // All threads except the last to arrive ask the rule at least once per round.
        assert!(crew.len() >= 2 * 20 && short.is_empty(), "{}: {}", entry.form, crew.len());
        assert_eq!(policy::record::replay(entry.example, costs, crew), [], "{}", entry.form);
    }
}

fn threads_log_their_events() {
    for entry in WAITING {
        let endless = Job { copies: 2, ..job("crowd", hogs(1)) };
        let jobs = vec![
            job("crew", barrier(3, 20, entry.example)),
            endless,
            job("solo", JobKind::Cpu { threads: 1, work: Some(Span::from_millis(1).into()) }),
            job("true", command(&["true"])),
            job("bank", lock(2, 50, entry.example)),
        ];
        let run = host().run(&setting(jobs), 1, Recording::Events, &AtomicBool::new(false)).unwrap();
        assert_eq!(run.outcome.jobs[0].rounds, Some(20));
        let shape: Vec<_> = run.event_logs.iter().map(|job| (job.job.as_str(), job.event_logs.len())).collect();
        assert_eq!(shape, [("crew", 3), ("crowd.0", 1), ("crowd.1", 1), ("solo", 1), ("true", 0), ("bank", 2)]);
        assert!(run.event_logs[0].event_logs.iter().map(|log| log.number).eq(0..3));
        for log in run.event_logs.iter().flat_map(|job| &job.event_logs) {
            let events = &log.events;
            assert!(events.is_sorted_by_key(|event| event.at), "{log:?}");
            let (first, last) = (events.first().unwrap(), events.last().unwrap());
            assert_eq!(
                (first.activity, last.activity, log.lost),
                (Activity::Compute, Activity::End, 0),
                "{:?}",
                entry.example
            );
            // A thread that was away is seen again.
            for pair in events.windows(2) {
                assert!(
                    pair[0].activity != Activity::Away
                        || (pair[1].activity == Activity::Seen && pair[0].at < pair[1].at),
                    "{pair:?}"
                );
            }
        }
        let crew = || run.event_logs[0].event_logs.iter().flat_map(|log| &log.events);
        assert_eq!(crew().filter(|event| event.activity == Activity::Complete).count(), 20);
        // Each thread computes at the beginning and after every round.
        assert_eq!(crew().filter(|event| event.activity == Activity::Compute).count(), 3 * 21);
    }
}

fn the_kernel_records_the_switches() {
    let recording = match switches::Recording::start() {
        Ok(recording) => recording,
        Err(why) => {
            let how = "`sysctl kernel.perf_event_paranoid=2` permits them";
            let why = format!("records of context switches: {why}");
            return testing::skip_part("ROWLOCK_REQUIRE_ENVIRONMENTS", &why, how);
        }
    };
    let cpu = sys::cpus::allowed().unwrap()[0];
    let attributes = Attributes { cpus: Some(cpu.to_string().parse().unwrap()), ..Attributes::default() };
    let crew = Job { attributes, ..job("crew", barrier(2, 20, WaitingRule::AlwaysBlock)) };
    let jobs = vec![job("crowd", hogs(2)), crew, job("true", command(&["true"]))];
    let run = host().run(&setting(jobs), 1, Recording::Events, &AtomicBool::new(false)).unwrap();
    let stints = recording.finish().unwrap();
    assert_eq!(run.threads.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 0]);
    for log in &run.event_logs[1].event_logs {
        assert!(run.threads[1].contains(&log.thread), "{run:?}");
        assert!(log.events[0].at >= run.began);
        for event in &log.events {
            let at = Duration::from_nanos(event.at.as_nanos());
            let is_its = |stint: &&switches::Stint| {
                stint.thread == log.thread.unsigned_abs() && stint.from < at && at < stint.to
            };
            let stint = stints.iter().find(is_its).unwrap_or_else(|| panic!("no stint has {event:?}"));
            assert_eq!((stint.cpu, event.cpu), (cpu, cpu));
        }
    }
}

fn a_barrier_job_delivers_the_drawn_work() {
    use scenario::draw::{Normal, Stream};
    let absolute = barrier(2, 100, WaitingRule::AlwaysBlock);
    let compute = Compute::Granularity(Granularity::Fine);
    let relative = JobKind::Barrier { threads: 2, compute, rounds: 100, waiting: WaitingRule::AlwaysBlock };
    // CS is that of the invented host.
    for (kind, mean) in [(absolute, 10_000.0), (relative, 20_000.0 / 1.12816)] {
        let crew = run_alone(kind).unwrap();
        let normal = Normal { mean, sd: 0.1 * mean };
        let drawn = |thread| {
            let mut stream = Stream::named(1, "alone", thread);
            (0..100).map(|_| normal.draw(&mut stream, Span::from_nanos(1))).sum::<Span>()
        };
        let (drawn, delivered) = (drawn(0) + drawn(1), crew.delivered_work_ns.unwrap());
        // Each of the 200 draws is rounded to iterations of two nanoseconds.
        assert!(drawn.as_nanos().abs_diff(delivered.as_nanos()) <= 202, "{delivered} of {drawn}");
    }

    let work = Span::from_millis(2);
    let cpu = run_alone(JobKind::Cpu { threads: 3, work: Some(work.into()) }).unwrap();
    assert_eq!(cpu.delivered_work_ns, Some(work + work + work));
    assert_eq!((cpu.rounds, cpu.ssr_percent, cpu.spin_ns), (None, None, None));
}

fn an_endless_job_ends_with_the_others() {
    let jobs = vec![job("hogs", hogs(3)), job("crew", barrier(2, 50, WaitingRule::AlwaysBlock))];
    let run = run(&setting(jobs)).unwrap();
    let [hogs, crew] = &run.outcome.jobs[..] else { panic!("{run:?}") };
    assert_eq!((hogs.job.as_str(), hogs.completion_ns, hogs.rounds), ("hogs", None, None));
    assert!(crew.completion_ns > Some(Span::ZERO));
    // On a busy machine the hogs may have had no CPU since the others started. But their work
    // cannot exceed the CPU time that they used, apart from the accuracy of the invented rate.
    assert!(hogs.delivered_work_ns.is_some() && hogs.cpu_ns.is_some());
    let machine = &run.outcome.machine;
    assert_eq!(machine.cpus, sys_cpus());
    assert!(machine.work_percent.is_some() && machine.switch_percent.is_none() && machine.events.is_none());

    let endless = run_alone(JobKind::Cpu { threads: 1, work: None }).unwrap_err();
    assert!(matches!(endless, Error::Endless) && endless.is_input(), "{endless}");
}

fn jobs_get_the_requested_scheduling() {
    let cpu = policy::CpuId(Machine::current().unwrap().cpus_allowed[0]);
    // Every user may choose a nice value that is not better than the present one.
    let nice = sys::scheduling::nice(Thread::current()).unwrap().max(7);
    let attributes = Attributes { nice: nice as i8, cpus: Some([cpu].into_iter().collect()), slice: None };
    let of = |name, kind| Job { attributes: attributes.clone(), ..job(name, kind) };
    // The observing job has the same scheduling. It finds the other job by the name of its
    // processes, which is unique to this test run. (The pattern does not match itself.)
    let crew = format!("crew-of-{}-niced", std::process::id());
    let look =
        "test $(nice) = NICE && test $(nproc) = 1 && for process in $(grep -salE '_[_]job.CREW' /proc/[0-9]*/cmdline); do
        for thread in ${process%cmdline}task/*; do
            case $(cat $thread/comm) in
                thread*) cut -d ')' -f 2 $thread/stat | cut -d ' ' -f 18 >&2
                    grep Cpus_allowed_list $thread/status >&2 ;;
            esac
        done
    done; exit 3"
            .replace("CREW", &crew)
            .replace("NICE", &nice.to_string());
    let jobs = vec![of(&crew, hogs(2)), of("look", shell(&look))];
    let failed = run(&setting(jobs)).unwrap_err();
    let told = failed.to_string();
    let (_, stderr) = told.split_once("the end of its standard error:\n").unwrap();
    let words: Vec<&str> = stderr.split_whitespace().collect();
    let (nice, one) = (nice.to_string(), cpu.0.to_string());
    let thread_lines = [&nice, "Cpus_allowed_list:", &one];
    assert_eq!(words, [thread_lines, thread_lines].concat(), "{failed}");

    let nowhere = Attributes { cpus: Some([policy::CpuId(1000)].into_iter().collect()), ..Attributes::default() };
    let refused = run(&setting(vec![Job { attributes: nowhere, ..job("alone", command(&["true"])) }])).unwrap_err();
    assert!(
        refused.is_input() && refused.to_string().starts_with("job `alone`: `cpus = \"1000\"` is refused"),
        "{refused}"
    );
}

fn a_late_job_starts_at_its_arrival() {
    let later = |millis| Arrival { at: Span::from_millis(millis), every: None };
    let started = Instant::now();
    let jobs = vec![
        job("first", barrier(2, 5, WaitingRule::AlwaysBlock)),
        Job { arrival: later(300), ..job("second", command(&["true"])) },
        // One endless job starts before the end of the run, and one does not.
        Job { arrival: later(200), ..job("hogs", hogs(1)) },
        Job { arrival: later(3_600_000), ..job("never", hogs(1)) },
    ];
    let jobs = run(&setting(jobs)).unwrap().outcome.jobs;
    let length = started.elapsed();
    assert!(length >= Duration::from_millis(300), "{length:?}");
    let second = jobs[1].completion_ns.unwrap().as_nanos();
    assert!(u128::from(second) + 300_000_000 <= length.as_nanos(), "{jobs:?}");
    assert!(jobs[0].completion_ns.is_some() && jobs[2].completion_ns.is_none());
    assert_eq!(jobs[3].delivered_work_ns, Some(Span::ZERO));
}

fn jobs_that_have_not_ended_at_the_limit_are_cut_off() {
    let never = Arrival { at: Span::from_millis(3_600_000), every: None };
    let jobs = vec![
        job("endless", barrier(2, u64::MAX, WaitingRule::AlwaysBlock)),
        job("short", barrier(2, 1, WaitingRule::AlwaysBlock)),
        Job { arrival: never.clone(), ..job("late", barrier(2, 5, WaitingRule::AlwaysBlock)) },
        job("bank", lock(2, u64::MAX, WaitingRule::AlwaysBlock)),
        job("command", command(&["sleep", "3600"])),
        job("hogs", hogs(1)),
    ];
    for keep_running in [false, true] {
        let setting = Setting { keep_running, ..setting(jobs.clone()) };
        // The short job has a generous time to end.
        let limit = Duration::from_secs(1);
        let run = host().run_until(&setting, 1, Recording::Nothing, limit, &AtomicBool::new(false)).unwrap();
        let ended: Vec<bool> = run.outcome.jobs.iter().map(|job| job.completion_ns.is_some()).collect();
        assert_eq!(ended, [false, true, false, false, false, false], "{run:?}");
        let [endless, short, late, bank, command, _] = &run.outcome.jobs[..] else { panic!("{run:?}") };
        assert!(endless.rounds > Some(0) && endless.cpu_ns.is_none(), "{endless:?}");
        assert_eq!([short, late, bank, command].map(|job| job.rounds), [Some(1), Some(0), None, None]);
        let [ran, None, Some(Span::ZERO), None, None, None] = &run.cut_off[..] else { panic!("{run:?}") };
        // It began a little after the run.
        assert!(ran.is_some_and(|ran| ran > Span::from_millis(500)), "{run:?}");
    }
}

pub(crate) fn sys_cpus() -> u32 {
    std::thread::available_parallelism().unwrap().get() as u32
}

fn copies_of_a_job_are_separate() {
    let crew = Job::new("crew", 3, barrier(2, 30, WaitingRule::AlwaysBlock));
    let jobs = run(&setting(vec![crew])).unwrap().outcome.jobs;
    let names: Vec<_> = jobs.iter().map(|job| job.job.as_str()).collect();
    assert_eq!(names, ["crew.0", "crew.1", "crew.2"]);
    assert_ne!(jobs[0].delivered_work_ns, jobs[1].delivered_work_ns);
    assert!(jobs.iter().all(|job| job.rounds == Some(30) && job.completion_ns.is_some()), "{jobs:?}");
}

fn jobs_that_keep_running_are_counted_once() {
    // Only the first execution of the command has much work.
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("once");
    // The short jobs would end long before the long one.
    let jobs = vec![
        job("long", barrier(2, 2_000, WaitingRule::AlwaysBlock)),
        job("crew", barrier(2, 5, WaitingRule::AlwaysBlock)),
        job("bank", lock(2, 5, WaitingRule::AlwaysBlock)),
        job("cpu", JobKind::Cpu { threads: 2, work: Some(Span::from_micros(100).into()) }),
        job("command", shell(&format!("mkdir {} && {}; true", folder.display(), compute_command(50)))),
    ];
    let setting = Setting { keep_running: true, ..setting(jobs) };
    let run = run(&setting).unwrap();
    let [long, crew, bank, cpu, counted] = &run.outcome.jobs[..] else { panic!("{run:?}") };
    assert_eq!((long.rounds, crew.rounds, bank.rounds), (Some(2_000), Some(5), Some(10)));
    assert_eq!(cpu.delivered_work_ns, Some(Span::from_micros(200)));
    std::fs::remove_dir(&folder).unwrap();
    // The kernel rounds the CPU time of ended processes.
    assert!(counted.cpu_ns > Some(Span::from_millis(49)), "{counted:?}");
    assert_eq!(run.outcome.machine.work_percent, None);

    // Failures after the first end count, too: the second execution finds that the folder exists.
    let once = command(&["mkdir", folder.to_str().unwrap()]);
    let setting = Setting {
        keep_running: true,
        jobs: vec![job("long", barrier(2, 10_000_000, WaitingRule::AlwaysBlock)), job("once", once)],
        ..setting
    };
    let failed = run_while(&setting, |_| {}).unwrap_err();
    std::fs::remove_dir(&folder).unwrap();
    let told = failed.to_string();
    assert!(told.starts_with("job `once`: `mkdir ") && told.contains(" failed with exit status: 1; "), "{told}");
}

fn a_command_is_measured_with_all_of_its_processes() {
    let host = host();
    let measure = |script: &str| {
        let argv = ["sh", "-c", script].map(str::to_owned);
        host.measure_command(&argv, &AtomicBool::new(false)).unwrap()
    };
    // The work is done by two children of the command, and a child of one.
    let (own, childs) = (compute_command(30), compute_command(40));
    let used = measure(&format!("{own} & ({childs}; true) & wait"));
    // The kernel rounds the CPU time of ended processes.
    assert!(used > Span::from_millis(69), "{used}");
    let outcome = run_alone(shell("exit 0")).unwrap();
    assert!(outcome.completion_ns > Some(Span::ZERO) && outcome.delivered_work_ns.is_none());
}

fn a_failed_command_is_reported() {
    let failed = run_alone(shell("echo first >&2; yes line | head -n 1000 >&2; echo last >&2; exit 3")).unwrap_err();
    let (told, lines) = (failed.to_string(), "  line\n".repeat(19));
    let start = "job `alone`: `sh -c echo first >&2; yes line";
    let end = format!("` failed with exit status: 3; the end of its standard error:\n{lines}  last");
    assert!(told.starts_with(start) && told.ends_with(&end) && !failed.is_input(), "{told}");

    let failed = run_alone(shell("exit 4")).unwrap_err();
    assert!(failed.to_string().ends_with("exit status: 4; it wrote nothing to its standard error"), "{failed}");
}

fn a_killed_command_is_reported_with_its_signal() {
    let failed = run_alone(shell("kill -KILL $$")).unwrap_err();
    assert!(failed.to_string().contains("` failed with signal: 9 (SIGKILL); "), "{failed}");
}

fn missing_resources_are_refused() {
    for (program, why) in [
        ("no-such-program-here", "there is no command `no-such-program-here` in any folder of PATH"),
        ("/etc/passwd", "`/etc/passwd` cannot be executed: no permission (chmod +x makes it a program)"),
    ] {
        let refused = run_alone(command(&[program, "-x"])).unwrap_err();
        assert_eq!((refused.to_string(), refused.is_input()), (format!("job `alone`: {why}"), true));
    }
    let refused = run_alone(barrier(u32::MAX, 1, WaitingRule::AlwaysBlock)).unwrap_err();
    assert!(matches!(refused, Error::TooManyThreads { .. }) && refused.is_input(), "{refused}");
}

fn a_daemon_that_a_command_leaves_behind_is_ended() {
    let family = Family::new("daemon");
    // A grandchild in a new session, with every stream closed, that ignores requests to end.
    let daemon = "setsid sh -c 'trap \"\" TERM HUP INT; sleep 1000; sleep 1000' </dev/null >/dev/null 2>&1 &";
    let mut argv = vec!["env".to_owned()];
    argv.push(family.variable());
    argv.extend(["sh", "-c", daemon].map(str::to_owned));
    let outcome = run_alone(JobKind::Command { argv, threads: 1, work: None }).unwrap();
    assert!(outcome.completion_ns.is_some());
    assert_eq!(family.members(), Vec::<u32>::new());
}

fn a_cancelled_run_ends_all_of_its_processes() {
    let family = Family::new("cancelled");
    let mark = family.variable();
    let forever = command(&["env", &mark, "sh", "-c", "setsid sleep 1000 & sleep 1000"]);
    let jobs = vec![
        job("hogs", hogs(2)),
        job("crew", barrier(2, u64::MAX, WaitingRule::AlwaysBlock)),
        job("command", forever),
    ];
    let cancelled = run_while(&setting(jobs), |cancel| {
        wait_until("the command and its children", || family.members().len() == 3);
        cancel.store(true, Ordering::Relaxed);
    });
    assert!(matches!(cancelled, Err(Error::Cancelled)), "{cancelled:?}");
    assert_eq!(family.members(), Vec::<u32>::new());

    let crew = setting(vec![job("crew", barrier(2, u64::MAX, WaitingRule::AlwaysBlock))]);
    let nothing = host().run(&crew, 1, Recording::Nothing, &AtomicBool::new(true));
    assert!(matches!(nothing, Err(Error::Cancelled)), "{nothing:?}");
}

fn a_job_whose_process_dies_ends_the_run() {
    let name = format!("doomed-{}", std::process::id());
    let process = || {
        let ids =
            std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let named = |id: &String| {
            let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            line.split(|&byte| byte == 0).nth(2) == Some(name.as_bytes())
        };
        ids.filter_map(|id| id.parse::<i32>().ok().map(|number| (id, number))).find(|(id, _)| named(id))
    };
    let setting = setting(vec![job(&name, barrier(2, u64::MAX, WaitingRule::AlwaysBlock)), job("hogs", hogs(1))]);
    let died = run_while(&setting, |_| {
        wait_until("the job's process", || process().is_some());
        let id = process().and_then(|(_, id)| rustix::process::Pid::from_raw(id)).unwrap();
        rustix::process::kill_process(id, rustix::process::Signal::KILL).unwrap();
    });
    let why = "its process ended before the job did, with signal: 9 (SIGKILL)";
    assert_eq!(died.unwrap_err().to_string(), format!("job `{name}`: {why}"));
}

fn states_of_threads_are_sampled() {
    // The endless threads live as long as the command, and a sample is taken at its start.
    let run = run(&setting(vec![job("hogs", hogs(3)), job("command", command(&["true"]))])).unwrap();
    let sample = run.timeline.first().unwrap();
    assert_eq!((sample.job.0, sample.runnable + sample.sleeping), (0, 3));
    assert!(run.timeline.windows(2).all(|pair| pair[0].at_ns < pair[1].at_ns));
    assert!(run.timeline.iter().all(|sample| sample.job.0 == 0), "commands are not watched");
}

fn a_program_that_cannot_be_a_job_is_an_error() {
    let setting = setting(vec![job("crew", barrier(2, 1, WaitingRule::AlwaysBlock))]);
    let nowhere = Host { program: "/no/such/program".into(), ..host() };
    let error = nowhere.run(&setting, 1, Recording::Nothing, &AtomicBool::new(false)).unwrap_err();
    let start = "job `crew`: cannot start `/no/such/program` as its process: ";
    assert!(error.to_string().starts_with(start) && !error.is_input(), "{error}");
    let deaf = Host { program: "/bin/true".into(), ..host() };
    let error = deaf.run(&setting, 1, Recording::Nothing, &AtomicBool::new(false)).unwrap_err();
    assert!(error.to_string().contains("its process ended before the job did"), "{error}");
}
