//! Import and export of other tools' files: the commands, docs/exchange.md, and the way from a
//! scenario through its simulated trace back to the scenario.

use std::fs;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use exchange::sched;
use measure::two_worlds::TwoWorlds;
use scenario::draw::Stream;
use scenario::{Scenario, Scheduler, Setting};

const DOCUMENT: &str = include_str!("../../../../docs/exchange.md");

/// A temporary folder in which the command runs.
struct Place(tempfile::TempDir);

impl Place {
    fn with(name: &str, content: &str) -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        fs::write(place.path(name), content).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Returns the exit code, standard output and standard error.
    fn rowlock(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let output = testing::run(crate::rowlock(arguments).current_dir(self.0.path()));
        (output.status.code(), output.stdout, output.stderr)
    }
}

/// The document's code blocks in this language.
fn blocks(language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    DOCUMENT.split(&fence).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

fn read(text: &str) -> Scenario {
    scenario::read("s.toml", text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The trace of a simulation of the scenario's only arm with this scheduler.
fn trace_of(scenario: &Scenario, scheduler: Scheduler) -> String {
    let mut setting: Setting = scenario.arms[0].setting.clone();
    setting.machine.scheduler = Some(scheduler);
    let worlds = TwoWorlds::new(None, NonZeroUsize::MIN);
    worlds.ftrace(&setting, scenario.experiment.seed, &AtomicBool::new(false)).unwrap_or_else(|_| panic!("no trace"))
}

#[test]
fn the_document_shows_what_the_command_prints() {
    let place = Place::with("crew.json", blocks("json")[0]);
    let (code, stdout, stderr) = place.rowlock(&["import", "crew.json"]);
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (Some(0), blocks("toml")[0], ""));
    fs::write(place.path("beat.json"), blocks("json")[1]).unwrap();
    let (code, stdout, stderr) = place.rowlock(&["import", "beat.json"]);
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (Some(2), "", blocks("text")[0]));
}

#[test]
fn a_file_of_unknown_format_is_refused() {
    let place = Place::with("some.txt", "hello\n");
    let (code, _, stderr) = place.rowlock(&["import", "some.txt"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("name its format with --from rt-app or sched"), "{stderr}");
    let (code, _, stderr) = place.rowlock(&["import", "some.txt", "--from", "sched"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("there is no scheduling event in some.txt"), "{stderr}");
    let (code, _, stderr) = place.rowlock(&["import", "none.txt"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("cannot read none.txt"), "{stderr}");
}

#[test]
fn the_input_is_not_overwritten() {
    let text = blocks("json")[0];
    let place = Place::with("crew.json", text);
    let (code, _, stderr) = place.rowlock(&["import", "crew.json", "--out", "./crew.json"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("is the input: name another file"), "{stderr}");
    assert_eq!(fs::read_to_string(place.path("crew.json")).unwrap(), text);
}

#[test]
fn a_scenario_survives_export_to_rt_app_and_import() {
    let place = Place::with("crew.json", blocks("json")[0]);
    assert_eq!(place.rowlock(&["import", "crew.json", "--out", "a.toml"]).0, Some(0));
    assert_eq!(place.rowlock(&["export", "a.toml", "--to", "rt-app", "--out", "b.json"]).0, Some(0));
    assert_eq!(place.rowlock(&["import", "b.json", "--out", "b.toml"]).0, Some(0));
    let scenario = |name| read(&fs::read_to_string(place.path(name)).unwrap());
    assert_eq!(scenario("b.toml"), scenario("a.toml"));
    let spins = read(&fs::read_to_string(place.path("a.toml")).unwrap()).to_toml().replace("always-block", "2cs+");
    fs::write(place.path("a.toml"), spins).unwrap();
    let (code, stdout, stderr) = place.rowlock(&["export", "a.toml", "--to", "rt-app"]);
    assert_eq!((code, stdout.as_str()), (Some(2), ""));
    assert!(stderr.contains("it waits by `2cs+`, but rt-app blocks immediately"), "{stderr}");
}

/// A scenario that import reproduces exactly.
const EXACT: &str = r#"
[machine]
cpus = 3

[[job]]
name = "crowd"
kind = "cpu"
threads = 4
work = "5 ms"

[[job]]
name = "nicer"
kind = "cpu"
copies = 2
threads = 2
work = "1.2345 ms"
nice = 3

[[job]]
name = "walker"
kind = "pipeline"
copies = 3
buffers = 1
rounds = 7
stages = [{ name = "run", kind = "communicate", compute = "0.3 ms", device = "0.4 ms" }]

[[job]]
name = "once"
kind = "pipeline"
buffers = 1
rounds = 1
stages = [{ name = "run", kind = "communicate", compute = "33 us", device = "1 ms" }]
"#;

#[test]
fn the_trace_of_a_simulation_is_imported_as_its_scenario() {
    let scenario = read(EXACT);
    for scheduler in Scheduler::ALL {
        let trace = trace_of(&scenario, scheduler);
        let imported = sched::read("trace", trace.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(imported.scenario.arms[0].setting, scenario.arms[0].setting, "{}", scheduler.name());
        assert_eq!(imported.notes, [""; 0], "{}", scheduler.name());
    }
}

#[test]
fn every_scenario_of_constant_times_survives_simulation_and_import() {
    for seed in 0..40 {
        let mut stream = Stream::named(seed, "scenarios", 0);
        let mut text = format!("machine.cpus = {}\n", 1 + stream.below(4));
        for number in 0..1 + stream.below(5) {
            let (threads, span) = (1 + stream.below(3), 10_000 + stream.below(2_000_000));
            // A pause that is shorter than a switch ends with the switch.
            let (rounds, pause) = (1 + stream.below(12), 6_000 + stream.below(2_000_000));
            let nice = 3 * stream.below(3);
            text += &format!("[[job]]\nname = \"j{number}\"\ncopies = {}\nnice = {nice}\n", 1 + stream.below(3));
            text += &format!("arrival = \"{} us\"\n", 50 * stream.below(30));
            text += &if stream.below(2) == 0 {
                format!("kind = \"cpu\"\nthreads = {threads}\nwork = \"{span} ns\"\n")
            } else {
                let times = format!("compute = \"{span} ns\", device = \"{pause} ns\"");
                let stages = format!("[{{ name = \"run\", kind = \"communicate\", {times} }}]");
                format!("kind = \"pipeline\"\nbuffers = 1\nrounds = {rounds}\nstages = {stages}\n")
            };
        }
        let scenario = read(&text);
        let scheduler = Scheduler::ALL[seed as usize % Scheduler::ALL.len()];
        let trace = trace_of(&scenario, scheduler);
        let imported = sched::read("trace", trace.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(imported.scenario.arms[0].setting, scenario.arms[0].setting, "{}\n{text}", scheduler.name());
    }
}

/// A scenario with random lengths.
const DRAWN: &str = r#"
[machine]
cpus = 2

[[job]]
name = "crowd"
kind = "cpu"
threads = 3
work = { distribution = "uniform", from = "1 ms", to = "2 ms" }

[[job]]
name = "walker"
kind = "pipeline"
copies = 2
buffers = 1
rounds = 20
stages = [{ name = "run", kind = "communicate", compute = { distribution = "empirical", values = ["10 us", "70 us"] }, device = { distribution = "exponential", mean = "1 s" } }]
"#;

#[test]
fn distributions_are_imported_as_the_drawn_values() {
    let scenario = read(DRAWN);
    let imported = |scheduler| sched::read("trace", trace_of(&scenario, scheduler).as_bytes()).unwrap();
    let first = imported(Scheduler::Rr);
    // Draws do not depend on the scheduler, so neither does the imported scenario.
    for scheduler in Scheduler::ALL {
        assert_eq!(imported(scheduler).toml, first.toml, "{}", scheduler.name());
    }
    let job = |number: usize| first.toml.split("[[job]]\n").nth(number).unwrap();
    let count = |text: &str, key: &str| {
        let list = text.split_once(key).unwrap().1.split_once("= [").unwrap().1.split_once(']').unwrap().0;
        list.split(", ").map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(job(1).contains("threads = 3\n") && count(job(1), "work").len() == 3, "{}", job(1));
    assert!(job(2).contains("copies = 2\n") && job(2).contains("rounds = 20\n"), "{}", job(2));
    assert_eq!(count(job(2), "compute"), ["\"10 us\"", "\"70 us\""]);
    let weights: u32 = count(job(2), "weights").iter().map(|weight| weight.parse::<u32>().unwrap()).sum();
    assert_eq!((weights, count(job(2), "device").len()), (40, 40));
}

#[test]
fn bytes_that_are_not_text_take_no_more_memory_than_others() {
    const SIZE: usize = 64 << 20;
    let place = Place(tempfile::tempdir().unwrap());
    fs::write(place.path("trace"), [0xff; 4096].repeat(SIZE >> 12)).unwrap();
    for format in [&[][..], &["--from", "sched"], &["--from", "rt-app"]] {
        let mut shell = testing::command("sh");
        // Room for the program, and twice the file: its memory grows by doubling.
        shell.args(["-c", "ulimit -v 204800; exec \"$@\"", "sh"]).current_dir(place.0.path());
        let import = crate::rowlock(&[&["import", "trace"], format].concat());
        let output = testing::run(&mut testing::through(shell, &import)).expect_exit(2);
        let holds = !output.stderr.contains("memory");
        output.expect(holds, "enough memory");
    }
}
