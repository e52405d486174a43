use std::fs;
use std::io::BufRead;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, Signal, getpid, getrlimit, kill_process, setrlimit};
use sys::signals::forwarded;
use testing::{Child, isolated_by};

use super::*;

/// The process of a test, in a process group of its own, which a stop signal stops.
///
/// The harness runs a test beside its main thread. That must not take the signals, so they are
/// blocked from the start.
fn own(mut this: Command) -> Command {
    let numbers: Vec<i32> = forwarded().chain([Signal::CHILD.as_raw()]).collect();
    let _outer = BlockedSignals::new(&numbers).unwrap();
    let inner = BlockedSignals::new(&numbers).unwrap();
    inner.unblock_in(&mut this);
    this.process_group(0);
    this
}

/// Starts a rank whose signals are not blocked, and that is told its number.
fn spawn(rank: u32, command: &mut Command) -> io::Result<std::process::Child> {
    sys::signals::restore_defaults_in(command);
    command.env("RANK", rank.to_string()).spawn()
}

/// Runs the process of a test. It passes only if it leaves nothing that has its standard output.
pub(crate) fn pass(this: Command) {
    let output = Child::start_piped(&mut own(this)).wait().expect_success();
    let ran = output.stdout.contains("1 passed");
    output.expect(ran, "a process that runs this one test");
}

fn shell(script: &str) -> RankStart {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    RankStart { command, cpus: None }
}

fn start(scripts: &[&str], io: &Io) -> Ranks {
    // The harness has begun a line.
    println!();
    let ranks = scripts.iter().map(|script| shell(script)).collect();
    Ranks::start(ranks, io, &[], None, spawn).unwrap()
}

fn run(scripts: &[&str]) -> Ended {
    start(scripts, &Io::default()).supervise(&mut (), Failures::none(), None).unwrap()
}

fn labelled() -> Io {
    Io { output: Output::Labelled, ..Io::default() }
}

/// Ends the process of a test as its job.
fn end_as(ended: &Ended) -> ! {
    std::process::exit(ended.exit_code().into())
}

/// Reads lines until one has this text.
#[track_caller]
fn read_until(child: &mut Child, text: &str) {
    while !child.read_line().contains(text) {}
}

fn wait_until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn is_stopped(process: u32) -> bool {
    fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| stat.contains(") T "))
}

/// A loop that ends only by a signal, and reacts to others at once.
const LOOP: &str = "while :; do sleep 0.01; done";

#[test]
fn a_job_ends_as_the_first_rank_that_fails_and_ends_the_others() {
    isolated_by(pass, || {
        let ended = run(&["exit 0", "exit 0"]);
        assert_eq!((ended.exit_code(), ended.first_failed, ended.cause()), (0, None, None));
        assert_eq!(run(&[]).exit_code(), 0);

        let ended = run(&["exit 3", "exec sleep 1000"]);
        assert_eq!((ended.exit_code(), ended.first_failed), (3, Some(0)));
        assert_eq!(ended.ranks[1].signal(), Some(Signal::TERM.as_raw()));
        assert_eq!(ended.cause().unwrap(), "rank 0 has failed (exit status: 3), so the job was ended");

        let ended = run(&["exec sleep 1000", "kill -SEGV $$"]);
        assert_eq!((ended.exit_code(), ended.first_failed), (128 + 11, Some(1)));

        // A rank that ignores the request is killed.
        let place = tempfile::tempdir().unwrap();
        let ignores = format!("trap '' TERM; : > {}/ignores; {LOOP}", place.path().display());
        let fails = format!("until [ -e {}/ignores ]; do sleep 0.01; done; exit 4", place.path().display());
        let ended = run(&[&ignores, &fails]);
        assert_eq!((ended.exit_code(), ended.ranks[0].signal()), (4, Some(Signal::KILL.as_raw())));
    });
}

#[test]
fn a_rank_that_succeeds_does_not_end_the_job() {
    isolated_by(pass, || {
        let place = tempfile::tempdir().unwrap();
        let keeper = place.path().join("keeper");
        let succeeds = format!("echo $PPID > {0}.new; mv {0}.new {0}", keeper.display());
        // It ends after the keeper of the other has been reaped.
        let later = format!(
            "trap 'exit 5' TERM; until [ -e {0} ]; do sleep 0.01; done
            while kill -0 $(cat {0}) 2> /dev/null; do sleep 0.01; done; sleep 0.1; exit 6",
            keeper.display()
        );
        assert_eq!(run(&[&succeeds, &later]).exit_code(), 6);
    });
}

#[test]
fn nothing_that_a_rank_has_started_survives_it() {
    isolated_by(pass, || {
        let daemons = "trap '' TERM; setsid sleep 1000 & (setsid sh -c 'sleep 1000; true' &)";
        assert_eq!(run(&[daemons, daemons]).exit_code(), 0);
        // Not even if the output is relayed, which does not wait for its end.
        let ended = start(&[daemons], &labelled()).supervise(&mut (), Failures::none(), None).unwrap();
        assert_eq!(ended.exit_code(), 0);
    });
}

/// Runs three ranks that say which they are and what their standard input is, with a file for each.
fn standard_inputs(input: Input, place: &Path) -> [String; 3] {
    let script = "echo $RANK; readlink /proc/self/fd/0 | cut -c 1-9 >&2";
    let io = Io { input, output: Output::File(place.join("%r-of-%r")) };
    let ended = start(&[script; 3], &io).supervise(&mut (), Failures::none(), None).unwrap();
    assert_eq!(ended.exit_code(), 0);
    [0, 1, 2].map(|rank| fs::read_to_string(place.join(format!("{rank}-of-{rank}"))).unwrap())
}

#[test]
fn ranks_have_a_number_an_input_as_asked_for_and_a_file_each() {
    isolated_by(pass, || {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("0-of-0"), "an old file that is longer than the new one\n").unwrap();
        for (input, expected) in [
            (Input::First, ["pipe:", "/dev/null", "/dev/null"]),
            (Input::All, ["pipe:", "pipe:", "pipe:"]),
            (Input::None, ["/dev/null", "/dev/null", "/dev/null"]),
        ] {
            for (rank, found) in standard_inputs(input, place.path()).into_iter().enumerate() {
                assert!(found.starts_with(&format!("{rank}\n{}", expected[rank])), "{input:?}: {found}");
            }
        }
    });
}

#[test]
fn ranks_do_not_share_an_output_file_and_none_starts_without_its_file() {
    let refused = |path: &str, ranks: usize| {
        let io = Io { output: Output::File(path.into()), ..Io::default() };
        let starts = (0..ranks).map(|_| shell("exit 0")).collect();
        let never = |_, _: &mut Command| -> io::Result<std::process::Child> { panic!("a rank was started") };
        Ranks::start(starts, &io, &[], None, never).unwrap_err()
    };
    let shared = refused("/dev/null", 2);
    assert!(matches!(&shared, StartError::OneFile(path) if path == Path::new("/dev/null")), "{shared}");
    let missing = refused("/nowhere/%r", 2);
    assert!(missing.to_string().starts_with("rank 0: cannot write its output to /nowhere/0: "), "{missing}");
}

#[test]
fn if_one_rank_cannot_start_none_remains() {
    isolated_by(pass, || {
        let mut ranks: Vec<RankStart> = (0..3).map(|_| shell("trap '' TERM; exec sleep 1000")).collect();
        ranks[1].command = Command::new("/nowhere/program");
        let mut started = Vec::new();
        let failed = Ranks::start(ranks, &Io::default(), &[], None, |rank, command| {
            let child = spawn(rank, command)?;
            started.push((rank, format!("/proc/{}", child.id())));
            Ok::<_, io::Error>(child)
        });
        assert!(failed.unwrap_err().to_string().starts_with("rank 1: No such file"));
        let [(0, process)] = started.as_slice() else { panic!("{started:?}") };
        // Its keeper has ended after it and has been reaped.
        assert!(!Path::new(process).exists());
    });
}

#[test]
fn a_request_to_end_that_was_blocked_before_ends_the_start_and_ranks_do_not_block_it() {
    isolated_by(pass, || {
        let requests = Some(block_requests_to_end().unwrap());
        let ranks = Ranks::start(vec![shell("kill -TERM $$; exit 7")], &Io::default(), &[], requests, spawn).unwrap();
        let ended = ranks.supervise(&mut (), Failures::none(), None).unwrap();
        assert_eq!(ended.ranks[0].signal(), Some(Signal::TERM.as_raw()));

        let requests = Some(block_requests_to_end().unwrap());
        kill_process(getpid(), Signal::TERM).unwrap();
        let asked = Ranks::start(vec![shell("exec sleep 1000")], &Io::default(), &[], requests, spawn);
        assert!(matches!(asked, Err(StartError::Asked(15))), "{asked:?}");
    });
}

#[test]
fn a_request_to_end_before_all_ranks_have_started_ends_the_start() {
    isolated_by(pass, || {
        let ranks = [0, 1].map(|_| shell("exec sleep 1000")).into();
        let asked = Ranks::start(ranks, &Io::default(), &[], None, |rank, command| {
            let started = spawn(rank, command);
            if rank == 0 {
                kill_process(getpid(), Signal::INT).unwrap();
            }
            started
        });
        assert!(matches!(asked, Err(StartError::Asked(2))), "{asked:?}");
    });
}

#[test]
fn ranks_run_on_their_cpus() {
    isolated_by(pass, || {
        let place = tempfile::tempdir().unwrap();
        let io = Io { output: Output::File(place.path().join("%r")), ..Io::default() };
        let allowed = sys::cpus::allowed().unwrap();
        let rank =
            |cpu: &u32| RankStart { cpus: Some(vec![*cpu]), ..shell("grep Cpus_allowed_list /proc/self/status") };
        let ranks = allowed.iter().map(rank).collect();
        Ranks::start(ranks, &io, &[], None, spawn).unwrap().supervise(&mut (), Failures::none(), None).unwrap();
        for (rank, cpu) in allowed.iter().enumerate() {
            let found = fs::read_to_string(place.path().join(rank.to_string())).unwrap();
            assert_eq!(found.trim(), format!("Cpus_allowed_list:\t{cpu}"));
        }
        let missing = Ranks::start(vec![rank(&u32::MAX)], &io, &[], None, spawn).unwrap_err();
        assert!(matches!(missing, StartError::Bind { rank: 0, .. }), "{missing}");
    });
}

#[test]
fn relayed_lines_are_complete_and_say_their_rank() {
    isolated_by(
        |this| {
            let mut this = own(this);
            let output = Child::start_piped(&mut this).wait().expect_success();
            for (rank, end) in [(0, "no end of line"), (1, "2000")] {
                let label = format!("[{rank}] ");
                let lines: Vec<&str> = output.stdout.lines().filter_map(|line| line.strip_prefix(&label)).collect();
                let expected: Vec<String> =
                    (0..2000).map(|line| format!("line {line}")).chain([end.to_owned()]).collect();
                assert_eq!(lines, expected);
            }
            assert!(output.stderr.contains("[0] an error\n") && output.stderr.contains("[1] an error\n"), "{output}");
        },
        || {
            let script = |end: &str| {
                let count = "i=0; while [ $i -lt 2000 ]; do printf 'line '; echo $i; i=$((i+1)); done";
                format!("printf 'an error' >&2; {count}; printf '{end}'")
            };
            let ended = start(&[&script("no end of line"), &script("2000")], &labelled())
                .supervise(&mut (), Failures::none(), None)
                .unwrap();
            assert_eq!((ended.exit_code(), ended.lost_output.is_none()), (0, true));
        },
    );
}

#[test]
fn a_long_line_is_divided_and_an_empty_one_is_not_lost() {
    let mut stream = Stream::new(7, io::pipe().unwrap().0.into());
    let (mut lines, longest) = (Vec::new(), 1 << 16);
    let mut all = String::new();
    for _ in 0..20 {
        stream.add(&vec![b'x'; longest / 8], &mut lines);
        all.push_str(&"x".repeat(longest / 8));
    }
    stream.add(b"\n\nend", &mut lines);
    stream.finish(&mut lines);
    stream.finish(&mut lines);
    let lines: Vec<String> = lines.lines().map(Result::unwrap).collect();
    assert!(lines.iter().all(|line| line.starts_with("[7] ") && line.len() <= longest + 4));
    let texts: Vec<&str> = lines.iter().map(|line| &line[4..]).collect();
    assert_eq!((texts.len(), &texts[3..]), (5, &["", "end"][..]));
    assert_eq!(texts[..3].concat(), all);
    // The end of a line that is as long as it may be ends no other.
    let mut lines = Vec::new();
    stream.add(&vec![b'x'; longest], &mut lines);
    stream.add(b"\n", &mut lines);
    assert_eq!(lines.iter().filter(|byte| **byte == b'\n').count(), 1);
}

#[test]
fn a_job_whose_relayed_output_is_closed_ends_like_one_without_a_relay() {
    isolated_by(
        |this| {
            let (reader, writer) = io::pipe().unwrap();
            let child = Child::start_into(&mut own(this), writer);
            let mut reader = io::BufReader::new(reader);
            let mut line = String::new();
            while !line.starts_with("[1] y") {
                line.clear();
                assert!(reader.read_line(&mut line).unwrap() > 0);
            }
            drop(reader);
            child.wait().expect_exit(128 + Signal::PIPE.as_raw());
        },
        || {
            end_as(
                &start(&["exec sleep 1000", "exec yes"], &labelled())
                    .supervise(&mut (), Failures::none(), None)
                    .unwrap(),
            )
        },
    );
}

#[test]
fn a_job_that_takes_longer_than_its_limit_is_ended() {
    isolated_by(pass, || {
        let limited = |scripts: &[&str], limit| {
            start(scripts, &Io::default()).supervise(&mut (), Failures::none(), Some(limit)).unwrap()
        };
        let ended = limited(&["trap 'exit 0' TERM; sleep 1000", "exec sleep 1000"], Duration::ZERO);
        assert_eq!((ended.exit_code(), ended.is_timed_out, ended.first_failed), (TIMED_OUT, true, None));
        assert!(ended.cause().unwrap().contains("time limit"));
        let ended = limited(&["exit 3"], Duration::MAX);
        assert_eq!((ended.exit_code(), ended.is_timed_out), (3, false));
    });
}

#[test]
fn signals_are_forwarded_to_all_ranks() {
    isolated_by(
        |this| {
            let mut child = Child::start_piped(&mut own(this));
            for _ in 0..2 {
                read_until(&mut child, "ready");
            }
            for signal in [Signal::USR1, Signal::HUP] {
                child.send(signal.as_raw());
                let mut heard = [child.read_line(), child.read_line()];
                heard.sort();
                assert_eq!(heard, [0, 1].map(|rank| format!("{rank} {}", signal.as_raw())));
            }
            child.send(Signal::TERM.as_raw());
            child.wait().expect_exit(128 + Signal::TERM.as_raw());
        },
        || {
            let script = "trap 'echo $RANK 10' USR1; trap 'echo $RANK 1' HUP; echo ready; ";
            end_as(&run(&[&format!("{script}{LOOP}"); 2].map(String::as_str)));
        },
    );
}

/// Says what it is told.
struct Says {
    is_stopped_by_signals: bool,
}

impl Listener for Says {
    fn suspend(&mut self) {
        println!("suspend");
    }

    fn resume(&mut self) {
        println!("resume");
    }

    fn end(&mut self) {
        println!("end");
    }

    fn is_stopped_by_signals(&self) -> bool {
        self.is_stopped_by_signals
    }
}

fn supervise_aloud(scripts: &[&str], is_stopped_by_signals: bool) -> ! {
    end_as(
        &start(scripts, &Io::default()).supervise(&mut Says { is_stopped_by_signals }, Failures::none(), None).unwrap(),
    )
}

#[test]
fn a_stop_signal_stops_the_ranks_and_this_process_until_it_is_continued() {
    isolated_by(
        |this| {
            let mut child = Child::start_piped(&mut own(this));
            let mut ids = Vec::new();
            while ids.len() < 2 {
                ids.extend(child.read_line().strip_prefix("begun ").map(|id| id.parse::<u32>().unwrap()));
            }
            for _ in 0..2 {
                child.send(Signal::TSTP.as_raw());
                assert_eq!(child.read_line(), "suspend");
                wait_until(|| is_stopped(child.id()) && ids.iter().all(|id| is_stopped(*id)));
                child.send(Signal::CONT.as_raw());
                assert_eq!(child.read_line(), "resume");
                wait_until(|| !is_stopped(child.id()) && !ids.iter().any(|id| is_stopped(*id)));
            }
            child.send(Signal::TERM.as_raw());
            child.wait().expect_exit(128 + Signal::TERM.as_raw());
        },
        || supervise_aloud(&["echo begun $$; exec sleep 1000"; 2], false),
    );
}

#[test]
fn a_rank_that_stops_stops_the_job_unless_by_sigstop() {
    isolated_by(
        |this| {
            let place = tempfile::tempdir().unwrap();
            let mut child = Child::start_piped(own(this).env("PLACE", place.path()));
            read_until(&mut child, "suspend");
            wait_until(|| is_stopped(child.id()));
            child.send(Signal::CONT.as_raw());
            let mut heard = [child.read_line(), child.read_line()];
            heard.sort();
            assert_eq!(heard, ["continued", "resume"]);
            // The second stop of the rank is not told.
            let output = child.wait().expect_exit(3);
            assert_eq!(output.stdout, "end\n", "no other stop of the job");
        },
        || {
            let stops = "kill -TSTP $$; echo continued; echo $$ > $PLACE/new; mv $PLACE/new $PLACE/id; kill -STOP $$";
            let fails = "until [ -e $PLACE/id ]; do sleep 0.01; done
                until grep -q ') T ' /proc/$(cat $PLACE/id)/stat; do sleep 0.01; done; exit 3";
            supervise_aloud(&[stops, fails], false)
        },
    );
}

#[test]
fn a_job_that_waits_for_its_turn_is_not_continued() {
    isolated_by(
        |this| {
            let mut child = Child::start_piped(&mut own(this));
            read_until(&mut child, "ready");
            child.send(Signal::CONT.as_raw());
            // Its number is higher, so it comes later.
            child.send(Signal::WINCH.as_raw());
            assert_eq!(child.read_line(), "winch");
            child.wait().expect_exit(7);
        },
        || {
            let script = format!("trap 'echo continued' CONT; trap 'echo winch; exit 7' WINCH; echo ready; {LOOP}");
            supervise_aloud(&[&script], true)
        },
    );
}

#[test]
fn a_job_that_is_stopped_ends_when_its_time_limit_has_passed() {
    isolated_by(
        |this| {
            let mut child = Child::start_piped(&mut own(this));
            read_until(&mut child, "suspend");
            read_until(&mut child, "resume");
            child.wait().expect_exit(TIMED_OUT.into());
        },
        || {
            // It passes before or after the job is stopped.
            let limit = Some(Duration::from_millis(100));
            let ranks = start(&["trap '' TERM; kill -TSTP $$; sleep 1000"], &Io::default());
            end_as(&ranks.supervise(&mut Says { is_stopped_by_signals: false }, Failures::none(), limit).unwrap())
        },
    );
}

#[test]
fn an_ignored_request_to_end_is_none() {
    isolated_by(pass, || {
        sys::signals::ignore(Signal::HUP.as_raw()).unwrap();
        let place = tempfile::tempdir().unwrap();
        let ignores = format!("trap '' HUP; : > {}/ignores; exec sleep 1000", place.path().display());
        let asks = format!(
            "until [ -e {}/ignores ]; do sleep 0.01; done
            trap '' HUP; kill -HUP $(cut -d ' ' -f 4 /proc/$PPID/stat); exit 3",
            place.path().display()
        );
        let when = |script: &str| {
            // All ranks have started before one asks.
            let _ = fs::remove_file(place.path().join("ignores"));
            run(&[script, &ignores])
        };
        let ended = when(&asks);
        assert_eq!((ended.exit_code(), ended.is_asked), (3, false));
        assert!(ended.cause().is_some());
        assert!(when(&asks.replace("kill -HUP", "kill -TERM")).is_asked);
    });
}

#[test]
fn ranks_may_have_more_descriptors_together_than_the_soft_limit_which_each_has() {
    isolated_by(pass, || {
        let hard = getrlimit(Resource::Nofile).maximum;
        let set = |soft, hard| setrlimit(Resource::Nofile, Rlimit { current: soft, maximum: hard }).unwrap();
        set(Some(40), hard);
        let ended = run(&["[ $(ulimit -n) = 40 ]"; 20]);
        assert_eq!(ended.exit_code(), 0);
        set(Some(64), Some(64));
        let refused = Ranks::start((0..20).map(|_| shell("")).collect(), &Io::default(), &[], None, spawn).unwrap_err();
        assert!(matches!(refused, StartError::Descriptors { ranks: 20, allowed: 64, .. }), "{refused}");
        assert!(refused.to_string().contains("ulimit -Hn"), "{refused}");
    });
}
