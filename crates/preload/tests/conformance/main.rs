//! The conformance lab: the replaced calls keep what POSIX and glibc promise, even if a thread is
//! preempted at any step.
//!
//! Each family of calls has a C program, whose cases print what they observe. A case runs with the
//! C library alone, and with the preloaded library by each rule; `naps.c`, preloaded behind it,
//! lets threads sleep at one step, a call of the C library, in all runs of one comparison. The
//! results must be equal. Cases give the memory of destroyed objects back, so that any later use is
//! a crash.
//!
//! Results depend on no timing, but finding a defect does: `ROUNDS` multiplies the rounds of a
//! case, and `./soak` repeats everything.
//!
//! Without a compiler the tests pass with a note, unless `ROWLOCK_REQUIRE_CC` is set.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot continue has failed")]

#[path = "../common/library.rs"]
mod library;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use libtest_mimic::{Arguments, Trial};
use testing::Output;

/// A family of calls, and the cases that check each promise.
struct Family {
    /// The name of the source.
    name: &'static str,
    /// Calls of the C library, in the program or in the preloaded library, before or after which
    /// threads sleep.
    steps: &'static [&'static str],
    promises: &'static [(&'static str, &'static [&'static str])],
}

/// Before and after each call.
macro_rules! steps {
    ($($call:literal)*) => { &["", $(concat!($call, ":before"), concat!($call, ":after")),*] };
}

const FAMILIES: [Family; 4] = [
    Family {
        name: "conditions",
        steps: steps!["pthread_cond_wait" "pthread_cond_signal" "pthread_cond_broadcast" "pthread_cond_destroy"
            "pthread_mutex_lock" "pthread_mutex_trylock" "pthread_mutex_unlock"],
        promises: &[
            ("signals", &["signal_each", "signal_while_another_holds_the_mutex"]),
            (
                "destruction",
                &[
                    "destroy_after_signal",
                    "destroy_after_broadcast",
                    "destroy_with_the_mutex",
                    "destroy_with_many_waiters",
                    "destroy_by_the_last_waiter",
                    "destroy_the_mutex_after_a_wait",
                ],
            ),
            ("initialization again", &["reinitialize"]),
            ("cancellation", &["cancel", "cancel_before", "cancel_when_it_is_off", "cancel_and_signal"]),
            ("forks", &["fork_beside_waiters"]),
            ("signal handlers", &["interrupt"]),
            ("deadlines", &["wait_with_deadlines"]),
            ("other processes", &["share", "share_only_the_condition_variable"]),
            ("initializers and attributes", &["attributes"]),
            ("errors", &["wait_without_the_mutex"]),
        ],
    },
    Family {
        name: "semaphores",
        steps: steps!["sem_wait" "sem_trywait" "sem_post"],
        promises: &[
            ("posts", &["each_post_lets_one_pass"]),
            ("destruction", &["destroy_after_a_wait"]),
            ("initialization again", &["reinitialize"]),
            ("cancellation", &["cancel", "cancel_before", "cancel_when_it_is_off"]),
            ("forks", &["fork_beside_waiters"]),
            ("signal handlers", &["interrupt"]),
            ("deadlines", &["wait_with_deadlines"]),
            ("other processes", &["share", "share_by_name"]),
            ("errors", &["errno_is_kept", "limits"]),
        ],
    },
    Family {
        name: "mutexes",
        steps: steps!["pthread_mutex_lock" "pthread_mutex_trylock" "pthread_mutex_unlock"],
        promises: &[
            ("exclusion", &["exclude"]),
            ("destruction", &["destroy_by_the_last_user"]),
            ("initialization again", &["reinitialize"]),
            ("cancellation", &["cancel"]),
            ("forks", &["fork_with_it"]),
            ("signal handlers", &["interrupt"]),
            ("other processes", &["share"]),
            ("attributes, deadlines and errors", &["kinds"]),
        ],
    },
    Family {
        name: "barriers",
        steps: steps!["pthread_barrier_init" "pthread_barrier_wait" "pthread_barrier_destroy"],
        promises: &[
            ("meetings", &["all_meet_and_one_leads", "teams_succeed_each_other"]),
            ("destruction", &["destroy_by_the_leader"]),
            ("initialization again", &["reinitialize"]),
            ("cancellation", &["cancel"]),
            ("forks", &["fork_beside_waiters"]),
            ("signal handlers", &["interrupt"]),
            ("other processes", &["share"]),
            ("attributes and errors", &["limits"]),
        ],
    },
];

/// How `naps.c` is built. On this architecture the C library has old versions of the calls for
/// condition variables, so the preloaded library asks for the new ones, which naps must have.
#[cfg(target_arch = "x86_64")]
const NAPS: [&str; 3] =
    ["-shared", "-fPIC", concat!("-Wl,--version-script=", env!("CARGO_MANIFEST_DIR"), "/tests/conformance/naps.map")];
#[cfg(not(target_arch = "x86_64"))]
const NAPS: [&str; 2] = ["-shared", "-fPIC"];

/// The first one always spins. The usual one soon stops spinning where it does not pay.
const RULES: [&str; 2] = ["2cs+", "adaptive"];

fn main() {
    let trials = FAMILIES.iter().map(|family| {
        Trial::test(format!("{} keep their promises", family.name), || {
            compare(family);
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit();
}

/// Compares all runs of a family.
fn compare(family: &Family) {
    let folder = tempfile::tempdir().unwrap();
    let build = |source: &str, options: &[&str]| build(folder.path(), source, options);
    let Some((program, naps)) = build(family.name, &[]).zip(build("naps", &NAPS)) else { return };
    let cases: Vec<&str> = family.promises.iter().flat_map(|(_, cases)| *cases).copied().collect();
    let listed = testing::run(&mut testing::command(&program)).expect_success();
    assert_eq!(listed.stdout.lines().collect::<BTreeSet<_>>(), cases.iter().copied().collect());
    let both = [library::preload().as_os_str(), naps.as_os_str()].join(OsStr::new(":"));
    for (step, case) in family.steps.iter().flat_map(|step| cases.iter().map(move |case| (step, case))) {
        let run = |preloaded: &OsString, rule: &str| {
            let mut command = testing::command(&program);
            command.arg(case).env("LD_PRELOAD", preloaded).env("ROWLOCK_WAIT", rule).env("NAP", step);
            testing::run(&mut command)
        };
        let alone = run(&naps.clone().into(), "").expect_success();
        for rule in RULES {
            let seen = run(&both, rule);
            let is_equal = |of: fn(&Output) -> &str| of(&seen) == of(&alone);
            let holds = seen.status == alone.status && is_equal(|run| &run.stdout) && is_equal(|run| &run.stderr);
            seen.expect(holds, &format!("the same as without the library, by {rule} with naps at {step:?}"));
        }
    }
}

/// Builds a source of this folder. `None` without a compiler.
fn build(folder: &Path, source: &str, options: &[&str]) -> Option<PathBuf> {
    let mut compiler = testing::command(testing::tool("CC", "cc")?);
    let built = folder.join(source);
    compiler.args(["-Wall", "-Wextra", "-Werror", "-O1", "-g", "-pthread"]).args(options).arg("-o").arg(&built);
    compiler.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/conformance/{source}.c")));
    testing::run(&mut compiler).expect_success();
    Some(built)
}
