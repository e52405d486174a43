#![doc = include_str!("../README.md")]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests write files as they like"))]
#![forbid(unsafe_code)]

mod adoption;
mod advisory_lock;
mod agent;
mod behaviour;
pub mod claim;
mod hint;
mod lowering;
mod mechanisms;
mod memory;
mod page;
pub mod pds;
pub mod placement;
pub mod pmi;
pub mod pmix;
mod priority;
mod process_list;
pub mod processes;
mod queue;
pub mod ranks;
mod restraint;
mod service_thread;
mod state;
mod switcher;
mod table;
pub mod topology;
mod turn_use;
mod versions;

pub use adoption::{CannotAdopt, Program, own_ancestors};
pub use agent::{Agent, AgentError};
pub use lowering::{CannotLower, find_lower_mechanism};
pub use mechanisms::{Obstacle, find_stop_mechanism};
pub use queue::Waiting;
pub use restraint::{Hint, LowerBy, StopBy, StopChoice, StopMechanism};
pub use state::{Client, Entering, Job, SLICES, ShareError, State, StateError, stolen};
pub use table::{Delay, Measured, Quantiles, Table, TableError, Times, VARIABLE, place};
pub use wait::now;
