//! A debugger that holds a rank of a job.

use testing::Child;

use crate::prun::{SPIN, Table, cpu, ranks, state, until};

/// A program that attaches itself to a process by ptrace, and detaches itself at a line of input.
fn hold(perl: &std::ffi::OsStr, process: u32) -> Child {
    let call = if cfg!(target_arch = "x86_64") { 101 } else { 117 };
    // PTRACE_ATTACH, and PTRACE_DETACH. A stop is waited for as that of a clone, too.
    let script = format!(
        "$| = 1; syscall({call}, 16, {process}, 0, 0) == 0 or die qq($!\n); waitpid({process}, 0x40000000);
         print qq(held\n); <STDIN>; syscall({call}, 17, {process}, 0, 0) == 0 or die $!; print qq(released\n)"
    );
    Child::start_piped(testing::command(perl).args(["-e", &script]))
}

#[test]
fn a_rank_that_a_debugger_holds_is_left_alone_and_then_takes_turns_again() {
    let Some(perl) = testing::tool("PERL", "perl") else { return };
    let table = Table::new();
    let strict = ["-n", "2", "--cpus", cpu(), "--how", "strict", "--slice", "5 ms", "--mechanism", "signals"];
    let [first, second] = [0, 1].map(|_| table.start(&strict, SPIN));
    until(|| [&first, &second].iter().all(|prun| ranks(prun.id()).len() == 2));
    let [held, beside] = <[u32; 2]>::try_from(ranks(first.id())).unwrap();
    let other = ranks(second.id())[0];
    let until_stopped = |rank: u32, is_stopped: bool| until(|| (state(rank) == Some('T')) == is_stopped);
    for was_stopped in [false, true, false, true] {
        // It may change before the debugger is there: any moment must do.
        until_stopped(held, was_stopped);
        let mut debugger = hold(&perl, held);
        assert_eq!(debugger.read_line(), "held");
        for _ in 0..3 {
            for rank in [beside, other] {
                for is_stopped in [true, false] {
                    until_stopped(rank, is_stopped);
                    assert_eq!(state(held), Some('t'));
                }
            }
        }
        debugger.write_line("");
        debugger.wait().expect_success().expect_stdout("released\n");
        for _ in 0..3 {
            until_stopped(held, true);
            until_stopped(held, false);
        }
    }
    for prun in [first, second] {
        prun.send(15);
        prun.wait().expect_signal(15);
    }
    table.expect_gone();
}
