//! `rowlock pds`: jobs of different users take turns together. These tests need root.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Signal, geteuid};
use serde_json::Value;
use tempfile::TempDir;
use testing::family::Family;
use testing::{Child, Output};

use crate::json;
use crate::prun::{SPIN, Table, are_running, are_stopped, cpu, is_stopped, ranks, until};

/// Users that no other test has.
pub(crate) const ONE: u32 = 54_331;
const OTHER: u32 = 54_332;

/// A pds with a socket and a table of its own.
pub(crate) struct Pds {
    place: TempDir,
    pub(crate) process: Option<Child>,
    /// Itself, and the agents of all jobs.
    pub(crate) family: Family,
}

impl Pds {
    /// Without a process. Returns `None` if this user is not root: then there is nothing to test.
    fn new() -> Option<Pds> {
        if !geteuid().is_root() {
            testing::skip_part("ROWLOCK_REQUIRE_ENVIRONMENTS", "pds", "run the test as root");
            return None;
        }
        let place = tempfile::tempdir().unwrap();
        // As the folder for temporary files of all users, or it would not be used as one.
        fs::set_permissions(place.path(), Permissions::from_mode(0o1777)).unwrap();
        let family = Family::new(&format!("pds of {}", place.path().display()));
        Some(Pds { place, process: None, family })
    }

    /// As [`new`](Self::new). It listens at a path.
    pub(crate) fn start() -> Option<Pds> {
        let mut pds = Pds::new()?;
        pds.restart();
        Some(pds)
    }

    /// Starts another process of pds, for the same table.
    pub(crate) fn restart(&mut self) {
        let socket = self.socket();
        self.serve(&["--socket", socket.to_str().unwrap()], Stdio::null());
        until(|| UnixStream::connect(&socket).is_ok());
    }

    fn serve(&mut self, options: &[&str], input: Stdio) {
        let table = self.table();
        // Its log is no pipe, which agents would keep open.
        let mut shell = testing::command("sh");
        shell.args(["-c", "exec \"$@\" 2>> log", "sh"]).current_dir(self.place.path());
        let always = ["pds", "--table", table.to_str().unwrap(), "--slice", "5 ms"];
        let mut command = testing::through(shell, &crate::rowlock(&[&always, options].concat()));
        self.family.adopt(&mut command);
        self.process = Some(Child::start(command.stdin(input)));
    }

    fn socket(&self) -> PathBuf {
        self.place.path().join("pds.socket")
    }

    /// The folder of its table.
    pub(crate) fn table(&self) -> PathBuf {
        self.place.path().join("around/table")
    }

    /// `rowlock` with these arguments as a user.
    pub(crate) fn rowlock(&self, user: u32, arguments: &[&str]) -> Command {
        rowlock(&self.socket(), self.place.path(), user, arguments)
    }

    fn run(&self, user: u32, arguments: &[&str]) -> Output {
        testing::run(&mut self.rowlock(user, arguments))
    }

    /// Starts a job that spins on one CPU, and waits until it is in the table.
    fn spin(&self, user: u32) -> Child {
        let before = self.jobs(0).len();
        let options = ["prun", "--wait", "none", "-n", "2", "--cpus", cpu(), "--how", "strict"];
        let job = Child::start(&mut self.rowlock(user, &[&options[..], &["--", "sh", "-c", SPIN, "secret"]].concat()));
        until(|| self.jobs(0).len() > before);
        job
    }

    fn jobs(&self, user: u32) -> Vec<Value> {
        json(&self.run(user, &["jobs", "--format", "json"]).expect_success())["jobs"].as_array().unwrap().clone()
    }

    /// Ends pds, and returns its log. Nothing is left but an empty folder.
    #[track_caller]
    pub(crate) fn end(mut self) -> String {
        let process = self.process.take().unwrap();
        process.send(Signal::TERM.as_raw());
        process.wait().expect_success();
        let log = fs::read_to_string(self.place.path().join("log")).unwrap();
        until(|| fs::read_dir(self.table()).unwrap().count() == 0 && self.family.members().is_empty());
        assert!(!self.socket().exists());
        log
    }
}

/// `rowlock` with a socket, in a folder, as a user.
fn rowlock(socket: &Path, place: &Path, user: u32, arguments: &[&str]) -> Command {
    let mut outer = testing::command("setpriv");
    let user = user.to_string();
    outer.args(["--reuid", &user, "--regid", &user, "--clear-groups"]).current_dir(place);
    let mut inner = crate::rowlock(arguments);
    inner.env("ROWLOCK_PDS", socket).env("XDG_STATE_HOME", place.join(format!("state-{user}"))).env("TMPDIR", place);
    testing::through(outer, &inner)
}

fn expect_turns(one: &Child, other: &Child) {
    for _ in 0..3 {
        until(|| are_stopped(one.id()) && are_running(other.id()));
        until(|| are_running(one.id()) && are_stopped(other.id()));
    }
}

#[test]
fn jobs_of_two_users_take_turns_and_belong_to_their_users() {
    let Some(pds) = Pds::start() else { return };
    let (one, other) = (pds.spin(ONE), pds.spin(OTHER));
    expect_turns(&one, &other);
    for (user, sees) in [(ONE, [true, false]), (OTHER, [false, true]), (0, [true, true])] {
        let jobs = pds.jobs(user);
        let owners: Vec<_> = jobs.iter().map(|job| job["user"].as_u64().unwrap()).collect();
        assert_eq!(owners, [ONE.into(), u64::from(OTHER)]);
        assert_eq!([0, 1].map(|job| jobs[job]["command"].as_str().unwrap().contains("secret")), sees, "{jobs:?}");
    }
    for refused in [&["kill", "1"][..], &["hold", "1"], &["resume", "1"], &["set", "1", "--weight", "9"]] {
        pds.run(OTHER, refused).expect_exit(2).expect_stderr("error: job 1 belongs to user 54331");
    }
    pds.run(ONE, &["hold", "1"]).expect_success();
    until(|| are_stopped(one.id()) && are_running(other.id()));
    pds.run(0, &["resume", "1"]).expect_success();
    expect_turns(&one, &other);
    pds.run(0, &["kill", "2"]).expect_success();
    other.wait().expect_signal(Signal::TERM.as_raw());
    pds.run(ONE, &["kill", "1"]).expect_success();
    one.wait().expect_signal(Signal::TERM.as_raw());
    assert_eq!(pds.jobs(0).len(), 0);
    let log = pds.end();
    let refused = |line: &str| line.contains("user 54332") && line.contains("refused: job 1 belongs to user 54331");
    assert!(log.lines().any(refused) && log.contains("job 2 enters: 2 ranks"), "{log}");
    assert!(!log.contains("secret"), "{log}");
}

#[test]
fn ranks_have_the_rights_and_the_surroundings_of_their_user() {
    let Some(pds) = Pds::start() else { return };
    let script = "id -u; id -G; umask; pwd; ulimit -n; echo $ROWLOCK_JOB $MINE; cut -d' ' -f6 /proc/$$/stat";
    let shell = "umask 027; ulimit -n 99; MINE=mine exec \"$@\"";
    let job = pds.rowlock(ONE, &["prun", "--wait", "none", "--", "sh", "-c", script]);
    let mut outer = testing::command("sh");
    outer.args(["-c", shell, "sh"]).current_dir(pds.place.path());
    let output = testing::run(&mut testing::through(outer, &job)).expect_success();
    let place = pds.place.path().display();
    let expected = format!("{ONE}\n{ONE}\n0027\n{place}\n99\n1 mine\n");
    assert!(output.stdout.starts_with(&expected), "{output}");
    pds.end();
}

#[test]
fn a_detached_job_keeps_its_turns_when_pds_is_killed_and_a_new_one_knows_it() {
    let Some(mut pds) = Pds::start() else { return };
    let options = ["prun", "--detach", "--wait", "none", "--cpus", cpu(), "--how", "strict"];
    let script = format!("echo here; {SPIN}");
    pds.run(ONE, &[&options[..], &["-n", "2", "--", "sh", "-c", &script]].concat())
        .expect_success()
        .expect_stdout("1\n");
    let mut other = pds.spin(OTHER);
    let agent = pds.jobs(ONE)[0]["agent"].as_u64().unwrap() as u32;
    let pair = |one: u32, other: &Child| {
        until(|| are_stopped(one) && are_running(other.id()));
        until(|| are_running(one) && are_stopped(other.id()));
    };
    pair(agent, &other);
    let killed = pds.process.take().unwrap();
    killed.send(Signal::KILL.as_raw());
    killed.wait().expect_signal(Signal::KILL.as_raw());
    pair(agent, &other);
    pds.restart();
    assert_eq!(pds.jobs(0).len(), 2);
    pds.run(OTHER, &["hold", "1"]).expect_exit(2);
    pds.run(ONE, &["hold", "1"]).expect_success();
    until(|| are_stopped(agent) && are_running(other.id()));
    pds.run(ONE, &["resume", "1"]).expect_success();
    pair(agent, &other);
    // Nothing is left of a job whose prun is killed.
    let left = ranks(other.id());
    other.process().kill().unwrap();
    other.wait().expect_signal(Signal::KILL.as_raw());
    until(|| left.iter().all(|&rank| is_stopped(rank).is_none()) && pds.jobs(0).len() == 1);
    pds.run(ONE, &["kill", "1"]).expect_success();
    pds.run(ONE, &["attach", "1"]).expect_signal(Signal::TERM.as_raw()).expect_stdout("here\n");
    pds.end();
}

#[test]
fn a_job_whose_agent_is_killed_goes_on_without_turns() {
    let Some(pds) = Pds::start() else { return };
    let (one, other) = (pds.spin(ONE), pds.spin(OTHER));
    expect_turns(&one, &other);
    // The sessions of agents are those of children of pds.
    for agent in testing::processes::children(pds.process.as_ref().unwrap().id()) {
        rustix::process::kill_process(rustix::process::Pid::from_raw(agent as i32).unwrap(), Signal::KILL).unwrap();
    }
    until(|| pds.jobs(0).is_empty() && are_running(one.id()) && are_running(other.id()));
    for job in [one, other] {
        job.send(Signal::TERM.as_raw());
        let errors = job.wait().expect_signal(Signal::TERM.as_raw()).stderr;
        assert_eq!(errors.matches("turns").count(), 1, "{errors}");
    }
    pds.end();
}

#[test]
fn a_job_says_at_once_that_its_agent_has_failed() {
    let Some(pds) = Pds::start() else { return };
    let said = pds.place.path().join("said");
    let mut shell = testing::command("sh");
    shell.args(["-c", "exec \"$@\" 2> $SAID", "sh"]).env("SAID", &said);
    let job = pds.rowlock(ONE, &["prun", "--wait", "none", "--", "sleep", "1000"]);
    let job = Child::start(&mut testing::through(shell, &job));
    until(|| ranks(job.id()).len() == 1 && pds.jobs(0).len() == 1 && pds.jobs(0)[0]["mechanism"] == "signals");
    for agent in testing::processes::children(pds.process.as_ref().unwrap().id()) {
        rustix::process::kill_process(rustix::process::Pid::from_raw(agent as i32).unwrap(), Signal::KILL).unwrap();
    }
    let sentence = "rowlock: the job's agent of `rowlock pds` has failed: it goes on without turns\n";
    until(|| fs::read_to_string(&said).unwrap() == sentence);
    assert!(are_running(job.id()));
    job.send(Signal::TERM.as_raw());
    job.wait().expect_signal(Signal::TERM.as_raw());
    assert_eq!(fs::read_to_string(&said).unwrap(), sentence);
    pds.end();
}

#[test]
fn a_job_within_a_job_takes_turns_with_that_one() {
    let Some(pds) = Pds::start() else { return };
    let script = format!("exec {} prun --wait none -n 2 -- sh -c '{SPIN}'", env!("CARGO_BIN_EXE_rowlock"));
    let options = ["prun", "--wait", "none", "--cpus", cpu(), "--how", "strict", "--", "sh", "-c", &script];
    let outer = Child::start(&mut pds.rowlock(ONE, &options));
    until(|| ranks(outer.id()).len() == 1 && ranks(ranks(outer.id())[0]).len() == 2);
    let inner = ranks(outer.id())[0];
    let other = pds.spin(OTHER);
    assert_eq!(pds.jobs(0).len(), 2);
    for _ in 0..3 {
        until(|| are_stopped(inner) && are_running(other.id()));
        until(|| are_running(inner) && are_stopped(other.id()));
    }
    for job in [outer, other] {
        job.send(Signal::TERM.as_raw());
        job.wait().expect_signal(Signal::TERM.as_raw());
    }
    pds.end();
}

#[test]
fn a_rank_that_has_taken_on_the_rights_of_root_is_not_stopped() {
    let Some(pds) = Pds::start() else { return };
    let place = pds.place.path();
    let privileged = place.join("setpriv");
    fs::copy("/usr/bin/setpriv", &privileged).unwrap();
    fs::set_permissions(&privileged, Permissions::from_mode(0o4755)).unwrap();
    // Its user cannot end it.
    let script = "until [ -e end ]; do :; done";
    let options =
        ["prun", "--wait", "none", "-n", "1", "--cpus", cpu(), "--how", "strict", "--", "sh", "-c", script, ":"];
    let root = [privileged.to_str().unwrap(), "--reuid", "0", "--regid", "0", "--clear-groups", "sh", "-c", script];
    let one = Child::start(&mut pds.rowlock(ONE, &[&options[..], &root].concat()));
    let owner = |rank: &u32| fs::metadata(format!("/proc/{rank}")).map(|about| about.uid()).ok();
    let rank_of = |user| ranks(one.id()).into_iter().find(|rank| owner(rank) == Some(user));
    until(|| rank_of(ONE).is_some() && rank_of(0).is_some());
    let [stopped, runs] = [ONE, 0].map(|user| rank_of(user).unwrap());
    let other = pds.spin(OTHER);
    for _ in 0..3 {
        until(|| is_stopped(stopped) == Some(true) && are_running(other.id()));
        assert_eq!(is_stopped(runs), Some(false));
        until(|| is_stopped(stopped) == Some(false) && are_stopped(other.id()));
    }
    fs::write(place.join("end"), "").unwrap();
    one.wait().expect_success();
    other.send(Signal::TERM.as_raw());
    other.wait().expect_signal(Signal::TERM.as_raw());
    pds.end();
}

#[test]
fn a_program_that_runs_already_takes_turns_only_without_pds() {
    let Some(pds) = Pds::start() else { return };
    let mut program = Child::start(testing::command("sleep").arg("1000"));
    let pid = program.id().to_string();
    let adopt = ["prun", "--pid", &pid];
    pds.run(0, &adopt)
        .expect_exit(2)
        .expect_stderr("takes no programs that run already; ROWLOCK_PDS=none lets this one");
    assert_eq!(is_stopped(program.id()), Some(false));
    let table = Table::new();
    let prun = Child::start(table.rowlock(&adopt).env("ROWLOCK_PDS", "none"));
    until(|| table.jobs().len() == 1);
    program.process().kill().unwrap();
    prun.wait().expect_success();
    program.wait().expect_signal(Signal::KILL.as_raw());
    pds.end();
}

#[test]
fn a_job_in_the_queue_starts_at_its_turn_or_ends_with_its_process() {
    let Some(pds) = Pds::start() else { return };
    let one = pds.spin(ONE);
    let queued = || {
        let before = pds.jobs(0).len();
        let job = Child::start(&mut pds.rowlock(OTHER, &["prun", "--wait", "none", "--queue", "--", "echo", "done"]));
        until(|| pds.jobs(0).len() > before);
        job
    };
    let (mut killed, waits) = (queued(), queued());
    killed.process().kill().unwrap();
    killed.wait();
    until(|| pds.jobs(0).len() == 2);
    pds.run(ONE, &["kill", "1"]).expect_success();
    one.wait().expect_signal(Signal::TERM.as_raw());
    waits.wait().expect_success().expect_stdout("done\n").expect_stderr("waits");
    pds.end();
}

#[test]
fn what_is_no_request_hurts_only_its_sender() {
    let Some(pds) = Pds::start() else { return };
    let silent = UnixStream::connect(pds.socket()).unwrap();
    let mut strange = UnixStream::connect(pds.socket()).unwrap();
    strange.write_all(b"\xff\x00\x1b[2J nonsense\n").unwrap();
    let mut answer = String::new();
    strange.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("makes no sense"), "{answer}");
    let run = pds.run(ONE, &["prun", "--wait", "none", "--", "echo", "served"]);
    run.expect_success().expect_stdout("served\n");
    for (arguments, why) in [
        (&["prun", "--how", "moderate", "--", "true"][..], "pds lowers no jobs"),
        (&["prun", "--mechanism", "freezer", "--", "true"], "pds stops jobs by signals"),
        (&["prun", "--with", "7", "--", "true"], "there is no job 7"),
        (&["kill", "7"], "there is no job 7"),
    ] {
        pds.run(ONE, arguments).expect_exit(2).expect_stderr(why);
    }
    drop(silent);
    pds.end();
}

/// Sends a call to pds, and returns its answer.
fn ask(stream: &mut UnixStream, call: &str) -> String {
    writeln!(stream, "{{\"version\":{},\"content\":{call}}}", cosched::pds::VERSION).unwrap();
    let mut answer = String::new();
    BufReader::new(&*stream).read_line(&mut answer).unwrap();
    answer
}

#[test]
fn a_user_gets_a_share_and_pds_says_how_much_that_is() {
    let Some(pds) = Pds::start() else { return };
    let prun = |option: [&str; 2]| pds.run(ONE, &[&["prun", "--wait", "none"], &option[..], &["--", "true"]].concat());
    prun(["--weight", "9"]).expect_exit(2).expect_stderr("the weight of a job is at most 8");
    prun(["--weight", "8"]).expect_success();
    prun(["--slice", "10 s"]).expect_success().expect_stderr("instead of");
    let one = pds.spin(ONE);
    pds.run(ONE, &["set", "1", "--weight", "9"]).expect_exit(2).expect_stderr("the weight of a job is at most 8");
    pds.run(0, &["set", "1", "--weight", "9"]).expect_success();
    pds.run(ONE, &["kill", "1"]).expect_success();
    one.wait();
    pds.end();
}

#[test]
fn a_process_has_one_job_with_its_own_children_as_keepers_and_numbers_grow() {
    let Some(pds) = Pds::start() else { return };
    let one = pds.spin(ONE);
    let enter = "{\"enter\":{\"command\":\"\",\"ranks\":2,\"demand\":{\"ranks\":1,\"cells_per_rank\":null,\"shape\":null},\
                 \"cpus\":[0],\"has_quota\":false,\"weight\":1,\"gang\":\"None\",\"with\":null,\"waits_for_cells\":false,\
                 \"memory\":null,\"first_number\":40}}";
    let [mut stream, mut second] = [0, 1].map(|_| UnixStream::connect(pds.socket()).unwrap());
    let answer = ask(&mut stream, enter);
    assert!(answer.contains("{\"entered\":40}"), "{answer}");
    let answer = ask(&mut second, enter);
    assert!(answer.contains("the process that asks has a job already: 40"), "{answer}");
    let children = [0, 1, 2].map(|_| Child::start(testing::command("sleep").arg("1000")));
    let [a, b, c] = children.each_ref().map(Child::id);
    for (keepers, expected) in [
        (format!("[1,{a}]"), "process 1 is no child of yours"),
        (format!("[{a},{b},{c}]"), "a job of 2 ranks has no 3 keepers"),
        (format!("[{a},{b},{a}]"), "done"),
        (format!("[{a}]"), "the ranks of this job have started already"),
    ] {
        let answer = ask(&mut stream, &format!("{{\"start\":{keepers}}}"));
        assert!(answer.contains(expected), "{answer}");
    }
    drop((stream, second));
    until(|| pds.jobs(0).len() == 1);
    pds.run(ONE, &["kill", "1"]).expect_success();
    one.wait();
    for mut child in children {
        child.process().kill().unwrap();
        child.wait();
    }
    pds.end();
}

#[test]
fn a_client_that_is_one_too_many_gets_the_reason() {
    let Some(pds) = Pds::start() else { return };
    let streams = std::cell::RefCell::new(Vec::new());
    let has_refused =
        || fs::read_to_string(pds.place.path().join("log")).unwrap().contains("refused: a user has at most");
    // Others that are waiting to be accepted would delay the last call. Silent ones do not last.
    until(|| {
        if streams.borrow().len() > 96 {
            sleep(Duration::from_millis(50));
        }
        streams.borrow_mut().push(UnixStream::connect(pds.socket()).unwrap());
        has_refused()
    });
    let said = streams.into_inner().into_iter().filter_map(|mut stream| {
        stream.set_nonblocking(true).unwrap();
        let mut answer = [0; 1000];
        let length = stream.read(&mut answer).ok()?;
        Some(String::from_utf8_lossy(&answer[..length]).into_owned())
    });
    assert!(said.collect::<String>().contains("a user has at most 96 connections at a time"));
    pds.run(ONE, &["prun", "--wait", "none", "--", "true"]).expect_success();
    pds.end();
}

#[test]
fn only_a_socket_that_does_not_answer_is_replaced_and_users_can_reach_the_folder() {
    let Some(pds) = Pds::start() else { return };
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(pds.table().parent().unwrap()), mode(&pds.table())), (0o755, 0o700));
    let file = pds.place.path().join("file");
    fs::write(&file, "kept").unwrap();
    let table = pds.table();
    let start = |socket: &Path| {
        let [socket, table] = [socket, &table].map(|path| path.to_str().unwrap());
        testing::run(&mut crate::rowlock(&["pds", "--socket", socket, "--table", table]))
    };
    start(&file).expect_exit(1).expect_stderr("cannot listen at");
    assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
    start(&pds.socket()).expect_exit(2).expect_stderr("another `rowlock pds` listens");
    pds.end();
}

/// As systemd starts it by `systemd/rowlock-pds.service`.
#[test]
fn a_listening_socket_that_is_standard_input_is_served_and_outlives_pds() {
    let Some(mut pds) = Pds::new() else { return };
    let listener = UnixListener::bind(pds.socket()).unwrap();
    fs::set_permissions(pds.socket(), Permissions::from_mode(0o666)).unwrap();
    for _ in 0..2 {
        pds.serve(&[], OwnedFd::from(listener.try_clone().unwrap()).into());
        pds.run(ONE, &["prun", "--wait", "none", "--", "echo", "served"]).expect_success().expect_stdout("served\n");
        let process = pds.process.take().unwrap();
        process.send(Signal::TERM.as_raw());
        process.wait().expect_success();
        // A call waits there for the next one.
        UnixStream::connect(pds.socket()).unwrap();
    }
    until(|| fs::read_dir(pds.table()).unwrap().count() == 0 && pds.family.members().is_empty());
}

#[test]
fn a_socket_that_answers_nonsense_or_nothing_is_an_error() {
    if !geteuid().is_root() {
        return testing::skip_part("ROWLOCK_REQUIRE_ENVIRONMENTS", "pds", "run the test as root");
    }
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), Permissions::from_mode(0o777)).unwrap();
    let socket = place.path().join("pds.socket");
    let run = |arguments: &[&str]| testing::run(&mut rowlock(&socket, place.path(), ONE, arguments));
    let prun = ["prun", "--wait", "none", "--", "echo", "never"];
    run(&prun).expect_exit(1).expect_stderr("cannot ask `rowlock pds` at").expect_stdout("");
    let listener = UnixListener::bind(&socket).unwrap();
    fs::set_permissions(&socket, Permissions::from_mode(0o666)).unwrap();
    for (answer, why) in
        [("{\"version\":7}\n", "of version 7"), ("hello\n", "makes no sense"), ("", "ended the connection")]
    {
        let run = std::thread::scope(|scope| {
            let serve = || {
                let (mut stream, _) = listener.accept()?;
                // Bytes that are not read when the connection ends would discard the answer.
                BufReader::new(&stream).read_line(&mut String::new())?;
                stream.write_all(answer.as_bytes())
            };
            let served = scope.spawn(serve);
            let run = run(&prun);
            served.join().unwrap().unwrap();
            run
        });
        run.expect_exit(1).expect_stderr("`rowlock pds` has failed").expect_stderr(why).expect_stdout("");
    }
    drop(listener);
    testing::run(
        rowlock(&socket, place.path(), ONE, &prun).env("ROWLOCK_PDS", "none").env("ROWLOCK_TABLE", place.path()),
    )
    .expect_success()
    .expect_stdout("never\n");
    let refused = run(&["pds", "--socket", socket.to_str().unwrap()]);
    refused.expect_exit(2).expect_stderr("`rowlock pds` is for root");
}
