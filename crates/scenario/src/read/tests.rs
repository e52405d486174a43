use policy::Span;
use policy::waiting::{Bound, WaitingRule};

use super::*;
use crate::distribution::{Distribution, Empirical};
use crate::model::{Compute, Granularity, Job, JobKind, Linux24, Machine, MachineKeys, Scheduler};
use crate::pipeline::StageTurn;

const CREW: &str = r#"
[machine]
cpus = 2

[[job]]
name = "crew"
kind = "barrier"
threads = 4
compute = "5 us"
rounds = 10
waiting = "cs"
"#;

fn good(text: &str) -> Scenario {
    read("good.toml", text.as_bytes()).unwrap_or_else(|diagnostics| panic!("{diagnostics}"))
}

/// The messages for an invalid file, each with its line and column.
fn bad(text: &str) -> Vec<String> {
    let diagnostics = read("bad.toml", text.as_bytes()).expect_err("it was accepted");
    let placed = diagnostics.iter().map(|diagnostic| {
        let (line, column) = diagnostics.position(diagnostic);
        format!("{line}:{column} {}", diagnostic.message)
    });
    placed.collect()
}

#[test]
fn a_file_is_read_completely() {
    let scenario = good(
        r#"
        title = "Eleven threads at a barrier against a crowd"
        [machine]
        cpus = 32
        step = "1 us"
        context_switch = "6 us"
        wakeup_cost = "0 us"
        yield_cost = "300 ns"
        spin_margin = "0.5 cs"
        scheduler = "rr"
        quantum = "100 us"
        slice = "3 ms"
        [[job]]
        name = "crew"
        kind = "barrier"
        threads = 11
        compute = { mean = "5.32 us", sd = "0.532 us" }
        rounds = 8_000
        waiting = "2cs+"
        [[job]]
        name = "mates"
        kind = "barrier"
        copies = 2
        threads = 3
        granularity = "medium"
        rounds = 1
        waiting = "44us"
        [[job]]
        name = "crowd"
        kind = "cpu"
        threads = 85
        [[job]]
        name = "zip"
        kind = "command"
        argv = ["xz", "-k", "big.tar"]
        work = "1.5 s"
        [experiment]
        repeat = 7
        seed = 5
        keep_running = true
        "#,
    );
    assert_eq!(scenario.title, "Eleven threads at a barrier against a crowd");
    assert_eq!(scenario.experiment, Experiment { repeat: 7, seed: 5, compare: None, x: None });
    let [Arm { factors, setting }] = scenario.arms.as_slice() else { panic!("{:?}", scenario.arms) };
    assert_eq!(*factors, []);
    assert!(setting.keep_running);
    let machine = MachineKeys {
        like_host: false,
        cpus: Some(32),
        step: Some(Span::from_micros(1)),
        context_switch: Some(Span::from_micros(6)),
        wakeup_cost: Some(Span::ZERO),
        yield_cost: Some(Span::from_nanos(300)),
        spin_margin: Some(Bound::OfCs { thousandths: 500, plus: false }),
        scheduler: Some(Scheduler::Rr),
        quantum: Some(Span::from_micros(100)),
        slice: Some(Span::from_millis(3)),
        ..MachineKeys::default()
    };
    assert_eq!(setting.machine, machine);
    let exact =
        |mean, sd| Compute::Drawn(Distribution::Normal { mean: Span::from_nanos(mean), sd: Span::from_nanos(sd) });
    let rule = |text: &str| text.parse::<WaitingRule>().unwrap();
    let argv = ["xz", "-k", "big.tar"].map(String::from).to_vec();
    let medium = Compute::Granularity(Granularity::Medium);
    let crew = JobKind::Barrier { threads: 11, compute: exact(5320, 532), rounds: 8000, waiting: rule("2cs+") };
    let mates = JobKind::Barrier { threads: 3, compute: medium, rounds: 1, waiting: rule("44 us") };
    let jobs = [
        Job::new("crew", 1, crew),
        Job::new("mates", 2, mates),
        Job::new("crowd", 1, JobKind::Cpu { threads: 85, work: None }),
        Job::new("zip", 1, JobKind::Command { argv, threads: 1, work: Some(Span::from_millis(1500)) }),
    ];
    assert_eq!(setting.jobs, jobs);
}

#[test]
fn missing_keys_have_the_documented_defaults() {
    use crate::keys::{KeyDefault, coscheduling as of_coscheduling, job, machine as of_machine, stage};
    let scenario = good(CREW);
    let setting = &scenario.arms[0].setting;
    let machine = Machine::with_cpus(1);
    let linux = machine.linux_2_4;
    let o1 = MachineKeys { scheduler: Some(Scheduler::LinuxO1), ..MachineKeys::default() }.complete(&machine);
    let by_cpus = |of: fn(Machine) -> Span| {
        let of = |cpus| of(Machine::with_cpus(cpus));
        format!("{} with 1 CPU, {} from 2, {} from 4, {} from 8", of(1), of(2), of(4), of(8))
    };
    let kind = |job: &str| {
        good(&format!("machine.cpus = 1\njob = [{{ name = 'a', {job} }}]")).arms[0].setting.jobs[0].kind.clone()
    };
    let cpu = kind("kind = 'cpu', work = '1 s'");
    let command = kind("kind = 'command', argv = ['true']");
    let stages = "stages = [{ name = 'a', kind = 'io', device = '1 ms' }]";
    let JobKind::Pipeline(pipeline) = kind(&format!("kind = 'pipeline', {stages}, rounds = 1, buffers = 1")) else {
        panic!("another kind")
    };
    assert!(pipeline.shared.is_empty());
    let cells = good("machine.cells = '2x1'\ncoscheduling = {}\njob = [{ name = 'a', kind = 'cpu', work = '1 s' }]");
    let coscheduling = cells.arms[0].setting.coscheduling.unwrap();
    let JobKind::Message(message) =
        kind("kind = 'message', ranks = 2, pattern = 'ring', bytes = 1, rounds = 1, waiting = 'cs'")
    else {
        panic!("another kind")
    };
    assert_eq!((&message.compute, &message.sleep), (&None, &None));
    let defaults: [(keys::Key, &dyn std::fmt::Display); 62] = [
        (experiment::REPEAT, &scenario.experiment.repeat),
        (experiment::SEED, &scenario.experiment.seed),
        (experiment::KEEP_RUNNING, &setting.keep_running),
        (of_machine::STEP, &machine.step),
        (of_machine::CACHE_REFILL, &machine.cache_refill),
        (of_machine::NODE_REFILL, &machine.node_refill),
        (of_machine::SMT_SPEED, &machine.smt_speed),
        (of_machine::CONTEXT_SWITCH, &machine.context_switch),
        (of_machine::WAKEUP_COST, &machine.wakeup_cost),
        (of_machine::YIELD_COST, &machine.yield_cost),
        (of_machine::LINE_TRANSFER, &machine.line_transfer),
        (of_machine::ARRIVALS, &machine.arrivals),
        (of_machine::SPIN_MARGIN, &machine.spin_margin),
        (of_machine::SCHEDULER, &machine.scheduler),
        (of_machine::QUANTUM, &machine.quantum),
        (of_machine::TICK, &machine.tick),
        (of_machine::TICK_PHASE, &machine.tick_phase),
        (of_machine::TIE, &machine.tie),
        (of_machine::DEVICE_DEPTH, &machine.device_depth),
        (of_machine::SHORT_TICK, &Linux24::TICK),
        (of_machine::ALLOCATION, &linux.allocation),
        (of_machine::PENALTY, &linux.penalty),
        (of_machine::BONUS, &linux.bonus),
        (of_machine::THRESHOLD, &linux.threshold),
        (of_machine::ACCOUNTING, &linux.accounting),
        (of_machine::CHARGE_SWITCH, &linux.charge_switch),
        (of_machine::TAIL, &linux.tail),
        (of_machine::WAKEUP, &linux.wakeup),
        (of_machine::TIMESLICE, &machine.timeslice),
        (of_machine::TICK_OF_O1, &o1.tick),
        (of_machine::LEVELS, &machine.feedback.levels),
        (of_machine::RUNNING_TIME, &machine.feedback.running_time),
        (of_machine::BOOST, &machine.feedback.boost),
        (of_machine::SLICE, &by_cpus(|machine| machine.slice)),
        (of_machine::LATENCY, &by_cpus(|machine| machine.cfs.latency)),
        (of_machine::GRANULARITY, &by_cpus(|machine| machine.cfs.granularity)),
        (of_machine::WAKEUP_GRANULARITY, &by_cpus(|machine| machine.cfs.wakeup_granularity)),
        (of_machine::MIGRATION_COST, &machine.cfs.migration_cost),
        (of_machine::NETWORK_LATENCY, &machine.network.latency),
        (of_machine::BANDWIDTH, &machine.network.bandwidth),
        (of_machine::BARRIER_LATENCY, &machine.network.barrier),
        (of_coscheduling::HOW, &coscheduling.how),
        (of_coscheduling::SLICE, &coscheduling.slice),
        (of_coscheduling::PARTITION, &coscheduling.partition),
        (of_coscheduling::MOVE, &coscheduling.movement),
        (of_coscheduling::LOWER, &coscheduling.lower),
        (of_coscheduling::CLOCK_SKEW, &coscheduling.clock_skew),
        (of_coscheduling::RESCHEDULE, &coscheduling.reschedule),
        (of_coscheduling::CREATE, &coscheduling.create),
        (of_coscheduling::START, &coscheduling.start),
        (of_coscheduling::SWITCH_COST, &coscheduling.switch_cost),
        (of_coscheduling::SWITCH_COST_PER_JOB, &coscheduling.switch_cost_per_job),
        (job::WEIGHT, &message.weight),
        (job::COPIES, &setting.jobs[0].copies),
        (job::THREADS, &cpu.threads(1)),
        (job::SPREAD, &command.threads(1)),
        (job::STRUCTURE, &pipeline.structure),
        (job::PRIORITY, &pipeline.priority),
        (job::QUEUEING, &pipeline.waiting),
        (job::THREAD, &"none"),
        (stage::FORK, &pipeline.stages[0].fork),
        (stage::NICE, &pipeline.stages[0].nice),
    ];
    for (key, value) in defaults {
        assert!(matches!(key.default, KeyDefault::Is(text) if text == value.to_string()), "{key:?}: {value}");
    }
}

const PIPELINE: &str = r#"
[machine]
cpus = 2

[[job]]
name = "sort"
kind = "pipeline"
buffers = 4
rounds = 10
thread = [["read*2", "write*2"]]

[[job.stages]]
name = "read"
kind = "io"
device = { mean = "1 ms", sd = "0.1 ms" }

[[job.stages]]
name = "work"
kind = "compute"
compute = "2 ms"
nice = -5

[[job.stages]]
name = "write"
kind = "io"
compute = "5 us"
device = "1 ms"
"#;

#[test]
fn stages_may_be_separate_tables() {
    let scenario = good(PIPELINE);
    let JobKind::Pipeline(pipeline) = &scenario.arms[0].setting.jobs[0].kind else { panic!("another kind") };
    let names: Vec<&str> = pipeline.stages.iter().map(|stage| stage.name.as_str()).collect();
    assert_eq!(names, ["read", "work", "write"]);
    assert_eq!(pipeline.shared, [[StageTurn { stage: 0, times: 2 }, StageTurn { stage: 2, times: 2 }]]);
    assert_eq!((pipeline.stages[1].nice, pipeline.stages[1].device.clone()), (-5, None));
    assert_eq!(
        pipeline.stages[0].device,
        Some(Distribution::Normal { mean: Span::from_millis(1), sd: Span::from_micros(100) })
    );
}

#[test]
fn a_stage_is_swept_by_its_name() {
    let sweep = "[experiment.sweep]\n'job.sort.stages.work.fork' = [1, 4]\n'job.sort.stages.read.device.mean' = ['1 ms', '2 ms']";
    let scenario = good(&format!("{PIPELINE}{sweep}"));
    let of = |arm: &crate::model::Arm| match &arm.setting.jobs[0].kind {
        JobKind::Pipeline(pipeline) => (pipeline.stages[1].fork, pipeline.stages[0].device.as_ref().unwrap().mean()),
        _ => panic!("another kind"),
    };
    let found: Vec<_> = scenario.arms.iter().map(of).collect();
    assert_eq!(found, [(1, 1e6), (1, 2e6), (4, 1e6), (4, 2e6)]);
    let bad = bad(&format!("{PIPELINE}[experiment.sweep]\n'job.sort.stages.wrok.fork' = [1, 4]"));
    assert!(bad[0].contains("no path `job.sort.stages.wrok.fork` to sweep"), "{bad:?}");
}

#[test]
fn every_example_in_the_table_of_keys_is_accepted() {
    for (_, table) in keys::TABLES {
        for key in *table {
            let text = format!("{} = {}", key.name, key.example);
            let parsed: toml::Table = text.parse().unwrap_or_else(|why| panic!("{text}: {why}"));
            assert!(parsed.contains_key(key.name));
        }
    }
    let with =
        |keys: &[keys::Key]| keys.iter().map(|key| format!("{} = {}\n", key.name, key.example)).collect::<String>();
    let barrier: Vec<_> =
        keys::job::BARRIER.iter().copied().filter(|key| !["granularity", "work"].contains(&key.name)).collect();
    let own = [(barrier.as_slice(), "barrier"), (keys::job::CPU, "cpu"), (keys::job::COMMAND, "command")];
    let stages = "[{ name = \"read\", kind = \"io\", device = \"1 ms\" }, { name = \"write\", kind = \"io\", device = \"1 ms\" }]";
    let pipeline = with(keys::job::PIPELINE).replace(keys::job::STAGES.example, stages);
    // Several schedulers have a key `tick`.
    let mut names = std::collections::HashSet::new();
    let once = |key: &&keys::Key| names.insert(key.name);
    let machine: Vec<_> = keys::machine::ALL.iter().copied().flatten().filter(once).copied().collect();
    let of_cells = |key: &keys::Key| keys::machine::OF_CELLS.iter().any(|other| other.name == key.name);
    let (on_cells, machine): (Vec<_>, Vec<_>) = machine.into_iter().partition(of_cells);
    let mut text = "[machine]\n".to_owned() + &with(&machine);
    for (index, (own, kind)) in own.into_iter().enumerate() {
        text += &format!("[[job]]\nname = \"job{index}\"\nkind = \"{kind}\"\n{}", with(own));
    }
    text += &format!("[[job]]\nname = \"sort\"\nkind = \"pipeline\"\n{pipeline}");
    let mut experiment = with(experiment::ALL);
    experiment = experiment.replace("job.crew", "job.job0").replace("x = \"job.crowd.threads\"", "");
    good(&format!("{text}[experiment]\n{experiment}"));

    let coscheduling = with(keys::coscheduling::ALL);
    let machine = format!("[machine]\n{}scheduler = \"eevdf\"\ngroups = true\n", with(&on_cells));
    let ranks: Vec<_> = keys::job::MESSAGE.iter().copied().filter(|key| key.name != "mesh").collect();
    let mesh: Vec<_> = keys::job::MESSAGE.iter().copied().filter(|key| key.name != "ranks").collect();
    let job = |name, keys: &[keys::Key]| format!("[[job]]\nname = \"{name}\"\nkind = \"message\"\n{}", with(keys));
    good(&format!("{machine}[coscheduling]\n{coscheduling}{}{}", job("one", &ranks), job("two", &mesh)));
}

const CELLS: &str = r#"
[machine]
cells = "8x2"

[[job]]
name = "ring"
kind = "message"
mesh = "2x2"
pattern = "ring"
bytes = 10
rounds = 5
waiting = "always-spin"
"#;

#[test]
fn jobs_on_cells_take_no_turns_unless_the_file_asks_for_them() {
    use policy::gang::Gang;
    use policy::layout::{Request, Shape};
    let of = |text: &str| good(text).arms[0].setting.clone();
    let setting = of(CELLS);
    let machine = setting.machine.complete(&Machine::with_cpus(4));
    assert_eq!((machine.cpus, machine.total_cpus()), (1, 16));
    assert_eq!(machine.slice, Machine::with_cpus(1).slice);
    let JobKind::Message(message) = &setting.jobs[0].kind else { panic!("another kind") };
    assert_eq!(message.request, Request::Rectangle(Shape { columns: 2, rows: 2 }));
    let how = |text: &str| of(text).coscheduling.map(|coscheduling| coscheduling.how);
    assert_eq!(how(CELLS), Some(Gang::None));
    assert_eq!(how(&format!("{CELLS}[coscheduling]")), Some(Gang::Adaptive));
    assert_eq!(how(CREW), None);
    let two = CELLS.replace("[machine]", "[machine]\ncpus = 2");
    assert_eq!(of(&two).machine.complete(&Machine::with_cpus(4)).total_cpus(), 32);
}

#[test]
fn coscheduling_is_swept_and_each_arm_is_checked_against_its_machine() {
    use policy::gang::Gang;
    let sweep = "[experiment.sweep]\n'coscheduling.how' = ['none', 'moderate']\n'machine.cells' = ['8x2', '2x2']";
    let arms = good(&format!("{CELLS}{sweep}")).arms;
    let of = |arm: &Arm| (arm.setting.coscheduling.unwrap().how, arm.setting.machine.cells.unwrap().to_string());
    let expected = [(Gang::None, "8x2"), (Gang::None, "2x2"), (Gang::Moderate, "8x2"), (Gang::Moderate, "2x2")];
    assert_eq!(arms.iter().map(of).collect::<Vec<_>>(), expected.map(|(how, cells)| (how, cells.to_owned())));
    let scheduler = "'machine.scheduler' = ['cfs', 'fifo']\n'coscheduling.how' = ['none', 'moderate']";
    let found = bad(&format!("{CELLS}[experiment.sweep]\n{scheduler}"));
    assert_eq!(found, ["15:31 `how = \"moderate\"` needs priorities, and `fifo` has none"]);
    let found = bad(&format!("{CELLS}[experiment.sweep]\n'machine.cells' = ['4x4', '3x1']"));
    assert_eq!(found, ["8:8 2x2 cells fit into a mesh of 3x1 in neither orientation"]);
}

#[test]
fn a_limit_of_slices_is_swept() {
    let arms = good(&format!("{CELLS}[experiment.sweep]\n'coscheduling.most_slices' = [1, 10_000]")).arms;
    let of = |arm: &Arm| arm.setting.coscheduling.unwrap().most_slices;
    assert_eq!(arms.iter().map(of).collect::<Vec<_>>(), [Some(1), Some(10_000)]);
}

#[test]
fn arms_are_all_combinations_in_file_order_and_the_last_factor_varies_fastest() {
    let scenario = good(&format!(
        "{CREW}
        [experiment.sweep]
        \"job.crew.waiting\" = [\"cs\", \"2cs+\"]
        \"job.crew.threads\" = [2, 3, 4]"
    ));
    let arms: Vec<String> = scenario
        .arms
        .iter()
        .map(|arm| match &arm.setting.jobs[0].kind {
            JobKind::Barrier { threads, waiting, .. } => format!("{waiting} {threads}"),
            kind => panic!("{kind:?}"),
        })
        .collect();
    assert_eq!(arms, ["cs 2", "cs 3", "cs 4", "2cs+ 2", "2cs+ 3", "2cs+ 4"]);
    let factors = [("job.crew.waiting", toml::Value::from("2cs+")), ("job.crew.threads", toml::Value::from(2))];
    assert_eq!(scenario.arms[3].factors, factors.map(|(path, value)| (path.to_owned(), value)));
}

#[test]
fn a_time_is_a_span_or_a_table_of_a_distribution() {
    let us = Span::from_micros;
    let compute = |table: &str| {
        let scenario = good(&CREW.replace("\"5 us\"", table));
        match &scenario.arms[0].setting.jobs[0].kind {
            JobKind::Barrier { compute: Compute::Drawn(distribution), .. } => distribution.clone(),
            other => panic!("{other:?}"),
        }
    };
    let empirical = |values: &[u64], weights| {
        Distribution::Empirical(Empirical::new(values.iter().copied().map(us).collect(), weights).unwrap())
    };
    for (table, expected) in [
        ("'3 us'", Distribution::exactly(us(3))),
        ("{ mean = '3 us' }", Distribution::exactly(us(3))),
        ("{ distribution = 'normal', mean = '3 us', sd = '1 us' }", Distribution::Normal { mean: us(3), sd: us(1) }),
        ("{ distribution = 'uniform', from = '3 us', to = '3 us' }", Distribution::Uniform { from: us(3), to: us(3) }),
        ("{ distribution = 'exponential', mean = '3 us' }", Distribution::Exponential { mean: us(3) }),
        (
            "{ distribution = 'log-normal', mean = '3 us', sd = '9 us' }",
            Distribution::LogNormal { mean: us(3), sd: us(9) },
        ),
        ("{ distribution = 'empirical', values = ['7 us', '3 us'] }", empirical(&[3, 7], None)),
        (
            "{ distribution = 'empirical', values = ['7 us', '3 us'], weights = [1, 0.5] }",
            empirical(&[7, 3], Some(vec![1.0, 0.5])),
        ),
    ] {
        assert_eq!(compute(table), expected, "{table}");
    }
}

#[test]
fn work_instead_of_rounds_is_converted_to_rounds_at_the_mean() {
    let rounds = |text: &str| match good(text).arms[0].setting.jobs[0].kind {
        JobKind::Barrier { rounds, .. } | JobKind::Lock { rounds, .. } => rounds,
        ref other => panic!("{other:?}"),
    };
    let by = |work: &str| CREW.replace("rounds = 10", &format!("work = '{work}'"));
    assert_eq!(["1 ms", "1 ns", "11 us", "10 us"].map(|work| rounds(&by(work))), [200, 1, 3, 2]);
    let lock = by("1 ms").replace("barrier", "lock").replace("compute =", "critical = '15 us'\ncompute =");
    assert_eq!(rounds(&lock), 50);
    let granular = by("1 ms").replace("compute = \"5 us\"", "granularity = 'fine'");
    assert_eq!(bad(&granular), ["10:8 how many rounds this makes depends on what a switch costs"]);
    assert_eq!(bad(&format!("{CREW}work = '1 ms'")), ["12:8 both `rounds` and `work` are given"]);
    assert_eq!(bad(&by("30000 s").replace("5 us", "1 ns")), ["10:8 this makes more than 1000000000000 rounds"]);
}

#[test]
fn paths_that_vary_together_are_one_factor_with_any_spacing() {
    let sweep = "[experiment]\nx = 'job.crew.rounds'\ncompare = 'job.crew.threads ,job.crew.rounds'\nsweep = { 'job.crew.threads,  job.crew.rounds' = [[1, 20], [3, 40]], 'machine.cpus' = [1, 2] }";
    let scenario = good(&format!("{CREW}{sweep}"));
    let of = |arm: &Arm| match arm.setting.jobs[0].kind {
        JobKind::Barrier { threads, rounds, .. } => (threads, rounds, arm.setting.machine.cpus),
        _ => panic!("another kind"),
    };
    let arms: Vec<_> = scenario.arms.iter().map(of).collect();
    assert_eq!(arms, [(1, 20, Some(1)), (1, 20, Some(2)), (3, 40, Some(1)), (3, 40, Some(2))]);
    let both = "job.crew.threads, job.crew.rounds".to_owned();
    assert_eq!(scenario.arms[2].factors[0], (both.clone(), toml::Value::from(vec![3, 40])));
    assert_eq!(
        (scenario.experiment.compare.as_ref(), scenario.experiment.x.as_deref()),
        (Some(&both), Some("job.crew.rounds"))
    );
    assert_eq!(read("again.toml", scenario.to_toml().as_bytes()), Ok(scenario));
    // A value that is wrong for only one of the paths is reported at its place.
    let bad =
        bad(&format!("{CREW}[experiment]\nsweep = {{ 'job.crew.threads, job.crew.rounds' = [[1, 20], [3, 0]] }}"));
    assert_eq!(bad, ["13:63 `rounds` cannot be 0"]);
}

#[test]
fn a_key_may_be_written_only_in_the_sweep() {
    let text = CREW.replace("threads = 4\n", "").replace("compute = \"5 us\"\n", "").replace("cpus = 2", "");
    let scenario = good(&format!(
        "{text}
        [experiment]
        x = \"machine.cpus\"
        [experiment.sweep]
        \"machine.cpus\" = [1, 2]
        \"job.crew.threads\" = [5]
        \"job.crew.compute.mean\" = [\"7 us\"]
        \"experiment.keep_running\" = [true]"
    ));
    let [one, two] = scenario.arms.as_slice() else { panic!("{:?}", scenario.arms) };
    assert_eq!((one.setting.machine.cpus, two.setting.machine.cpus), (Some(1), Some(2)));
    assert!(one.setting.keep_running);
    let JobKind::Barrier { threads, compute, .. } = one.setting.jobs[0].kind.clone() else { panic!() };
    assert_eq!(
        (threads, compute),
        (5, Compute::Drawn(Distribution::Normal { mean: Span::from_micros(7), sd: Span::ZERO }))
    );
}

#[test]
fn an_error_in_a_swept_value_points_into_the_sweep_and_one_elsewhere_is_reported_once() {
    let text = CREW.replace("rounds = 10", "rounds = 0");
    let found = bad(&format!("{text}[experiment.sweep]\n\"job.crew.threads\" = [1, 2, 0, 3]\n"));
    assert_eq!(found, ["10:10 `rounds` cannot be 0", "13:29 `threads` cannot be 0"]);
}

#[test]
fn an_invalid_combination_is_reported_in_its_arm() {
    let text = CREW.replace("compute = \"5 us\"", "compute = { mean = \"5 us\" }");
    let sweep =
        "[experiment]\nsweep = { 'job.crew.compute.mean' = ['5 us', '50 us'], 'job.crew.compute.sd' = ['6 us'] }";
    assert_eq!(bad(&format!("{text}{sweep}")), ["13:81 `sd` (6 us) is above `mean` (5 us)"]);
}

#[test]
fn keys_hidden_by_a_syntax_error_are_not_reported_as_missing() {
    assert_eq!(bad("[machine\ncpus = 2\n"), ["1:9 unclosed table"]);
    assert_eq!(bad("[machine]\ncpus = 2\n[[job]\nname = 'crew'\n"), ["3:7 unclosed array table"]);
    assert_eq!(bad("[machine]\n")[0], "1:1 the machine has no CPUs");
}

#[test]
fn a_line_with_a_syntax_error_has_only_that_error() {
    assert_eq!(bad("machine = { cpus 1 2 = 3 }\n"), ["1:18 missing assignment between key-value pairs"]);
}

#[test]
fn a_job_without_copies_is_left_out_and_cannot_end_a_run() {
    let crowd = "[[job]]\nname = \"crowd\"\nkind = \"cpu\"\n";
    let work = "[[job]]\nname = \"work\"\nkind = \"cpu\"\nwork = \"1 ms\"\ncopies";
    let setting = good(&format!("machine.cpus = 1\n{crowd}copies = 0\n{work} = 2\n")).arms[0].setting.clone();
    assert_eq!(setting.threads(1), 2);
    assert_eq!(setting.jobs_with_copies().map(|(name, _)| name).collect::<Vec<_>>(), ["work.0", "work.1"]);
    let bad = bad(&format!("machine.cpus = 1\n{crowd}{work} = 0\n"));
    assert!(bad.iter().any(|message| message.contains("no job ever ends")), "{bad:?}");
}

#[test]
fn keys_of_other_schedulers_are_allowed() {
    let text = CREW.replace("cpus = 2", "cpus = 2\nquantum = \"1 ms\"\ntick = \"1 ms\"");
    good(&format!("{text}[experiment]\nsweep = {{ 'machine.scheduler' = ['rr', 'eevdf'] }}"));
}

#[test]
fn the_default_tick_is_that_of_the_scheduler() {
    let scenario = good(&format!("{CREW}[experiment]\nsweep = {{ 'machine.scheduler' = ['eevdf', 'linux-2.4'] }}"));
    let host = Machine { tick: Span::from_millis(1), ..Machine::with_cpus(2) };
    let tick = |arm: usize| scenario.arms[arm].setting.machine.complete(&host).tick;
    assert_eq!((tick(0), tick(1)), (Span::from_millis(1), Span::from_micros(10)));
    let written = CREW.replace("cpus = 2", "cpus = 2\nscheduler = 'linux-2.4'\ntick = '10 ms'");
    assert_eq!(good(&written).arms[0].setting.machine.complete(&host).tick, Span::from_millis(10));
}

#[test]
fn too_long_a_file_and_too_many_arms_are_rejected() {
    assert_eq!(bad(&" ".repeat(keys::LONGEST_FILE + 1)), ["1:1 a scenario file cannot be longer than 1048576 bytes"]);

    let numbers = |n: u32| (1..=n).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    let sweep = |a, b| {
        format!(
            "{CREW}[experiment]\nsweep = {{ 'machine.cpus' = [{}], 'job.crew.copies' = [{}] }}",
            numbers(a),
            numbers(b)
        )
    };
    assert_eq!(bad(&sweep(400, 251)), ["13:9 the sweep has more than 100000 arms"]);
    let long = format!("{}\n# {}", sweep(400, 200), "-".repeat(4000));
    assert!(bad(&long)[0].ends_with("do not fit into memory"), "{:?}", bad(&long));
    let often = sweep(1, 2).replace("sweep =", "repeat = 500_001\nsweep =");
    assert_eq!(bad(&often), ["13:10 2 arms, each 500001 times, are more than 1000000 runs"]);
}

#[test]
fn deep_nesting_is_rejected() {
    for text in
        ["[".repeat(100_000), "a = [".repeat(100_000), vec!["a"; 100_000].join(".") + " = 1", "{a=".repeat(9999)]
    {
        assert!(read("deep.toml", text.as_bytes()).is_err());
    }
}
