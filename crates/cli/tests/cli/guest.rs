//! `rowlock prun` on a machine that has only version 2 of control groups: a guest.
//!
//! The script `guest/cases.sh` runs `guest/case.sh` as several users in several groups, and says
//! which of these cases have passed.

use std::path::Path;

use testing::{Guest, command};

use crate::prun_environments::FUNCTIONS;

/// The cases, in their order.
const CASES: [&str; 6] = [
    "root-in-the-outermost-group",
    "root-in-a-group",
    "user-in-a-delegated-group",
    "user-in-a-group-of-a-delegated-one",
    "user-without-delegation",
    "root-with-limits",
];

#[test]
#[ignore = "needs QEMU and a kernel, and takes a while; ./check --full runs it"]
fn jobs_take_turns_on_a_machine_with_version_2_of_control_groups() {
    let Some(guest) = Guest::new(2).map(Guest::with_parallel_cpus) else { return };
    guest.install(Path::new(env!("CARGO_BIN_EXE_rowlock")), "/programs/rowlock");
    guest.install(Path::new("/usr/bin/setpriv"), "/programs/setpriv");
    guest.write("/case", &format!("{FUNCTIONS}{}", include_str!("guest/case.sh")));
    guest.write("/cases", include_str!("guest/cases.sh"));
    let output = guest.run(command("sh").arg("/cases")).expect_success();
    let passed: Vec<&str> = output.stdout.lines().filter_map(|line| line.trim().strip_prefix("passed: ")).collect();
    let all_have_passed = passed == CASES;
    output.expect(all_have_passed, "that all cases pass");
}
