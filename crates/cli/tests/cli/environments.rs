//! Every command in environments that lack something: it does its work, or says in a sentence why
//! it cannot. It never panics, aborts or hangs, and leaves no temporary file and no control group.
//!
//! An environment is a shell script that changes it and then executes the command. It is skipped,
//! with a note, if this machine does not allow the script itself. Of the commands that take long,
//! the tests of one environment run one; `./check --full` runs the others, too.

use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use testing::{Output, command, run};

use crate::commands::{COMMANDS, Place, Subject, errors_are_explained};
use crate::groups;

/// How long a machine under load may take to remove the groups of commands that other tests kill.
const LIMIT: Duration = Duration::from_secs(60);

/// An environment.
struct Environment {
    name: &'static str,
    script: &'static str,
    /// Whether a failure cannot be reported there.
    may_be_silent: bool,
}

/// Runs commands in an environment.
fn check<'a>(environment: &Environment, commands: impl IntoIterator<Item = &'a Subject>) {
    let &Environment { script, may_be_silent, .. } = environment;
    let place = Place::new();
    place.share();
    if !run(&mut in_environment(script, place.folder(), &command("true"))).status.success() {
        testing::skip_part("ROWLOCK_REQUIRE_ENVIRONMENTS", script, "run the test as root, outside of a container");
        return;
    }
    for subject in commands {
        let place = Place::new();
        place.share();
        let output = run(&mut in_environment(script, place.folder(), &place.command(subject.line)));
        let left = place.temporary_files();
        expect_orderly(output, may_be_silent).expect(left.is_empty(), "no temporary files");
    }
    // Those of killed commands in other tests, too, are removed at some time.
    let started = Instant::now();
    loop {
        let left = groups::abandoned();
        if left.is_empty() {
            return;
        }
        assert!(started.elapsed() < LIMIT, "{left:?}");
        sleep(Duration::from_millis(50));
    }
}

/// The commands that take long. A number chooses those that come first.
fn long_commands(number: usize) -> impl Iterator<Item = &'static Subject> {
    let long: Vec<_> = COMMANDS.iter().filter(|subject| subject.is_long).collect();
    (0..long.len()).map(move |place| long[(number + place) % long.len()])
}

/// Runs all commands in the environment of this name, but only one of those that take long.
fn check_most(name: &str) {
    let number = ENVIRONMENTS.iter().position(|environment| environment.name == name).unwrap();
    let others = COMMANDS.iter().filter(|subject| !subject.is_long);
    check(&ENVIRONMENTS[number], others.chain(long_commands(number).take(1)));
}

#[test]
#[ignore = "takes a while; ./check --full runs it"]
fn the_other_commands_are_orderly_in_all_environments() {
    for (number, environment) in ENVIRONMENTS.iter().enumerate() {
        check(environment, long_commands(number).skip(1));
    }
}

/// Starts a command in a folder and in an environment.
fn in_environment(environment: &str, folder: &Path, inner: &Command) -> Command {
    let mut shell = command("sh");
    shell.args(["-c", &format!("{environment}\nexec \"$@\""), "sh"]).current_dir(folder);
    testing::through(shell, inner)
}

/// The command succeeded, or failed with a sentence.
#[track_caller]
fn expect_orderly(output: Output, may_be_silent: bool) -> Output {
    let has_sentence = output.stderr.lines().any(|line| line.len() > 20);
    let explains = may_be_silent || has_sentence && errors_are_explained(&output.stderr);
    let is_orderly = match output.status.code() {
        Some(0) => true,
        Some(1 | 2 | 126 | 127) => explains,
        _ => false,
    };
    let is_in_time = output.killed.is_none();
    let is_calm = !output.stderr.contains("panicked") && !output.stderr.contains("memory allocation");
    output.expect(is_orderly && is_in_time && is_calm, "success or a sentence")
}

/// Each environment is a test: its name, its script, and whether a failure is silent there.
macro_rules! environments {
    ($($name:ident: $script:expr $(, $silent:literal)?;)*) => {
        const ENVIRONMENTS: &[Environment] = &[$(Environment {
            name: stringify!($name),
            script: $script,
            may_be_silent: false $(|| $silent)?,
        }),*];

        $(
            #[test]
            fn $name() {
                check_most(stringify!($name));
            }
        )*
    };
}

/// A mount namespace in which this command has been executed.
macro_rules! mounted {
    ($command:literal) => {
        concat!("exec unshare --mount sh -c '", $command, " && exec \"$@\"' sh \"$@\"")
    };
}

/// A control group of version 2, in the group at its mount point, with this setting.
macro_rules! grouped {
    ($setting:literal) => {
        concat!(
            "GROUP=/sys/fs/cgroup/unified/rowlock-test-$$
            [ -e /sys/fs/cgroup/unified ] || GROUP=/sys/fs/cgroup/rowlock-test-$$
            mkdir $GROUP && trap 'rmdir $GROUP' EXIT
            cd $GROUP && echo ",
            $setting,
            " && cd - > /dev/null
            GROUP=$GROUP sh -c 'echo $$ > $GROUP/cgroup.procs && exec \"$@\"' sh \"$@\"
            exit $?"
        )
    };
}

environments! {
    commands_are_orderly_with_a_gibibyte_of_addresses: "ulimit -v 1048576";
    commands_are_orderly_with_300_mebibytes_of_addresses: "ulimit -v 307200";
    commands_are_orderly_with_60_mebibytes_of_addresses: "ulimit -v 61440";
    commands_are_orderly_with_100_mebibytes_of_data: "ulimit -d 102400";
    commands_are_orderly_with_12_mebibytes_of_data: "ulimit -d 12288";
    // Below 1.4 MiB (optimized: 0.7 MiB), the dynamic linker ends the command before `main`: there
    // is no room for its static data and thread-local variables.
    commands_are_orderly_with_2_mebibytes_of_data: "ulimit -d 2048";
    commands_are_orderly_with_512_kibibytes_of_stack: "ulimit -s 512";
    commands_are_orderly_with_200_kibibytes_of_stack: "ulimit -s 200";
    commands_are_orderly_with_64_kibibytes_of_stack: "ulimit -s 64";
    commands_are_orderly_without_locked_memory: "ulimit -l 0";
    commands_are_orderly_with_16_descriptors: "ulimit -n 16";
    commands_are_orderly_with_6_descriptors: "ulimit -n 6";
    commands_are_orderly_with_small_files: "ulimit -f 1";
    commands_are_orderly_for_a_user_without_privileges:
        "exec setpriv --reuid 65534 --regid 65534 --clear-groups \"$@\"";
    // No other test has this user.
    commands_are_orderly_for_a_user_with_few_processes:
        "exec setpriv --reuid 54321 --regid 54321 --clear-groups prlimit --nproc=4 \"$@\"";
    commands_are_orderly_in_a_user_namespace: "exec unshare --user \"$@\"";
    commands_are_orderly_as_root_of_a_user_namespace: "exec unshare --user --map-root-user \"$@\"";
    commands_are_orderly_without_proc: mounted!("mount -t tmpfs -o ro none /proc");
    commands_are_orderly_without_sys: mounted!("mount -t tmpfs -o ro none /sys");
    commands_are_orderly_without_shared_memory: mounted!("mount -t tmpfs -o ro none /dev/shm");
    commands_are_orderly_with_full_shared_memory:
        mounted!("mount -t tmpfs -o size=4k none /dev/shm && head -c 4096 /dev/zero > /dev/shm/full");
    commands_are_orderly_in_a_read_only_folder: mounted!("mount --bind . . && mount -o remount,ro,bind . && cd $PWD");
    commands_are_orderly_on_a_full_disk: mounted!(
        "mkdir full && mount -t tmpfs -o size=256k none full && cp $(ls --ignore=full) full && cd full && (cat /dev/zero > zeros || true) 2> /dev/null"
    );
    commands_are_orderly_without_a_home: "unset HOME XDG_CACHE_HOME";
    commands_are_orderly_without_variables: "exec env -i \"TMPDIR=$TMPDIR\" \"ROWLOCK_TABLE=$ROWLOCK_TABLE\" \"$@\"";
    commands_are_orderly_if_interrupts_are_ignored: "trap '' INT";
    commands_are_orderly_if_ends_of_children_are_ignored: "exec env --ignore-signal=CHLD \"$@\"";
    commands_are_orderly_if_closed_pipes_are_ignored: "trap '' PIPE";
    commands_are_orderly_if_all_signals_are_ignored: "exec env --ignore-signal \"$@\"";
    commands_are_orderly_if_all_signals_are_blocked: "exec env --block-signal \"$@\"";
    commands_are_orderly_without_standard_input: "exec <&-";
    commands_are_orderly_without_standard_output: "exec >&-";
    commands_are_orderly_without_standard_error: "exec 2>&-", true;
    commands_are_orderly_without_standard_streams: "exec <&- >&- 2>&-", true;
    commands_are_orderly_if_standard_output_is_full: "exec > /dev/full";
    commands_are_orderly_if_standard_error_is_full: "exec 2> /dev/full", true;
    commands_are_orderly_on_one_cpu:
        "cpus=$(taskset --cpu-list --pid $$ | sed 's/.*: //; s/[-,].*//')
        taskset --cpu-list --pid $cpus $$ > /dev/null";
    commands_are_orderly_with_read_only_groups: mounted!(
        "for groups in $(grep -o \"/sys/fs/cgroup[^ ]*\" /proc/self/mounts); do mount -o remount,ro,bind $groups; done"
    );
    commands_are_orderly_in_a_group_that_is_full: grouped!("0 > cgroup.max.descendants");
    commands_are_orderly_in_a_group_of_threads: grouped!("threaded > cgroup.type");
    commands_are_orderly_with_half_a_cpu:
        "GROUP=/sys/fs/cgroup/cpu/rowlock-test-$$
        [ -e /sys/fs/cgroup/cpu ] || GROUP=/sys/fs/cgroup/rowlock-test-$$
        mkdir $GROUP && trap 'rmdir $GROUP' EXIT
        { echo 50000 > $GROUP/cpu.cfs_quota_us || echo 50000 100000 > $GROUP/cpu.max; } 2> /dev/null
        GROUP=$GROUP sh -c 'echo $$ > $GROUP/cgroup.procs && exec \"$@\"' sh \"$@\"
        exit $?";
}
