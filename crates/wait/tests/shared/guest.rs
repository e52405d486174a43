//! All tests of this program on more CPUs than most machines for tests have: an emulated machine.

use libtest_mimic::Trial;
use testing::{Guest, command};

use crate::trial;

pub(crate) fn trials() -> Vec<Trial> {
    // It needs QEMU and a kernel, and takes a while; ./check --full runs it.
    vec![trial("guest::the_other_tests_pass_on_8_cpus", the_other_tests_pass).with_ignored_flag(true)]
}

fn the_other_tests_pass() {
    let Some(guest) = Guest::new(8) else { return };
    guest.install(&std::env::current_exe().unwrap(), "/shared");
    guest.run(command("/shared").arg("--test-threads=4")).expect_success();
}
