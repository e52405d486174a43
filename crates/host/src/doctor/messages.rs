//! Findings about the needs of ranks that exchange messages.

use super::findings::Capability::Messages;
use super::findings::State::{No, Yes};
use super::findings::Verdict;
use super::probes::Probes;

pub(super) fn memory_reads(probes: &Probes) -> Verdict {
    let cost = "messages of rowlock that are longer than 16 KiB go through rings in parts, and are copied twice more";
    let reads = probes.memory_reads;
    if !reads.of_itself {
        return No
            .seen("a filter of system calls, or the kernel, refuses process_vm_readv")
            .costs(Messages, cost)
            .remedy(
                "allow process_vm_readv in the filter that this program runs under (docker run --cap-add SYS_PTRACE)",
            );
    }
    match reads.scope {
        Some(scope @ 3..) => No
            .seen(format!("no process may read the memory of another one (kernel.yama.ptrace_scope={scope})"))
            .costs(Messages, cost)
            .remedy("boot with another value of kernel.yama.ptrace_scope: this one is final"),
        Some(scope @ 1..) if !reads.is_privileged => No
            .seen(format!("ranks may not read each other's memory (kernel.yama.ptrace_scope={scope})"))
            .costs(Messages, cost)
            .remedy(
                "sysctl kernel.yama.ptrace_scope=0 (root), which lets all processes of a user read each other's memory",
            ),
        _ => Yes.seen("ranks read long messages from each other's memory, by process_vm_readv"),
    }
}

pub(super) fn pmix(probes: &Probes) -> Verdict {
    match &probes.pmix {
        Ok(version) => Yes.seen(format!("{version} is there: rowlock prun starts programs of Open MPI")),
        Err(why) => No
            .seen(why)
            .costs(
                Messages,
                "programs of Open MPI need mpirun: under rowlock prun, each rank takes itself for the only one",
            )
            .remedy("install libpmix2 (Debian, Ubuntu) or pmix (Fedora), of version 4 to 6"),
    }
}
