//! Kinds of waits, and the reasons for passing them through.

/// The kind of object or call that a program waits at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(usize)]
pub enum WaitKind {
    /// `pthread_barrier_wait`.
    Barrier,
    /// `pthread_mutex_lock`.
    Mutex,
    /// `pthread_cond_wait`.
    Condition,
    /// `sem_wait`.
    Semaphore,
    /// OpenMP barriers in programs compiled by gcc.
    Gomp,
    /// OpenMP barriers in programs compiled by clang.
    Libomp,
    /// MPI calls that wait.
    Mpi,
    /// `sched_yield` in the polling loop of a run-time system.
    Yield,
}

impl WaitKind {
    /// All kinds, in the order of reports.
    pub const ALL: [WaitKind; 8] = [
        WaitKind::Barrier,
        WaitKind::Mutex,
        WaitKind::Condition,
        WaitKind::Semaphore,
        WaitKind::Gomp,
        WaitKind::Libomp,
        WaitKind::Mpi,
        WaitKind::Yield,
    ];

    /// Its name in machine-readable reports.
    pub const fn name(self) -> &'static str {
        match self {
            WaitKind::Barrier => "pthread_barrier",
            WaitKind::Mutex => "pthread_mutex",
            WaitKind::Condition => "pthread_cond",
            WaitKind::Semaphore => "semaphore",
            WaitKind::Gomp => "openmp_gcc",
            WaitKind::Libomp => "openmp_clang",
            WaitKind::Mpi => "mpi",
            WaitKind::Yield => "sched_yield",
        }
    }

    /// Its name in human-readable reports.
    pub const fn title(self) -> &'static str {
        match self {
            WaitKind::Barrier => "pthread barriers",
            WaitKind::Mutex => "pthread mutexes",
            WaitKind::Condition => "condition variables",
            WaitKind::Semaphore => "semaphores",
            WaitKind::Gomp => "OpenMP barriers (gcc)",
            WaitKind::Libomp => "OpenMP barriers (clang)",
            WaitKind::Mpi => "MPI calls",
            WaitKind::Yield => "yields",
        }
    }
}

/// The reason for passing a wait or an object through to the real symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(usize)]
pub enum Reason {
    /// The object is shared with other processes.
    ProcessShared,
    /// The mutex is recursive, error-checking, robust, or inherits priority.
    MutexKind,
    /// There are more objects than the library tracks.
    TooMany,
    /// The program has OpenMP tasks, which waiting threads must execute.
    Tasks,
    /// The program cancels OpenMP regions.
    Cancellation,
    /// The team was started in a way that the library did not see.
    UnknownTeam,
    /// The program has its own OpenMP tool.
    Tool,
    /// The real library lacks a function that would be needed.
    Library,
    /// Functions of the program are involved: error handlers, or requests that it completes itself.
    Program,
    /// The call computes, and another algorithm could do so in another order.
    Order,
    /// Some ranks may wait in another way.
    Ranks,
    /// A library was loaded with `RTLD_DEEPBIND` or into its own namespace, so that it prefers
    /// the functions of the C library.
    DeepBinding,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Reason; 12] = [
        Reason::ProcessShared,
        Reason::MutexKind,
        Reason::TooMany,
        Reason::Tasks,
        Reason::Cancellation,
        Reason::UnknownTeam,
        Reason::Tool,
        Reason::Library,
        Reason::Program,
        Reason::Order,
        Reason::Ranks,
        Reason::DeepBinding,
    ];

    /// Its name in machine-readable reports.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::ProcessShared => "process_shared",
            Reason::MutexKind => "kind",
            Reason::TooMany => "too_many",
            Reason::Tasks => "tasks",
            Reason::Cancellation => "cancellation",
            Reason::UnknownTeam => "unknown_team",
            Reason::Tool => "tool",
            Reason::Library => "library",
            Reason::Program => "program",
            Reason::Order => "order",
            Reason::Ranks => "ranks",
            Reason::DeepBinding => "deep_binding",
        }
    }

    /// Its explanation in human-readable reports.
    pub const fn text(self) -> &'static str {
        match self {
            Reason::ProcessShared => "shared with other processes",
            Reason::MutexKind => "with special semantics (recursive, error-checking, robust, priority)",
            Reason::TooMany => "more than can be tracked",
            Reason::Tasks => "the program has OpenMP tasks, which waiting threads execute",
            Reason::Cancellation => "the program cancels OpenMP regions",
            Reason::UnknownTeam => "of a team whose start was not observed",
            Reason::Tool => "the program has its own OpenMP tool",
            Reason::Library => "the library lacks a required function",
            Reason::Program => "functions of the program are involved (error handlers, its own requests)",
            Reason::Order => "reductions (such as MPI_Allreduce): another algorithm could compute in another order",
            Reason::Ranks => "some ranks may wait in another way",
            Reason::DeepBinding => "a library was loaded so that it calls the C library itself",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_are_listed_in_the_order_of_their_numbers() {
        assert!(WaitKind::ALL.iter().enumerate().all(|(number, &kind)| kind as usize == number));
        assert!(Reason::ALL.iter().enumerate().all(|(number, &reason)| reason as usize == number));
    }
}
