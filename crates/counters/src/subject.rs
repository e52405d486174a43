//! What a program waits at, and why some of it is left as it is.

/// What a program waits at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(usize)]
pub enum Subject {
    /// `pthread_barrier_wait`.
    Barrier,
    /// `pthread_mutex_lock`.
    Mutex,
    /// `pthread_cond_wait`.
    Condition,
    /// `sem_wait`.
    Semaphore,
    /// Barriers in programs that gcc has compiled.
    Gomp,
    /// Barriers in programs that clang has compiled.
    Libomp,
    /// MPI's calls that wait.
    Mpi,
    /// `sched_yield` of a run-time system that looks again and again.
    Yield,
}

impl Subject {
    /// All of them, in the order in which they are reported.
    pub const ALL: [Subject; 8] = [
        Subject::Barrier,
        Subject::Mutex,
        Subject::Condition,
        Subject::Semaphore,
        Subject::Gomp,
        Subject::Libomp,
        Subject::Mpi,
        Subject::Yield,
    ];

    /// What it is called in reports for programs.
    pub const fn name(self) -> &'static str {
        match self {
            Subject::Barrier => "pthread_barrier",
            Subject::Mutex => "pthread_mutex",
            Subject::Condition => "pthread_cond",
            Subject::Semaphore => "semaphore",
            Subject::Gomp => "openmp_gcc",
            Subject::Libomp => "openmp_clang",
            Subject::Mpi => "mpi",
            Subject::Yield => "sched_yield",
        }
    }

    /// What it is called in reports for people.
    pub const fn title(self) -> &'static str {
        match self {
            Subject::Barrier => "pthread barriers",
            Subject::Mutex => "pthread mutexes",
            Subject::Condition => "condition variables",
            Subject::Semaphore => "semaphores",
            Subject::Gomp => "OpenMP barriers (gcc)",
            Subject::Libomp => "OpenMP barriers (clang)",
            Subject::Mpi => "MPI calls",
            Subject::Yield => "yields",
        }
    }
}

/// Why something is left to the original.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(usize)]
pub enum Reason {
    /// Other processes use it too.
    ProcessShared,
    /// A mutex that is recursive, checks for errors, is robust, or lends its priority.
    Kind,
    /// There are more of them than are looked after.
    TooMany,
    /// The program has OpenMP tasks, which are to be executed while a thread waits.
    Tasks,
    /// The program cancels OpenMP regions.
    Cancellation,
    /// It belongs to a team that was not seen to begin.
    UnknownTeam,
    /// There is a tool of the program's own.
    Tool,
    /// The library does not have what it would take.
    Library,
    /// Functions of the program's have a part in it: error handlers, or requests that it completes itself.
    Program,
    /// It computes, and another way could do so in another order.
    Order,
    /// There are ranks that may wait in another way.
    Ranks,
    /// A library was loaded so that it prefers the C library's functions: with `RTLD_DEEPBIND`, or into a namespace of its own.
    DeepBinding,
}

impl Reason {
    /// All of them.
    pub const ALL: [Reason; 12] = [
        Reason::ProcessShared,
        Reason::Kind,
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

    /// What it is called in reports for programs.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::ProcessShared => "process_shared",
            Reason::Kind => "kind",
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

    /// What it is in a report for people.
    pub const fn text(self) -> &'static str {
        match self {
            Reason::ProcessShared => "shared with other processes",
            Reason::Kind => "of a kind with rules of its own (recursive, error-checking, robust, priority)",
            Reason::TooMany => "more than are looked after at a time",
            Reason::Tasks => "the program has OpenMP tasks, which waiting threads execute",
            Reason::Cancellation => "the program cancels OpenMP regions",
            Reason::UnknownTeam => "of a team that was not seen to begin",
            Reason::Tool => "the program has an OpenMP tool of its own",
            Reason::Library => "the library lacks what it would take",
            Reason::Program => "functions of the program's have a part in it (error handlers, requests of its own)",
            Reason::Order => "reductions (MPI_Allreduce and the like): another way could compute in another order",
            Reason::Ranks => "there are ranks that may wait in another way",
            Reason::DeepBinding => "a library was loaded so that it calls the C library itself",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stands_at_its_number() {
        assert!(Subject::ALL.iter().enumerate().all(|(number, &subject)| subject as usize == number));
        assert!(Reason::ALL.iter().enumerate().all(|(number, &reason)| reason as usize == number));
    }
}
