//! Processes that fibers start, and the end of their own.

use std::process::Command;

use rowlock_fiber::{sleep, spawn};

use crate::adversary::case::{alone, elsewhere, hasty, hazard};

#[test]
fn children_of_a_fork_continue_with_their_memory() {
    alone(|| {
        hazard(|who, round| {
            let kept = vec![who as u8; 1_000];
            let code = ((who * 16 + round) % 100) as i32;
            // SAFETY: the child only allocates memory, for which the C library provides, and ends.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let copies: Vec<_> = (0..50).map(|_| kept.clone()).collect();
                let right = copies.iter().flatten().all(|byte| *byte == who as u8);
                unsafe { libc::_exit(if right { code } else { 111 }) };
            }
            assert!(child > 0);
            let mut status = 0;
            // SAFETY: there is room for the status.
            while unsafe { libc::waitpid(child, &raw mut status, 0) } == -1 {
                assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EINTR));
            }
            assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == code, "{status:#x}");
        });
    });
}

#[test]
fn commands_run_and_their_output_is_read() {
    alone(|| {
        hazard(|who, round| {
            let text = format!("{who} {round}");
            // The standard library's own code must be interrupted here, so no helper is used.
            let output = Command::new("sh").args(["-c", "echo \"$0\"; exit 3", &text]).output().unwrap();
            assert_eq!(output.status.code(), Some(3));
            assert_eq!(String::from_utf8(output.stdout).unwrap().trim_end(), text);
        });
    });
}

#[test]
fn a_fiber_ends_the_process_while_others_allocate_and_print() {
    let output = elsewhere(|| {
        hasty(2)
            .run(|| {
                for who in 0..6_u64 {
                    let busy = move || {
                        loop {
                            println!("{}", who.to_string().repeat(200));
                        }
                    };
                    spawn(busy).detach();
                }
                spawn(|| {
                    sleep(std::time::Duration::from_millis(20));
                    std::process::exit(42);
                })
                .join()
            })
            .unwrap()
            .unwrap();
    });
    if let Some(output) = output {
        output.expect_exit(42);
    }
}
