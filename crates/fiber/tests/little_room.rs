//! A process with little address space. Alone in its file: all tests of one share their process.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use rowlock_fiber::{Config, Runtime, spawn};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[test]
fn without_room_for_the_most_fibers_the_error_says_what_to_set_and_with_fewer_they_run() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
    let used: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
    let limit = getrlimit(Resource::As);
    setrlimit(Resource::As, Rlimit { current: Some((used << 10) + (256 << 20)), maximum: limit.maximum }).unwrap();
    let refused = Runtime::default().run(|| ()).unwrap_err().to_string();
    assert!(refused.contains("4194304 fibers") && refused.contains("Config::most"), "{refused}");
    let runtime = Runtime::new(Config { most: 1000, ..Config::default() });
    assert_eq!(runtime.run(|| spawn(|| 6 * 7).join().unwrap()).unwrap(), 42);
}
