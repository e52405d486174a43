//! `rowlock exec` with programs that every machine has.

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

/// The JSON report of a program, and its output.
fn json(program: &[&str]) -> (Value, Output) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let arguments = [&["--json", file.path().to_str().unwrap(), "--"], program].concat();
    let output = exec(&arguments);
    (serde_json::from_slice(&fs::read(file.path()).unwrap()).unwrap(), output)
}

/// A program that has printed a line and waits, in a new process group.
struct Waiting {
    child: Child,
    line: String,
}

impl Waiting {
    fn start(arguments: &[&str]) -> Waiting {
        let mut child = Child::start_piped(command(arguments).process_group(0));
        let line = child.read_line();
        Waiting { child, line }
    }

    fn send(&self, signal: i32) {
        self.child.send(signal);
    }

    /// Closes its input, which ends it.
    fn finish(self) -> Output {
        self.child.wait()
    }

    /// Keeps its input open until it ends.
    fn wait(mut self) -> Output {
        let _input = self.child.process().stdin.take();
        self.child.wait()
    }
}

fn send(process: &str, signal: i32) {
    let process = Pid::from_raw(process.parse().unwrap()).unwrap();
    kill_process(process, Signal::from_named_raw(signal).unwrap()).unwrap();
}

/// The state of a process in the kernel's notation. `None` if it does not exist.
fn state(pid: &str) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.trim_start().chars().next()
}

fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

pub(crate) fn has_ended(pid: &str) -> bool {
    state(pid).is_none_or(|state| state == 'Z')
}

/// Both ways to run a program: in place of this one, and as its child.
const MODES: [&[&str]; 2] = [&["--"], &["--report", "--"]];

#[test]
fn exec_ends_as_the_program_does() {
    for mode in MODES {
        let run = |script: &str| exec(&[mode, &["sh", "-c", script]].concat());
        run("exit 0").expect_exit(0);
        run("exit 3").expect_exit(3);
        for signal in [SIGKILL, SIGTERM, SIGUSR1] {
            run(&format!("kill -{signal} $$")).expect_signal(signal);
        }
    }
}

#[test]
fn failures_to_start_have_the_exit_codes_of_shells() {
    for mode in MODES {
        for (program, code) in [("rowlock-has-no-such-program", 127), ("/dev/null", 126)] {
            let output = exec(&[mode, &[program]].concat()).expect_exit(code);
            assert!(output.stderr.contains(&format!("error: cannot execute `{program}`: ")), "{output:?}");
        }
    }
}

#[test]
fn foreign_and_damaged_programs_are_not_run_by_a_shell() {
    let place = tempfile::tempdir().unwrap();
    let program = fs::read(env!("CARGO_BIN_EXE_rowlock")).unwrap();
    let mut foreign = program[..4096].to_vec();
    // A machine number that does not exist.
    foreign[18..20].copy_from_slice(&0xfedc_u16.to_le_bytes());
    for (name, bytes) in
        [("foreign", &foreign[..]), ("broken", &program[..40]), ("header", b"\x7fELF\necho from a shell\n")]
    {
        let file = place.path().join(name);
        fs::write(&file, bytes).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        for mode in [MODES[0], MODES[1], &["--compare", "--"]] {
            let output = exec(&[mode, &[file.to_str().unwrap()]].concat()).expect_exit(126);
            let said = format!(
                "error: cannot execute `{}`: it is not a program for this machine, or it is damaged",
                file.display()
            );
            assert!(output.stderr.contains(&said) && output.stdout.is_empty(), "{output:?}");
        }
    }
}

#[test]
fn a_missing_interpreter_of_a_script_is_named() {
    let place = tempfile::tempdir().unwrap();
    let script = place.path().join("script");
    fs::write(&script, "#!/nowhere/sh\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    for mode in MODES {
        let output = exec(&[mode, &[script.to_str().unwrap()]].concat()).expect_exit(127);
        assert!(output.stderr.contains("it asks for `/nowhere/sh`, which is not there"), "{output:?}");
    }
}

#[test]
fn a_program_has_its_usual_name_arguments_and_environment() {
    for mode in MODES {
        let script = "echo $0 $1 $FOR_TEST ${ROWLOCK_WAIT}; tr '\\0' ' ' < /proc/$$/cmdline";
        let mut command = command(&[mode, &["sh", "-c", script, "name", "an argument"]].concat());
        let output = testing::run(command.env("FOR_TEST", "x=y"));
        assert_eq!(
            output.stdout,
            format!("name an argument x=y adaptive\nsh -c {script} name an argument "),
            "{mode:?}"
        );
    }
}

#[test]
fn an_unwritable_report_is_refused_before_the_program_runs() {
    let place = tempfile::tempdir().unwrap();
    let [ran, file] = ["ran", "report.json"].map(|name| place.path().join(name));
    let run = |file: &str, script: &str| exec(&["--json", file, "--", "sh", "-c", script, ran.to_str().unwrap()]);
    let nowhere = run("/nowhere/report.json", "echo > $0");
    assert_eq!((nowhere.status.code(), ran.exists()), (Some(1), false), "{nowhere:?}");
    assert!(nowhere.stderr.starts_with("error: cannot write /nowhere/report.json: "), "{nowhere:?}");
    run("-", "echo > $0").expect_exit(2);
    assert!(!ran.exists());
    // It becomes unwritable during the run.
    let file_name = file.to_str().unwrap();
    for (end, code) in [(0, 1), (7, 7)] {
        let late = run(file_name, &format!("rm {file_name}; mkdir {file_name}; exit {end}")).expect_exit(code);
        assert!(late.stderr.contains(&format!("error: cannot write {file_name}: ")), "{late:?}");
        fs::remove_dir(&file).unwrap();
    }
    // There is nothing to report, and the previous content stays.
    let no_program = || exec(&["--json", file_name, "--", "rowlock-has-no-such-program"]).status.code();
    assert_eq!((no_program(), file.exists()), (Some(127), false));
    fs::write(&file, "older").unwrap();
    assert_eq!((no_program(), fs::read_to_string(&file).unwrap().as_str()), (Some(127), "older"));
}

#[test]
fn all_users_can_read_the_library_of_root() {
    // A new folder: the usual one may be from another user.
    let cache = tempfile::tempdir().unwrap();
    let output = testing::run(command(&["sh", "-c", "echo $LD_PRELOAD"]).env("XDG_CACHE_HOME", cache.path()));
    let library = Path::new(output.stdout.trim_end()).to_owned();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let of_folder = if is_root { 0o755 } else { 0o700 };
    assert_eq!((mode(&library), mode(library.parent().unwrap())), (0o755, of_folder));
}

#[test]
fn the_program_replaces_the_command_unless_there_is_a_report() {
    let waiting = Waiting::start(&["sh", "-c", "echo $$; cat"]);
    assert_eq!(waiting.line, waiting.child.id().to_string());
    waiting.finish().expect_success();
    let waiting = Waiting::start(&["--report", "sh", "-c", "echo $$; cat"]);
    assert_ne!(waiting.line, waiting.child.id().to_string());
    waiting.finish().expect_success();
}

#[test]
fn the_report_is_on_standard_error_and_not_on_the_program_s_standard_output() {
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
fn a_json_report_names_every_process() {
    let (report, output) = json(&["sh", "-c", "sh -c 'exit 4'; exit 5"]);
    output.expect_exit(5);
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
    output.expect_signal(SIGKILL);
    assert_eq!(killed["status"], serde_json::json!({ "code": null, "signal": 9 }));
    assert_eq!(killed["processes"][0]["ended"], false);
}

#[test]
fn the_environment_configures_the_program_but_keeps_the_user_s_variables() {
    let script =
        "echo $ROWLOCK_WAIT/$GOMP_SPINCOUNT/$KMP_BLOCKTIME/${LD_PRELOAD##*/}/${ROWLOCK_COSTS:+told}/$ROWLOCK_BOOK";
    let output = testing::run(command(&["--wait", "always-spin", "sh", "-c", script]).env("KMP_BLOCKTIME", "5"));
    let told: Vec<&str> = output.stdout.trim_end().split('/').collect();
    assert_eq!((told[0], told[1], told[2], told[4], told[5]), ("always-spin", "infinite", "5", "told", ""));
    assert!(told[3].starts_with("librowlock_preload-") && told[3].ends_with(".so"), "{told:?}");
}

#[test]
fn an_invalid_rule_is_explained() {
    let output = exec(&["--wait", "44", "true"]).expect_exit(2);
    assert!(output.stderr.contains("missing unit: write \"44 us\" or \"44 cs\""), "{output:?}");
    exec(&["--wait", "x", "true"]).expect_stderr("; `rowlock policies` lists them");
}

#[test]
fn a_missing_library_is_reported() {
    let output = testing::run(command(&["true"]).env("ROWLOCK_PRELOAD", "/nowhere/x.so")).expect_exit(1);
    assert!(output.stderr.contains("error: ROWLOCK_PRELOAD names /nowhere/x.so"), "{output:?}");
}

/// The library that this `rowlock` preloads.
fn library(rowlock: &Path) -> String {
    let output =
        testing::run(&mut crate::rowlock_at(rowlock, &["exec", "sh", "-c", "echo $LD_PRELOAD"])).expect_success();
    output.stdout.trim_end().to_owned()
}

#[test]
fn an_installed_library_is_used_if_it_is_from_the_same_build() {
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
fn the_statistics_region_has_no_name_and_ends_with_the_program() {
    for end in ["exit 0", "kill -9 $$"] {
        let output = exec(&["--report", "sh", "-c", &format!("echo $ROWLOCK_BOOK; readlink $ROWLOCK_BOOK; {end}")]);
        let lines: Vec<&str> = output.stdout.lines().collect();
        assert!(lines.len() == 2 && lines[1].starts_with("/memfd:rowlock"), "{lines:?}");
        assert!(!Path::new(lines[0]).exists());
    }
}

#[test]
fn a_report_includes_programs_under_a_nested_exec() {
    let (report, _) = json(&[env!("CARGO_BIN_EXE_rowlock"), "exec", "--", "sh", "-c", "exit 0"]);
    let names: Vec<&str> =
        report["processes"].as_array().unwrap().iter().filter_map(|process| process["name"].as_str()).collect();
    assert_eq!(names, ["rowlock", "sh"]);
}

#[test]
fn signals_reach_the_program() {
    for mode in MODES {
        for signal in [SIGTERM, SIGINT, SIGUSR1] {
            let waiting = Waiting::start(&[mode, &["sh", "-c", "echo ready; exec cat"]].concat());
            waiting.send(signal);
            waiting.wait().expect_signal(signal);
        }
        let script = "trap 'exit 42' USR1; exec 3<&0; cat <&3 > /dev/null & echo ready; wait";
        let waiting = Waiting::start(&[mode, &["sh", "-c", script]].concat());
        waiting.send(SIGUSR1);
        waiting.wait().expect_exit(42);
    }
}

#[test]
fn the_parent_stops_and_continues_with_the_program() {
    let waiting = Waiting::start(&["--report", "sh", "-c", "echo $$; exec cat"]);
    let (parent, program) = (waiting.child.id().to_string(), waiting.line.clone());
    // Before, a stop signal stops it alone.
    until(|| fs::read_to_string(format!("/proc/{parent}/wchan")).unwrap().contains("sigtimedwait"));
    for _ in 0..2 {
        waiting.send(SIGTSTP);
        until(|| state(&program) == Some('T') && state(&parent) == Some('T'));
        // A shell would signal the whole group. The program continues in this case, too.
        waiting.send(SIGCONT);
        until(|| state(&program) != Some('T') && state(&parent) != Some('T'));
    }
    waiting.finish().expect_exit(0);
}

#[test]
fn the_parent_stops_with_the_program_whichever_signal_stops_it() {
    let waiting = Waiting::start(&["--report", "sh", "-c", "echo $$; exec cat"]);
    let (parent, program) = (waiting.child.id().to_string(), waiting.line.clone());
    for signal in [SIGSTOP, SIGTSTP, SIGSTOP] {
        send(&program, signal);
        until(|| state(&program) == Some('T') && state(&parent) == Some('T'));
        waiting.send(SIGCONT);
        until(|| state(&program) != Some('T') && state(&parent) != Some('T'));
    }
    waiting.finish().expect_exit(0);
}

/// A static program that exits with 7, for two kinds of machines. `None` on others.
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
    // An executable file and its entry point; one segment, described right after this header; no
    // sections.
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
    // The whole file is loaded, readable and executable.
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
fn a_program_with_an_obstacle_runs_nevertheless_and_the_obstacle_is_reported() {
    let Some(bytes) = static_program() else { return };
    let place = tempfile::tempdir().unwrap();
    let [program, script] = ["program", "script"].map(|name| place.path().join(name));
    for (file, content) in [(&program, bytes), (&script, format!("#!{}\n", program.display()).into_bytes())] {
        fs::write(file, content).unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    for file in [&program, &script] {
        let (report, output) = json(&[file.to_str().unwrap()]);
        let output = output.expect_exit(7);
        let said = format!("rowlock: {} is linked statically", program.display());
        assert!(output.stderr.starts_with(&said), "{output:?}");
        assert_eq!((&report["helped"], &report["why_not"]), (&false.into(), &"static".into()));
    }
}

/// The fields of a comparison in docs/output.md.
fn documented() -> BTreeSet<String> {
    let document = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/output.md")).unwrap();
    let section = document.split("\n`--format json`:\n").nth(1).unwrap();
    let rows = section.lines().take_while(|line| !line.starts_with('#'));
    rows.filter_map(|line| line.strip_prefix("| `")?.split('`').next()).map(str::to_owned).collect()
}

/// Collects the paths of all values in a report. Estimates count as values.
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
fn exactly_the_fields_of_a_comparison_are_documented() {
    let mut found = BTreeSet::new();
    fields(&compared(&[], "exit 0", 0), "", &mut found);
    assert_eq!(found, documented());
}

/// A comparison in JSON.
fn compared(options: &[&str], script: &str, code: i32) -> Value {
    let options = [&["--compare", "--runs", "2", "--format", "json"], options, &["--", "sh", "-c", script]].concat();
    let output = exec(&options).expect_exit(code);
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
fn a_comparison_reports_differences_of_output_and_exit_status() {
    let report = compared(&[], "echo $LD_PRELOAD", 0);
    assert_eq!(report["outputs"], "differ");
    let report = compared(&[], "echo $$; exit 0", 0);
    assert_eq!(report["outputs"], "differ_anyway");
    let report = compared(&[], "test -z \"$LD_PRELOAD\"", 1);
    assert_eq!((&report["outputs"], &report["ends_alike"]), (&"same".into(), &false.into()));
}

#[test]
fn a_comparison_as_text_has_a_conclusion() {
    let output =
        exec(&["--compare", "--runs", "2", "--hogs", "1", "--", "sh", "-c", "echo out; echo oops >&2; exit 3"]);
    let output = output.expect_exit(0);
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
fn an_interrupted_comparison_ends_its_programs_and_prints_its_results() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("pids");
    // The first pair, which does not count, and the second run through. The third waits.
    let script = format!("echo $$ >> {0}; test $(wc -l < {0}) -le 4 || exec sleep 600", file.display());
    let child = Child::start(&mut command(&["--compare", "--beside", "exec sleep 600", "--", "sh", "-c", &script]));
    let pids = || fs::read_to_string(&file).unwrap_or_default();
    until(|| pids().lines().count() == 5);
    child.send(SIGINT);
    let output = child.wait().expect_exit(130);
    assert!(output.stderr.contains("interrupted: 1 of 20 pairs were made"), "{output:?}");
    assert!(output.stdout.contains("Alone: one pair is not enough."), "{output:?}");
    assert!(pids().lines().all(has_ended));
}

#[test]
fn no_process_of_a_killed_comparison_survives() {
    let place = tempfile::tempdir().unwrap();
    let [ours, beside] = ["ours", "beside"].map(|name| place.path().join(name));
    // A child of the command beside the program.
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
    child.wait().expect_signal(SIGKILL);
    until(|| all.iter().all(|pid| has_ended(pid)));
}

#[test]
fn the_program_reads_standard_input() {
    for mode in MODES {
        let mut child = Child::start(command(&[mode, &["cat"]].concat()).stdin(Stdio::piped()));
        child.process().stdin.take().unwrap().write_all(b"through").unwrap();
        assert_eq!(child.wait().expect_success().stdout, "through");
    }
}
