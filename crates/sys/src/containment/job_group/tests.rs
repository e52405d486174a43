use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

use rustix::process::{Pid, Signal, kill_process};

use super::*;
use crate::containment::{Contained, Manner, contain_in};

/// The freezers here, with the file and the setting that freezes. Notes if there is none.
fn freezers() -> Vec<(Hierarchy, &'static str, &'static str)> {
    let freezer = |hierarchy: Hierarchy| match hierarchy.version {
        2 => Some((hierarchy, "cgroup.freeze", "1")),
        _ if hierarchy.controllers.iter().any(|name| name == "freezer") => Some((hierarchy, "freezer.state", "FROZEN")),
        _ => None,
    };
    let works = |hierarchy: &Hierarchy| JobGroup::create(hierarchy).is_ok();
    let found: Vec<_> = Hierarchy::all().into_iter().filter(works).filter_map(freezer).collect();
    if found.is_empty() {
        testing::skip_part("ROWLOCK_REQUIRE_GROUPS", "control groups of jobs", "run the test as root");
    }
    found
}

fn start(script: &str, group: &JobGroup) -> Contained {
    let mut command = testing::command("sh");
    let lifeline = contain_in(command.args(["-c", script]).stdout(Stdio::piped()), Manner::Rank, &[group]).unwrap();
    Contained::new(command.spawn().unwrap(), lifeline)
}

/// The groups of jobs in the group of this process whose creator is this one.
fn groups_of(hierarchy: &Hierarchy, creator: u32) -> Vec<PathBuf> {
    let folders = hierarchy.folder.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let prefix = format!("{PREFIX}{creator}-");
    folders.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(&prefix)).collect()
}

/// Whether a process is in a group with this path, or in a group within it.
fn is_in(process: &str, path: &str) -> bool {
    let groups = fs::read_to_string(format!("/proc/{process}/cgroup")).unwrap();
    groups.lines().any(|line| line.contains(path))
}

#[test]
fn a_program_is_in_the_group_with_all_that_it_starts_and_its_keeper_is_not() {
    for (hierarchy, ..) in freezers() {
        let group = JobGroup::create(&hierarchy).unwrap();
        let mut contained = start("sleep 1000 & echo $$ $!; wait", &group);
        let mut line = String::new();
        while !line.ends_with('\n') {
            let mut byte = [0];
            contained.process().stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
            line.push(byte[0].into());
        }
        assert!(line.split_whitespace().all(|process| is_in(process, group.path())));
        assert!(!is_in(&contained.id().to_string(), group.path()));
        drop(contained);
        let folder = hierarchy.mount.join(group.path());
        assert!(folder.exists());
        drop(group);
        assert!(!folder.exists());
    }
}

/// Starts this test as a process that calls [`run_frozen_job`], in each hierarchy. Then calls
/// `kill` with its id, and `after` until the group is gone.
fn expect_end(mut this: Command, kill: impl Fn(u32), after: impl Fn(&Hierarchy)) {
    for (number, (hierarchy, ..)) in freezers().into_iter().enumerate() {
        let mut child = testing::Child::start_piped(this.env("NUMBER", number.to_string()));
        while !child.read_line().contains("frozen") {}
        let creator = child.id();
        assert_eq!(groups_of(&hierarchy, creator).len(), 1);
        kill(creator);
        let stat = format!("/proc/{creator}/stat");
        while !fs::read_to_string(&stat).unwrap().contains(") Z ") {
            std::thread::yield_now();
        }
        // A keeper that has not ended yet still has its record locked.
        while !groups_of(&hierarchy, creator).is_empty() {
            after(&hierarchy);
        }
        // It waits for all processes that have its standard error.
        child.wait().expect_signal(libc::SIGKILL);
    }
}

/// Detaches a daemon that ignores requests to end, as the script itself does.
const DAEMON: &str = "trap '' TERM; (setsid sleep 1000 &); echo begun; exec sleep 1000";

/// Creates a group with two programs that run this script, and freezes it.
fn run_frozen_job(script: &str) {
    let number: usize = std::env::var("NUMBER").unwrap().parse().unwrap();
    let (hierarchy, file, frozen) = freezers().swap_remove(number);
    let group = JobGroup::create(&hierarchy).unwrap();
    let mut contained = [0, 1].map(|_| start(script, &group));
    for contained in &mut contained {
        contained.process().stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
    }
    group.control(file).unwrap().write(frozen).unwrap();
    println!("frozen {}", group.path());
    std::thread::park();
}

#[test]
fn a_frozen_job_ends_and_its_group_is_removed_if_its_creator_is_killed() {
    let kill = |creator: u32| crate::signals::send(pid(creator), libc::SIGKILL).unwrap();
    testing::isolated_by(|this| expect_end(this, kill, |_| std::thread::yield_now()), || run_frozen_job(DAEMON));
}

#[test]
fn what_is_left_of_a_frozen_job_is_ended_by_the_next_one_if_all_that_keeps_it_is_killed() {
    let kill = |creator: u32| {
        let name = |id: u32| fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
        let is_kept = |id: &u32| ["keeper\n", "successor\n"].contains(&name(*id).as_str());
        let helpers: Vec<u32> = testing::processes::children(creator).into_iter().filter(is_kept).collect();
        assert_eq!(helpers.len(), 3);
        [creator].into_iter().chain(helpers).for_each(|id| kill_process(pid(id), Signal::KILL).unwrap());
    };
    let next = |hierarchy: &Hierarchy| drop(JobGroup::create(hierarchy).unwrap());
    testing::isolated_by(|this| expect_end(this, kill, next), || run_frozen_job(DAEMON));
}

#[test]
fn a_group_that_is_to_end_gets_the_ordinary_weight() {
    let weight = |hierarchy: Hierarchy| match hierarchy.version {
        2 => Some((hierarchy, "cpu.weight", "1", "100\n")),
        _ if hierarchy.controllers.iter().any(|name| name == "cpu") => Some((hierarchy, "cpu.shares", "2", "1024\n")),
        _ => None,
    };
    let create = |(hierarchy, file, lowest, ordinary)| {
        Some((JobGroup::create_weighted(&hierarchy, file).ok()?, file, lowest, ordinary))
    };
    let groups: Vec<_> = Hierarchy::all().into_iter().filter_map(weight).filter_map(create).collect();
    if groups.is_empty() {
        testing::skip_part("ROWLOCK_REQUIRE_GROUPS", "weights of control groups", "run the test as root");
    }
    for (group, file, lowest, ordinary) in groups {
        let _contained = start("exec sleep 1000", &group);
        let control = group.control(file).unwrap();
        control.write(lowest).unwrap();
        assert!(!end(group.around.as_fd(), &group.name), "it has a process");
        assert_eq!(fs::read_to_string(group.folder().join(file)).unwrap(), ordinary);
    }
}

fn pid(id: u32) -> Pid {
    Pid::from_raw(id.cast_signed()).unwrap()
}

#[test]
fn a_path_leads_to_no_other_group() {
    for (hierarchy, file, _) in freezers() {
        let group = JobGroup::create(&hierarchy).unwrap();
        let own = std::process::id();
        let open = |path: &str, creator| control_of_job(&hierarchy, path, creator, file);
        assert!(open(group.path(), own).is_ok());
        let path = group.path();
        for (path, creator) in [
            (path.to_owned(), own + 1),
            (path.to_owned(), 0),
            (format!("/{path}"), own),
            (format!("{path}/.."), own),
            (format!("{path}/../{path}"), own),
            (format!("../{}/{path}", hierarchy.mount.file_name().unwrap().display()), own),
            (format!("{path}/inner"), own),
            (format!("{path}-"), own),
            (String::new(), own),
            (".".to_owned(), own),
        ] {
            assert!(open(&path, creator).is_err(), "{path} {creator}");
        }
        // Neither a folder that is no group, nor a link to one that is.
        let place = tempfile::tempdir().unwrap();
        let elsewhere = Hierarchy { mount: place.path().to_owned(), ..hierarchy.clone() };
        let name = format!("{PREFIX}{own}-x");
        fs::create_dir(place.path().join(&name)).unwrap();
        fs::write(place.path().join(&name).join(file), "").unwrap();
        assert!(control_of_job(&elsewhere, &name, own, file).is_err());
        fs::remove_dir_all(place.path().join(&name)).unwrap();
        std::os::unix::fs::symlink(hierarchy.mount.join(path), place.path().join(&name)).unwrap();
        assert!(control_of_job(&elsewhere, &name, own, file).is_err());
    }
}

/// Why no group is created within this folder of version 2, which is none of groups: each one would
/// be taken for one of threads.
fn refusal(mount: &Path, folder: &str, file: Option<&str>) -> String {
    let folder = mount.join(folder);
    let hierarchy = Hierarchy { version: 2, controllers: vec![], mount: mount.to_owned(), folder };
    let group = match file {
        None => JobGroup::create(&hierarchy),
        Some(file) => JobGroup::create_weighted(&hierarchy, file),
    };
    group.unwrap_err().to_string().replace(mount.to_str().unwrap(), "M")
}

#[test]
fn a_group_with_a_weight_is_beside_the_own_one_unless_that_leaves_limits_or_a_weight() {
    let place = tempfile::tempdir().unwrap();
    let mount = place.path();
    fs::create_dir_all(mount.join("a/b")).unwrap();
    let write = |file: &str, text: &str| fs::write(mount.join(file), text).unwrap();
    let own = format!("1\n{}\n", std::process::id());
    ["cgroup.procs", "a/cgroup.procs", "a/b/cgroup.procs"].iter().for_each(|file| write(file, &own));
    let weighted = |folder: &str| refusal(mount, folder, Some("cpu.weight"));
    assert_eq!(refusal(mount, "a/b", None), "M/a/b is a group of threads");
    assert_eq!(weighted("a/b"), "M/a/b has no cpu.weight of 100");
    write("a/b/cpu.weight", "50\n");
    assert_eq!(weighted("a/b"), "M/a/b has no cpu.weight of 100");
    write("a/b/cpu.weight", "100\n");
    assert_eq!(weighted("a/b"), "M/a is a group of threads");
    assert_eq!(refusal(mount, "", Some("cpu.weight")), "M/ is a group of threads");
    // The group around it passes controllers on, as the outermost one may.
    write("a/b/cgroup.subtree_control", "cpu memory\n");
    assert_eq!(refusal(mount, "a/b", None), "M/a/b is a group of threads");
    write("a/b/memory.max", "1048576\n");
    let limited = "M/a/b has limits, which programs in another group would not see";
    assert_eq!([refusal(mount, "a/b", None), weighted("a/b")], [limited; 2]);
    write("a/b/memory.max", "max\n");
    fs::remove_file(mount.join("a/cgroup.procs")).unwrap();
    assert_eq!(weighted("a/b"), "M/a may not be changed by this user");
    // None is left.
    let folders = |path: &str| {
        fs::read_dir(mount.join(path)).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_dir()).count()
    };
    assert_eq!(["", "a", "a/b"].map(folders), [1, 1, 0]);
}

#[test]
fn only_a_group_that_no_process_has_locked_is_abandoned() {
    let place = tempfile::tempdir().unwrap();
    let around = Folder::open(place.path()).unwrap();
    let abandoned = || abandoned_in(&around).map(|(name, _lock)| name).collect::<Vec<_>>();
    let names = ["1-0-1a", "7-0-1a"].map(|rest| CString::new(format!("{PREFIX}{rest}")).unwrap());
    let [used, killed] = names.each_ref().map(|name| create_locked(around.as_fd(), name).unwrap());
    for name in [format!("{PREFIX}7-0-1a-4026531836"), format!("{PREFIX}7"), "rowlock-program-7-0-1a".to_owned()] {
        fs::create_dir(place.path().join(name)).unwrap();
    }
    assert!(abandoned().is_empty());
    drop(killed);
    assert_eq!(abandoned(), [names[1].clone()]);
    drop(used);
    assert_eq!(abandoned().len(), 2);
}

#[test]
fn a_group_that_another_process_removes_before_it_is_locked_is_created_again() {
    let place = tempfile::tempdir().unwrap();
    let around = Folder::open(place.path()).unwrap();
    let around = around.as_fd();
    for number in 0..100 {
        let name = CString::new(format!("{PREFIX}1-{number}-1a")).unwrap();
        let removing = create_locked(around, &name).unwrap();
        let begun = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let creator = scope.spawn(|| {
                begun.store(true, SeqCst);
                create_locked(around, &name)
            });
            while !begun.load(SeqCst) {
                std::thread::yield_now();
            }
            assert!(end(around, &name));
            drop(removing);
            assert!(creator.join().unwrap().is_ok());
        });
        assert_eq!(place.path().read_dir().unwrap().count(), number + 1);
    }
}

#[test]
fn a_frozen_job_in_another_pid_namespace_is_left_alone_until_that_is_killed() {
    let start = |this: Command| {
        for (number, (hierarchy, file, _)) in freezers().into_iter().enumerate() {
            let mut unshare = testing::command("unshare");
            unshare.args(["--pid", "--fork", "--kill-child", "--mount-proc", "env", &format!("NUMBER={number}")]);
            let mut child = testing::Child::start_piped(&mut testing::through(unshare, &this));
            let line = std::iter::repeat_with(|| child.read_line()).find(|line| line.contains("frozen")).unwrap();
            let group = hierarchy.mount.join(line.split_once("frozen ").unwrap().1.trim_end());
            let next = || drop(JobGroup::create(&hierarchy).unwrap());
            next();
            let state = fs::read_to_string(group.join(file)).unwrap();
            assert!(["1\n", "FREEZING\n", "FROZEN\n"].contains(&state.as_str()), "{state}");
            // All processes of the namespace are killed at once.
            child.send(libc::SIGKILL);
            while group.exists() {
                next();
            }
            child.wait().expect_signal(libc::SIGKILL);
        }
    };
    testing::isolated_by(start, || run_frozen_job(DAEMON));
}
