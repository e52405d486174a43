//! `rowlock pds`: one table for the jobs of all users.
//!
//! Without it, each user has a table, and jobs of different users take no turns together. With it,
//! root has the table. A `prun` asks for its turns over a Unix socket, and for each that asks, pds
//! starts a process that is the agent of its job, as a `prun` is in a table of one user. That
//! process serves this one connection.
//!
//! # What root does, and what it does not
//!
//! The user's own `prun` starts the ranks. So they have the user's rights, groups, limits, umask,
//! folder, environment and terminal, not because root has set them, but because no other process
//! than the user's was there. Root opens no file that a user names, executes nothing for a user,
//! gets no environment and no descriptors. All it does for a user is:
//!
//! * It decides whose turn it is. That costs others CPU time: as much as the jobs of a user may
//!   have.
//! * It sends SIGSTOP and SIGCONT, to descendants of the job's keepers. A keeper must be a child of
//!   the process that asks. A process is stopped only if the kernel would let the user do so (its
//!   real or saved user id is the user's), and continued only if it was stopped by us. So a
//!   program with more rights, such as `sudo`, is not stopped, however it became a descendant,
//!   unless it gets them just then (see "What remains"). All others the user could stop without
//!   pds.
//! * It tells the table, with the commands of the user's own jobs only.
//!
//! Signals to a job are not among it: `rowlock kill` sends them itself, as its user.
//!
//! # What an attacker can try
//!
//! | a user | then |
//! |---|---|
//! | sends nonsense, too much, or an unknown version | it gets a sentence, and the connection ends
//! |
//! | sends nothing, or a byte from time to time | the connection ends after some seconds: a message
//! has a deadline as a whole |
//! | opens many connections | each is a process of its own; a user has a limited number of them,
//! and so have all users |
//! | takes other user ids, as by `/etc/subuid` | they have the connections and the pace of one
//! user, all together |
//! | is refused without end | a line of the log each second says how often |
//! | connects or calls without end | connections and calls of a user have a pace, all together,
//! changes of jobs a slower one, and a change to what is so already is none |
//! | makes an agent fail | it serves that job alone: another agent switches the other jobs, and its
//! successor lets the job's processes run |
//! | names processes of others as keepers | they are refused; if an id is used again, the user
//! decides (see above) |
//! | exits, so that its id is used by another process | it gets no job: the process with this id
//! must be one of the user |
//! | has many jobs, ranks or processes, or large weights | the jobs, the weights, and the processes
//! that are stopped are limited for all jobs of a user (`state/shares.rs`); other processes are not
//! stopped |
//! | has two jobs for the same processes | a process has one job, and its keepers are its children
//! |
//! | asks for long turns | pds alone says how long turns are |
//! | names a job of another user | it is refused, except for root |
//! | asks for turns along with a job of another | it is refused, since that job would lose time |
//! | waits for memory or cells that it never gets | only the user's own jobs wait behind it |
//! | starts processes or threads without end | to list them, its agent takes up to one CPU: see
//! below |
//! | reads the folder of the table | only root can |
//! | listens in place of pds | a client talks to root only, or to itself |
//!
//! # What remains
//!
//! A process that gets more rights just between the look at it and SIGSTOP is stopped until the
//! next turn of its job. Each process of a job takes some 50 us at both ends of its turn, so a user
//! with as many as are allowed delays each turn of another by some milliseconds.
//!
//! An agent lists the processes of its job at the priority at which it switches, and switches again
//! when there are new ones. So a job that starts processes or threads without end keeps up to one
//! CPU busy at a real-time priority, in its turns. Memory that a running job has claimed is not
//! there for the claims of others, whether it is used or not, and a job that has all cells keeps
//! the jobs of others that wait for them. A job that is held and let go again and again gets
//! turns before its time, up to a tenth of the time: changes have a pace (of a second at most, so
//! long turns help more). So does a user who starts job after job. Each user id that a user may
//! take, as by `/etc/subuid`, has a share, but all of them have no more jobs than connections of
//! one user. Users whose ids are from other places than this file, as by a service of names, are
//! counted one by one.
//!
//! # What happens when a process dies
//!
//! | killed | then |
//! |---|---|
//! | pds | the agents of running jobs go on, in sessions of their own, and a new pds uses the same
//! table |
//! | the agent of a job | its successor and other agents let the processes run, and the job leaves
//! the table; it goes on without turns, and `prun` says so at once |
//! | `prun` | its ranks end with it, and the connection: the job leaves the table |

/// The path of the socket, unless another one is named.
pub const SOCKET: &str = "/run/rowlock/pds.socket";

mod account;
mod choice;
mod client;
mod message;
mod pace;
mod patient;
mod service;

pub use account::account;
pub use choice::{JobTable, OwnTable};
pub use client::{Client, PdsError, Served};
pub use message::{Change, JobRequest, VERSION};
pub use pace::Pace;
pub use service::{CONNECTION_LIMIT, Peer, ServiceError, Surroundings, TOTAL_LIMIT, refuse, serve};
