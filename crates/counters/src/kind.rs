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
    pub const ALL: [WaitKind; 8] = {
        use WaitKind::*;
        [Barrier, Mutex, Condition, Semaphore, Gomp, Libomp, Mpi, Yield]
    };

    /// Its name in machine-readable reports, and in human-readable ones.
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            WaitKind::Barrier => ("pthread_barrier", "pthread barriers"),
            WaitKind::Mutex => ("pthread_mutex", "pthread mutexes"),
            WaitKind::Condition => ("pthread_cond", "condition variables"),
            WaitKind::Semaphore => ("semaphore", "semaphores"),
            WaitKind::Gomp => ("openmp_gcc", "OpenMP barriers (gcc)"),
            WaitKind::Libomp => ("openmp_clang", "OpenMP barriers (clang)"),
            WaitKind::Mpi => ("mpi", "MPI calls"),
            WaitKind::Yield => ("sched_yield", "yields"),
        }
    }

    /// Its name in machine-readable reports.
    pub const fn name(self) -> &'static str {
        self.names().0
    }

    /// Its name in human-readable reports.
    pub const fn title(self) -> &'static str {
        self.names().1
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
    pub const ALL: [Reason; 12] = {
        use Reason::*;
        [
            ProcessShared,
            MutexKind,
            TooMany,
            Tasks,
            Cancellation,
            UnknownTeam,
            Tool,
            Library,
            Program,
            Order,
            Ranks,
            DeepBinding,
        ]
    };

    /// Its name in machine-readable reports, and its explanation in human-readable ones.
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Reason::ProcessShared => ("process_shared", "shared with other processes"),
            Reason::MutexKind => ("kind", "with special semantics (recursive, error-checking, robust, priority)"),
            Reason::TooMany => ("too_many", "more than can be tracked"),
            Reason::Tasks => ("tasks", "the program has OpenMP tasks, which waiting threads execute"),
            Reason::Cancellation => ("cancellation", "the program cancels OpenMP regions"),
            Reason::UnknownTeam => ("unknown_team", "of a team whose start was not observed"),
            Reason::Tool => ("tool", "the program has its own OpenMP tool"),
            Reason::Library => ("library", "the library lacks a required function"),
            Reason::Program => ("program", "functions of the program are involved (error handlers, its own requests)"),
            Reason::Order => {
                ("order", "reductions (such as MPI_Allreduce): another algorithm could compute in another order")
            }
            Reason::Ranks => ("ranks", "some ranks may wait in another way"),
            Reason::DeepBinding => ("deep_binding", "a library was loaded so that it calls the C library itself"),
        }
    }

    /// Its name in machine-readable reports.
    pub const fn name(self) -> &'static str {
        self.names().0
    }

    /// Its explanation in human-readable reports.
    pub const fn text(self) -> &'static str {
        self.names().1
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
