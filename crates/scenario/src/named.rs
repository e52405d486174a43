//! Enumerations whose values have names in scenario files.

/// Defines an enumeration, with a name for each value.
macro_rules! named_enum {
    ($(#[$meta:meta])* pub enum $type:ident { $($(#[$value_meta:meta])* $value:ident = $name:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $type {
            $($(#[$value_meta])* $value,)+
        }

        impl $type {
            /// All values, in the order of the documentation.
            pub const ALL: [$type; [$($name),+].len()] = [$($type::$value),+];
            /// Their names.
            pub(crate) const NAMES: [&str; $type::ALL.len()] = [$($name),+];

            /// The name in scenario files.
            pub const fn name(self) -> &'static str {
                $type::NAMES[self as usize]
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

named_enum! {
    /// A kernel scheduler of the simulator.
    pub enum Scheduler {
        /// First in, first out: the real-time policy with one priority, without a quantum or
        /// preemption.
        Fifo = "fifo",
        /// Round robin: one queue and a quantum. A woken thread preempts no other, and no thread
        /// prefers a CPU.
        Rr = "rr",
        /// Linux 2.2 to 2.4: one queue, epochs, goodness.
        Linux24 = "linux-2.4",
        /// Linux 2.6 before 2.6.23: a queue for each CPU, priorities, active and expired threads.
        LinuxO1 = "linux-o1",
        /// Linux 2.6.23 to 6.5: the completely fair scheduler.
        Cfs = "cfs",
        /// Linux since 6.6: earliest eligible virtual deadline first.
        Eevdf = "eevdf",
        /// A multi-level feedback queue for all CPUs: threads that compute for long move down.
        Feedback = "feedback",
    }
}

impl Scheduler {
    /// Whether every ready thread runs eventually, independent of the others. Not without
    /// preemption: there, threads that compute or spin without end keep the others from running.
    pub const fn shares_time(self) -> bool {
        !matches!(self, Scheduler::Fifo)
    }

    /// Whether a timer interrupts each CPU periodically.
    pub const fn ticks(self) -> bool {
        !matches!(self, Scheduler::Fifo | Scheduler::Rr | Scheduler::Feedback)
    }

    /// Whether it heeds the nice values of threads.
    pub const fn has_priorities(self) -> bool {
        !matches!(self, Scheduler::Fifo | Scheduler::Rr | Scheduler::Feedback)
    }
}

named_enum! {
    /// The order of events if a spin ends in the very step of the arrival that it waits for.
    #[derive(Default)]
    pub enum Tie {
        /// The arrival: the spin has succeeded.
        #[default]
        Arrive = "arrive",
        /// The end of the spin: it has failed.
        Timeout = "timeout",
    }
}

named_enum! {
    /// When the CPUs of a kernel tick, in relation to each other and to the beginning of the run.
    #[derive(Default)]
    pub enum TickPhase {
        /// All together, at multiples of the period from the beginning of the run.
        Zero = "zero",
        /// All together, at a moment that is drawn: Linux, unless it is told otherwise.
        #[default]
        Common = "common",
        /// Each a part of half a period after the one before, the first at a moment that is drawn:
        /// Linux with `skew_tick=1`.
        Skewed = "skewed",
        /// Each at a moment of its own that is drawn.
        Drawn = "drawn",
    }
}

named_enum! {
    /// How the arrivals at a barrier are counted, if cache lines take time.
    #[derive(Default)]
    pub enum Arrivals {
        /// As `policy::arrival` chooses by the size of the team, like the library.
        #[default]
        BySize = "by-size",
        /// By one counter.
        Counter = "counter",
        /// By a tree of counters.
        Tree = "tree",
    }
}

named_enum! {
    /// How running time is charged.
    #[derive(Default)]
    pub enum Accounting {
        /// Exactly, to the step.
        #[default]
        Exact = "exact",
        /// A whole tick to the thread that runs when the timer interrupts.
        Tick = "tick",
    }
}

named_enum! {
    /// The paper's classes of computation: nine intervals in ten are shorter than one CS (fine),
    /// five (medium) or twenty (coarse), and the standard deviation is a tenth of the mean. Source:
    /// Tsafrir and Feitelson, section 2.1.
    pub enum Granularity {
        /// Nine in ten shorter than CS.
        Fine = "fine",
        /// Nine in ten shorter than 5 CS.
        Medium = "medium",
        /// Nine in ten shorter than 20 CS.
        Coarse = "coarse",
    }
}

named_enum! {
    /// The stages that have threads of their own, unless stated otherwise.
    #[derive(Default)]
    pub enum Structure {
        /// Those that block. Computations run on workers, as many as there are CPUs.
        #[default]
        Workers = "workers",
        /// All.
        Threads = "threads",
    }
}
