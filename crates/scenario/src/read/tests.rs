use policy::Span;
use policy::waiting::{Bound, Rule};

use super::*;
use crate::model::{Compute, Granularity, Job, Kind, Linux24, Machine, MachineKeys, Scheduler};

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

/// The messages of a bad file, each with its line and column.
fn bad(text: &str) -> Vec<String> {
    let diagnostics = read("bad.toml", text.as_bytes()).expect_err("it was accepted");
    let placed = diagnostics.iter().map(|diagnostic| {
        let (line, column) = diagnostics.position(diagnostic);
        format!("{line}:{column} {}", diagnostic.message)
    });
    placed.collect()
}

#[test]
fn a_file_is_read_as_it_stands() {
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
    let exact = |mean, sd| Compute::Normal { mean: Span::from_nanos(mean), sd: Span::from_nanos(sd) };
    let rule = |text: &str| text.parse::<Rule>().unwrap();
    let job = |name: &str, copies, kind| Job { name: name.into(), copies, kind };
    let argv = ["xz", "-k", "big.tar"].map(String::from).to_vec();
    let jobs = [
        job("crew", 1, Kind::Barrier { threads: 11, compute: exact(5320, 532), rounds: 8000, waiting: rule("2cs+") }),
        job(
            "mates",
            2,
            Kind::Barrier {
                threads: 3,
                compute: Compute::Granularity(Granularity::Medium),
                rounds: 1,
                waiting: rule("44 us"),
            },
        ),
        job("crowd", 1, Kind::Cpu { threads: 85, work: None }),
        job("zip", 1, Kind::Command { argv, threads: 1, work: Some(Span::from_millis(1500)) }),
    ];
    assert_eq!(setting.jobs, jobs);
}

#[test]
fn what_is_not_written_has_the_documented_defaults() {
    use crate::keys::Default;
    let default = |key: &keys::Key| match key.default {
        Default::Is(text) => text.to_owned(),
        Default::Required => "required".to_owned(),
    };
    let scenario = good(CREW);
    assert_eq!(default(&experiment::REPEAT), scenario.experiment.repeat.to_string());
    assert_eq!(default(&experiment::SEED), scenario.experiment.seed.to_string());
    assert_eq!(default(&experiment::KEEP_RUNNING), scenario.arms[0].setting.keep_running.to_string());
    assert_eq!(default(&keys::job::COPIES), scenario.arms[0].setting.jobs[0].copies.to_string());

    let machine = Machine::with_cpus(1);
    assert_eq!(default(&keys::machine::STEP), machine.step.to_string());
    assert_eq!(default(&keys::machine::CONTEXT_SWITCH), machine.context_switch.to_string());
    assert_eq!(default(&keys::machine::WAKEUP_COST), machine.wakeup_cost.to_string());
    assert_eq!(default(&keys::machine::YIELD_COST), machine.yield_cost.to_string());
    assert_eq!(default(&keys::machine::SPIN_MARGIN), machine.spin_margin.to_string());
    assert_eq!(default(&keys::machine::SCHEDULER), machine.scheduler.name());
    assert_eq!(default(&keys::machine::QUANTUM), machine.quantum.to_string());
    assert_eq!(default(&keys::machine::TICK), machine.tick.to_string());
    assert_eq!(default(&keys::machine::TIE), machine.tie.name());
    let linux = machine.linux_2_4;
    assert_eq!(default(&keys::machine::SHORT_TICK), Linux24::TICK.to_string());
    assert_eq!(default(&keys::machine::ALLOCATION), linux.allocation.to_string());
    assert_eq!(default(&keys::machine::PENALTY), linux.penalty.to_string());
    assert_eq!(default(&keys::machine::BONUS), linux.bonus.to_string());
    assert_eq!(default(&keys::machine::THRESHOLD), linux.threshold.to_string());
    assert_eq!(default(&keys::machine::ACCOUNTING), linux.accounting.name());
    assert_eq!(default(&keys::machine::CHARGE_SWITCH), linux.charge_switch.to_string());
    assert_eq!(default(&keys::machine::TAIL), linux.tail.to_string());
    assert_eq!(default(&keys::machine::WAKEUP), linux.wakeup.name());
    let slice = |cpus| Machine::with_cpus(cpus).slice;
    let slices = format!("{} with 1 CPU, {} from 2, {} from 4, {} from 8", slice(1), slice(2), slice(4), slice(8));
    assert_eq!(default(&keys::machine::SLICE), slices);

    let cpu = good("machine.cpus = 1\njob = [{ name = 'a', kind = 'cpu', work = '1 s' }]");
    assert_eq!(default(&keys::job::THREADS), cpu.arms[0].setting.jobs[0].kind.threads().to_string());
    let command = good("machine.cpus = 1\njob = [{ name = 'a', kind = 'command', argv = ['true'] }]");
    assert_eq!(default(&keys::job::SPREAD), command.arms[0].setting.jobs[0].kind.threads().to_string());
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
    let barrier: Vec<_> = keys::job::BARRIER.iter().copied().filter(|key| key.name != "granularity").collect();
    let own = [(barrier.as_slice(), "barrier"), (keys::job::CPU, "cpu"), (keys::job::COMMAND, "command")];
    // Two schedulers have a tick each, of the same name.
    let once = |keys: &&keys::Key| keys.meaning != keys::machine::TICK.meaning;
    let machine: Vec<_> = keys::machine::ALL.iter().copied().flatten().filter(once).copied().collect();
    let mut text = "[machine]\n".to_owned() + &with(&machine);
    for (index, (own, kind)) in own.into_iter().enumerate() {
        text += &format!("[[job]]\nname = \"job{index}\"\nkind = \"{kind}\"\n{}", with(own));
    }
    let mut experiment = with(experiment::ALL);
    experiment = experiment.replace("job.crew", "job.job0").replace("x = \"job.crowd.threads\"", "");
    good(&format!("{text}[experiment]\n{experiment}"));
}

#[test]
fn arms_are_all_combinations_in_the_order_of_the_file_and_the_last_factor_turns_fastest() {
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
            Kind::Barrier { threads, waiting, .. } => format!("{waiting} {threads}"),
            kind => panic!("{kind:?}"),
        })
        .collect();
    assert_eq!(arms, ["cs 2", "cs 3", "cs 4", "2cs+ 2", "2cs+ 3", "2cs+ 4"]);
    let factors = [("job.crew.waiting", toml::Value::from("2cs+")), ("job.crew.threads", toml::Value::from(2))];
    assert_eq!(scenario.arms[3].factors, factors.map(|(path, value)| (path.to_owned(), value)));
}

#[test]
fn a_key_may_come_from_the_sweep_alone() {
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
    let Kind::Barrier { threads, compute, .. } = one.setting.jobs[0].kind.clone() else { panic!() };
    assert_eq!((threads, compute), (5, Compute::Normal { mean: Span::from_micros(7), sd: Span::ZERO }));
}

#[test]
fn an_error_in_a_swept_value_points_into_the_sweep_and_one_elsewhere_is_reported_once() {
    let text = CREW.replace("rounds = 10", "rounds = 0");
    let found = bad(&format!("{text}[experiment.sweep]\n\"job.crew.threads\" = [1, 2, 0, 3]\n"));
    assert_eq!(found, ["10:10 `rounds` cannot be 0", "13:29 `threads` cannot be 0"]);
}

#[test]
fn a_combination_that_cannot_be_is_found_in_the_arm_that_makes_it() {
    let text = CREW.replace("compute = \"5 us\"", "compute = { mean = \"5 us\" }");
    let sweep =
        "[experiment]\nsweep = { 'job.crew.compute.mean' = ['5 us', '50 us'], 'job.crew.compute.sd' = ['6 us'] }";
    assert_eq!(bad(&format!("{text}{sweep}")), ["13:81 `sd` (6 us) is above `mean` (5 us)"]);
}

#[test]
fn what_a_syntax_error_may_have_hidden_is_not_called_missing() {
    assert_eq!(bad("[machine\ncpus = 2\n"), ["1:9 unclosed table"]);
    assert_eq!(bad("[machine]\ncpus = 2\n[[job]\nname = 'crew'\n"), ["3:7 unclosed array table"]);
    assert_eq!(bad("[machine]\n")[0], "1:1 the machine has no CPUs");
}

#[test]
fn what_a_faulty_sweep_was_to_write_is_not_called_missing() {
    let text = CREW.replace("threads = 4\n", "");
    let found = bad(&format!("{text}[experiment.sweep]\n\"job.crew.thraeds\" = [1, 2]\n"));
    assert_eq!(found, ["12:1 no path `job.crew.thraeds` to sweep"]);
}

#[test]
fn a_line_with_a_syntax_error_has_that_error_alone() {
    assert_eq!(bad("machine = { cpus 1 2 = 3 }\n"), ["1:18 missing assignment between key-value pairs"]);
}

#[test]
fn keys_of_the_other_scheduler_are_legal() {
    let text = CREW.replace("cpus = 2", "cpus = 2\nquantum = \"1 ms\"\ntick = \"1 ms\"");
    good(&format!("{text}[experiment]\nsweep = {{ 'machine.scheduler' = ['rr', 'eevdf'] }}"));
}

#[test]
fn the_tick_that_is_not_written_is_that_of_the_scheduler() {
    let scenario = good(&format!("{CREW}[experiment]\nsweep = {{ 'machine.scheduler' = ['eevdf', 'linux-2.4'] }}"));
    let host = Machine { tick: Span::from_millis(1), ..Machine::with_cpus(2) };
    let tick = |arm: usize| scenario.arms[arm].setting.machine.complete(&host).tick;
    assert_eq!((tick(0), tick(1)), (Span::from_millis(1), Span::from_micros(10)));
    let written = CREW.replace("cpus = 2", "cpus = 2\nscheduler = 'linux-2.4'\ntick = '10 ms'");
    assert_eq!(good(&written).arms[0].setting.machine.complete(&host).tick, Span::from_millis(10));
}

#[test]
fn a_planned_scheduler_is_told_which_ones_there_are() {
    let text = CREW.replace("cpus = 2", "cpus = 2\nscheduler = \"linux-o1\"");
    let diagnostics = read("bad.toml", text.as_bytes()).unwrap_err();
    let help = diagnostics.iter().next().and_then(|diagnostic| diagnostic.help.clone());
    assert_eq!(help.as_deref(), Some("did you mean `linux-2.4`? It can be rr, linux-2.4 or eevdf"));
}

#[test]
fn too_long_a_file_and_too_many_arms_are_refused() {
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
fn deep_nesting_is_refused() {
    for text in
        ["[".repeat(100_000), "a = [".repeat(100_000), vec!["a"; 100_000].join(".") + " = 1", "{a=".repeat(9999)]
    {
        assert!(read("deep.toml", text.as_bytes()).is_err());
    }
}
