//! Jobs that are found by a name.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use libtest_mimic::Trial;
use rowlock_message::{JoinError, join_named};
use wait::Waiting;

use crate::rank::Rank;
use crate::trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("ranks_that_join_late_get_what_was_sent_before", late),
        trial("the_name_is_gone_when_all_have_joined", gone),
        trial("a_job_that_died_before_all_had_joined_is_replaced", replaced),
        trial("a_job_that_died_is_replaced_whatever_its_number_of_ranks_and_its_version", replaced_by_others),
        trial("a_rank_joins_once", once),
    ]
}

/// A path of a missing file, in a folder that is removed when dropped.
pub(crate) fn object_path() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("job");
    (folder, path)
}

fn late() {
    let (_folder, path) = object_path();
    let mut early = Rank::start_named(&path, 0, 2, "tell");
    assert_eq!(early.read_line(), "sent");
    assert!(path.exists());
    early.write_line("go on");
    let mut late = Rank::start_named(&path, 1, 2, "tell");
    assert_eq!(late.read_line(), "sent");
    assert_eq!(early.read_line(), "got 1");
    late.write_line("go on");
    assert_eq!(late.read_line(), "got 0");
    [early, late].into_iter().for_each(Rank::expect_success);
    assert!(!path.exists());
}

fn gone() {
    let (folder, path) = object_path();
    // Two jobs of one name at the same time: the first is complete.
    let jobs = [(); 2].map(|()| {
        let mut ranks = [0, 1, 2].map(|rank| Rank::start_named(&path, rank, 3, "tell"));
        ranks.iter_mut().for_each(|rank| assert_eq!(rank.read_line(), "sent"));
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
        ranks
    });
    for mut rank in jobs.into_iter().flatten() {
        rank.write_line("go on");
        assert!(rank.read_line().starts_with("got "));
        rank.expect_success();
    }
}

fn replaced() {
    let (folder, path) = object_path();
    let mut dying = Rank::start_named(&path, 0, 2, "tell");
    assert_eq!(dying.read_line(), "sent");
    dying.kill();
    assert!(path.exists());
    late_pair(&path);
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}

fn replaced_by_others() {
    expect_replaced(5, |_| {});
    // Another version, and lines and a length of nonsense.
    let write = |file: &File, word: u64, value: u64| file.write_all_at(&value.to_ne_bytes(), word * 8).unwrap();
    expect_replaced(2, |file| write(file, 1, 99));
    expect_replaced(2, |file| write(file, 3, 3));
    expect_replaced(2, |file| file.set_len(8192).unwrap());
    // A process that was killed when it was about to remove the name. No process has this id.
    expect_replaced(5, |file| write(file, 6, ((1 << 22) - 1) | 1 << 22));
}

/// Two ranks join after a job of so many ranks has died, whose file was changed, and not before.
fn expect_replaced(ranks: u32, change: impl Fn(&File)) {
    let (folder, path) = object_path();
    let mut dying = Rank::start_named(&path, 0, ranks, "tell");
    assert_eq!(dying.read_line(), "sent");
    change(&OpenOptions::new().write(true).open(&path).unwrap());
    join_named(&path, 1, 2, Waiting::default()).unwrap_err();
    assert!(path.exists());
    dying.kill();
    late_pair(&path);
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}

fn late_pair(path: &std::path::Path) {
    for mut rank in [1, 0].map(|rank| Rank::start_named(path, rank, 2, "tell")) {
        assert_eq!(rank.read_line(), "sent");
        rank.write_line("go on");
        assert!(rank.read_line().starts_with("got "));
        rank.expect_success();
    }
}

fn once() {
    let (_folder, path) = object_path();
    let _one = join_named(&path, 0, 3, Waiting::default()).unwrap();
    let again = join_named(&path, 0, 3, Waiting::default()).unwrap_err();
    assert!(matches!(again, JoinError::Joined { rank: 0 }), "{again}");
    let others = join_named(&path, 1, 2, Waiting::default()).unwrap_err();
    assert!(matches!(others, JoinError::OtherRanks { rank: 1, expected: 2, found: 3 }), "{others}");
    let none = join_named(&path, 3, 3, Waiting::default()).unwrap_err();
    assert!(matches!(none, JoinError::NoSuchRank { rank: 3, ranks: 3 }), "{none}");
}
