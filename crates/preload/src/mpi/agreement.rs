//! Who of a job's ranks has this library: where all have, they may agree to do a collective call in another way.
//!
//! A barrier that is waited for in steps is another one to the message library than a barrier that is not, and the two never meet: if one
//! rank did this and another that, they would wait for ever. So either all ranks do it or none, and that is settled once.
//!
//! # The protocol
//!
//! The agreement is a file in shared memory, named for the launcher that the ranks have in common.
//!
//! 1. A rank *signs*, before it initialises the message library: it makes the file, or opens it where it is there, maps it, and counts itself.
//! 2. When the message library is initialised, the rank knows how many ranks there are, and *settles*: where nobody has said anything before, it
//!    says yes if all have signed, and no if not. Where somebody has, it does as that one said.
//!
//! What is said first holds, as one compare-and-exchange sees to it. Yes is said only when all ranks have signed the same file: they all
//! have it in memory, whatever becomes of its name, and will all read yes there. Whoever hears no, or has no agreement, keeps to the original: a rank that
//! has not signed never comes to a yes, since then not all have. On several machines nobody has all signatures, so the answer is no.
//!
//! Who has said the word removes the name, so nothing is left when the job ends. A rank that comes later makes a new file, in which
//! not all will have signed.

use std::fs::{self, OpenOptions};
use std::num::NonZeroUsize;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

use sys::shared_memory::{Mapping, View};

/// What was said: nothing yet, that all have signed, or that not all have.
const OPEN: u64 = 0;
const YES: u64 = 1;
const NO: u64 = 2;

/// How launchers call what starts the ranks on a machine. Between it and a rank there may be shells.
const LAUNCHERS: [&str; 8] =
    ["hydra_pmi_proxy", "hydra_pmi_prox", "pmi_proxy", "orted", "prted", "mpirun", "mpiexec", "slurmstepd"];

/// How far up a launcher is looked for.
const GENERATIONS: usize = 8;

const LENGTH: usize = 2 * size_of::<AtomicU64>();

/// The agreement of this job, signed by this process.
pub(crate) struct Agreement {
    path: PathBuf,
    signatures: View<AtomicU64>,
    answer: View<AtomicU64>,
}

impl Agreement {
    /// Signs the agreement of the job that this process belongs to. Nothing where there can be none.
    pub(crate) fn sign() -> Option<Agreement> {
        let (launcher, started) = launcher()?;
        // SAFETY: no preconditions.
        let user = unsafe { libc::geteuid() };
        Agreement::sign_at(Path::new(&format!("/dev/shm/rowlock-ranks-{user}-{launcher}-{started}")))
    }

    fn sign_at(path: &Path) -> Option<Agreement> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        let file = options.open(path).ok()?;
        // SAFETY: no preconditions.
        let user = unsafe { libc::geteuid() };
        // Another user's file may become shorter at any time.
        file.metadata().ok().filter(|file| file.uid() == user && file.is_file())?;
        // Who writes to a part of a file for which there is no room is killed.
        // SAFETY: the descriptor is open.
        (unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, LENGTH as libc::off_t) } == 0).then_some(())?;
        let mapping = Mapping::new(&file, NonZeroUsize::new(LENGTH)?).ok()?;
        let agreement = Agreement {
            path: path.to_owned(),
            signatures: mapping.get(0)?,
            answer: mapping.get(size_of::<AtomicU64>())?,
        };
        agreement.signatures.fetch_add(1, AcqRel);
        Some(agreement)
    }

    /// Whether all of so many ranks have signed: the same answer for everybody, and for good. `also` is what else must be so.
    pub(crate) fn settle(self, ranks: u32, also: bool) -> bool {
        let all = self.signatures.load(Acquire) == u64::from(ranks);
        let own = if all && also { YES } else { NO };
        match self.answer.compare_exchange(OPEN, own, AcqRel, Acquire) {
            Ok(_) => {
                let _ = fs::remove_file(&self.path);
                own == YES
            }
            Err(earlier) => earlier == YES,
        }
    }
}

/// The nearest ancestor that is a launcher, or else the parent: its number, and when it was started.
fn launcher() -> Option<(u32, u64)> {
    let parent = ancestor(std::process::id())?.parent;
    let mut next = parent;
    for _ in 0..GENERATIONS {
        let process = ancestor(next)?;
        if LAUNCHERS.contains(&process.name.as_str()) {
            return Some((next, process.started));
        }
        if process.parent == 0 {
            break;
        }
        next = process.parent;
    }
    Some((parent, ancestor(parent)?.started))
}

/// What the kernel knows of a process.
#[derive(Debug, PartialEq, Eq)]
struct Process {
    name: String,
    parent: u32,
    /// In ticks since the machine was started.
    started: u64,
}

fn ancestor(number: u32) -> Option<Process> {
    parse(&fs::read_to_string(format!("/proc/{number}/stat")).ok()?)
}

/// The name stands in parentheses, and may have some of its own.
fn parse(line: &str) -> Option<Process> {
    let (begin, end) = (line.find('(')?, line.rfind(')')?);
    let mut fields = line.get(end + 1..)?.split_ascii_whitespace();
    Some(Process {
        name: line.get(begin + 1..end)?.to_owned(),
        parent: fields.nth(1)?.parse().ok()?,
        started: fields.nth(17)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What so many ranks hear of whom the first few have signed.
    fn answers(ranks: u32, sign: usize) -> Vec<bool> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("roster");
        let rosters: Vec<Agreement> = (0..sign).map(|_| Agreement::sign_at(&path).unwrap()).collect();
        let answers = rosters.into_iter().map(|agreement| agreement.settle(ranks, true)).collect();
        assert!(!path.exists());
        answers
    }

    #[test]
    fn all_hear_yes_when_all_have_signed() {
        assert_eq!(answers(3, 3), [true; 3]);
    }

    #[test]
    fn all_hear_no_when_one_has_not_signed() {
        assert_eq!(answers(4, 3), [false; 3]);
    }

    #[test]
    fn what_was_said_first_holds_for_who_signs_and_for_who_asks_later() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("roster");
        let (early, late) = (Agreement::sign_at(&path).unwrap(), Agreement::sign_at(&path).unwrap());
        assert!(!early.settle(3, true));
        // With this one there are three signatures, but not in one agreement.
        assert!(!Agreement::sign_at(&path).unwrap().settle(3, true));
        assert!(!late.settle(2, true));
    }

    #[test]
    fn what_else_must_be_so_counts_for_who_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("roster");
        let (one, other) = (Agreement::sign_at(&path).unwrap(), Agreement::sign_at(&path).unwrap());
        assert!(!one.settle(2, false));
        assert!(!other.settle(2, true));
    }

    #[test]
    fn a_process_is_read_whatever_its_name() {
        let line = "7 (a) b (c) S 3 7 7 0 -1 4 1 0 0 0 0 0 0 0 20 0 1 0 4242 1 1";
        assert_eq!(parse(line), Some(Process { name: "a) b (c".to_owned(), parent: 3, started: 4242 }));
        assert_eq!(parse("7 a"), None);
        let own = ancestor(std::process::id()).unwrap();
        assert_eq!(own.parent, std::os::unix::process::parent_id());
        assert!(launcher().is_some());
    }
}
