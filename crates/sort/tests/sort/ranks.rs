//! Several ranks, here threads, have the same output as one process.

use std::fs;
use std::path::Path;

use message::{Communicator, Waiting, threads};
use pipeline::Canceller;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rowlock_sort::{Algorithm, Format, Input, Key, Order, Outcome, Output, Sort, SortError, Variant};

use crate::columnsort::{Case, VARIANTS, bytes_at, random};

/// Runs a function in each rank, with its number. A rank leaves when the function returns.
fn in_ranks<T: Send>(ranks: u32, function: impl Fn(&Communicator) -> T + Sync) -> Vec<T> {
    let function = &function;
    std::thread::scope(|scope| {
        let ranks = threads(ranks, Waiting::ADAPTIVE).unwrap();
        let running: Vec<_> = ranks.into_iter().map(|world| scope.spawn(move || function(&world))).collect();
        running.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

fn sort_as_rank(sort: &Sort, world: &Communicator, from: &Path, to: &Path) -> Result<Outcome, SortError> {
    let (input, output) = (Input::open_by(world, from)?, Output::create_by(world, to)?);
    sort.run_as_rank(world, input, output, &Canceller::new())
}

/// Sorts a file in a folder by so many ranks. There must be no other files then.
fn sort(folder: &Path, sort: &Sort, ranks: u32) -> Vec<Result<Outcome, SortError>> {
    let sort = Sort { temporary: folder.to_owned(), ..sort.clone() };
    let (from, to) = (folder.join("records"), folder.join("sorted"));
    let done = in_ranks(ranks, |world| sort_as_rank(&sort, world, &from, &to));
    let left = fs::read_dir(folder).unwrap().count();
    assert_eq!(left, 1 + usize::from(to.exists()), "temporary files remain");
    done
}

fn check(case: &Case, variant: Variant, ranks: u32) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("records"), &case.records).unwrap();
    let done = sort(folder.path(), &Sort { verifies: true, ..case.sort_by(variant, ranks.into()) }, ranks);
    let what = format!("{}: {variant:?}, {ranks} ranks", case.what);
    for outcome in done {
        let outcome = outcome.unwrap_or_else(|why| panic!("{what}: {why}"));
        assert_eq!((outcome.bytes, outcome.written), (case.records.len() as u64, outcome.records), "{what}");
        assert_eq!(outcome.runs % u64::from(ranks), 0, "{what}");
    }
    assert!(fs::read(folder.path().join("sorted")).unwrap() == case.expected(), "{what}");
}

#[test]
fn any_records_are_sorted_as_by_one_process() {
    testing::for_each_seed(1, |seed| {
        let mut source = Xoshiro256PlusPlus::seed_from_u64(seed);
        for number in 0..24 {
            let size = 2 + (source.next_u32() % 40) as usize;
            let count = match number % 6 {
                0 => source.next_u32() % 5,
                1 => source.next_u32() % 300,
                _ => source.next_u32() % 9000,
            } as usize;
            let key = 1 + source.next_u32() as usize % (size - 1).min(16);
            let most = [0, 1, 20, u8::MAX][source.next_u32() as usize % 4];
            let records = random(&mut source, count, size, key, most);
            let memory = 100 + u64::from(source.next_u32() % 300);
            let what = format!("case {number}: {count} records of {size}, keys of {key} up to {most}, {memory} %");
            let case = Case { what, size, keys: vec![bytes_at(0, key)], records, memory, is_unique: false };
            check(&case, VARIANTS[source.next_u32() as usize % 2], 1 + source.next_u32() % 4);
        }
    });
}

#[test]
fn parts_of_the_output_meet_anywhere_in_a_page() {
    let mut source = Xoshiro256PlusPlus::seed_from_u64(2);
    // Columns of 8196 bytes, so parts begin after 12294, 20490 and 28686 bytes. The output ends in
    // the part of each rank, and near these places and the pages behind them.
    for count in [1, 1365, 4097, 4098, 4099, 5460, 5462, 5463, 6829, 6830, 6831, 8191, 8193, 9561, 9563, 10_923, 10_928]
    {
        let (what, records) = (format!("{count}"), random(&mut source, count, 3, 3, u8::MAX));
        let case = Case { what, size: 3, keys: vec![Key::WHOLE], records, memory: 100, is_unique: false };
        check(&case, Variant::IoBound, 4);
    }
}

#[test]
fn ranks_with_different_memory_choose_the_same_matrix() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name| folder.path().join(name);
    let records = random(&mut Xoshiro256PlusPlus::seed_from_u64(3), 9000, 13, 2, 50);
    let case =
        Case { what: String::new(), size: 13, keys: vec![bytes_at(0, 2)], records, memory: 100, is_unique: false };
    fs::write(path("records"), &case.records).unwrap();
    let done = in_ranks(3, |world| {
        let least = case.sort_by(Variant::IoBound, 3);
        let memory = least.memory * (1 + 3 * u64::from(world.rank() % 2));
        let sort = Sort { memory, temporary: folder.path().to_owned(), ..least };
        sort_as_rank(&sort, world, &path("records"), &path("sorted")).map(|outcome| outcome.runs)
    });
    assert!(matches!(done[..], [Ok(first), Ok(second), Ok(third)] if first == second && second == third), "{done:?}");
    assert!(fs::read(path("sorted")).unwrap() == case.expected());
}

#[test]
fn many_columns_and_large_records_are_sorted() {
    let mut source = Xoshiro256PlusPlus::seed_from_u64(3);
    for (size, count) in [(20, 30_000), (9001, 60)] {
        let records = random(&mut source, count, size, 1, 9);
        let case =
            Case { what: format!("{size}"), size, keys: vec![bytes_at(0, 1)], records, memory: 100, is_unique: false };
        for variant in VARIANTS {
            check(&case, variant, 3);
        }
    }
}

#[test]
fn an_error_of_one_rank_ends_all_and_keeps_the_old_output() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name| folder.path().join(name);
    fs::write(path("records"), vec![7; 200_000]).unwrap();
    fs::write(path("sorted"), "as it was").unwrap();
    let order = Order::new(Format::Fixed(10), vec![bytes_at(0, 2)]).unwrap();
    let algorithm = Algorithm::Columnsort(Variant::IoBound);
    let good = Sort { memory: 8 << 20, algorithm, temporary: folder.path().to_owned(), ..Sort::new(order) };
    for failing in 0..3 {
        let done = in_ranks(3, |world| {
            let missing = Sort { temporary: path("missing"), ..good.clone() };
            let sort = if world.rank() == failing { &missing } else { &good };
            sort_as_rank(sort, world, &path("records"), &path("sorted"))
        });
        for (rank, outcome) in (0..).zip(done) {
            match outcome {
                Err(SortError::Temporary { .. }) if rank == failing => {}
                Err(SortError::Message(_)) if rank != failing => {}
                other => panic!("rank {rank}: {other:?}"),
            }
        }
        assert_eq!(fs::read_to_string(path("sorted")).unwrap(), "as it was");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}

#[test]
fn a_file_that_changes_before_all_ranks_have_opened_it_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["before", "after"].map(|name| folder.path().join(name));
    fs::write(&paths[0], [7; 100]).unwrap();
    fs::write(&paths[1], [7; 90]).unwrap();
    let opened = in_ranks(2, |world| Input::open_by(world, &paths[world.rank() as usize]).map(drop));
    let [Ok(()), Err(why)] = &opened[..] else { panic!("{opened:?}") };
    assert!(why.to_string().contains("after: it was changed while it was being read"), "{why}");
}

#[test]
fn sorts_that_ranks_cannot_do_together_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("records"), vec![7; 100_003]).unwrap();
    let order = Order::new(Format::Fixed(10), vec![bytes_at(0, 2)]).unwrap();
    let good = Sort { algorithm: Algorithm::Columnsort(Variant::IoBound), ..Sort::new(order) };
    let messages = |bad: Sort| -> Vec<String> {
        sort(folder.path(), &bad, 2).into_iter().map(|outcome| outcome.unwrap_err().to_string()).collect()
    };
    for (bad, message) in [
        (Sort { algorithm: Algorithm::Merge, ..good.clone() }, "columnsort"),
        (Sort { is_unique: true, ..good.clone() }, "drop records"),
        (good.clone(), "its last 3 bytes are less than a record of 10"),
    ] {
        let said = messages(bad);
        assert!(said.iter().all(|said| said.contains(message)), "{said:?}");
    }
    // The minimum is that of both ranks.
    fs::write(folder.path().join("records"), vec![7; 100_000]).unwrap();
    let bad = Sort { memory: 100_000, ..good.clone() };
    for outcome in sort(folder.path(), &bad, 2) {
        let Err(SortError::Memory { given: 100_000, needed }) = outcome else { panic!("{outcome:?}") };
        assert!(sort(folder.path(), &Sort { memory: needed, ..good.clone() }, 2).iter().all(Result::is_ok));
        fs::remove_file(folder.path().join("sorted")).unwrap();
    }
}
