use crate::machine::{MachineReport, NiceScope};
use crate::report::PipelineReport;

use super::*;

const MS: u64 = 1_000_000;

/// A stage that was busy for this many milliseconds of a second, with this CPU time, and starved
/// for the rest.
fn stage(name: &str, kind: StageKind, busy: u64, cpu: u64) -> StageReport {
    StageReport {
        name: name.to_owned(),
        kind,
        place: if kind == StageKind::Compute { Place::Workers } else { Place::Threads },
        copies: 1,
        busy_ns: busy * MS,
        starved_ns: 1000_u64.saturating_sub(busy) * MS,
        user_ns: cpu * MS,
        ..StageReport::default()
    }
}

/// A run of one second on two CPUs, with these stages.
fn run(stages: Vec<StageReport>) -> RunReport {
    let pipeline = PipelineReport { name: "lines".to_owned(), buffers: 8, ..PipelineReport::default() };
    RunReport {
        clock_ns: 1000 * MS,
        cpus: 2,
        user_ns: stages.iter().map(|stage| stage.user_ns).sum(),
        pipelines: vec![pipeline],
        stages,
        ..RunReport::default()
    }
}

/// Three stages, the first of which has no counted waits.
fn three(read: u64, work: u64, write: u64) -> RunReport {
    run(vec![
        StageReport { starved_ns: 0, ..stage("read", StageKind::Io, read, read / 10) },
        stage("work", StageKind::Compute, work, work),
        stage("write", StageKind::Io, write, write / 10),
    ])
}

#[test]
fn a_run_limited_by_the_cpus_names_its_floor() {
    let mut report = three(200, 1900, 100);
    report.stages[1].copies = 2;
    report.stages[1].starved_ns = 100 * MS;
    let verdict = report.verdict();
    assert_eq!(verdict.limit, LimitingResource::Cpu);
    assert_eq!(
        verdict.to_string(),
        "1.00 s, limited by the CPUs: 1.93 of 2 CPUs were in use\n\
         1.04 times its floor, which the CPUs set\n\
         \x20 at least  965 ms by the CPUs (1.93 s of CPU time on 2 CPUs)\n\
         \x20 at least  950 ms by stage 'work' (1.90 s of work by 2 copies)\n\
         faster by: less to compute, or more CPUs; priorities can only save switches (`priority=nice-up-io`)"
    );
}

#[test]
fn a_run_limited_by_a_stage_names_it_and_gives_advice() {
    let verdict = three(200, 970, 100).verdict();
    assert_eq!(verdict.limit, LimitingResource::Stage("work".to_owned()));
    let text = verdict.to_string();
    assert!(text.starts_with("1.00 s, limited by stage 'work': at work 97 % of the time; 1.00 of 2 CPUs were in use\n1.03 times its floor, which stage 'work' sets\n"), "{text}");
    let advice = "'work' works on one buffer at a time: split it in two, make it forkable, or give it less to compute";
    assert!(text.ends_with(advice), "{text}");
    let assert_advice =
        |report: &RunReport, part| assert!(report.verdict().advice.contains(part), "{}", report.verdict());
    let mut report = three(970, 200, 100);
    assert_advice(&report, "make 'read' forkable");
    report.stages[0].can_fork = true;
    assert_advice(&report, "(`fork=read*2`)");
    let mut report = three(100, 970, 100);
    report.stages[1].can_fork = true;
    assert_advice(&report, "(`workers=2 fork=work*2`)");
    report.workers = 2;
    assert_advice(&report, "(`fork=work*2`)");
    report.stages[1].copies = 2;
    report.stages[1].busy_ns = 1940 * MS;
    report.machine.pressure_cpu = Some(0);
    let advice =
        "'work' has a copy for each CPU already, but ran for only 50 % of its busy time: find out what it waits for";
    assert_eq!(report.verdict().advice, advice);
}

#[test]
fn a_run_limited_by_the_device_is_compared_with_its_bandwidth() {
    let mut report = three(500, 300, 450);
    report.machine = MachineReport {
        device: Some("sda".to_owned()),
        device_busy_ns: Some(980 * MS),
        read_bytes: Some(900_000_000),
        written_bytes: Some(300_000_000),
        ..MachineReport::default()
    };
    let bandwidth = Bandwidth { read: 1_000_000_000, write: 500_000_000, is_direct: true };
    let verdict = Verdict::of(&report, Some(&bandwidth));
    assert_eq!(verdict.limit, LimitingResource::Device("sda".to_owned()));
    let text = verdict.to_string();
    let start = "1.00 s, limited by the device sda: it was busy 98 % of the time; 0.40 of 2 CPUs were in use\n\
                 1.11 times its floor, which the device sda sets\n\
                 \x20 at least  900 ms by the device sda (900 MB read at 1.00 GB/s, 300 MB written at 500 MB/s)\n";
    assert!(text.starts_with(start), "{text}");
    report.machine.written_bytes = Some(470_000_000);
    let written = Verdict::of(&report, Some(&bandwidth)).floors;
    assert_eq!(written[0].ns, 940 * MS, "it reads and writes at the same time");
    assert_eq!(Verdict::of(&report, None).floors.len(), 2, "without a measurement there is no such floor");
    report.machine.device_busy_ns = None;
    report.machine.device = None;
    report.machine.pressure_io = Some(950);
    let (text, waited) = (report.verdict().to_string(), "some thread waited for it 95 % of the time; ");
    assert!(text.starts_with(&format!("1.00 s, limited by the device: {waited}")), "{text}");
}

#[test]
fn a_junction_is_one_stage_in_all_its_pipelines() {
    let port = |pipeline: &str, busy: u64| StageReport {
        place: Place::Junction,
        pipeline: pipeline.to_owned(),
        starved_ns: 5 * MS,
        ..stage("merge", StageKind::Compute, busy, busy)
    };
    let read = || stage("read", StageKind::Io, 20, 2);
    let verdict = run(vec![read(), port("left", 490), read(), port("right", 490)]).verdict();
    assert_eq!(verdict.limit, LimitingResource::Stage("merge".to_owned()));
    assert_eq!(verdict.floors[0].ns, 980 * MS);
    assert!(verdict.advice.starts_with("less to do in junction 'merge'"), "{}", verdict.advice);
}

#[test]
fn stages_that_share_a_thread_are_judged_together() {
    let mut report = three(500, 300, 460);
    assert_eq!(report.verdict().limit, LimitingResource::Unknown);
    report.structure = "buffers=8 thread=read*2,write*2".to_owned();
    let verdict = report.verdict();
    assert_eq!(verdict.limit, LimitingResource::Stage("read+write".to_owned()));
    let text = verdict.to_string();
    assert!(text.contains("limited by the stages 'read+write' in turn: at work 96 % of the time"), "{text}");
    assert!(text.contains("1.04 times its floor, which the stages 'read+write' in turn set\n"), "{text}");
    assert_eq!(verdict.advice, "a thread for each of them (`split=write`)");
}

#[test]
fn fused_stages_are_judged_together() {
    let mut report = three(500, 450, 300);
    report.stages[1].is_fused = true;
    assert_eq!(report.verdict().limit, LimitingResource::Stage("read+work".to_owned()));
    report.structure = "thread=read,write".to_owned();
    assert_eq!(units(&report).len(), 1, "a fused stage belongs to the thread of the first one");
}

#[test]
fn too_few_buffers_are_detected() {
    let mut report = three(400, 300, 450);
    report.stages[0].blocked_ns = 600 * MS;
    let verdict = report.verdict();
    assert_eq!(verdict.limit, LimitingResource::Buffers);
    assert_eq!(verdict.advice, "more buffers (`buffers=16`)");
    assert_eq!(
        verdict.evidence,
        "no buffer was free 60 % of the time; 'write' was busiest, 45 % of the time; 0.39 of 2 CPUs were in use"
    );
}

#[test]
fn a_stage_before_which_most_buffers_wait_limits_although_a_buffer_is_seldom_free() {
    let mut report = three(400, 840, 450);
    report.pipelines[0].buffers = 16;
    report.stages.iter_mut().for_each(|stage| stage.pipeline = "lines".to_owned());
    report.stages[0].blocked_ns = 600 * MS;
    assert_eq!(report.verdict().limit, LimitingResource::Buffers);
    // It took each buffer while 9 others waited on average.
    (report.stages[1].depths, report.stages[1].starved_ns) = (vec![0, 0, 0, 0, 0, 0, 0, 0, 50, 0, 50], 160 * MS);
    let verdict = report.verdict();
    assert_eq!(verdict.limit, LimitingResource::Stage("work".to_owned()));
    let evidence = "at work 84 % of the time, while 56 % of the buffers waited for it; 0.93 of 2 CPUs were in use";
    assert_eq!(verdict.evidence, evidence);
}

#[test]
fn a_junction_limits_only_if_most_buffers_of_all_its_pipelines_wait() {
    let port = |pipeline: &str, left: usize| {
        let depths = [vec![0; left], vec![10]].concat();
        let place = Place::Junction;
        StageReport { pipeline: pipeline.to_owned(), depths, place, ..stage("merge", StageKind::Compute, 350, 350) }
    };
    for (left, limit) in [(0, LimitingResource::Unknown), (7, LimitingResource::Stage("merge".to_owned()))] {
        let mut report = run(vec![port("a", 7), port("b", left)]);
        let names = ["a", "b"].map(str::to_owned);
        report.stages.iter_mut().for_each(|stage| stage.starved_ns = 0);
        report.pipelines = names.map(|name| PipelineReport { name, buffers: 8, ..PipelineReport::default() }).to_vec();
        assert_eq!(report.verdict().limit, limit);
    }
}

#[test]
fn a_stage_that_sleeps_on_a_busy_machine_does_not_wait_for_a_cpu() {
    let mut report = run(vec![stage("a", StageKind::Compute, 980, 20), stage("b", StageKind::Compute, 990, 30)]);
    report.machine.pressure_cpu = Some(990);
    assert_eq!(report.verdict().limit, LimitingResource::Cpu, "as far as the pressure tells");
    for (counted, limit) in [(5, LimitingResource::Stage("b".to_owned())), (900, LimitingResource::Cpu)] {
        report.stages.iter_mut().for_each(|stage| stage.waiting_for_cpu_ns = Some(counted * MS));
        assert_eq!(report.verdict().limit, limit, "{counted} ms of a wait for a CPU");
    }
    // Not all of a thread's wait for a CPU is in a call.
    report.stages.iter_mut().for_each(|stage| stage.waiting_for_cpu_ns = Some(5000 * MS));
    assert!(report.verdict().floors.iter().all(|floor| floor.ns <= 50 * MS), "{}", report.verdict());
}

#[test]
fn the_cpus_limit_stages_that_wait_for_them_in_turn() {
    let mut report = three(100, 720, 260);
    report.user_ns = 200 * MS;
    for (stage, (busy, cpu)) in report.stages.iter_mut().zip([(100, 1), (720, 160), (260, 39)]) {
        (stage.busy_ns, stage.user_ns) = (busy * MS, cpu * MS);
        stage.waiting_for_cpu_ns = Some(if busy > 100 { (busy - cpu) * MS } else { 0 });
    }
    let verdict = report.verdict();
    assert_eq!(verdict.limit, LimitingResource::Cpu);
    let evidence = "0.20 of 2 CPUs were in use, and its threads waited for them, 781 ms in all";
    assert_eq!(verdict.evidence, evidence);
    assert!(verdict.advice.starts_with("the CPUs for itself"), "{verdict}");
    // A thread that waits for a CPU after a wakeup has no buffer yet.
    report.stages.iter_mut().for_each(|stage| stage.busy_ns = stage.cpu_ns());
    assert_eq!(report.verdict().limit, LimitingResource::Cpu);
}

#[test]
fn the_waits_of_a_busy_stage_are_told() {
    let mut report = three(200, 970, 100);
    (report.stages[1].user_ns, report.stages[1].waiting_for_cpu_ns) = (97 * MS, Some(873 * MS));
    report.user_ns = 127 * MS;
    let evidence = "at work 97 % of the time (90 % of that waiting for a CPU); 0.13 of 2 CPUs were in use";
    assert_eq!(report.verdict().evidence, evidence);
}

#[test]
fn time_in_init_and_cleanup_is_named() {
    let mut report = three(100, 970, 100);
    report.stages[1].setup_ns = 700 * MS;
    let advice = "less to do in `init` and `cleanup` of 'work', which took 700 ms";
    assert_eq!(report.verdict().advice, advice);
}

#[test]
fn advice_about_other_programs_depends_on_where_nice_values_count() {
    let mut report = run(vec![stage("a", StageKind::Compute, 980, 500), stage("b", StageKind::Compute, 990, 500)]);
    report.machine.pressure_cpu = Some(990);
    for (scope, part) in [
        (NiceScope::Machine, "a better nice value than theirs (`priority=nice-down-compute`, if permitted)"),
        (NiceScope::Session, "a better nice value for its session (as root, `echo -10 > /proc/self/autogroup`"),
        (NiceScope::ControlGroup, "a larger share for its control group (`cpu.weight` or `cpu.shares`)"),
    ] {
        report.machine.nice_scope = scope;
        let advice = report.verdict().advice;
        assert!(advice.contains(part), "{advice}");
        assert_eq!(advice.contains("priority="), scope == NiceScope::Machine, "{advice}");
    }
}

#[test]
fn a_stage_that_computes_and_waits_for_a_cpu_is_not_at_work() {
    let mut report = three(200, 970, 100);
    report.stages[1].user_ns = 500 * MS;
    report.user_ns = 530 * MS;
    let verdict = report.verdict();
    assert_eq!(verdict.limit, LimitingResource::Stage("work".to_owned()), "its waits are what limits");
    assert!(verdict.floors.iter().all(|floor| floor.ns <= 500 * MS), "but not its floor: {verdict}");
    // The kernel reports little pressure, so the stage did something else.
    report.machine.pressure_cpu = Some(100);
    assert_eq!(report.verdict().floors[0].ns, 870 * MS);
}

#[test]
fn cpus_used_by_other_programs_are_mentioned() {
    let mut report = run(vec![stage("a", StageKind::Compute, 980, 500), stage("b", StageKind::Compute, 990, 500)]);
    report.machine.pressure_cpu = Some(990);
    let verdict = report.verdict();
    assert_eq!(verdict.limit, LimitingResource::Cpu);
    assert!(verdict.advice.starts_with("the CPUs for itself"), "{verdict}");
    assert_eq!(
        verdict.evidence,
        "1.00 of 2 CPUs were in use, and other programs wanted them: some thread waited for a CPU 99 % of the time"
    );
}

#[test]
fn an_empty_run_has_a_verdict() {
    let verdict = RunReport::default().verdict();
    assert_eq!((verdict.limit.clone(), verdict.times_floor()), (LimitingResource::Unknown, None));
    assert!(verdict.to_string().starts_with("0 ns, limited by nothing that was observed: "), "{verdict}");
}

#[test]
fn numbers_have_three_significant_digits() {
    let times = [7, 1_500, 23_456_000, 999_900_000, 83_000_000_000].map(format_time);
    assert_eq!(times, ["7 ns", "1.50 us", "23.5 ms", "1000 ms", "83.0 s"]);
    assert_eq!([12, 65_536, 4_300_000_000].map(format_bytes), ["12 bytes", "65.5 kB", "4.30 GB"]);
}

#[test]
fn a_verdict_has_a_json_form() {
    let json = serde_json::to_value(three(200, 970, 100).verdict()).unwrap();
    assert_eq!(json["limit"]["stage"], "work");
    assert_eq!(json["floors"][0]["ns"], 970 * MS);
}
