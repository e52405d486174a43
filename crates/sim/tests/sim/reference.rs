//! A second simulator, slow and simple, which is compared with the fast one event by event.
//!
//! It advances step by step and looks at every CPU in every step. It has no event queue, keeps no
//! sorted list, and stores nothing that it can find by looking. So it can be read beside the rules
//! in the README, in the documentation of the schedulers, and in appendix A of Tsafrir and
//! Feitelson. It shares with the simulator the draws of computations ([`scenario::draw`]) and the
//! decisions of waiting rules ([`policy::waiting`]), and nothing else.
//!
//! * `world`: the visible state: CPUs, threads, jobs.
//! * `machine`: the events of a step, and their order.
//! * `kernel`: the interface to a scheduler. Its implementations are `rr` (also for `fifo`),
//!   `linux_2_4` with `wakeup`, `linux_o1`, `cfs`, `eevdf` and `feedback`.
//! * `affinity`: which threads may run on which CPUs; `ticks`: when CPUs tick; `topology`: which
//!   CPUs are one core and one node; `waking`: on which CPU `cfs` and `eevdf` wake a thread;
//!   `load`: averages for them.
//! * `events`: the list of events; `compare`: compares two such lists.
//! * `settings`: random small machines and jobs; `properties`: both simulators agree about them.

mod affinity;
mod cfs;
mod compare;
mod counters;
mod eevdf;
mod events;
mod feedback;
mod kernel;
mod linux_2_4;
mod linux_o1;
mod load;
mod machine;
mod properties;
mod rr;
mod settings;
mod ticks;
mod topology;
mod wakeup;
mod waking;
mod world;
