//! An agreement among the ranks of a job: if all of them have this library, they may perform
//! collective calls in another way.
//!
//! To the message library, a barrier that is performed in steps differs from one that is not, and
//! the two never match: if only some ranks used steps, they would wait forever. So either all ranks
//! do it or none, and that is decided once.
//!
//! # The protocol
//!
//! The agreement is a file that all ranks open. `rowlock prun` gives its ranks a nameless one, of
//! which nothing can remain. Those of other launchers create a file in shared memory, which is
//! named after their common launcher.
//!
//! 1. A rank *signs* before it initializes the message library: it creates or opens the file, maps
//!    it, and increments the number of signatures.
//! 2. When the message library is initialized, the rank knows the number of ranks, and *settles*:
//!    if there is no answer yet, it answers yes if all have signed, and no otherwise. If there is
//!    an answer, it adopts that.
//!
//! A compare-and-exchange ensures that the first answer holds. The answer is yes only if all ranks
//! have signed the same file. Then all of them have it mapped, even if its name is removed, and
//! will read yes there. A rank that reads no, or has no file, uses the real calls. If a rank has
//! not signed, the answer cannot be yes. On several machines no file has all signatures, so the
//! answer is no.
//!
//! The rank that answers removes the name, so no file remains when the job ends. A later rank
//! creates a new file, which not all ranks will have signed. If a rank of `prun` executes a second
//! program, there are more signatures than ranks, so the answer is no, or was given before.

use std::fs::{self, File};
use std::num::NonZeroUsize;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

use counters::Environment;
use sys::files;
use sys::identity::Stat;
use sys::shared_memory::{Mapping, View};

/// The answers: none yet; all ranks have signed; not all have.
const OPEN: u64 = 0;
const YES: u64 = 1;
const NO: u64 = 2;

/// The names of the processes that start the ranks on a machine. There may be shells between them
/// and a rank.
const LAUNCHERS: [&str; 8] =
    ["hydra_pmi_proxy", "hydra_pmi_prox", "pmi_proxy", "orted", "prted", "mpirun", "mpiexec", "slurmstepd"];

/// The number of ancestors that are searched for a launcher.
const MAX_ANCESTORS: usize = 8;

const LENGTH: usize = Environment::ROSTER_LENGTH as usize;

/// The agreement of this job, signed by this process.
pub(crate) struct Agreement {
    /// The name of the file if it has one.
    name: Option<PathBuf>,
    signatures: View<AtomicU64>,
    answer: View<AtomicU64>,
}

impl Agreement {
    /// Signs the agreement of the job of this process. Returns `None` if there can be none.
    pub(crate) fn sign() -> Option<Agreement> {
        let roster = std::env::var_os(Environment::ROSTER).map(PathBuf::from);
        match Launcher::find(roster)? {
            Launcher::Prun { roster } => Agreement::sign_in(&files::open_existing(&roster).ok()?, None),
            Launcher::Other { pid, started } => {
                // SAFETY: no preconditions.
                let user = unsafe { libc::geteuid() };
                Agreement::sign_at(Path::new(&format!("/dev/shm/rowlock-ranks-{user}-{pid}-{started}")))
            }
        }
    }

    fn sign_at(path: &Path) -> Option<Agreement> {
        // Another user's file could be truncated at any time.
        Agreement::sign_in(&files::open_shared(path).ok()?, Some(path.to_owned()))
    }

    fn sign_in(file: &File, name: Option<PathBuf>) -> Option<Agreement> {
        // A write to a part of a file without disk space raises SIGBUS.
        // SAFETY: the descriptor is open.
        (unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, LENGTH as libc::off_t) } == 0).then_some(())?;
        let mapping = Mapping::new(file, NonZeroUsize::new(LENGTH)?).ok()?;
        let agreement = Agreement { name, signatures: mapping.get(0)?, answer: mapping.get(size_of::<AtomicU64>())? };
        agreement.signatures.fetch_add(1, AcqRel);
        Some(agreement)
    }

    /// Whether all ranks have signed and the first rank that asks meets `condition`. The answer is
    /// the same for all ranks.
    pub(crate) fn settle(self, ranks: u32, condition: bool) -> bool {
        let all = self.signatures.load(Acquire) == u64::from(ranks);
        let own = if all && condition { YES } else { NO };
        match self.answer.compare_exchange(OPEN, own, AcqRel, Acquire) {
            Ok(_) => {
                #[expect(clippy::disallowed_methods, reason = "this user's own file, in a sticky folder")]
                let _ = self.name.as_ref().map(fs::remove_file);
                own == YES
            }
            Err(earlier) => earlier == YES,
        }
    }
}

/// The process that has started all ranks on this machine.
#[derive(Debug, PartialEq, Eq)]
enum Launcher {
    /// `rowlock prun`.
    Prun { roster: PathBuf },
    /// Another one, with its process ID and start time.
    Other { pid: u32, started: u64 },
}

impl Launcher {
    /// The nearest ancestor that is a launcher, or else the parent. `prun` is the one that has this
    /// roster open: an inner launcher passes the variable on to its own ranks. Returns `None` if
    /// `prun` has been killed.
    fn find(roster: Option<PathBuf>) -> Option<Launcher> {
        let roster = roster.and_then(|roster| Some((owner(&roster)?, roster)));
        let parent = Stat::of(std::os::unix::process::parent_id())?;
        let mut next = parent;
        for _ in 0..MAX_ANCESTORS {
            if let Some((_, roster)) = roster.as_ref().filter(|(owner, _)| *owner == next.pid) {
                return Some(Launcher::Prun { roster: roster.clone() });
            }
            if LAUNCHERS.iter().any(|launcher| launcher.as_bytes() == next.name()) {
                return Some(Launcher::Other { pid: next.pid, started: next.started });
            }
            if next.parent == 0 {
                break;
            }
            next = Stat::of(next.parent)?;
        }
        roster.is_none().then_some(Launcher::Other { pid: parent.pid, started: parent.started })
    }
}

/// The process whose descriptor this path names.
fn owner(path: &Path) -> Option<u32> {
    path.strip_prefix("/proc").ok()?.iter().next()?.to_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers that the signing ranks read, if the first `sign` ranks have signed.
    fn answers(ranks: u32, sign: usize) -> Vec<bool> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agreement");
        let agreements: Vec<Agreement> = (0..sign).map(|_| Agreement::sign_at(&path).unwrap()).collect();
        let answers = agreements.into_iter().map(|agreement| agreement.settle(ranks, true)).collect();
        assert!(!path.exists());
        answers
    }

    #[test]
    fn the_answer_is_yes_if_all_have_signed() {
        assert_eq!(answers(3, 3), [true; 3]);
    }

    #[test]
    fn the_answer_is_no_if_one_has_not_signed() {
        assert_eq!(answers(4, 3), [false; 3]);
    }

    #[test]
    fn the_first_answer_holds_for_later_ranks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agreement");
        let (early, late) = (Agreement::sign_at(&path).unwrap(), Agreement::sign_at(&path).unwrap());
        assert!(!early.settle(3, true));
        // With this one there are three signatures, but not in one agreement.
        assert!(!Agreement::sign_at(&path).unwrap().settle(3, true));
        assert!(!late.settle(2, true));
    }

    #[test]
    fn the_condition_of_the_first_rank_counts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agreement");
        let (one, other) = (Agreement::sign_at(&path).unwrap(), Agreement::sign_at(&path).unwrap());
        assert!(!one.settle(2, false));
        assert!(!other.settle(2, true));
    }

    #[test]
    fn ranks_agree_in_the_roster_of_their_launcher_if_it_is_the_nearest() {
        let own = std::process::id();
        let parent = std::os::unix::process::parent_id();
        let roster = |owner: u32| PathBuf::from(format!("/proc/{owner}/fd/9"));
        let find = |owner| Launcher::find(Some(roster(owner))).unwrap();
        assert_eq!(find(parent), Launcher::Prun { roster: roster(parent) });
        assert_eq!(Launcher::find(Some(roster(own))), None, "it is no ancestor of itself");
        for other in [Some("/tmp/roster".into()), Some("/proc/self/fd/9".into()), None] {
            assert!(matches!(Launcher::find(other), Some(Launcher::Other { .. })));
        }
    }

    #[test]
    fn an_agreement_without_a_name_holds_as_well() {
        let file = tempfile::tempfile().unwrap();
        let sign = || Agreement::sign_in(&file, None).unwrap();
        let (one, other) = (sign(), sign());
        assert!(one.settle(2, true) && other.settle(2, true));
        assert!(sign().settle(2, true), "the answer was given before");
    }
}
