//! A machine that QEMU emulates, in which a test runs a program. It has other CPUs than this
//! machine, perhaps in sockets and cores, and only version 2 of control groups.
//!
//! Its kernel is one of Debian, which `.ci/setup-guest` unpacks. Its file system is made here:
//! BusyBox, the programs of a test, and the libraries that these need. The first process is
//! `guest/init.sh`.
//!
//! It is emulated, since a virtual machine mostly cannot have others within. So it is slow, and its
//! times mean nothing.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use tempfile::TempDir;

use crate::child::{Child, Output, TEST_LIMIT, command, run, through, try_run};

const QEMU: &str = "qemu-system-x86_64";
const BUSYBOX: &str = "/bin/busybox";
const KERNEL: &str = "/usr/local/share/rowlock-guest/vmlinuz";
/// The kernel trusts the clock of a CPU. Otherwise it would bound the clock by the CPU's ticks, so
/// that it stops while QEMU emulates other CPUs. The kernel does not test its timers: it panics if
/// QEMU gets no CPU meanwhile.
const OPTIONS: &str = "console=ttyS0 quiet panic=-1 tsc=reliable no_timer_check";
/// The memory, in MiB.
const MEMORY: u32 = 1024;
const INIT: &str = include_str!("guest/init.sh");
/// The beginning of the last line on the console. The exit code of the program follows.
const ENDED: &str = "ended with ";

/// A machine that has not been started.
#[derive(Debug)]
pub struct Guest {
    cpus: u32,
    topology: Option<Topology>,
    accelerator: &'static str,
    /// A folder with the root of its file system.
    place: TempDir,
}

/// The sockets, the cores of each, and the CPUs of each core. They have consecutive numbers.
#[derive(Clone, Copy, Debug)]
pub struct Topology {
    /// The number of sockets. The cores of each share their last cache.
    pub sockets: u32,
    /// The number of cores of a socket.
    pub cores: u32,
    /// The number of CPUs of a core.
    pub threads: u32,
    /// Whether each socket has memory of its own, which makes it a NUMA node.
    pub has_nodes: bool,
}

impl Topology {
    /// The arguments of QEMU, but for the number of CPUs.
    fn arguments(self) -> Vec<String> {
        let Topology { sockets, cores, threads, has_nodes } = self;
        let mut arguments = vec!["-smp".to_owned(), format!("sockets={sockets},cores={cores},threads={threads}")];
        for node in (0..sockets).filter(|_| has_nodes) {
            let (first, last) = (node * cores * threads, (node + 1) * cores * threads - 1);
            let memory = format!("memory-backend-ram,id=memory{node},size={}M", MEMORY / sockets);
            let cpus = format!("node,nodeid={node},memdev=memory{node},cpus={first}-{last}");
            arguments.extend(["-object".to_owned(), memory, "-numa".to_owned(), cpus]);
        }
        arguments
    }
}

impl Guest {
    /// A machine with so many CPUs. `None` if QEMU or the kernel is missing, which is reported.
    ///
    /// # Panics
    /// If one of them is missing and `ROWLOCK_REQUIRE_ENVIRONMENTS` is in the environment.
    #[track_caller]
    pub fn new(cpus: u32) -> Option<Guest> {
        let has_qemu = try_run(command(QEMU).arg("--version")).is_ok_and(|output| output.status.success());
        if !has_qemu || ![BUSYBOX, KERNEL].iter().all(|file| Path::new(file).exists()) {
            let how = "`.ci/setup-guest` installs what is needed on Debian";
            crate::skip_part("ROWLOCK_REQUIRE_ENVIRONMENTS", "a machine that QEMU emulates", how);
            return None;
        }
        let place = tempfile::tempdir().expect("a temporary folder");
        let guest = Guest { cpus, topology: None, accelerator: "tcg,thread=single", place };
        guest.copy(Path::new(BUSYBOX), BUSYBOX);
        guest.write("/init", INIT);
        Some(guest)
    }

    /// Emulates each CPU by a thread of its own. By default one thread emulates them all in turn,
    /// which is right if they are more than this machine has, and slow if programs spin without a
    /// pause.
    #[must_use]
    pub fn with_parallel_cpus(self) -> Guest {
        Guest { accelerator: "tcg,thread=multi", ..self }
    }

    /// Arranges its CPUs. By default each has a socket of its own.
    #[must_use]
    pub fn with_topology(self, topology: Topology) -> Guest {
        Guest { topology: Some(topology), ..self }
    }

    fn root(&self) -> PathBuf {
        self.place.path().join("root")
    }

    fn path(&self, path: &str) -> PathBuf {
        let path = self.root().join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().expect("an absolute path")).expect("a folder of the guest");
        path
    }

    fn copy(&self, file: &Path, path: &str) {
        let copied = fs::copy(file, self.path(path));
        copied.unwrap_or_else(|why| panic!("cannot copy {} to the guest: {why}", file.display()));
    }

    /// Writes a file, with the mode of a program.
    ///
    /// # Panics
    /// If it cannot be written. So do the methods below.
    pub fn write(&self, path: &str, content: &str) {
        let path = self.path(path);
        fs::write(&path, content).expect("a file of the guest");
        fs::set_permissions(path, Permissions::from_mode(0o755)).expect("the mode of a file of the guest");
    }

    /// Copies a program, and the libraries and the dynamic linker that it needs.
    pub fn install(&self, program: &Path, path: &str) {
        self.copy(program, path);
        let libraries = run(command("ldd").arg(program)).expect_success().stdout;
        // The absolute paths that ldd shows.
        let libraries = libraries.split_whitespace().filter(|word| word.starts_with('/'));
        libraries.for_each(|library| self.copy(Path::new(library), library));
    }

    /// Starts the machine and runs a command in it, with the arguments and the variables that were
    /// set. Everything that is written to the console is the standard output of the result.
    ///
    /// # Panics
    /// If the machine stops before the command has ended, or takes as long as a test may.
    #[track_caller]
    pub fn run(self, program: &Command) -> Output {
        self.write("/main", &script(program));
        let archive = self.place.path().join("archive");
        let pack = "cd \"$0\" && find . | busybox cpio -o -H newc > \"$1\"";
        run(command("sh").args(["-c", pack]).args([&self.root(), &archive])).expect_success();
        let mut machine = command(QEMU);
        machine.args("-nodefaults -no-user-config -no-reboot -display none -serial stdio".split(' '));
        machine.args(["-m", &MEMORY.to_string(), "-accel", self.accelerator, "-smp", &self.cpus.to_string()]);
        // QEMU tells the kernel about cores with several CPUs only if the vendor is this one.
        machine.args(["-cpu", if self.topology.is_some() { "max,vendor=GenuineIntel" } else { "max" }]);
        machine.args(self.topology.into_iter().flat_map(Topology::arguments));
        machine.args(["-kernel", KERNEL, "-append", OPTIONS, "-initrd"]).arg(&archive);
        let mut output = Child::start(&mut machine).with_limit(TEST_LIMIT).wait().expect_success();
        output.stdout = output.stdout.replace('\r', "");
        let last = output.stdout.lines().filter_map(|line| line.strip_prefix(ENDED)).next_back();
        let code = last.and_then(|code| code.parse::<i32>().ok());
        let output = output.expect(code.is_some(), "the end of the program in the guest");
        Output { status: ExitStatus::from_raw(code.unwrap_or_default() << 8), ..output }
    }
}

/// A function for [`isolated_by`](crate::isolated_by) that runs the body of a test on a machine
/// with so many CPUs, in the namespaces that `starter` makes, if it is not empty: a command such as
/// `unshare`.
pub fn with_cpus(cpus: u32, starter: &'static [&'static str]) -> impl FnOnce(Command) {
    on(move || Guest::new(cpus), starter)
}

/// The same for CPUs that are arranged so.
pub fn with_topology(topology: Topology) -> impl FnOnce(Command) {
    let Topology { sockets, cores, threads, .. } = topology;
    on(move || Some(Guest::new(sockets * cores * threads)?.with_topology(topology)), &[])
}

fn on(guest: impl FnOnce() -> Option<Guest>, starter: &'static [&'static str]) -> impl FnOnce(Command) {
    move |test| {
        let Some(guest) = guest() else { return };
        let program = Path::new(test.get_program());
        guest.install(program, program.to_str().expect("a path in UTF-8"));
        let test = match starter {
            [] => test,
            [program, arguments @ ..] => {
                let mut starter = command(program);
                starter.args(arguments);
                through(starter, &test)
            }
        };
        crate::expect_one_pass(guest.run(&test));
    }
}

/// The command as a shell script.
fn script(command: &Command) -> String {
    let quoted = |text: &OsStr| format!("'{}'", text.to_str().expect("text in UTF-8").replace('\'', r"'\''"));
    let mut script = String::new();
    for (name, value) in command.get_envs() {
        if let (Some(name), Some(value)) = (name.to_str(), value) {
            script += &format!("export {name}={}\n", quoted(value));
        }
    }
    script += "exec";
    for word in std::iter::once(command.get_program()).chain(command.get_args()) {
        script += &format!(" {}", quoted(word));
    }
    script + "\n"
}
