//! `rowlock prun` on a machine that has only version 2 of control groups: a guest that QEMU
//! emulates.
//!
//! Its kernel is the one that `.ci/setup-guest` unpacks. Its file system is made here: `rowlock`,
//! the libraries that it needs, BusyBox, and two scripts. The first process runs `guest/case.sh` as
//! several users in several groups, and says on the console which of these cases have passed.
//!
//! It is emulated, since a virtual machine mostly cannot have others within.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use testing::child::TEST_LIMIT;
use testing::{Child, command, run};

use crate::prun_environments::FUNCTIONS;

const KERNEL: &str = "/usr/local/share/rowlock-guest/vmlinuz";
const INIT: &str = include_str!("guest/init.sh");
const CASE: &str = include_str!("guest/case.sh");
/// The cases, in their order.
const CASES: [&str; 6] = [
    "root-in-the-outermost-group",
    "root-in-a-group",
    "user-in-a-delegated-group",
    "user-in-a-group-of-a-delegated-one",
    "user-without-delegation",
    "root-with-limits",
];

/// Copies a file into the root of a file system, with the mode of a program.
fn install(file: &Path, root: &Path, path: &str) {
    let to = root.join(path.trim_start_matches('/'));
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::copy(file, &to).unwrap();
    fs::set_permissions(to, Permissions::from_mode(0o755)).unwrap();
}

/// The libraries that a program needs, and its dynamic linker: the absolute paths that ldd shows.
fn libraries(program: &Path) -> Vec<String> {
    let output = run(command("ldd").arg(program)).expect_success();
    output.stdout.split_whitespace().filter(|word| word.starts_with('/')).map(str::to_owned).collect()
}

/// The file system of the guest, as an archive that its kernel unpacks.
fn file_system(place: &Path) -> PathBuf {
    let (root, archive) = (place.join("root"), place.join("archive"));
    install(Path::new("/bin/busybox"), &root, "bin/busybox");
    for program in [env!("CARGO_BIN_EXE_rowlock"), "/usr/bin/setpriv"].map(Path::new) {
        install(program, &root, &format!("programs/{}", program.file_name().unwrap().display()));
        libraries(program).iter().for_each(|library| install(Path::new(library), &root, library));
    }
    fs::write(root.join("case"), format!("{FUNCTIONS}{CASE}")).unwrap();
    fs::write(root.join("init"), INIT).unwrap();
    fs::set_permissions(root.join("init"), Permissions::from_mode(0o755)).unwrap();
    let pack = "cd \"$0\" && find . | busybox cpio -o -H newc > \"$1\"";
    run(command("sh").args(["-c", pack]).args([&root, &archive])).expect_success();
    archive
}

#[test]
#[ignore = "needs QEMU and a kernel, and takes a while; ./check --full runs it"]
fn jobs_take_turns_on_a_machine_with_version_2_of_control_groups() {
    let place = tempfile::tempdir().unwrap();
    let mut machine = command("qemu-system-x86_64");
    machine.args("-nodefaults -no-user-config -no-reboot -display none -serial stdio".split(' '));
    machine.args("-accel tcg,thread=multi -cpu max -smp 2 -m 1024".split(' '));
    machine.args(["-kernel", KERNEL, "-append", "console=ttyS0 quiet panic=-1"]);
    machine.arg("-initrd").arg(file_system(place.path()));
    let output = Child::start(&mut machine).with_limit(TEST_LIMIT).wait().expect_success();
    let passed: Vec<&str> = output.stdout.lines().filter_map(|line| line.trim().strip_prefix("passed: ")).collect();
    let all_have_passed = passed == CASES;
    output.expect(all_have_passed, "that all cases pass");
}
