//! A debugger that attaches and detaches.

use crate::adversary::case::{alone, hazard};

#[test]
#[ignore = "needs gdb, which .ci/setup-fiber installs on Debian"]
fn a_program_continues_after_a_debugger_has_inspected_it() {
    alone(|| {
        let me = std::process::id();
        // SAFETY: it only lets any process trace this one.
        unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::c_ulong::MAX) };
        let debugger = std::thread::spawn(move || {
            for _ in 0..3 {
                let mut gdb = testing::command("gdb");
                gdb.args(["--batch", "--nx", "-iex", "set debuginfod enabled off", "-p", &me.to_string()]);
                gdb.args(["-ex", "thread apply all bt 5", "-ex", "detach"]);
                testing::run(&mut gdb).expect_success().expect_stdout("detached");
            }
        });
        while !debugger.is_finished() {
            hazard(|who, round| {
                let all: Vec<Vec<u64>> = (0..20).map(|i| vec![who << 32 | round; 1 + i * 7]).collect();
                assert!(all.iter().flatten().all(|each| *each == who << 32 | round));
            });
        }
        debugger.join().unwrap();
    });
}
