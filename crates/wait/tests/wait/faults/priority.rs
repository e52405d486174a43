//! Threads of different priorities that wait for each other.

use rustix::process::setpriority_process;

use super::placement::confine;
use super::workers::work;
use super::{skip, tests};
use crate::team::rules_that_block;

tests! {
    a_real_time_waiter_lets_a_normal_sibling_run_on_its_cpu => real_time_on_one_cpu,
    real_time_and_normal_threads_make_progress_on_two_cpus => || real_time(2),
    threads_of_all_nice_values_make_progress_on_one_cpu => nice,
}

/// Gives the calling thread a real-time priority.
fn become_real_time() -> std::io::Result<()> {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: the kernel reads the structure, which is valid.
    let result = unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_FIFO, &raw const priority) };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

fn real_time_on_one_cpu() {
    real_time(1);
}

/// Every second thread has a real-time priority.
fn real_time(cpus: usize) {
    if let Err(why) = sys::priorities::check_real_time() {
        return skip("real time", why);
    }
    confine(cpus);
    for rule in rules_that_block() {
        let begin = |number: u32| {
            if number.is_multiple_of(2) {
                become_real_time().unwrap();
            }
        };
        work(rule, 4, 60, begin, |_| ());
    }
}

fn nice() {
    match sys::priorities::best_nice() {
        Ok(..0) => {}
        Ok(best) => skip("nice values below zero", format!("the best allowed value is {best}")),
        Err(why) => return skip("nice values", why),
    }
    let best = sys::priorities::best_nice().unwrap();
    confine(1);
    for rule in rules_that_block() {
        // The best, the worst and some in between.
        work(rule, 8, 20, |number| setpriority_process(None, [best, 19, 0, 10][number as usize % 4]).unwrap(), |_| ());
    }
}
