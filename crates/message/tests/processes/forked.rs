//! A rank forks: the child is not the rank, whatever it drops and when it ends.
#![allow(unsafe_code, reason = "a fork")]

use libtest_mimic::Trial;
use rowlock_message::Communicator;

use crate::killed::expect_lost;
use crate::rank::{Rank, listen, say, start};
use crate::trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("the_child_of_a_fork_drops_what_it_has_and_its_parent_stays_in_the_job", drops),
        trial("a_rank_that_dies_is_lost_although_the_child_of_its_fork_lives", outlives),
    ]
}

fn drops() {
    let (_memory, ranks) = start(3, |_| "fork".to_owned());
    ranks.into_iter().for_each(Rank::expect_success);
}

fn outlives() {
    let (_memory, mut ranks) = start(2, |rank| if rank == 1 { "fork-and-sleep" } else { "barrier" }.to_owned());
    let mut dying = ranks.pop().unwrap();
    assert_eq!(dying.read_line(), "ready");
    let pid = dying.pid();
    dying.kill();
    ranks.into_iter().for_each(|rank| expect_lost(rank, 1, pid));
    // The child ends with its standard input.
}

/// Forks children: one drops its copies of all that this rank has, and both end.
pub(crate) fn fork(world: &Communicator) {
    let (rank, ranks) = (world.rank(), world.ranks());
    let (next, before) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
    let window = world.window(1).unwrap();
    let request = world.ireceive::<u32>(before, 1).unwrap();
    let sent = world.isend(next, 1, vec![rank; 20_000]).unwrap();
    for is_dropping in [true, false] {
        // SAFETY: this process has one thread, so its child may do whatever it could do itself.
        match unsafe { libc::fork() } {
            0 => {
                if is_dropping {
                    // SAFETY: the original values are in the memory of the parent. The copies are
                    // dropped once, here, and what others borrow after them.
                    unsafe {
                        drop((std::ptr::read(&sent), std::ptr::read(&request), std::ptr::read(&window)));
                        drop(std::ptr::read(world));
                    }
                }
                // SAFETY: no preconditions.
                unsafe { libc::_exit(0) }
            }
            child => {
                assert!(child > 0, "no child");
                let mut status = 0;
                // SAFETY: the status is written to an integer of this frame.
                assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
                assert_eq!(status, 0);
            }
        }
    }
    let mut values = [0; 20_000];
    request.wait(&mut values).unwrap();
    assert_eq!(values, [before; 20_000]);
    assert_eq!(sent.wait().unwrap(), vec![rank; 20_000]);
    window.put(next, 0, &[7]).unwrap();
    window.fence().unwrap();
    assert_eq!(window.own()[0].load(std::sync::atomic::Ordering::Relaxed), 7);
}

/// Forks a child that lives longer than this rank.
pub(crate) fn fork_and_sleep() {
    // SAFETY: as above.
    if unsafe { libc::fork() } == 0 {
        say("ready");
    }
    listen();
}
