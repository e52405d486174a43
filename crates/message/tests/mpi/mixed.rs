//! Random messages between all ranks: none is lost, doubled, misdelivered or torn.

use std::process::Command;

use rowlock_message::{Waiting, mpi};

use super::traffic::{RANKS, exchange};
use super::{is_open_mpi, run_all, run_by};

/// The number of messages of each rank. MPI takes much longer than rings do if ranks share CPUs.
const MESSAGES: u32 = 1_000;

#[test]
fn no_message_is_lost_doubled_misdelivered_or_torn() {
    for rule in ["adaptive", "always-block"] {
        run_by(RANKS, Waiting::by(rule.parse().unwrap()), |world| exchange(&world, 1, MESSAGES));
    }
}

/// Ranks on several machines talk by a network. Those of this test do it on one.
#[test]
fn messages_arrive_by_a_network_as_well() {
    let prepare = |command: &mut Command| {
        // MPICH does without shared memory then.
        command.env("MPIR_CVAR_NOLOCAL", "1");
        if is_open_mpi() {
            command.env("OMPI_MCA_btl", "tcp,self").env("OMPI_MCA_btl_tcp_if_include", "lo");
        }
    };
    run_all(RANKS, prepare, || exchange(&mpi::join(Waiting::default()).unwrap(), 2, MESSAGES));
}
