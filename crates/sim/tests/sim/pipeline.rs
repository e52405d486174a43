//! Pipelines: small cases by hand, and laws forevery structure, rule and scheduler.

use policy::priority::{self, StageKind};
use policy::table::{PRIORITY, WAITING};
use policy::waiting::WaitingRule;
use policy::{CpuId, Instant, Span, ThreadId};
use proptest::prelude::*;
use proptest::sample::select;
use rowlock_sim::observer::{CpuState, Observer, ThreadPhase};
use rowlock_sim::run;
use scenario::draw::Stream;
use scenario::pipeline::{Stage, StageTurn, Structure};
use scenario::result::{JobOutcome, Outcome};
use scenario::{Distribution, Job, JobKind, Machine, Pipeline, Scheduler};

use crate::timeline::{assert_timeline, cpu, setting, short, timeline};

fn us(n: u64) -> Span {
    Span::from_micros(n)
}

fn exactly(n: u64) -> Option<Distribution> {
    (n > 0).then(|| Distribution::Normal { mean: us(n), sd: Span::ZERO })
}

/// A stage that computes for `compute` microseconds and then blocks for `device`.
fn stage(name: &str, kind: StageKind, compute: u64, device: u64) -> Stage {
    Stage { name: name.into(), kind, compute: exactly(compute), device: exactly(device), fork: 1, nice: 0 }
}

fn io(name: &str, device: u64) -> Stage {
    stage(name, StageKind::Io, 0, device)
}

fn compute(name: &str, time: u64) -> Stage {
    stage(name, StageKind::Compute, time, 0)
}

fn pipeline(buffers: u32, rounds: u64, stages: Vec<Stage>) -> Pipeline {
    let (structure, priority) = (Structure::Threads, priority::PriorityRule::Default);
    Pipeline { stages, buffers, rounds, structure, shared: Vec::new(), priority, waiting: WaitingRule::AlwaysBlock }
}

fn job(pipeline: Pipeline) -> Job {
    Job::new("line", 1, JobKind::Pipeline(pipeline))
}

/// Round robin without costs, unless stated otherwise.
fn free(cpus: u32) -> Machine {
    Machine { scheduler: Scheduler::Rr, context_switch: Span::ZERO, ..Machine::with_cpus(cpus) }
}

fn completion(machine: &Machine, of: Pipeline) -> Span {
    run(machine, &setting(vec![job(of)]), 1).unwrap().jobs[0].completion_ns.unwrap()
}

#[test]
fn three_stages_on_one_cpu_with_a_device_that_serves_one_at_a_time() {
    // read 0: 0-10, compute 0: 10-15, read 1: 10-20, write 0: 20-30. Then both buffers are under
    // way until 30. The thread that conveys continues first, so write 1: 30-40, read 2: 40-50,
    // compute 2: 50-55, write 2: 55-65.
    let line = pipeline(2, 3, vec![io("read", 10), compute("work", 5), io("write", 10)]);
    let outcome = run(&free(1), &setting(vec![job(line.clone())]), 1).unwrap();
    assert_eq!(outcome.jobs[0].completion_ns, Some(us(65)));
    assert_eq!((outcome.jobs[0].rounds, outcome.jobs[0].delivered_work_ns), (Some(3), Some(us(15))));
    let [read, work, write] = &outcome.jobs[0].stages[..] else { panic!("other stages") };
    // Read 2 is asked for at 30 and served at 50. Write 0 is asked for at 15 and served at 30.
    // Write 1 could be taken from 25 on.
    assert_eq!((read.busy_ns, read.device_ns, read.starved_ns), (Some(us(40)), Some(us(40)), Some(us(25))));
    assert_eq!((work.busy_ns, work.computed_ns, work.starved_ns), (Some(us(15)), Some(us(15)), Some(us(50))));
    assert_eq!((write.busy_ns, write.device_ns), (Some(us(35)), Some(us(35))));
    // If the device is deep enough, reading and writing overlap: 10 for each round, and 15 until
    // the last one has passed.
    assert_eq!(completion(&Machine { device_depth: 2, ..free(1) }, pipeline(3, 3, line.stages)), us(45));
}

#[test]
fn one_buffer_goes_through_one_stage_at_a_time() {
    let line = pipeline(1, 3, vec![io("read", 10), compute("work", 5), io("write", 10)]);
    assert_eq!(completion(&free(4), line), us(75));
}

#[test]
fn messages_do_not_wait_for_each_other() {
    let line = |kind| {
        let away = Stage { fork: 3, ..stage("send", kind, 0, 10) };
        pipeline(3, 3, vec![away])
    };
    assert_eq!(completion(&free(1), line(StageKind::Communicate)), us(10));
    assert_eq!(completion(&free(1), line(StageKind::Io)), us(30));
}

#[test]
fn a_pipeline_on_one_cpu_with_switches() {
    // a reads and b computes. a asks the device at 6 and leaves. b finds nothing and blocks at 18.
    // At 16 the device is done, which a sees at 30. It conveys, takes the next buffer, and asks
    // again.
    let machine = Machine { scheduler: Scheduler::Rr, ..Machine::with_cpus(1) };
    let line = pipeline(2, 2, vec![io("read", 10), compute("work", 5)]);
    let (text, outcome) = timeline(&machine, &setting(vec![job(line)]), "ab", "ab");
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then a
         6 us cpu0: a
         6 us cpu0: a blocks, then b
         12 us cpu0: b
         12 us cpu0: b blocks, then idle
         18 us cpu0: idle
         18 us cpu0: idle, then a
         24 us cpu0: a
         24 us cpu0: a blocks, then b
         30 us cpu0: b
         35 us cpu0: b blocks, then a
         41 us cpu0: a
         41 us cpu0: a ends, then b
         47 us cpu0: b
         52 us cpu0: b ends, then idle",
    );
    assert_eq!(outcome.jobs[0].completion_ns, Some(us(52)));
}

#[test]
fn copies_compute_in_parallel_and_their_rounds_stay_in_order() {
    let copies = Stage { fork: 2, ..compute("work", 10) };
    // Two at the same time on two CPUs. The next stage has them in turn.
    let line = pipeline(4, 4, vec![copies, compute("check", 1)]);
    for structure in Structure::ALL {
        assert_eq!(completion(&free(3), Pipeline { structure, ..line.clone() }), us(22), "{structure:?}");
    }
    assert_eq!(completion(&free(1), line), us(44));
}

#[test]
fn the_next_stage_gets_rounds_in_order_whichever_copy_ends_first() {
    let away = Distribution::Normal { mean: us(50), sd: us(20) };
    let copies = Stage { fork: 2, device: Some(away.clone()), ..stage("send", StageKind::Communicate, 0, 1) };
    let line = pipeline(2, 2, vec![copies.clone(), compute("work", 1)]);
    let mut overtaken = 0;
    for seed in 0..20 {
        let [first, second] = [0, 1].map(|round| {
            let mut stream = Stream::named(seed, &copies.stream_name("line"), round);
            away.law().draw(&mut stream, Span::from_nanos(1))
        });
        overtaken += u32::from(second < first);
        let outcome = run(&free(1), &setting(vec![job(line.clone())]), seed).unwrap();
        assert_eq!(outcome.jobs[0].completion_ns, Some((first + us(1)).max(second) + us(1)), "seed {seed}");
    }
    assert!(overtaken > 3);
}

#[test]
fn stages_on_one_thread_take_turns() {
    let stages = vec![io("read", 10), io("write", 10)];
    let turns = |times| vec![vec![StageTurn { stage: 0, times }, StageTurn { stage: 1, times }]];
    let deep = Machine { device_depth: 4, ..free(1) };
    // One thread has one request at a time, however deep the device is.
    for times in [1, 2] {
        let line = Pipeline { shared: turns(times), ..pipeline(2, 4, stages.clone()) };
        assert_eq!(completion(&deep, line), us(80));
    }
    assert_eq!(completion(&deep, pipeline(2, 4, stages)), us(50));
}

/// The threads that begin to compute, and at which nanosecond.
#[derive(Default)]
struct Begun(Vec<(ThreadId, u64)>);

impl Observer for Begun {
    fn cpu_changed(&mut self, _: Instant, _: CpuId, _: CpuState) {}

    fn thread_began(&mut self, at: Instant, thread: ThreadId, what: ThreadPhase) {
        if what == ThreadPhase::Computation {
            self.0.push((thread, at.as_nanos()));
        }
    }
}

/// When computations on a CPU begin, in nanoseconds.
fn begun(line: Pipeline) -> Vec<u64> {
    let mut begun = Begun::default();
    rowlock_sim::run_observed(&free(1), &setting(vec![job(line)]), 1, &mut begun).unwrap();
    begun.0.into_iter().map(|(_, at)| at).collect()
}

/// The same in microseconds.
fn begun_us(line: Pipeline) -> Vec<u64> {
    begun(line).into_iter().map(|at| at / 1000).collect()
}

#[test]
fn a_thread_takes_several_rounds_of_a_stage_before_the_next_has_its_turn() {
    // Computations of 10 are reads, computations of 1 are writes.
    let line = |times| {
        let turns = vec![vec![StageTurn { stage: 0, times }, StageTurn { stage: 1, times }]];
        Pipeline { shared: turns, ..pipeline(4, 4, vec![io("read", 10), io("write", 1)]) }
    };
    assert_eq!(begun_us(line(1)), [0, 10, 11, 21, 22, 32, 33, 43]);
    assert_eq!(begun_us(line(2)), [0, 10, 20, 21, 22, 32, 42, 43]);
    assert_eq!(begun_us(line(3)), [0, 10, 20, 30, 31, 32, 33, 43], "a finished stage has no more turns");
    // The thread waits for the stage whose turn it is, although the other has a buffer. The stage
    // in between takes 100.
    let between = |times| {
        let turns = vec![vec![StageTurn { stage: 0, times }, StageTurn { stage: 2, times }]];
        let away = stage("send", StageKind::Communicate, 0, 100);
        Pipeline { shared: turns, ..pipeline(4, 2, vec![io("read", 10), away, io("write", 1)]) }
    };
    assert_eq!(completion(&free(1), between(2)), us(10 + 100 + 100 + 1));
    assert_eq!(completion(&free(1), between(1)), us(10 + 100 + 1 + 10 + 100 + 1));
}

#[test]
fn a_worker_serves_the_stage_nearest_to_the_end_first() {
    // The first stage takes 10, the second 5.
    let line = |structure| Pipeline { structure, ..pipeline(2, 2, vec![compute("first", 10), compute("second", 5)]) };
    assert_eq!(begun_us(line(Structure::Workers)), [0, 10, 15, 25]);
    assert_eq!(begun_us(line(Structure::Threads)), [0, 10, 20, 25]);
}

#[test]
fn a_spinning_thread_takes_a_buffer_at_the_moment_of_its_arrival() {
    let machine = Machine { scheduler: Scheduler::Rr, ..Machine::with_cpus(2) };
    let line = |waiting| Pipeline { waiting, ..pipeline(1, 4, vec![compute("first", 10), compute("second", 10)]) };
    let outcome = run(&machine, &setting(vec![job(line(WaitingRule::AlwaysSpin))]), 1).unwrap();
    assert_eq!(outcome.jobs[0].completion_ns, Some(us(6 + 80)));
    assert_eq!(outcome.jobs[0].ssr_percent, Some(100.0));
    assert_eq!(outcome.jobs[0].voluntary_switches, Some(0));
    // Each of the seven hand-overs costs a switch.
    assert_eq!(completion(&machine, line(WaitingRule::AlwaysBlock)), us(6 + 80 + 7 * 6));
}

#[test]
fn a_pipeline_that_keeps_running_counts_once() {
    let line = pipeline(2, 3, vec![compute("first", 10), compute("second", 10)]);
    let jobs = vec![job(line), cpu("long", Some(us(1_000)))];
    let keep = scenario::Setting { keep_running: true, ..setting(jobs) };
    let outcome = run(&free(3), &keep, 1).unwrap();
    assert_eq!((outcome.jobs[0].completion_ns, outcome.jobs[0].rounds), (Some(us(40)), Some(3)));
}

#[test]
fn a_pipeline_that_keeps_running_restarts_with_the_same_rounds_and_turns() {
    // A thread reads twice before it writes. Of three rounds, the last is read and written alone,
    // and only then do the next three come. Six rounds in one run would be read in pairs. Reads
    // take different times, which are the same in every run.
    let turns = vec![vec![StageTurn { stage: 0, times: 2 }, StageTurn { stage: 1, times: 2 }]];
    let drawn = Some(Distribution::Exponential { mean: us(10) });
    let read = Stage { device: drawn, ..io("read", 1) };
    let line = Pipeline { shared: turns, ..pipeline(2, 3, vec![read, io("write", 1)]) };
    let (once, lasts) = (begun(line.clone()), completion(&free(1), line.clone()));
    let long = cpu("long", Some(lasts + lasts));
    let keep = scenario::Setting { keep_running: true, ..setting(vec![job(line), long]) };
    let mut begun = Begun::default();
    let outcome = rowlock_sim::run_observed(&free(2), &keep, 1, &mut begun).unwrap();
    assert_eq!(outcome.jobs[0].rounds, Some(3));
    let begun: Vec<u64> = begun.0.into_iter().filter(|&(thread, _)| thread == ThreadId(0)).map(|(_, at)| at).collect();
    let again = once.iter().map(|at| at + lasts.as_nanos());
    assert_eq!(begun[..12], once.iter().copied().chain(again).collect::<Vec<_>>());
}

fn lengths(most: u64) -> impl Strategy<Value = Distribution> {
    (0..most, 0_u64..1000).prop_map(|(mean, part)| Distribution::Normal { mean: us(mean), sd: us(mean).scaled(part) })
}

fn any_stage() -> impl Strategy<Value = Stage> {
    let rest = (1_u32..4, prop_oneof![3 => Just(0_i8), 1 => -20_i8..20]);
    (select(StageKind::ALL.to_vec()), lengths(40), lengths(60), any::<bool>(), rest).prop_map(
        |(kind, compute, device, computes, (fork, nice))| {
            let device = kind.blocks().then_some(device);
            let compute = (computes || !kind.blocks()).then_some(compute);
            Stage { name: String::new(), kind, compute, device, fork, nice }
        },
    )
}

/// Pipelines of few and short rounds.
pub(crate) fn any_pipeline() -> impl Strategy<Value = Pipeline> {
    let rules = (0..PRIORITY.len(), 0..WAITING.len());
    let rest = (1_u32..6, 1_u64..25, select(Structure::ALL.to_vec()), rules);
    let places = prop::collection::vec((prop::option::of(0_usize..2), 1_u32..4), 6);
    (prop::collection::vec(any_stage(), 1..6), rest, places).prop_map(
        |(mut stages, (buffers, rounds, structure, (priority, waiting)), places)| {
            let mut shared = vec![Vec::new(); 2];
            for (number, (stage, (thread, times))) in stages.iter_mut().zip(places).enumerate() {
                stage.name = format!("stage{number}");
                if let Some(thread) = thread {
                    stage.fork = 1;
                    let times = shared[thread].first().map_or(times.min(buffers), |turn: &StageTurn| turn.times);
                    shared[thread].push(StageTurn { stage: number, times });
                }
            }
            shared.retain(|turns| !turns.is_empty());
            let (priority, waiting) = (PRIORITY[priority].example, WAITING[waiting].example);
            let mut line = Pipeline { stages, buffers, rounds, structure, shared, priority, waiting };
            while line.can_deadlock() {
                line.shared.pop();
            }
            line
        },
    )
}

fn any_machine() -> impl Strategy<Value = Machine> {
    (1_u32..5, 0_u64..9, select(Scheduler::ALL.to_vec()), 1_u32..4).prop_map(
        |(cpus, switch, scheduler, device_depth)| {
            let ticks = Machine { scheduler, device_depth, context_switch: us(switch), ..Machine::with_cpus(cpus) };
            short(Machine { tick: us(400), slice: us(300), ..ticks })
        },
    )
}

fn computed(outcome: &Outcome) -> Vec<Option<Span>> {
    outcome.jobs.iter().flat_map(|job: &JobOutcome| job.stages.iter().map(|stage| stage.computed_ns)).collect()
}

/// Whether threads of a pipeline may be nicer than others.
pub(crate) fn has_nice_values(line: &Pipeline) -> bool {
    line.priority != priority::PriorityRule::Default || line.stages.iter().any(|stage| stage.nice != 0)
}

/// Under linux-2.4, threads that only spin may keep a nicer one from running forever: see the test
/// of that. Under fifo, any may.
pub(crate) fn can_starve(machine: &Machine, line: &Pipeline) -> bool {
    (machine.scheduler == Scheduler::Linux24 || !machine.scheduler.shares_time())
        && line.waiting == WaitingRule::AlwaysSpin
}

#[test]
fn threads_that_only_spin_may_keep_a_nicer_one_from_running_for_ever_under_linux_2_4() {
    let drawn = |mean, sd| Some(Distribution::Normal { mean: Span::from_nanos(mean), sd: Span::from_nanos(sd) });
    let stage =
        |name: &str, kind, compute, device, fork, nice| Stage { name: name.into(), kind, compute, device, fork, nice };
    let stages = vec![
        stage("read", StageKind::Io, None, drawn(30_000, 8_040), 1, 0),
        stage("look", StageKind::Io, drawn(19_000, 18_924), drawn(32_000, 8_960), 1, 0),
        stage("sort", StageKind::Compute, drawn(24_000, 11_208), None, 1, 0),
        stage("pack", StageKind::Compute, drawn(5_000, 1_550), None, 1, 11),
        stage("sum", StageKind::Compute, drawn(5_000, 2_245), None, 3, 0),
    ];
    let turn = |stage| StageTurn { stage, times: 1 };
    let shared = vec![vec![turn(0), turn(1), turn(3)]];
    let line = Pipeline {
        shared,
        structure: Structure::Threads,
        priority: "nice-up-communicate".parse().unwrap(),
        waiting: WaitingRule::AlwaysSpin,
        ..pipeline(1, 8, stages)
    };
    let machine = Machine {
        scheduler: Scheduler::Linux24,
        context_switch: us(8),
        tick: us(400),
        slice: us(300),
        ..Machine::with_cpus(4)
    };
    let error = run(&machine, &setting(vec![job(line.clone())]), 226).unwrap_err();
    assert!(matches!(error, rowlock_sim::Error::NoHeadway { .. }), "{error}");
    let line = Pipeline { waiting: WaitingRule::AlwaysYield, ..line };
    assert!(run(&machine, &setting(vec![job(line)]), 226).is_ok());
}

#[test]
fn a_stage_that_sleeps_for_no_longer_than_a_switch_may_starve_another_under_cfs() {
    // `line` weighs 9548, `a` 1024. Whenever `line` sleeps, the CPU switches to `a`, and `line`
    // returns before `a` has run. The switch costs `a` 3 us of virtual time, and a round costs
    // `line` a ninth of the time that it takes. So `a` has its share of the CPU, but all of it in
    // switches.
    let machine = short(Machine {
        scheduler: Scheduler::Cfs,
        context_switch: us(3),
        quantum: us(1),
        slice: us(7),
        tick: us(10),
        ..Machine::with_cpus(1)
    });
    let run = |machine: Machine, computes, sleeps| {
        let line = pipeline(1, 1, vec![Stage { nice: -10, ..stage("send", StageKind::Communicate, computes, sleeps) }]);
        let jobs = vec![cpu("a", Some(us(1))), job(line)];
        run(&machine, &scenario::Setting { keep_running: true, ..setting(jobs) }, 1)
    };
    for (computes, sleeps) in [(0, 1), (20, 1), (0, 3)] {
        let error = run(machine, computes, sleeps).unwrap_err();
        assert!(matches!(&error, rowlock_sim::Error::NoHeadway { job, .. } if job == "a"), "{error}");
        assert!(error.to_string().contains("cfs"), "{error}");
    }
    assert!(run(machine, 0, 4).is_ok(), "after the switch `a` runs until `line` returns");
    assert!(run(machine, 30, 1).is_ok(), "a round costs `line` more than `a`, so that it has to wait");
    let free = Machine { context_switch: Span::ZERO, ..machine };
    assert!(run(free, 0, 1).is_ok(), "`a` runs while `line` sleeps");
    let cfs = scenario::Cfs { wakeup_granularity: us(100), ..machine.cfs };
    assert!(run(Machine { cfs, ..machine }, 0, 1).is_ok(), "`line` does not preempt `a`");
}

proptest! {
    /// Debug builds check after every event that rounds are in order, that there are no more than
    /// buffers, and that no thread sleeps while there is a buffer for it.
    #[test]
    fn every_structure_completes_all_rounds_with_the_same_work(
        line in any_pipeline(), machine in any_machine(), other in any_machine(), seed in 0_u64..1000,
    ) {
        prop_assume!(!can_starve(&machine, &line));
        let outcome = run(&machine, &setting(vec![job(line.clone())]), seed).unwrap();
        prop_assert_eq!(outcome.jobs[0].rounds, Some(line.rounds));
        let work: Span = computed(&outcome).into_iter().flatten().sum();
        prop_assert_eq!(outcome.jobs[0].delivered_work_ns, Some(work));
        let (structure, priority) = (Structure::Threads, priority::PriorityRule::Default);
        let plain = Pipeline { structure, priority, shared: Vec::new(), waiting: WaitingRule::AlwaysBlock, buffers: 1, ..line };
        prop_assert_eq!(computed(&outcome), computed(&run(&other, &setting(vec![job(plain)]), seed).unwrap()));
    }

    #[test]
    fn no_run_is_shorter_than_its_floors(line in any_pipeline(), machine in any_machine(), seed in 0_u64..1000) {
        prop_assume!(!can_starve(&machine, &line));
        let outcome = run(&machine, &setting(vec![job(line.clone())]), seed).unwrap();
        let completion = outcome.jobs[0].completion_ns.unwrap();
        let work: Span = computed(&outcome).into_iter().flatten().sum();
        prop_assert!(completion.scaled(1000 * u64::from(machine.cpus)) >= work);
        for (stage, came) in line.stages.iter().zip(&outcome.jobs[0].stages) {
            let took = came.computed_ns.unwrap() + came.device_ns.unwrap();
            prop_assert!(completion.scaled(1000 * u64::from(stage.fork)) >= took, "{}", stage.name);
        }
    }

    #[test]
    fn without_costs_a_serial_pipeline_takes_the_time_of_the_recurrence(
        times in prop::collection::vec(1_u64..50, 1..5), buffers in 1_u32..6, rounds in 1_u64..20,
    ) {
        // A round of a stage begins when the stage has ended the round before, and the stage before
        // has ended this one. At the first stage, it begins when a buffer is free.
        let stages: Vec<Stage> =
            times.iter().enumerate().map(|(n, time)| stage(&format!("s{n}"), StageKind::Communicate, 0, *time)).collect();
        let mut ends: Vec<Vec<u64>> = Vec::new();
        for round in 0..rounds as usize {
            let freed = round.checked_sub(buffers as usize).map_or(0, |earlier| *ends[earlier].last().unwrap());
            let mut before = freed;
            let row = times.iter().enumerate().map(|(n, time)| {
                let own = round.checked_sub(1).map_or(0, |earlier| ends[earlier][n]);
                before = before.max(own) + time;
                before
            });
            let row = row.collect();
            ends.push(row);
        }
        let last = *ends.last().unwrap().last().unwrap();
        prop_assert_eq!(completion(&free(2), pipeline(buffers, rounds, stages)), us(last));
    }
}
