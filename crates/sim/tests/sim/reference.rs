//! A second simulator, slow and obvious, and the fast one held against it event by event.
//!
//! It goes through time step by step and looks at every CPU in every step. It has no queue of events, keeps no sorted list
//! and remembers nothing that it can find out by looking, so that it can be read beside the rules in the README, in the
//! documentation of the schedulers, and in appendix A of Tsafrir and Feitelson. It shares with the simulator what says how
//! much there is to compute ([`scenario::draw`]) and what a waiting rule decides ([`policy::waiting`]), and nothing else.
//!
//! * `world`: what there is to see: CPUs, threads, jobs.
//! * `machine`: what happens in a step, and in which order.
//! * `kernel`: what a scheduler is asked; `rr` (also for `fifo`), `linux_2_4` with `wakeup`, `linux_o1`, `cfs`, `eevdf` and `feedback` answer.
//! * `affinity`: who may run where.
//! * `events`: what happened, as a list; `compare`: two such lists.
//! * `settings`: random small machines and jobs; `properties`: that both simulators agree about them.

mod affinity;
mod cfs;
mod compare;
mod eevdf;
mod events;
mod feedback;
mod kernel;
mod linux_2_4;
mod linux_o1;
mod machine;
mod properties;
mod rr;
mod settings;
mod wakeup;
mod world;
