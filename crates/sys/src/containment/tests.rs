use std::io::Read;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;

use super::group::{Group, is_harmless_within};
use super::*;
use crate::cgroups::Hierarchy;
use crate::descriptors::inherit_in;
use crate::files::TemporaryFolder;

const MANNERS: [Manner; 3] = [Manner::Foreground, Manner::Rank, Manner::Background];

/// A script whose standard output is a pipe: it ends when no descendant is left to write to it.
fn start(script: &str, manner: Manner) -> Contained {
    let mut command = testing::command("sh");
    Contained::start(command.args(["-c", script]).stdout(Stdio::piped()), manner).unwrap()
}

/// Reads as much of the output as this.
fn read(contained: &mut Contained, length: usize) -> String {
    let mut text = vec![0; length];
    contained.process().stdout.as_mut().unwrap().read_exact(&mut text).unwrap();
    String::from_utf8(text).unwrap()
}

/// The IDs of the process group and the session of a process. An ID is 0 if the leader is in an
/// outer PID namespace; `rustix` panics then.
fn group_and_session(pid: &str) -> (String, String) {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let mut fields = stat[stat.rfind(')').unwrap()..].split_whitespace().map(str::to_owned).skip(3);
    (fields.next().unwrap(), fields.next().unwrap())
}

/// Reads the rest of the output, to the end of all descendants.
fn read_to_end(contained: &mut Contained) -> String {
    let mut text = String::new();
    contained.process().stdout.as_mut().unwrap().read_to_string(&mut text).unwrap();
    text
}

/// Starts processes in other sessions, one of them an orphan, which ignore requests to end.
const DAEMONS: &str = "trap '' TERM; setsid sleep 1000 & (setsid sh -c 'sleep 1000; true' &); echo; ";

#[test]
fn a_program_ends_as_it_would_by_itself() {
    for manner in MANNERS {
        assert_eq!(start("exit 7", manner).process().wait().unwrap().code(), Some(7));
        for signal in [libc::SIGKILL, libc::SIGTERM, libc::SIGSEGV] {
            let status = start(&format!("kill -{signal} $$"), manner).process().wait().unwrap();
            assert_eq!((status.signal(), status.core_dumped()), (Some(signal), false));
        }
        let missing = Contained::start(&mut testing::command("/nowhere/program"), manner).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}

#[test]
fn without_its_lifeline_a_program_ends_with_all_its_descendants() {
    for manner in MANNERS {
        for script in ["echo; exec sleep 1000", &format!("{DAEMONS} sleep 1000"), "echo; kill -STOP $$"] {
            let mut contained = start(script, manner);
            read(&mut contained, 1);
            contained.end();
            assert_eq!(read_to_end(&mut contained), "");
            assert!(!contained.process().wait().unwrap().success());
        }
    }
}

#[test]
fn what_a_program_leaves_ends_unless_it_was_in_the_foreground_and_ended_by_itself() {
    for manner in [Manner::Background, Manner::Rank] {
        assert_eq!(read_to_end(&mut start(DAEMONS, manner)), "\n");
    }

    let mut foreground = start("setsid sh -c 'echo $$; exec sleep 1000' & read end < /dev/null", Manner::Foreground);
    foreground.process().wait().unwrap();
    let mut left = String::new();
    while !left.ends_with('\n') {
        left += &read(&mut foreground, 1);
    }
    let left = Pid::from_raw(left.trim_end().parse().unwrap()).unwrap();
    kill_process(left, Signal::KILL).expect("a process that is left");
    assert_eq!(read_to_end(&mut foreground), "");

    let mut asked = start("setsid sleep 1000 & trap 'exit 3' TERM; echo; sleep 1000 & wait", Manner::Foreground);
    read(&mut asked, 1);
    kill_process(asked.id(), Signal::TERM).unwrap();
    assert_eq!(asked.process().wait().unwrap().code(), Some(3));
    assert_eq!(read_to_end(&mut asked), "");
}

#[test]
fn the_stops_of_a_program_are_told_and_it_continues_by_a_signal_to_its_keeper() {
    for signal in [Signal::STOP, Signal::TSTP, Signal::TTIN] {
        let script = format!("kill -{} $$; echo continued; exec sleep 1000", signal.as_raw());
        let mut contained = start(&script, Manner::Background);
        let stopped_by = std::iter::from_fn(|| {
            std::thread::yield_now();
            Some(contained.next_stop())
        });
        assert_eq!(stopped_by.flatten().next(), Some(signal.as_raw()));
        kill_process(contained.id(), Signal::CONT).unwrap();
        assert_eq!(read(&mut contained, 10), "continued\n");
        assert_eq!(contained.next_stop(), None);
    }
}

#[test]
fn a_program_that_stops_its_keeper_ends_all_the_same() {
    let mut contained = start("kill -STOP $PPID; echo; exec sleep 1000", Manner::Background);
    read(&mut contained, 1);
    contained.end();
    assert_eq!(read_to_end(&mut contained), "");
}

#[test]
fn a_program_in_the_foreground_is_in_the_group_of_its_starter() {
    let own = group_and_session("self");
    for manner in MANNERS {
        let mut contained = start("echo $$; exec sleep 1000", manner);
        let mut program = String::new();
        while !program.ends_with('\n') {
            program += &read(&mut contained, 1);
        }
        let program = program.trim_end();
        let keeper = contained.id().to_string();
        let (group, session) = group_and_session(program);
        assert_eq!(group == own.0, manner != Manner::Background);
        assert_eq!(group == program, manner == Manner::Background);
        assert_eq!(session, own.1);
        let (group, session) = group_and_session(&keeper);
        assert_eq!(group, keeper);
        // Whether the group of the program is orphaned does not depend on a keeper in another
        // session.
        assert_eq!(session == own.1, manner == Manner::Background);
    }
}

#[test]
fn a_keeper_in_another_session_passes_signals_on_and_tells_stops_but_not_each_turn_of_a_rank() {
    for manner in [Manner::Foreground, Manner::Rank] {
        let script = "trap 'echo asked; exit 3' TERM; echo $$; kill -STOP $$; while :; do sleep 0.01; done";
        let mut contained = start(script, manner);
        let mut program = String::new();
        while !program.ends_with('\n') {
            program += &read(&mut contained, 1);
        }
        let program = program.trim_end().parse().unwrap();
        let (mut is_stopped, mut stop) = (false, None);
        while !is_stopped || (stop.is_none() && manner == Manner::Foreground) {
            std::thread::sleep(Duration::from_millis(1));
            is_stopped = crate::identity::Stat::of(program).unwrap().state == b'T';
            stop = stop.or_else(|| contained.next_stop());
        }
        assert_eq!(stop, (manner == Manner::Foreground).then_some(libc::SIGSTOP));
        kill_process(contained.id(), Signal::TERM).unwrap();
        kill_process(contained.id(), Signal::CONT).unwrap();
        assert_eq!(read(&mut contained, 6), "asked\n");
        assert_eq!(contained.process().wait().unwrap().code(), Some(3));
    }
}

#[test]
fn an_ignored_end_of_children_is_ignored_by_the_program_and_not_by_its_keeper() {
    testing::isolated(|| {
        crate::signals::ignore(libc::SIGCHLD).unwrap();
        // The usual command of tests would restore the default.
        let mut command = Command::new("grep");
        command.args(["SigIgn", "/proc/self/status"]).stdout(Stdio::piped());
        let mut contained = Contained::start(&mut command, Manner::Foreground).unwrap();
        let ignored = read_to_end(&mut contained);
        let ignored = u64::from_str_radix(ignored.trim_start_matches("SigIgn:").trim(), 16).unwrap();
        assert_ne!(ignored & 1 << (libc::SIGCHLD - 1), 0);
    });
}

#[test]
fn a_killed_process_takes_its_programs_with_it() {
    testing::isolated_by(
        |mut this| {
            let mut child = testing::Child::start_piped(&mut this);
            while !child.read_line().contains("begun") {}
            child.send(libc::SIGKILL);
            // It waits for all processes that have its standard output.
            child.wait().expect_signal(libc::SIGKILL);
        },
        || {
            let script = DAEMONS.replace("echo", "echo begun");
            let mut programs = MANNERS.map(|manner| {
                let mut command = testing::command("sh");
                Contained::start(command.args(["-c", &format!("{script} sleep 1000")]), manner).unwrap()
            });
            let _ = programs[0].process().wait();
        },
    );
}

#[test]
fn a_folder_is_removed_when_its_creator_ends_or_drops_its_remover() {
    use std::fs::{self, File};
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("folder");
    let create = || {
        let successor = Successor::removing(File::open(place.path()).unwrap(), "folder", &["file", "absent"]).unwrap();
        fs::create_dir(&folder).and_then(|()| fs::write(folder.join("file"), "")).unwrap();
        successor
    };
    let successor = create();
    assert!(folder.join("file").exists());
    drop(successor);
    assert!(!folder.exists());

    let killed = Contained::start(testing::command("sleep").arg("1000"), Manner::Background).unwrap();
    let successor = create();
    // The successor holds neither the lifeline of a program nor its own.
    drop(killed);
    drop(successor);
    assert!(!folder.exists());

    // A link is not followed.
    let other = tempfile::tempdir().unwrap();
    fs::write(other.path().join("file"), "").unwrap();
    std::os::unix::fs::symlink(other.path(), &folder).unwrap();
    drop(Successor::removing(File::open(place.path()).unwrap(), "folder", &["file"]).unwrap());
    assert!(other.path().join("file").exists());
}

#[test]
fn a_folder_for_programs_is_removed_although_one_that_takes_long_to_end_creates_it_again() {
    let folder_in = |place: &std::path::Path| place.read_dir().unwrap().next().map(|entry| entry.unwrap().path());
    testing::isolated_by(
        |mut this| {
            let place = tempfile::tempdir().unwrap();
            let mut child = testing::Child::start_piped(this.env("PLACE", place.path()));
            let late = loop {
                if let Some(late) = child.read_line().strip_prefix("begun ") {
                    break late.parse().unwrap();
                }
            };
            let folder = folder_in(place.path()).unwrap();
            child.send(libc::SIGKILL);
            child.wait().expect_signal(libc::SIGKILL);
            while folder.exists() {
                std::thread::yield_now();
            }
            // Longer than programs mostly take.
            std::thread::sleep(Duration::from_secs(2));
            std::fs::create_dir_all(folder.join("a")).unwrap();
            while folder.exists() {
                std::thread::yield_now();
            }
            kill_process(Pid::from_raw(late).unwrap(), Signal::KILL).unwrap();
        },
        || {
            let place = std::env::var_os("PLACE").unwrap();
            let _folder = TemporaryFolder::create_for_programs(place.as_ref(), "prefix-").unwrap();
            // In place of a keeper, which holds this as well.
            let mut late = testing::command("sleep");
            late.stdout(Stdio::null()).stderr(Stdio::null());
            inherit_in(late.arg("1000"), programs::held().unwrap().try_clone_to_owned().unwrap());
            let mut late = late.spawn().unwrap();
            println!("begun {}", late.id());
            let _ = late.wait();
        },
    );
}

#[test]
fn a_keeper_holds_what_tells_that_programs_are_left_and_its_program_does_not() {
    testing::isolated(|| {
        programs::end().unwrap();
        let mut contained = start("echo; sleep 1000", Manner::Rank);
        read(&mut contained, 1);
        let link = |process: u32, number: &str| std::fs::read_link(format!("/proc/{process}/fd/{number}")).unwrap();
        let pipe = link(std::process::id(), &programs::held().unwrap().as_raw_fd().to_string());
        let holds = |process: u32| {
            let numbers = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap();
            numbers
                .filter(|number| link(process, number.as_ref().unwrap().file_name().to_str().unwrap()) == pipe)
                .count()
        };
        let keeper = contained.id().as_raw_nonzero().get().unsigned_abs();
        let program = testing::processes::children(keeper)[0];
        assert_eq!([keeper, program].map(holds), [1, 0]);
    });
}

#[test]
fn a_successor_acts_until_it_is_done_unless_it_is_dismissed() {
    let file = tempfile::tempfile().unwrap();
    file.set_len(4).unwrap();
    let acts = crate::shared_memory::Mapping::new(&file, std::num::NonZeroUsize::new(4).unwrap()).unwrap();
    let acts = acts.get::<AtomicU32>(0).unwrap();
    let start = || Successor::start(&[], [Duration::from_secs(60); 2], |_| acts.fetch_add(1, SeqCst) == 2).unwrap();
    start().dismiss();
    let successor = start();
    assert_eq!(acts.load(SeqCst), 0);
    // It cannot be killed with this group or session any more.
    let own = successor.process().as_raw_nonzero().to_string();
    assert_eq!(group_and_session(&own), (own.clone(), own.clone()));
    drop(successor);
    assert_eq!(acts.load(SeqCst), 3);
    // This program has several threads.
    let refused = Successor::acting(Duration::ZERO, || true).unwrap_err();
    assert!(refused.to_string().contains("several threads"), "{refused}");
}

#[test]
fn a_successor_has_more_time_if_nothing_waits_for_it() {
    let start = |file: &std::fs::File| {
        let acts = std::cell::Cell::new(0);
        let act = |_| {
            acts.set(acts.get() + 1);
            rustix::io::write(file, b".").unwrap();
            acts.get() == 3
        };
        Successor::start(&[file.as_fd()], [Duration::ZERO, Duration::from_secs(60)], act).unwrap()
    };
    testing::isolated_by(
        |mut this| {
            let file = tempfile::NamedTempFile::new().unwrap();
            drop(start(file.as_file()));
            let acts = || file.as_file().metadata().unwrap().len();
            assert_eq!(acts(), 1);
            let mut child = testing::Child::start_piped(this.env("FILE", file.path()));
            while !child.read_line().contains("begun") {}
            child.send(libc::SIGKILL);
            while acts() < 3 {
                std::thread::yield_now();
            }
        },
        || {
            let file = std::fs::File::options().append(true).open(std::env::var("FILE").unwrap()).unwrap();
            let _successor = start(&file);
            println!("begun");
            std::thread::park();
        },
    );
}

/// The keepers among the descendants of a process.
fn keepers(of: u32) -> Vec<Pid> {
    let is_keeper =
        |process: &u32| std::fs::read_to_string(format!("/proc/{process}/comm")).is_ok_and(|name| name == "keeper\n");
    let processes = testing::processes::tree(of).into_iter().filter(is_keeper);
    processes.filter_map(|process| Pid::from_raw(process.cast_signed())).collect()
}

#[test]
fn what_a_killed_keeper_leaves_is_ended_by_its_starter() {
    testing::isolated(|| {
        for manner in [Manner::Foreground, Manner::Background] {
            let mut contained = start(&format!("{DAEMONS} sleep 1000"), manner);
            read(&mut contained, 1);
            kill_process(contained.id(), Signal::KILL).unwrap();
            let mut output = contained.process().stdout.take().unwrap();
            drop(contained);
            assert_eq!(output.read_to_end(&mut Vec::new()).unwrap(), 0);
        }
    });
}

#[test]
fn processes_that_a_killed_keeper_leaves_are_ended_although_its_record_is_locked() {
    testing::isolated_by(
        |mut this| {
            let place = tempfile::tempdir().unwrap();
            this.env("TMPDIR", place.path()).env_remove("XDG_RUNTIME_DIR");
            testing::expect_pass(&mut this);
        },
        || {
            let mut contained = start(&format!("{DAEMONS} sleep 1000"), Manner::Rank);
            read(&mut contained, 1);
            kill_process(contained.id(), Signal::KILL).unwrap();
            contained.process().wait().unwrap();
            let place = std::env::temp_dir();
            let records: Vec<_> = place.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
            let record = std::fs::File::open(&records[0]).unwrap();
            rustix::fs::flock(&record, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
            let mut output = contained.process().stdout.take().unwrap();
            drop(contained);
            assert_eq!(place.read_dir().unwrap().count(), 0, "the record stays: {records:?}");
            assert_eq!(output.read_to_end(&mut Vec::new()).unwrap(), 0);
        },
    );
}

/// The control groups of the programs of this process. `None` if it may not create any, which a
/// test then notes.
fn groups() -> Option<Vec<PathBuf>> {
    let mut shows = start("cat /proc/self/cgroup", Manner::Background);
    if !read_to_end(&mut shows).contains("rowlock-program-") {
        testing::skip_part(
            "ROWLOCK_REQUIRE_GROUPS",
            "control groups",
            "run the test where it may create groups of version 2",
        );
        return None;
    }
    drop(shows);
    let own = Hierarchy::all().into_iter().find(|hierarchy| hierarchy.version == 2)?.folder;
    let of_this = format!("rowlock-program-{}-", std::process::id());
    let folders = own.read_dir().unwrap().map(|entry| entry.unwrap().path());
    Some(folders.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(&of_this)).collect())
}

/// The beginning of a script in a group, with the path of its group.
const IN_GROUP: &str = "group=$(grep '^0:' /proc/self/cgroup | cut -d : -f 3-)
    for mount in /sys/fs/cgroup /sys/fs/cgroup/unified; do [ -d $mount/$group ] && cd $mount/$group; done; ";

#[test]
fn a_group_with_limits_or_controllers_to_pass_on_has_no_group_of_ours() {
    let folder = tempfile::tempdir().unwrap();
    let is_harmless_with = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).unwrap();
        let is_harmless = is_harmless_within(folder.path());
        std::fs::remove_file(folder.path().join(name)).unwrap();
        is_harmless
    };
    assert!(is_harmless_within(folder.path()));
    for (name, without, with) in [
        ("cpu.max", "max 100000\n", "200000 100000\n"),
        ("memory.max", "max\n", "1073741824\n"),
        ("cpuset.cpus", "\n", "0-1\n"),
        ("cgroup.subtree_control", "\n", "cpu memory\n"),
    ] {
        assert!(is_harmless_with(name, without) && !is_harmless_with(name, with), "{name}");
    }
}

#[test]
fn the_group_of_a_program_is_removed_when_it_has_ended_with_the_groups_in_it() {
    testing::isolated(|| {
        let Some(before) = groups() else { return };
        assert!(before.is_empty(), "{before:?}");
        for manner in [Manner::Foreground, Manner::Background] {
            let mut contained = start(&format!("{IN_GROUP} mkdir -p a/b .c; cat cgroup.controllers"), manner);
            assert_eq!(read_to_end(&mut contained), "");
            assert!(contained.process().wait().unwrap().success());
            assert_eq!(groups().unwrap(), before);
        }
        // A group of threads cannot be killed as a whole.
        let mut threads =
            start(&format!("{IN_GROUP} echo threaded > cgroup.type; {DAEMONS} sleep 1000"), Manner::Background);
        read(&mut threads, 1);
        kill_process(threads.id(), Signal::KILL).unwrap();
        drop(threads);
        assert_eq!(groups().unwrap(), before);
        let mut ended =
            start(&format!("{IN_GROUP} mkdir a; echo $$ > a/cgroup.procs; {DAEMONS} sleep 1000"), Manner::Background);
        read(&mut ended, 1);
        assert_eq!(groups().unwrap().len(), 1);
        ended.end();
        assert_eq!(read_to_end(&mut ended), "");
        drop(ended);
        assert_eq!(groups().unwrap(), before);
    });
}

#[test]
fn what_a_program_leaves_in_the_foreground_returns_to_the_group_of_its_starter() {
    testing::isolated(|| {
        let Some(before) = groups() else { return };
        let mut contained = start("sleep 1000 & echo $!", Manner::Foreground);
        assert!(contained.process().wait().unwrap().success());
        let mut left = String::new();
        while !left.ends_with('\n') {
            left += &read(&mut contained, 1);
        }
        let group = |id: &str| std::fs::read_to_string(format!("/proc/{id}/cgroup")).unwrap();
        assert_eq!(group(left.trim_end()), group("self"));
        assert_eq!(groups().unwrap(), before);
        kill_process(Pid::from_raw(left.trim_end().parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    });
}

#[test]
fn a_process_that_has_cleared_its_environment_does_not_survive_a_killed_keeper() {
    testing::isolated(|| {
        let Some(before) = groups() else { return };
        for manner in [Manner::Foreground, Manner::Background] {
            let mut contained = start("trap '' TERM; (env -i setsid sleep 1000 &); echo; sleep 1000", manner);
            read(&mut contained, 1);
            kill_process(contained.id(), Signal::KILL).unwrap();
            let mut output = contained.process().stdout.take().unwrap();
            drop(contained);
            // It waits for all processes that have its standard output.
            assert_eq!(output.read_to_end(&mut Vec::new()).unwrap(), 0);
            assert_eq!(groups().unwrap(), before);
        }
    });
}

/// The folder around a group, its name, and the number in that.
fn parts(group: &std::path::Path) -> (&str, &str, &str) {
    let [around, name] =
        [group.parent().unwrap().as_os_str(), group.file_name().unwrap()].map(|part| part.to_str().unwrap());
    (around, name, name.strip_prefix("rowlock-program-").unwrap())
}

#[test]
fn a_record_leads_to_no_other_group() {
    testing::isolated(|| {
        let Some(_) = groups() else { return };
        let mut contained = start("echo; exec sleep 1000", Manner::Background);
        read(&mut contained, 1);
        let group = groups().unwrap().remove(0);
        let (around, name, number) = parts(&group);
        assert!(Group::within(around, number).is_some());
        for (around, number) in [
            (around, format!("1/../{number}")),
            (around, format!("../{name}")),
            ("/tmp", number.to_owned()),
            ("/nowhere", number.to_owned()),
        ] {
            assert!(Group::within(around, &number).is_none(), "{around} {number}");
        }
        // The group around it, and a group that does not exist.
        for text in [format!(".rowlock-record-\n{group:?}"), format!(".rowlock-record-1\n{around}")] {
            assert!(record::end_recorded(&text), "{text}");
        }
        assert!(contained.process().try_wait().unwrap().is_none());
        assert!(group.exists());
    });
}

#[test]
fn a_group_waits_for_a_cpu_until_its_processes_have_ended() {
    testing::isolated(|| {
        let Some(_) = groups() else { return };
        let mut contained = start("echo; exec sleep 1000", Manner::Background);
        read(&mut contained, 1);
        let path = groups().unwrap().remove(0);
        let (around, _, number) = parts(&path);
        let group = Group::within(around, number).unwrap();
        assert!(group.waits_for_cpu());
        drop(contained);
        assert!(!group.waits_for_cpu());
    });
}

#[test]
fn what_is_left_when_keeper_and_starter_are_killed_is_ended_at_the_next_start() {
    testing::isolated_by(
        |mut this| {
            let place = tempfile::tempdir().unwrap();
            this.env("TMPDIR", place.path()).env_remove("XDG_RUNTIME_DIR");
            let unmarked = if groups().is_some() { "(env -i setsid sleep 1000 &); " } else { "" };
            let script = format!("{unmarked}{}sleep 1000", DAEMONS.replace("echo", "echo begun"));
            let mut killed = testing::Child::start_piped(this.env("SCRIPT", script));
            while !killed.read_line().contains("begun") {}
            let keepers = keepers(killed.id());
            assert_eq!(keepers.len(), 1);
            keepers.into_iter().for_each(|keeper| kill_process(keeper, Signal::KILL).unwrap());
            killed.send(libc::SIGKILL);
            // A process that has not ended yet still has its record locked.
            let stat = format!("/proc/{}/stat", killed.id());
            while !std::fs::read_to_string(&stat).unwrap().contains(") Z ") {
                std::thread::yield_now();
            }
            let mut next = testing::Child::start_piped(this.env("SCRIPT", "echo begun"));
            while !next.read_line().contains("begun") {}
            // It waits for all processes that have its standard output.
            killed.wait().expect_signal(libc::SIGKILL);
            next.send(libc::SIGKILL);
            next.wait().expect_signal(libc::SIGKILL);
            while place.path().read_dir().unwrap().next().is_some() {
                std::thread::yield_now();
            }
        },
        || {
            let mut command = testing::command("sh");
            command.args(["-c", &std::env::var("SCRIPT").unwrap()]);
            let _contained = Contained::start(&mut command, Manner::Foreground).unwrap();
            std::thread::park();
        },
    );
}
