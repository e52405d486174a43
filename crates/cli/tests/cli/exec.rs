//! `rowlock exec` as its users meet it, with programs that every machine has.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use testing::{Child, Output};

const SIGINT: i32 = 2;
const SIGKILL: i32 = 9;
const SIGUSR1: i32 = 10;
const SIGTERM: i32 = 15;
const SIGCONT: i32 = 18;
const SIGSTOP: i32 = 19;
const SIGTSTP: i32 = 20;

/// `rowlock exec` with these arguments.
fn command(arguments: &[&str]) -> Command {
    crate::rowlock(&[&["exec"], arguments].concat())
}

fn exec(arguments: &[&str]) -> Output {
    testing::run(&mut command(arguments))
}

/// What `--json` writes of a program, and what it writes itself.
fn json(program: &[&str]) -> (Value, Output) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let arguments = [&["--json", file.path().to_str().unwrap(), "--"], program].concat();
    let output = exec(&arguments);
    (serde_json::from_slice(&fs::read(file.path()).unwrap()).unwrap(), output)
}

/// A program that has printed a line and waits, in a process group of its own.
struct Waiting {
    child: Child,
    line: String,
}

impl Waiting {
    fn start(arguments: &[&str]) -> Waiting {
        let mut child = Child::start_talking(command(arguments).process_group(0));
        let line = child.hear();
        Waiting { child, line }
    }

    fn send(&self, signal: i32) {
        self.child.send(signal);
    }

    /// Its input ends, and it shall do so too.
    fn finish(self) -> Output {
        self.child.wait()
    }

    /// Its input does not end before it does.
    fn wait(mut self) -> Output {
        let _input = self.child.process().stdin.take();
        self.child.wait()
    }
}

fn send(process: &str, signal: i32) {
    let process = Pid::from_raw(process.parse().unwrap()).unwrap();
    kill_process(process, Signal::from_named_raw(signal).unwrap()).unwrap();
}

/// The state of a process, as the kernel writes it; nothing where there is none.
fn state(pid: &str) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.trim_start().chars().next()
}

fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

fn has_ended(pid: &str) -> bool {
    state(pid).is_none_or(|state| state == 'Z')
}

/// Both ways to run a program: in the place of this one, and as its child.
const WAYS: [&[&str]; 2] = [&["--"], &["--report", "--"]];

#[test]
fn it_ends_as_the_program_does() {
    for way in WAYS {
        let run = |script: &str| exec(&[way, &["sh", "-c", script]].concat());
        run("exit 0").exits(0);
        run("exit 3").exits(3);
        for signal in [SIGKILL, SIGTERM, SIGUSR1] {
            run(&format!("kill -{signal} $$")).dies_of(signal);
        }
    }
}

#[test]
fn what_cannot_be_started_ends_as_in_a_shell() {
    for way in WAYS {
        for (program, code) in [("rowlock-has-no-such-program", 127), ("/dev/null", 126)] {
            let output = exec(&[way, &[program]].concat()).exits(code);
            assert!(output.stderr.contains(&format!("error: cannot execute `{program}`: ")), "{output:?}");
        }
    }
}

#[test]
fn a_program_for_another_machine_or_a_broken_one_is_not_read_by_a_shell() {
    let place = tempfile::tempdir().unwrap();
    let program = fs::read(env!("CARGO_BIN_EXE_rowlock")).unwrap();
    let mut foreign = program[..4096].to_vec();
    // A machine that there is no other than.
    foreign[18..20].copy_from_slice(&0xfedc_u16.to_le_bytes());
    for (name, bytes) in
        [("foreign", &foreign[..]), ("broken", &program[..40]), ("header", b"\x7fELF\necho from a shell\n")]
    {
        let file = place.path().join(name);
        fs::write(&file, bytes).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        for way in [WAYS[0], WAYS[1], &["--compare", "--"]] {
            let output = exec(&[way, &[file.to_str().unwrap()]].concat()).exits(126);
            let said = format!(
                "error: cannot execute `{}`: it is not a program for this machine, or it is damaged",
                file.display()
            );
            assert!(output.stderr.contains(&said) && output.stdout.is_empty(), "{output:?}");
        }
    }
}

#[test]
fn a_script_whose_interpreter_is_missing_says_so() {
    let place = tempfile::tempdir().unwrap();
    let script = place.path().join("script");
    fs::write(&script, "#!/nowhere/sh\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    for way in WAYS {
        let output = exec(&[way, &[script.to_str().unwrap()]].concat()).exits(127);
        assert!(output.stderr.contains("it asks for \"/nowhere/sh\", which is not there"), "{output:?}");
    }
}

#[test]
fn a_program_has_its_name_arguments_and_environment_as_ever() {
    for way in WAYS {
        let script = "echo $0 $1 $FOR_TEST ${ROWLOCK_WAIT}; tr '\\0' ' ' < /proc/$$/cmdline";
        let mut command = command(&[way, &["sh", "-c", script, "name", "an argument"]].concat());
        let output = testing::run(command.env("FOR_TEST", "x=y"));
        assert_eq!(
            output.stdout,
            format!("name an argument x=y adaptive\nsh -c {script} name an argument "),
            "{way:?}"
        );
    }
}

#[test]
fn a_report_that_could_not_be_written_is_known_before_the_program_runs() {
    let place = tempfile::tempdir().unwrap();
    let [ran, file] = ["ran", "report.json"].map(|name| place.path().join(name));
    let run = |file: &str, script: &str| exec(&["--json", file, "--", "sh", "-c", script, ran.to_str().unwrap()]);
    let nowhere = run("/nowhere/report.json", "echo > $0");
    assert_eq!((nowhere.status.code(), ran.exists()), (Some(1), false), "{nowhere:?}");
    assert!(nowhere.stderr.starts_with("error: cannot write /nowhere/report.json: "), "{nowhere:?}");
    run("-", "echo > $0").exits(2);
    assert!(!ran.exists());
    // It cannot be written any more.
    let file_name = file.to_str().unwrap();
    for (end, code) in [(0, 1), (7, 7)] {
        let late = run(file_name, &format!("rm {file_name}; mkdir {file_name}; exit {end}")).exits(code);
        assert!(late.stderr.contains(&format!("error: cannot write {file_name}: ")), "{late:?}");
        fs::remove_dir(&file).unwrap();
    }
    // There is nothing to be reported, and what was there before stays.
    let no_program = || exec(&["--json", file_name, "--", "rowlock-has-no-such-program"]).status.code();
    assert_eq!((no_program(), file.exists()), (Some(127), false));
    fs::write(&file, "older").unwrap();
    assert_eq!((no_program(), fs::read_to_string(&file).unwrap().as_str()), (Some(127), "older"));
}

#[test]
fn the_superusers_library_can_be_read_by_everybody() {
    // A new folder: an earlier run as another user may have made the usual one.
    let cache = tempfile::tempdir().unwrap();
    let output = testing::run(command(&["sh", "-c", "echo $LD_PRELOAD"]).env("XDG_CACHE_HOME", cache.path()));
    let library = Path::new(output.stdout.trim_end()).to_owned();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let of_folder = if is_root { 0o755 } else { 0o700 };
    assert_eq!((mode(&library), mode(library.parent().unwrap())), (0o755, of_folder));
}

#[test]
fn the_program_takes_the_place_of_the_command_unless_there_is_something_to_be_said_afterwards() {
    let waiting = Waiting::start(&["sh", "-c", "echo $$; cat"]);
    assert_eq!(waiting.line, waiting.child.id().to_string());
    waiting.finish().succeeds();
    let waiting = Waiting::start(&["--report", "sh", "-c", "echo $$; cat"]);
    assert_ne!(waiting.line, waiting.child.id().to_string());
    waiting.finish().succeeds();
}

#[test]
fn standard_output_is_the_programs_own_and_the_report_is_on_the_other_one() {
    let output = exec(&["--report", "--wait", "always-block", "--", "sh", "-c", "echo out; echo err >&2"]);
    assert_eq!(output.stdout, "out\n");
    let stderr = output.stderr;
    assert!(stderr.starts_with("err\n"), "{stderr}");
    assert!(stderr.contains("rowlock: the program exited with 0, after "), "{stderr}");
    assert!(stderr.contains("1 process had the library, waiting by `always-block`"), "{stderr}");
    assert!(stderr.contains("No waits were seen"), "{stderr}");
    let quiet = exec(&["--", "sh", "-c", "echo out; echo err >&2"]);
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("out\n", "err\n"));
}

#[test]
fn a_report_for_programs_names_every_process() {
    let (report, output) = json(&["sh", "-c", "sh -c 'exit 4'; exit 5"]);
    output.exits(5);
    assert_eq!((&report["schema_version"], &report["rule"]), (&1.into(), &"adaptive".into()));
    assert_eq!(report["command"], serde_json::json!(["sh", "-c", "sh -c 'exit 4'; exit 5"]));
    assert_eq!(report["status"], serde_json::json!({ "code": 5, "signal": null }));
    assert_eq!((&report["helped"], &report["why_not"]), (&true.into(), &Value::Null));
    let processes = report["processes"].as_array().unwrap();
    assert_eq!(processes.len(), 2);
    for process in processes {
        assert_eq!((&process["name"], &process["waits"]), (&"sh".into(), &Value::Array(vec![])));
    }
    let (killed, output) = json(&["sh", "-c", "kill -9 $$"]);
    output.dies_of(SIGKILL);
    assert_eq!(killed["status"], serde_json::json!({ "code": null, "signal": 9 }));
    assert_eq!(killed["processes"][0]["ended"], false);
}

#[test]
fn the_program_is_told_by_its_environment_and_what_the_user_has_set_stays() {
    let script =
        "echo $ROWLOCK_WAIT/$GOMP_SPINCOUNT/$KMP_BLOCKTIME/${LD_PRELOAD##*/}/${ROWLOCK_COSTS:+told}/$ROWLOCK_BOOK";
    let output = testing::run(command(&["--wait", "always-spin", "sh", "-c", script]).env("KMP_BLOCKTIME", "5"));
    let told: Vec<&str> = output.stdout.trim_end().split('/').collect();
    assert_eq!((told[0], told[1], told[2], told[4], told[5]), ("always-spin", "infinite", "5", "told", ""));
    assert!(told[3].starts_with("librowlock_preload-") && told[3].ends_with(".so"), "{told:?}");
}

#[test]
fn a_rule_that_is_none_says_why() {
    let output = exec(&["--wait", "44", "true"]).exits(2);
    assert!(output.stderr.contains("missing unit: write \"44 us\" or \"44 cs\""), "{output:?}");
    exec(&["--wait", "x", "true"]).complains("; `rowlock policies` lists them");
}

#[test]
fn a_library_that_cannot_be_had_is_said() {
    let output = testing::run(command(&["true"]).env("ROWLOCK_PRELOAD", "/nowhere/x.so")).exits(1);
    assert!(output.stderr.contains("error: ROWLOCK_PRELOAD names /nowhere/x.so"), "{output:?}");
}

/// What a program is asked to load by this `rowlock`.
fn library(rowlock: &Path) -> String {
    let output = testing::run(&mut crate::rowlock_at(rowlock, &["exec", "sh", "-c", "echo $LD_PRELOAD"])).succeeds();
    output.stdout.trim_end().to_owned()
}

#[test]
fn a_library_that_was_installed_is_taken_if_it_is_of_the_same_build() {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let [programs, libraries] = ["bin", "lib/rowlock"].map(|folder| place.path().canonicalize().unwrap().join(folder));
    fs::create_dir_all(&programs).unwrap();
    fs::create_dir_all(&libraries).unwrap();
    let [rowlock, installed] = [programs.join("rowlock"), libraries.join("librowlock_preload.so")];
    fs::hard_link(env!("CARGO_BIN_EXE_rowlock"), &rowlock).unwrap();
    let unpacked = library(&rowlock);
    fs::copy(&unpacked, &installed).unwrap();
    assert_eq!(library(&rowlock), installed.to_str().unwrap());
    fs::write(&installed, "of another build").unwrap();
    assert_eq!(library(&rowlock), unpacked);
}

#[test]
fn the_book_is_gone_afterwards_however_the_program_ends() {
    for end in ["exit 0", "kill -9 $$"] {
        let output = exec(&["--report", "sh", "-c", &format!("echo $ROWLOCK_BOOK; ls $ROWLOCK_BOOK; {end}")]);
        let lines: Vec<&str> = output.stdout.lines().collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert_eq!(lines[0], lines[1]);
        assert!(!Path::new(lines[0]).exists());
    }
}

#[test]
fn a_report_knows_of_programs_that_were_started_in_the_same_way() {
    let (report, _) = json(&[env!("CARGO_BIN_EXE_rowlock"), "exec", "--", "sh", "-c", "exit 0"]);
    let names: Vec<&str> =
        report["processes"].as_array().unwrap().iter().filter_map(|process| process["name"].as_str()).collect();
    assert_eq!(names, ["rowlock", "sh"]);
}

#[test]
fn signals_reach_the_program() {
    for way in WAYS {
        for signal in [SIGTERM, SIGINT, SIGUSR1] {
            let waiting = Waiting::start(&[way, &["sh", "-c", "echo ready; exec cat"]].concat());
            waiting.send(signal);
            waiting.wait().dies_of(signal);
        }
        let script = "trap 'exit 42' USR1; exec 3<&0; cat <&3 > /dev/null & echo ready; wait";
        let waiting = Waiting::start(&[way, &["sh", "-c", script]].concat());
        waiting.send(SIGUSR1);
        waiting.wait().exits(42);
    }
}

#[test]
fn who_watches_a_program_stops_and_goes_on_with_it() {
    let waiting = Waiting::start(&["--report", "sh", "-c", "echo $$; exec cat"]);
    let (watcher, program) = (waiting.child.id().to_string(), waiting.line.clone());
    for _ in 0..2 {
        waiting.send(SIGTSTP);
        until(|| state(&program) == Some('T') && state(&watcher) == Some('T'));
        // A shell would tell the whole group; even so the program goes on.
        waiting.send(SIGCONT);
        until(|| state(&program) != Some('T') && state(&watcher) != Some('T'));
    }
    waiting.finish().exits(0);
}

#[test]
fn who_watches_a_program_stops_with_it_whoever_stops_it() {
    let waiting = Waiting::start(&["--report", "sh", "-c", "echo $$; exec cat"]);
    let (watcher, program) = (waiting.child.id().to_string(), waiting.line.clone());
    for signal in [SIGSTOP, SIGTSTP, SIGSTOP] {
        send(&program, signal);
        until(|| state(&program) == Some('T') && state(&watcher) == Some('T'));
        waiting.send(SIGCONT);
        until(|| state(&program) != Some('T') && state(&watcher) != Some('T'));
    }
    waiting.finish().exits(0);
}

/// A program that exits with 7 and needs no library: for two kinds of machines; nothing for others.
fn static_program() -> Option<Vec<u8>> {
    let (machine, code): (u16, &[u8]) = if cfg!(target_arch = "x86_64") {
        // mov edi, 7; mov eax, 60; syscall
        (62, &[0xbf, 7, 0, 0, 0, 0xb8, 60, 0, 0, 0, 0x0f, 0x05])
    } else if cfg!(target_arch = "aarch64") {
        // mov x0, 7; mov x8, 93; svc 0
        (183, &[0xe0, 0, 0x80, 0xd2, 0xa8, 0x0b, 0x80, 0xd2, 1, 0, 0, 0xd4])
    } else {
        return None;
    };
    const BASE: u64 = 0x40_0000;
    const HEADERS: u64 = 64 + 56;
    let length = HEADERS + code.len() as u64;
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    // An executable, and where it begins; one segment, described right after this header; no sections.
    for half in [2, machine] {
        file.extend(half.to_le_bytes());
    }
    file.extend(1_u32.to_le_bytes());
    for word in [BASE + HEADERS, 64, 0] {
        file.extend(word.to_le_bytes());
    }
    file.extend(0_u32.to_le_bytes());
    for half in [64_u16, 56, 1, 64, 0, 0] {
        file.extend(half.to_le_bytes());
    }
    // It is loaded as a whole, to be read and executed.
    for word in [1_u32, 5] {
        file.extend(word.to_le_bytes());
    }
    for word in [0, BASE, BASE, length, length, 0x1000] {
        file.extend(word.to_le_bytes());
    }
    file.extend(code);
    Some(file)
}

#[test]
fn a_program_that_cannot_be_helped_is_run_all_the_same_and_it_is_said_why() {
    let Some(bytes) = static_program() else { return };
    let place = tempfile::tempdir().unwrap();
    let [program, script] = ["program", "script"].map(|name| place.path().join(name));
    for (file, content) in [(&program, bytes), (&script, format!("#!{}\n", program.display()).into_bytes())] {
        fs::write(file, content).unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    for file in [&program, &script] {
        let (report, output) = json(&[file.to_str().unwrap()]);
        let output = output.exits(7);
        let said = format!("rowlock: {} is linked statically", program.display());
        assert!(output.stderr.starts_with(&said), "{output:?}");
        assert_eq!((&report["helped"], &report["why_not"]), (&false.into(), &"static".into()));
    }
}

/// The fields of a comparison that docs/output.md lists.
fn documented() -> BTreeSet<String> {
    let document = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/output.md")).unwrap();
    let section = document.split("\n`--format json`:\n").nth(1).unwrap();
    let rows = section.lines().take_while(|line| !line.starts_with('#'));
    rows.filter_map(|line| line.strip_prefix("| `")?.split('`').next()).map(str::to_owned).collect()
}

/// The paths of all values in a report; estimates are not looked into.
fn fields(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) if !object.contains_key("low") && !path.ends_with("pairs[][].status") => {
            for (key, value) in object {
                fields(value, &if path.is_empty() { key.clone() } else { format!("{path}.{key}") }, found);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            items.iter().for_each(|item| fields(item, &format!("{path}[]"), found));
        }
        _ => {
            found.insert(path.to_owned());
        }
    }
}

#[test]
fn every_field_of_a_comparison_is_documented_and_no_other() {
    let mut found = BTreeSet::new();
    fields(&compared(&[], "exit 0", 0), "", &mut found);
    assert_eq!(found, documented());
}

/// A comparison in JSON.
fn compared(options: &[&str], script: &str, code: i32) -> Value {
    let options = [&["--compare", "--runs", "2", "--format", "json"], options, &["--", "sh", "-c", script]].concat();
    let output = exec(&options).exits(code);
    crate::json(&output)
}

#[test]
fn a_comparison_has_pairs_of_runs_alone_and_beside_a_load() {
    let report = compared(&["--hogs", "1", "--beside", "true"], "echo out; echo err >&2", 0);
    assert_eq!((&report["outputs"], &report["ends_alike"]), (&"same".into(), &true.into()));
    let conditions = report["conditions"].as_array().unwrap();
    let loads: Vec<_> = conditions.iter().map(|condition| (&condition["hogs"], &condition["beside"])).collect();
    assert_eq!(loads, [(&0.into(), &Value::Null), (&1.into(), &"true".into())]);
    for condition in conditions {
        let pairs = condition["pairs"].as_array().unwrap();
        assert_eq!((pairs.len(), condition["speedup"]["samples"].as_u64()), (2, Some(2)));
        for run in pairs.iter().flat_map(|pair| pair.as_array().unwrap()) {
            assert_eq!((&run["stdout_bytes"], &run["status"]["code"]), (&4.into(), &0.into()));
        }
    }
    assert_eq!(compared(&[], "exit 3", 0)["conditions"][0]["pairs"][1][1]["status"]["code"], 3);
}

#[test]
fn a_comparison_tells_what_is_not_the_same_with_and_without() {
    let report = compared(&[], "echo $LD_PRELOAD", 0);
    assert_eq!(report["outputs"], "differ");
    let report = compared(&[], "echo $$; exit 0", 0);
    assert_eq!(report["outputs"], "differ_anyway");
    let report = compared(&[], "test -z \"$LD_PRELOAD\"", 1);
    assert_eq!((&report["outputs"], &report["ends_alike"]), (&"same".into(), &false.into()));
}

#[test]
fn a_comparison_for_people_says_what_it_means() {
    let output =
        exec(&["--compare", "--runs", "2", "--hogs", "1", "--", "sh", "-c", "echo out; echo oops >&2; exit 3"]);
    let output = output.exits(0);
    let told = output.stdout;
    for part in
        ["beside", "\nnothing ", "\n1 hog ", "Alone: ", "Beside 1 hog: ", "the same 4 bytes in all of the 8 runs"]
    {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(
        told.contains(
            "8 of the 8 runs did not succeed; the first of them ended with exit status: 3, and last said:\noops"
        ),
        "{told}"
    );
}

#[test]
fn a_comparison_that_is_interrupted_ends_what_runs_and_tells_what_it_has() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("pids");
    // The first pair, which does not count, and the second go by; in the third it waits.
    let script = format!("echo $$ >> {0}; test $(wc -l < {0}) -le 4 || exec sleep 600", file.display());
    let child = Child::start(&mut command(&["--compare", "--beside", "exec sleep 600", "--", "sh", "-c", &script]));
    let pids = || fs::read_to_string(&file).unwrap_or_default();
    until(|| pids().lines().count() == 5);
    child.send(SIGINT);
    let output = child.wait().exits(130);
    assert!(output.stderr.contains("interrupted: 1 of 20 pairs were made"), "{output:?}");
    assert!(output.stdout.contains("Alone: one pair is not enough."), "{output:?}");
    assert!(pids().lines().all(has_ended));
}

#[test]
fn nothing_is_left_of_a_comparison_that_is_killed() {
    let place = tempfile::tempdir().unwrap();
    let [ours, beside] = ["ours", "beside"].map(|name| place.path().join(name));
    // What the command beside it has started, in turn.
    let load = format!("sh -c 'echo $$ > {0}.new; mv {0}.new {0}; sleep 600; true'", beside.display());
    // The first four runs have no load.
    let counted = place.path().join("counted");
    let script = format!(
        "echo >> {0}; test $(wc -l < {0}) -le 4 || {{ echo $$ > {1}.new; mv {1}.new {1}; exec sleep 600; }}",
        counted.display(),
        ours.display()
    );
    let options = ["--compare", "--runs", "1", "--hogs", "1", "--beside", &load, "--", "sh", "-c", &script];
    let child = Child::start(&mut command(&options));
    let read = |file: &Path| fs::read_to_string(file).unwrap_or_default().trim_end().to_owned();
    let children = || {
        let path = format!("/proc/{0}/task/{0}/children", child.id());
        fs::read_to_string(path).unwrap_or_default().split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    until(|| ours.exists() && beside.exists());
    let all: Vec<String> = children().into_iter().chain([read(&ours), read(&beside)]).collect();
    child.send(SIGKILL);
    child.wait().dies_of(SIGKILL);
    until(|| all.iter().all(|pid| has_ended(pid)));
}

#[test]
fn input_goes_to_the_program() {
    for way in WAYS {
        let mut child = Child::start(command(&[way, &["cat"]].concat()).stdin(Stdio::piped()));
        child.process().stdin.take().unwrap().write_all(b"through").unwrap();
        assert_eq!(child.wait().succeeds().stdout, "through");
    }
}
