//! A limit of processes: fewer threads, or an error.

use std::io::Cursor;

use rowlock_sort::{Format, Input, Order, Output, Sort};
use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};
use testing::isolated_by;

use crate::separate_process::{as_nobody, folder};

#[test]
fn every_limit_of_processes_gives_a_sorted_file_or_an_error() {
    isolated_by(as_nobody, || {
        if geteuid().is_root() {
            eprintln!("skipped: the limit does not apply to root");
            return;
        }
        let (target, lines) = (folder().join("sorted"), "pear\nplum\napple\n".repeat(10_000));
        let maximum = getrlimit(Resource::Nproc).maximum;
        let mut succeeded = 0;
        for processes in (0..40).map(Some).chain([maximum]) {
            setrlimit(Resource::Nproc, Rlimit { current: processes, maximum }).unwrap();
            let sort = Sort {
                memory: 256 << 10,
                temporary: folder(),
                ..Sort::new(Order::new(Format::Lines, vec![]).unwrap())
            };
            let input = Input::stream("lines", Cursor::new(lines.clone()));
            match sort.run(input, Output::create(&target).unwrap()) {
                Ok(_) => {
                    let sorted = std::fs::read_to_string(&target).unwrap();
                    assert!(sorted.len() == lines.len() && sorted.lines().is_sorted(), "{processes:?}");
                    std::fs::remove_file(&target).unwrap();
                    succeeded += 1;
                }
                Err(why) => {
                    assert!(why.to_string().contains("thread could not be started"), "{processes:?}: {why}");
                    assert!(processes != maximum && !target.exists());
                }
            }
            assert_eq!(std::fs::read_dir(folder()).unwrap().count(), 0, "{processes:?}");
        }
        // Other processes of the user count, so how many threads each limit allows is not known.
        assert!(succeeded > 0);
    });
}
