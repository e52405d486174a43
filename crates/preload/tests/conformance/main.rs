//! The conformance lab: the replaced calls keep what POSIX, glibc, OpenMP and MPI promise, even if
//! a thread is preempted at any step.
//!
//! Each family of calls has a C program, whose cases print what they observe. A case runs without
//! the preloaded library, and with it by each rule, and the results must be equal. Destroyed
//! objects are overwritten, or their memory is protected, so that any later use shows.
//!
//! A *step* is an instruction of the preloaded library that accesses memory, except the stack, or
//! calls another library ([`steps`]). In each run threads sleep at one step whenever they reach it
//! (`naps.c`). Seeds take all cases, rules and steps in turn: a few in the gate, and in `./soak` as
//! many as there is time for. Results depend on no timing, but finding a defect does; `ROUNDS`
//! multiplies the rounds of a case.
//!
//! Without a compiler the tests pass with a note, unless `ROWLOCK_REQUIRE_CC` is set. Naps need
//! x86-64.
#![cfg(target_arch = "x86_64")]
#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot continue has failed")]

mod lab;
#[path = "../common/library.rs"]
mod library;
mod steps;

use std::collections::BTreeSet;

use crate::lab::{Family, Lab};

const CONDITIONS: Family = Family {
    source: "conditions",
    compiler: &["cc"],
    launcher: &[],
    calls: &["pthread_cond_wait", "pthread_cond_signal", "pthread_cond_broadcast"],
    promises: &[
        ("signals", &["signal_each", "signal_while_another_holds_the_mutex"]),
        (
            "destruction",
            &[
                "destroy_after_signal",
                "destroy_after_broadcast",
                "destroy_with_the_mutex",
                "destroy_with_many_waiters",
                "destroy_by_the_last_waiter",
                "destroy_the_mutex_after_a_wait",
            ],
        ),
        ("initialization again", &["reinitialize"]),
        ("cancellation", &["cancel", "cancel_before", "cancel_when_it_is_off", "cancel_and_signal"]),
        ("forks", &["fork_beside_waiters"]),
        ("signal handlers", &["interrupt", "signal_a_stopped_thread"]),
        ("deadlines", &["wait_with_deadlines"]),
        ("other processes", &["share", "share_only_the_condition_variable"]),
        ("initializers and attributes", &["attributes", "kinds_of_mutexes"]),
        ("errors", &["wait_without_the_mutex"]),
    ],
};

const SEMAPHORES: Family = Family {
    source: "semaphores",
    compiler: &["cc"],
    launcher: &[],
    calls: &["sem_wait"],
    promises: &[
        ("posts", &["each_post_lets_one_pass"]),
        ("destruction", &["destroy_after_a_wait"]),
        ("initialization again", &["reinitialize"]),
        ("cancellation", &["cancel", "cancel_before", "cancel_when_it_is_off"]),
        ("forks", &["fork_beside_waiters"]),
        ("signal handlers", &["interrupt"]),
        ("deadlines", &["wait_with_deadlines"]),
        ("other processes", &["share", "share_by_name"]),
        ("errors", &["errno_is_kept", "limits"]),
    ],
};

const MUTEXES: Family = Family {
    source: "mutexes",
    compiler: &["cc"],
    launcher: &[],
    calls: &["pthread_mutex_lock"],
    promises: &[
        ("exclusion", &["exclude"]),
        ("destruction", &["destroy_by_the_last_user"]),
        ("initialization again", &["reinitialize"]),
        ("cancellation", &["cancel"]),
        ("forks", &["fork_with_it"]),
        ("signal handlers", &["interrupt"]),
        ("other processes", &["share"]),
        ("attributes, deadlines and errors", &["kinds"]),
    ],
};

const BARRIERS: Family = Family {
    source: "barriers",
    compiler: &["cc"],
    launcher: &[],
    calls: &["pthread_barrier_init", "pthread_barrier_wait", "pthread_barrier_destroy"],
    promises: &[
        ("meetings", &["all_meet_and_one_leads", "teams_succeed_each_other"]),
        ("destruction", &["destroy_by_the_leader"]),
        ("initialization again", &["reinitialize"]),
        ("cancellation", &["cancel"]),
        ("forks", &["fork_beside_waiters", "fork_beside_the_first_waiter"]),
        ("signal handlers", &["interrupt"]),
        ("other processes", &["share"]),
        ("attributes and errors", &["limits"]),
    ],
};

const OTHERS: Family = Family {
    source: "others",
    compiler: &["cc", "-lm"],
    launcher: &[],
    calls: &["sched_yield", "dlopen", "dlmopen"],
    promises: &[
        ("yields", &["yield", "cancel"]),
        ("libraries", &["load", "errors"]),
        ("libraries that do not see the preloaded one", &["bind_deeply", "load_into_a_namespace"]),
    ],
};

const SANDBOXES: Family = Family {
    source: "sandboxes",
    compiler: &["cc"],
    launcher: &[],
    calls: &["prctl"],
    promises: &[
        ("filters", &["wait_behind_a_filter", "wait_on_behind_a_filter", "begin_behind_a_filter"]),
        ("the same without", &["wait_without_a_filter"]),
        ("results and errors", &["other_requests"]),
    ],
};

const INTERRUPTIONS: Family = Family {
    source: "interruptions",
    compiler: &["cc"],
    launcher: &[],
    calls: &[
        "epoll_wait",
        "epoll_pwait",
        "epoll_pwait2",
        "semop",
        "semtimedop",
        "sigwaitinfo",
        "sigtimedwait",
        "sigaction",
        "signal",
        "sysv_signal",
        "__sysv_signal",
    ],
    promises: &[
        ("results and errors", &["results"]),
        ("handlers", &["handlers", "handlers_end_calls", "handlers_leave_by_jumps"]),
        ("cancellation", &["cancel"]),
        ("forks", &["handle_in_a_child"]),
        (
            "the same in jobs of `rowlock prun`",
            &[
                "results_in_a_job",
                "handlers_in_a_job",
                "handlers_end_calls_in_a_job",
                "handlers_leave_by_jumps_in_a_job",
                "cancel_in_a_job",
                "handle_in_a_child_in_a_job",
            ],
        ),
    ],
};

const SOCKETS: Family = Family {
    source: "sockets",
    compiler: &["cc"],
    launcher: &[],
    calls: &[
        "recv",
        "__recv_chk",
        "recvfrom",
        "__recvfrom_chk",
        "recvmsg",
        "recvmmsg",
        "read",
        "__read_chk",
        "readv",
        "accept",
        "accept4",
        "send",
        "sendto",
        "sendmsg",
        "sendmmsg",
        "write",
        "writev",
        "connect",
        "setsockopt",
    ],
    promises: &[
        ("results and errors", &["results", "errors", "parts"]),
        ("handlers", &["handlers_end_calls", "handlers_leave_by_jumps"]),
        ("cancellation", &["cancel"]),
        (
            "the same in jobs of `rowlock prun`",
            &[
                "results_in_a_job",
                "errors_in_a_job",
                "parts_in_a_job",
                "handlers_end_calls_in_a_job",
                "handlers_leave_by_jumps_in_a_job",
                "cancel_in_a_job",
            ],
        ),
    ],
};

const GOMP_TEAMS: Family = Family {
    source: "openmp",
    compiler: &["gcc", "-fopenmp"],
    launcher: &[],
    calls: &["GOMP_parallel", "GOMP_barrier", "GOMP_loop_end", "GOMP_sections_end"],
    promises: &[
        ("meetings", &["all_meet", "loops_and_sections_end", "orphans_meet_nobody"]),
        ("teams", &["teams_succeed_each_other", "teams_are_nested", "roots_have_teams"]),
        ("forks", &["fork_after_teams"]),
        ("signal handlers", &["interrupt"]),
    ],
};

const GOMP_TASKS: Family = Family {
    source: "tasks",
    compiler: &["gcc", "-fopenmp"],
    launcher: &[],
    calls: &["GOMP_task", "GOMP_taskloop", "GOMP_taskloop_ull"],
    promises: &[
        ("tasks", &["tasks_end_at_barriers", "tasks_end_with_loops", "loops_become_tasks"]),
        ("cancellation", &["cancelled_threads_leave"]),
    ],
};

const LIBOMP_TEAMS: Family = Family {
    source: "openmp",
    compiler: &["clang", "-fopenmp"],
    launcher: &[],
    calls: &["__kmpc_barrier", "ompt_start_tool"],
    promises: &[
        ("meetings", &["all_meet", "loops_and_sections_end", "orphans_meet_nobody"]),
        ("teams", &["teams_succeed_each_other", "teams_are_nested", "roots_have_teams"]),
        ("forks", &["fork_after_teams"]),
        ("signal handlers", &["interrupt"]),
    ],
};

const LIBOMP_TASKS: Family = Family {
    source: "tasks",
    compiler: &["clang", "-fopenmp"],
    launcher: &[],
    calls: &["__kmpc_omp_task_alloc"],
    promises: &[
        ("tasks", &["tasks_end_at_barriers", "tasks_end_with_loops", "loops_become_tasks"]),
        ("cancellation", &["cancelled_threads_leave"]),
    ],
};

const MPICH: Family = Family {
    source: "mpi",
    compiler: &["mpicc.mpich"],
    launcher: &["taskset", "--cpu-list", "{cpu}", "mpirun.mpich", "-n", "2"],
    calls: &[
        "MPI_Init",
        "MPI_Init_thread",
        "MPI_Wait",
        "MPI_Waitall",
        "MPI_Waitany",
        "MPI_Waitsome",
        "MPI_Recv",
        "MPI_Sendrecv",
        "MPI_Probe",
        "MPI_Mprobe",
        "MPI_Comm_get_parent",
        "MPI_Send",
        "MPI_Ssend",
        "MPI_Rsend",
        "MPI_Barrier",
        "MPI_Bcast",
        "MPI_Gather",
        "MPI_Gatherv",
        "MPI_Scatter",
        "MPI_Scatterv",
        "MPI_Allgather",
        "MPI_Allgatherv",
        "MPI_Alltoall",
        "MPI_Alltoallv",
        "MPI_Alltoallw",
        "MPI_Grequest_start",
        "MPI_Comm_set_errhandler",
        "MPI_Errhandler_set",
        "MPI_Comm_spawn",
        "MPI_Comm_spawn_multiple",
        "MPI_Comm_accept",
        "MPI_Comm_connect",
        "MPI_Comm_join",
        "MPI_Reduce",
        "MPI_Allreduce",
        "MPI_Reduce_scatter",
        "MPI_Reduce_scatter_block",
        "MPI_Scan",
        "MPI_Exscan",
    ],
    promises: &[
        ("calls", &["all_calls", "vectors", "reductions"]),
        ("requests of the program", &["own_requests"]),
        ("ranks of other jobs", &["spawn", "connect", "join"]),
    ],
};

const OPEN_MPI: Family = Family {
    source: "mpi",
    compiler: &["mpicc.openmpi"],
    launcher: &[
        "taskset",
        "--cpu-list",
        "{cpu}",
        "mpirun.openmpi",
        "--allow-run-as-root",
        "--oversubscribe",
        "-n",
        "2",
    ],
    calls: &["opal_progress", "opal_progress_set_yield_when_idle"],
    promises: &[
        ("calls", &["all_calls", "vectors", "reductions"]),
        ("requests of the program", &["own_requests"]),
        ("ranks of other jobs", &["spawn", "connect", "join"]),
    ],
};

/// Runs a family for its seeds.
macro_rules! families {
    ($($(#[$attribute:meta])* fn $test:ident() of $family:ident;)*) => {
        const FAMILIES: &[&Family] = &[$(&$family),*];
        $(
            $(#[$attribute])*
            #[test]
            fn $test() {
                if let Some(lab) = Lab::open(&$family) {
                    testing::for_each_seed(lab.seeds(), |seed| lab.take(seed));
                }
            }
        )*
    };
}

families! {
    fn condition_variables_keep_their_promises() of CONDITIONS;
    fn semaphores_keep_their_promises() of SEMAPHORES;
    fn mutexes_keep_their_promises() of MUTEXES;
    fn barriers_keep_their_promises() of BARRIERS;
    fn yields_and_loaded_libraries_keep_their_promises() of OTHERS;
    fn sandboxes_keep_their_promises() of SANDBOXES;
    fn interrupted_calls_keep_their_promises() of INTERRUPTIONS;
    fn calls_on_sockets_keep_their_promises() of SOCKETS;
    fn teams_of_gcc_keep_their_promises() of GOMP_TEAMS;
    fn tasks_of_gcc_keep_their_promises() of GOMP_TASKS;
    #[ignore = "needs clang with OpenMP; `./check --full` runs it"]
    fn teams_of_clang_keep_their_promises() of LIBOMP_TEAMS;
    #[ignore = "needs clang with OpenMP; `./check --full` runs it"]
    fn tasks_of_clang_keep_their_promises() of LIBOMP_TASKS;
    #[ignore = "needs MPICH; `./check --full` runs it"]
    fn ranks_of_mpich_keep_their_promises() of MPICH;
    #[ignore = "needs Open MPI; `./check --full` runs it"]
    fn ranks_of_open_mpi_keep_their_promises() of OPEN_MPI;
}

/// Both names of a call of MPI execute the same code.
#[test]
fn each_replaced_call_has_a_family() {
    let Some(steps) = steps::of(library::preload()) else { return };
    let exported = steps.functions.keys().map(|name| name.strip_prefix('P').unwrap_or(name));
    let tested = FAMILIES.iter().flat_map(|family| family.calls).copied();
    assert_eq!(exported.collect::<BTreeSet<_>>(), tested.collect());
}
