//! `rowlock prun` in environments that lack something: jobs take turns as elsewhere, or a sentence
//! says why not, and nothing is left.
//!
//! An environment is a shell script that executes the rest of its arguments, as in `environments`.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use testing::Output;

use crate::prun::{Table, cpu};

/// Functions of a shell script in which `$1` is `rowlock`: `start JOB OPTIONS` starts a job whose
/// ranks are known by their job and number, `turns` waits until jobs 1 and 2 have taken some, and
/// `expect_gone` until nothing is left of the table and of control groups.
pub(crate) const FUNCTIONS: &str = r#"
set -e
rowlock=$1
spin='echo $$ > new-$ROWLOCK_RANK; mv new-$ROWLOCK_RANK rank-$ROWLOCK_JOB$ROWLOCK_RANK; while :; do :; done'
start() {
    number=$1; shift
    "$rowlock" prun --wait none --how ${how:-strict} --slice "${slice:-5 ms}" "$@" -- sh -c "$spin" &
    eval "job$number=\$!"
    agents="$agents $!"
    until [ -e rank-${number}0 ] && [ -e rank-${number}1 ]; do sleep 0.01; done
}
is_stopped() {
    read -r process < rank-$1
    # Without a child process, which would have to wait for a CPU.
    read -r stat < /proc/$process/stat
    read -r place < /proc/$process/wchan || true
    case "$stat $place" in *') T '*|*get_signal|*do_freezer_trap|*__refrigerator) true ;; *) false ;; esac
}
turns() {
    for rank in 10 21 11 20 10 21 11 20; do
        until is_stopped $rank; do :; done
        until ! is_stopped $rank; do :; done
    done
}
namespace=$(readlink /proc/self/ns/pid | tr -cd 0-9)
left() {
    find $TABLES -name 'rowlock-*'
    for agent in $agents; do find /sys/fs/cgroup -name "rowlock-job-$agent-*-$namespace" 2> /dev/null || :; done
}
expect_gone() { until [ -z "$(left)" ]; do sleep 0.01; done; }
"#;

/// Two jobs with `$OPTIONS` take turns, are held, continued, changed and killed, and leave
/// neither a process nor a table nor a control group. It says `done`.
const TURNS: &str = r#"
for job in 1 2; do start $job -n 2 $OPTIONS; done
turns
"$rowlock" hold 1
until is_stopped 10 && ! is_stopped 20; do :; done
"$rowlock" resume 1
until ! is_stopped 10; do :; done
"$rowlock" set 2 --how none
until ! is_stopped 20 && ! is_stopped 21; do :; done
"$rowlock" kill 1
code=0; wait $job1 || code=$?; [ $code = 143 ]
"$rowlock" kill 2 --signal KILL
code=0; wait $job2 || code=$?; [ $code = 137 ]
for rank in 10 11 20 21; do
    until ! kill -0 $(cat rank-$rank) 2> /dev/null; do sleep 0.01; done
done
expect_gone
echo done
"#;

/// Executes its arguments with a group of version 1 or 2 of this controller, `$GROUP`, in which
/// this setting was made. The group is removed afterwards.
macro_rules! grouped {
    ($controller:literal, $setting:literal) => {
        concat!(
            "GROUP=/sys/fs/cgroup/",
            $controller,
            "/rowlock-test-$$
            [ -e /sys/fs/cgroup/",
            $controller,
            " ] || GROUP=/sys/fs/cgroup/rowlock-test-$$
            export GROUP
            mkdir $GROUP && trap 'rmdir $GROUP' EXIT
            { ",
            $setting,
            "; } 2> /dev/null || exit
            sh -c 'echo $$ > $GROUP/cgroup.procs && exec \"$@\"' sh \"$@\"
            exit $?"
        )
    };
}

/// A quota of one and a half CPUs.
const QUOTA: &str = grouped!("cpu", "echo 150000 > $GROUP/cpu.cfs_quota_us || echo 150000 100000 > $GROUP/cpu.max");

/// A table in a folder that every user may write to.
fn shared_table() -> Table {
    let table = Table::new();
    fs::set_permissions(table.place(), Permissions::from_mode(0o777)).unwrap();
    table
}

/// A command in an environment and in the folder of a table.
fn within(script: &str, table: &Table, inner: &Command) -> Command {
    let mut outer = testing::command("sh");
    outer.args(["-c", &format!("{script}\nexec \"$@\""), "sh"]).current_dir(table.place());
    outer.env("CPU", cpu()).env("TMPDIR", table.place());
    testing::through(outer, inner)
}

/// A shell script in which `$1` is `rowlock`, with the table in this folder.
fn shell(script: &str, tables: &str) -> Command {
    let mut inner = testing::command("sh");
    inner.args(["-c", script, "sh", env!("CARGO_BIN_EXE_rowlock")]).env("TABLES", tables).env("ROWLOCK_TABLE", tables);
    inner
}

/// Whether an environment can be made here. A test that cannot is skipped.
fn is_possible(script: &str, table: &Table) -> bool {
    let is_possible = testing::run(&mut within(script, table, &testing::command("true"))).status.success();
    if !is_possible {
        testing::skip_part("ROWLOCK_REQUIRE_ENVIRONMENTS", script, "run the test as root, outside of a container");
    }
    is_possible
}

/// The output of a shell script in an environment, as in [`shell`]. The table is in this folder, or in
/// that of the test. `None` if the environment is not possible.
#[track_caller]
fn run(script: &str, tables: Option<&str>, inner: &str) -> Option<Output> {
    let table = shared_table();
    let tables = tables.unwrap_or(table.place().to_str().unwrap());
    let is_possible = is_possible(script, &table);
    is_possible.then(|| testing::run(&mut within(script, &table, &shell(inner, tables))))
}

/// Jobs with these options take turns in an environment.
#[track_caller]
fn expect_turns(script: &str, tables: Option<&str>, options: &str) {
    let turns = format!("OPTIONS='{options}'\n{FUNCTIONS}{TURNS}");
    if let Some(output) = run(script, tables, &turns) {
        output.expect_success().expect_stdout("done\n");
    }
}

fn on_one_cpu() -> String {
    format!("--cpus {}", cpu())
}

#[test]
fn jobs_take_turns_without_privileges_in_a_container_without_groups() {
    let script = "exec unshare --mount --pid --fork --mount-proc sh -c '
        mount -t tmpfs none /sys/fs/cgroup && mount -t tmpfs -o mode=1777 none /dev/shm &&
        exec setpriv --reuid 54322 --regid 54322 --clear-groups --bounding-set -all --no-new-privs \"$@\"' sh \"$@\"";
    expect_turns(script, Some("/dev/shm"), &on_one_cpu());
}

#[test]
fn jobs_take_turns_as_root_of_a_user_namespace() {
    let script = "exec unshare --user --map-root-user --mount --pid --fork --mount-proc sh -c '
        mount -t tmpfs none /dev/shm && exec \"$@\"' sh \"$@\"";
    expect_turns(script, Some("/dev/shm"), &on_one_cpu());
}

#[test]
fn jobs_take_turns_on_a_machine_with_one_cpu() {
    expect_turns("exec taskset --cpu-list $CPU unshare --pid --fork --mount-proc \"$@\"", None, "");
}

#[test]
fn jobs_take_turns_with_a_quota_of_one_and_a_half_cpus() {
    expect_turns(QUOTA, None, "");
}

#[test]
fn jobs_take_turns_if_sessions_are_no_groups_of_the_scheduler() {
    // Even if the test is killed, the other shell reads to the end and restores the setting.
    let script = "file=/proc/sys/kernel/sched_autogroup_enabled
        [ -e $file ] || exec \"$@\"
        exec flock $file sh -c '
            before=$(cat $0) && echo 0 > $0 && mkfifo end || exit
            sh -c \"read end; echo $before > $0\" < end & exec 9> end
            \"$@\" 9>&-
            code=$?; exec 9>&-; rm end; wait; exit $code' $file \"$@\"";
    expect_turns(script, None, &on_one_cpu());
}

#[test]
fn a_quota_limits_the_mesh_and_ranks_are_not_bound() {
    let cpus = sys::cpus::allowed().unwrap().len();
    let script = "$1 prun --dry-run -n 3 -- true
        says='echo $OMP_NUM_THREADS on $(env -u OMP_NUM_THREADS nproc)'
        $1 prun -c 2 --wait none -- sh -c \"$says\"
        $1 prun -c 2 --wait none --cpus $CPU --bind none -- sh -c \"$says\"";
    for (micros, quota, mesh) in [("150000", "1.5", "2x1"), ("50000", "0.5", "1x1")] {
        let Some(output) = run(&QUOTA.replace("150000", micros), None, script) else { return };
        let output = output.expect_success();
        if cpus > 1 {
            assert_eq!(
                output.stdout,
                format!(
                    "would start 3 ranks of `true` on a mesh of {mesh} cores\n\
                     ranks are not bound to CPUs, because a quota allows {quota} of {cpus} CPUs, so that a bound rank \
                     would wait while CPUs are idle\n2 on {cpus}\n2 on 1\n"
                )
            );
        }
    }
}

/// Starts a job in an environment, and says how that failed, and what is left in the folder.
const REFUSED: &str = "$1 prun -n 2 --wait none -- true; echo $? $(ls -A $TABLES 2> /dev/null)";

#[test]
fn a_table_that_cannot_be_made_is_refused_in_a_sentence() {
    for (script, why) in [
        ("mount -t tmpfs -o ro none /dev/shm", "Read-only file system"),
        (
            "touch null && mount --bind /dev/null null && mount -t tmpfs none /dev && touch /dev/null \
          && mount --bind null /dev/null",
            "there is no such folder",
        ),
        (
            "mount -t tmpfs -o mode=700 none /dev/shm && set -- setpriv --reuid 54322 --clear-groups \"$@\"",
            "Permission denied",
        ),
        ("mount -t tmpfs -o nr_inodes=1 none /dev/shm", "No space left on device"),
    ] {
        let script = format!("exec unshare --mount sh -c '{script} && exec \"$@\"' sh \"$@\"");
        let Some(output) = run(&script, Some("/dev/shm"), REFUSED) else { return };
        let output = output.expect_success().expect_stderr(why);
        assert!(output.stderr.starts_with("error: cannot use the table of jobs in /dev/shm: "), "{output}");
        assert!(output.stderr.contains("ROWLOCK_TABLE names another folder"), "{output}");
        assert_eq!((output.stderr.lines().count(), output.stdout.as_str()), (1, "1\n"), "{output}");
    }
}

#[test]
fn a_job_starts_completely_or_not_at_all_however_little_shared_memory_there_is() {
    // Without a PMIx server, whose library has messages of its own.
    let sizes = "for pages in $(seq 1 60); do
            mount -t tmpfs -o size=${pages}k,mode=1777 none /dev/shm || exit
            code=0; $1 prun -n 2 --mpi pmi --wait none -- true 2> why || code=$?
            echo $code $(wc -l < why) $(grep -c \"ROWLOCK_TABLE names\" why) $(ls -A /dev/shm)
            umount /dev/shm || exit
        done";
    let sizes = sizes.replace("${pages}k", "$((4 * pages))k");
    let Some(output) = run("exec unshare --mount \"$@\"", Some("/dev/shm"), &sizes) else { return };
    let output = output.expect_success();
    let mut lines: Vec<&str> = output.stdout.lines().collect();
    assert_eq!(lines.len(), 60, "{output}");
    // At first it is refused in one line, and then it succeeds without a word. In between, there
    // may be too little for the last change of the table.
    lines.dedup();
    lines.retain(|line| !line.starts_with("0 1"));
    assert_eq!(lines, ["1 1 1", "0 0 0"], "{output}");
}

#[test]
fn a_job_goes_on_when_shared_memory_is_full() {
    let script = "set -e
        mount -t tmpfs -o size=300k none /dev/shm
        $1 prun --wait none -n 2 -- sh -c 'touch ready-$ROWLOCK_RANK; until [ -e end ]; do sleep 0.01; done' & job=$!
        until [ -e ready-0 ] && [ -e ready-1 ]; do sleep 0.01; done
        # The start of the job is in the table as well.
        until $1 jobs --format json | grep -q '\"mechanism\": \"'; do sleep 0.01; done
        head -c 1000000 /dev/zero > /dev/shm/full 2> /dev/null || true
        for refused in 'prun -- true' 'hold 1' 'set 1 --weight 2'; do
            code=0; $1 $refused 2> why || code=$?
            [ $code = 1 ] && grep -q 'No space left on device' why
        done
        $1 jobs | grep -q runs
        touch end
        wait $job
        ls -A /dev/shm";
    let Some(output) = run("exec unshare --mount \"$@\"", Some("/dev/shm"), script) else { return };
    output.expect_success().expect_stdout("full\n");
}

#[test]
fn a_job_runs_where_no_record_of_it_can_be_kept() {
    let script = "mkdir -p run && exec unshare --mount sh -c '
        mount -t tmpfs -o ro none run && exec env XDG_RUNTIME_DIR=$PWD/run TMPDIR=$PWD/run \"$@\"' sh \"$@\"";
    let Some(output) = run(script, None, "$1 prun -n 2 --wait none -- echo rank") else { return };
    output.expect_success().expect_stdout("rank\nrank\n");
}

/// All CPUs of a job but one go offline, and come back: the kernel moves bound threads as it does
/// when the CPUs of their group are taken away.
#[test]
fn jobs_take_turns_when_cpus_go_away_and_come_back() {
    let set = grouped!(
        "cpuset",
        "cat ${GROUP%/*}/cpuset.cpus > $GROUP/cpuset.cpus && cat ${GROUP%/*}/cpuset.mems > $GROUP/cpuset.mems \
         && export ALL=$(cat $GROUP/cpuset.cpus)"
    );
    let script = r#"
        exec 2>&1
        for job in 1 2; do start $job -n $(($(nproc) + 1)); done
        turns
        echo $CPU > $GROUP/cpuset.cpus
        turns
        # One that starts meanwhile gets the rest.
        $1 prun --report-bindings --wait none -- nproc
        echo $ALL > $GROUP/cpuset.cpus
        turns
        $1 prun --wait none -- nproc | grep -qx $(nproc)
        for job in 1 2; do $1 kill $job; done
        ! wait $job1; ! wait $job2
        expect_gone"#;
    let Some(output) = run(set, None, &format!("{FUNCTIONS}{script}")) else { return };
    let output = output.expect_success();
    assert!(output.stdout.contains(&format!("  rank 0: {}\n1\n", cpu())), "{output}");
}

#[test]
fn a_job_waits_until_the_memory_that_it_claims_is_left() {
    let limit = grouped!("memory", "echo 256M > $GROUP/memory.limit_in_bytes || echo 256M > $GROUP/memory.max");
    // The first job runs until the second one waits, or has ended.
    let script = r#"
        $1 prun --memory 150MiB --wait none -- sh -c 'touch begun; until [ -e end ]; do sleep 0.01; done' & first=$!
        until [ -e begun ]; do sleep 0.01; done
        $1 prun --memory 150MiB --wait none -- sh -c '[ -e end ] && echo later' 2> said & second=$!
        until grep -q 'job 2 waits; job 1 runs' said || ! kill -0 $second; do sleep 0.01; done
        $1 jobs --format json | grep -o '"state": *"[a-z]*"' | tr -d ' '
        touch end
        wait $first && wait $second"#;
    let Some(output) = run(limit, None, script) else { return };
    output.expect_success().expect_stdout("\"state\":\"runs\"\n\"state\":\"queued\"\nlater\n");
}

/// Starts a job of a user that no other test has, again and again, and allows it more processes each
/// time: `$LIMITED` executes its arguments with `$limit`. There is no PMIx server, which takes some
/// as well and has messages of its own. Prints for each start the exit code, the
/// number of lines of the message, and the rank that it names.
const STARTS: &str = r#"
user=$((1000000 + $$))
for limit in $(seq 1 20); do
    export limit
    sh -c "$LIMITED" sh setpriv --reuid $user --regid $user --clear-groups $1 prun -n 2 --mpi pmi --wait none -- \
        sh -c '[ $ROWLOCK_RANK = 1 ] || exec sleep 1000; until [ -e end ]; do :; done; exit 7' 2> why & prun=$!
    # The end of a rank would make room for the agent.
    until ! kill -0 $prun || grep -q agent /proc/$prun/task/*/comm; do sleep 0.01; done 2> /dev/null
    touch end
    code=0; wait $prun || code=$?
    rm end
    echo $code $(wc -l < why) $(grep -o 'rank [0-9]' why)
    until [ -z "$(find /proc -maxdepth 1 -uid $user)$(find $TABLES -name 'rowlock-*')" ]; do sleep 0.01; done
done"#;

/// However few processes there may be, all ranks run, or none remains and a sentence says why.
fn expect_starts(script: &str, limited: &str) {
    let starts = format!("LIMITED='{limited}'\n{STARTS}");
    let Some(output) = run(script, None, &starts) else { return };
    let output = output.expect_success();
    let mut lines: Vec<&str> = output.stdout.lines().collect();
    assert_eq!(lines.len(), 20, "{output}");
    lines.dedup();
    // There may be too few for the table, for a rank, or for the agent.
    assert_eq!(lines, ["1 1", "126 1 rank 0", "126 1 rank 1", "1 1", "7 1 rank 1"], "{output}");
}

#[test]
fn a_job_of_a_user_with_few_processes_starts_completely_or_names_the_rank_that_cannot() {
    expect_starts("exec setpriv --bounding-set +all \"$@\"", "exec prlimit --nproc=$limit \"$@\"");
}

#[test]
fn a_job_in_a_group_with_few_processes_starts_completely_or_names_the_rank_that_cannot() {
    let script = "GROUP=/sys/fs/cgroup/pids/rowlock-test-$$
        [ -e /sys/fs/cgroup/pids ] || GROUP=/sys/fs/cgroup/rowlock-test-$$
        export GROUP
        mkdir $GROUP && trap 'rmdir $GROUP' EXIT
        echo max > $GROUP/pids.max || exit
        \"$@\"
        exit $?";
    // Those of the last start may not be counted out yet.
    let limited = "until [ $(cat $GROUP/pids.current) = 0 ]; do sleep 0.01; done
        echo $limit > $GROUP/pids.max && echo $$ > $GROUP/cgroup.procs && exec \"$@\"";
    expect_starts(script, limited);
}
