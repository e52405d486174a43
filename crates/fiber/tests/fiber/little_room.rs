//! A process with little address space.

use rowlock_fiber::{Builder, Config, RunError, Runtime, SpawnError, spawn};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// How many bytes of address space this process uses.
fn used() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
    kib << 10
}

/// Calls a function with this many more bytes of address space at most.
pub(crate) fn with_room<T>(bytes: u64, then: impl FnOnce() -> T) -> T {
    let before = getrlimit(Resource::As);
    setrlimit(Resource::As, Rlimit { current: Some(used() + bytes), maximum: before.maximum }).unwrap();
    let result = then();
    setrlimit(Resource::As, before).unwrap();
    result
}

/// Spawns fibers that do nothing until there is no room for another. Returns how many there are,
/// including the first, and the error.
fn fill() -> (u32, SpawnError) {
    let mut many = 1;
    loop {
        match Builder::new().spawn(|| ()) {
            Ok(handle) => handle.detach(),
            Err(error) => return (many, error),
        }
        many += 1;
    }
}

#[test]
fn without_room_for_the_maximum_there_may_be_fewer_fibers_and_the_error_tells_how_many() {
    testing::isolated(|| {
        // None of these has a turn while others are spawned.
        let mut config = Config::default();
        config.rules.running_time = policy::Span::from_millis(1 << 30);
        let (many, error) = with_room(48 << 20, || Runtime::new(config.clone()).run(fill)).unwrap();
        let SpawnError::TooMany { most } = error else { panic!("{error}") };
        assert_eq!(many, most);
        assert!(most.is_power_of_two() && (1 << 12..1 << 18).contains(&most), "{most}");
        assert!(error.to_string().contains(&format!("room for {most} fibers")), "{error}");

        // A program that asks for few gets them.
        let runtime = Runtime::new(Config { most: 1000, ..config.clone() });
        let (many, error) = with_room(48 << 20, || runtime.run(fill)).unwrap();
        assert!(many == 1000 && matches!(error, SpawnError::TooMany { most: 1000 }), "{error}");

        let refused = with_room(0, || Runtime::new(config.clone()).run(|| ())).unwrap_err();
        assert!(matches!(refused, RunError::Spawn(SpawnError::Room { most: 4096, .. })), "{refused}");
        assert!(refused.to_string().contains("ulimit -v"), "{refused}");
        assert_eq!(Runtime::new(config).run(|| spawn(|| 6 * 7).join().unwrap()).unwrap(), 42);
    });
}
