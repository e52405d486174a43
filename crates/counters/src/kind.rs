//! Kinds of waits, and the reasons for passing them through.

/// Defines an enumeration whose values have a name in machine-readable reports, and a text in
/// human-readable ones, which the method of this name returns.
macro_rules! named {
    (
        $(#[$meta:meta])* $type:ident, $text:ident {
            $($(#[$value_meta:meta])* $value:ident: $name:literal, $words:literal,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(usize)]
        pub enum $type {
            $($(#[$value_meta])* $value,)+
        }

        impl $type {
            /// All values, in the order of reports and of their numbers.
            pub const ALL: [$type; [$($name),+].len()] = [$($type::$value),+];

            /// Its name in machine-readable reports.
            pub const fn name(self) -> &'static str {
                [$($name),+][self as usize]
            }

            /// Its text in human-readable reports.
            pub const fn $text(self) -> &'static str {
                [$($words),+][self as usize]
            }
        }
    };
}

named! {
    /// The kind of object or call that a program waits at.
    WaitKind, title {
        /// `pthread_barrier_wait`.
        Barrier: "pthread_barrier", "pthread barriers",
        /// `pthread_mutex_lock`.
        Mutex: "pthread_mutex", "pthread mutexes",
        /// `pthread_cond_wait`.
        Condition: "pthread_cond", "condition variables",
        /// `sem_wait`.
        Semaphore: "semaphore", "semaphores",
        /// OpenMP barriers in programs compiled by gcc.
        Gomp: "openmp_gcc", "OpenMP barriers (gcc)",
        /// OpenMP barriers in programs compiled by clang.
        Libomp: "openmp_clang", "OpenMP barriers (clang)",
        /// MPI calls that wait.
        Mpi: "mpi", "MPI calls",
        /// `sched_yield` in the polling loop of a run-time system.
        Yield: "sched_yield", "yields",
    }
}

named! {
    /// The reason for passing a wait or an object through to the real symbol.
    Reason, text {
        /// The object is shared with other processes.
        ProcessShared: "process_shared", "shared with other processes",
        /// The mutex is recursive, error-checking, robust, or inherits priority.
        MutexKind: "kind", "with special semantics (recursive, error-checking, robust, priority)",
        /// There are more objects than the library tracks.
        TooMany: "too_many", "more than can be tracked",
        /// There is no memory for a new object.
        Memory: "memory", "memory is short",
        /// The program has OpenMP tasks, which waiting threads must execute.
        Tasks: "tasks", "the program has OpenMP tasks, which waiting threads execute",
        /// The program cancels OpenMP regions.
        Cancellation: "cancellation", "the program cancels OpenMP regions",
        /// The team was started in a way that the library did not see.
        UnknownTeam: "unknown_team", "of a team whose start was not observed",
        /// The program has its own OpenMP tool.
        Tool: "tool", "the program has its own OpenMP tool",
        /// The real library lacks a function that would be needed.
        Library: "library", "the library lacks a required function",
        /// Functions of the program are involved: error handlers, or requests that it completes
        /// itself.
        Program: "program", "functions of the program are involved (error handlers, its own requests)",
        /// The call computes, and another algorithm could do so in another order.
        Order: "order", "reductions (such as MPI_Allreduce): another algorithm could compute in another order",
        /// Some ranks may wait in another way.
        Ranks: "ranks", "some ranks may wait in another way",
        /// A library was loaded with `RTLD_DEEPBIND` or into its own namespace, so that it prefers
        /// the functions of the C library.
        DeepBinding: "deep_binding", "a library was loaded so that it calls the C library itself",
    }
}
