//! Memory of a rank that the others use.

use rowlock_message::Error;

use super::run;

#[test]
fn what_was_put_before_a_fence_is_got_after_it() {
    run(4, |world| {
        let window = world.window(100).unwrap();
        let rank = world.rank();
        for round in 0..50 {
            let values: Vec<u64> = (0..25).map(|place| place + u64::from(rank) * 100 + round * 1_000).collect();
            window.put((rank + 1) % 4, 25 * rank as usize, &values).unwrap();
            window.fence().unwrap();
            let mut got = [0; 25];
            // That of the rank two before, from the rank one before.
            let [before, last] = [(rank + 2) % 4, (rank + 3) % 4];
            window.get(last, 25 * before as usize, &mut got).unwrap();
            let expected: Vec<u64> = (0..25).map(|place| place + u64::from(before) * 100 + round * 1_000).collect();
            assert_eq!(got[..], expected);
            window.fence().unwrap();
        }
    });
}

#[test]
fn all_additions_count() {
    run(4, |world| {
        let window = world.window(2).unwrap();
        let sum: u64 = (0..1_000).map(|_| window.add(2, 1, 3).unwrap()).sum();
        window.fence().unwrap();
        let mut sums = [sum];
        world.all_reduce(&mut sums, |before, after| before + after).unwrap();
        // Each value was seen once.
        assert_eq!(sums, [(0..4_000).map(|times| times * 3).sum::<u64>()]);
        let mut total = [0];
        window.get(2, 1, &mut total).unwrap();
        assert_eq!(total, [12_000]);
        assert_eq!(window.own()[0].load(std::sync::atomic::Ordering::Relaxed), 0);
    });
}

#[test]
fn ranks_choose_the_lengths_of_their_memory() {
    run(3, |world| {
        let window = world.window(world.rank() as usize * 10).unwrap();
        for rank in 0..3 {
            // No rank has none.
            let length = (rank as usize * 10).max(1);
            assert_eq!(window.put(rank, length, &[]), Ok(()));
            let beyond = |end| Err(Error::BeyondWindow { rank, end, length: length as u64 });
            assert_eq!(window.put(rank, length, &[7]), beyond(length as u64 + 1));
            assert_eq!(window.get(rank, length - 1, &mut [0; 2]), beyond(length as u64 + 1));
            assert_eq!(window.add(rank, usize::MAX, 1).map(drop), beyond(u64::MAX));
        }
        assert_eq!(window.put(3, 0, &[]), Err(Error::NoSuchRank { rank: 3, ranks: 3 }));
    });
}

#[test]
fn memory_that_one_rank_cannot_have_is_an_error_of_all() {
    run(3, |world| {
        for too_many in [usize::MAX, 1 << 50] {
            let words = if world.rank() == 1 { too_many } else { 10 };
            let why = world.window(words).unwrap_err();
            assert!(matches!(why, Error::Window { rank: 1, .. }), "{why}");
            assert!(
                why.to_string().starts_with("rank 1 cannot register memory: the parts of all ranks need "),
                "{why}"
            );
        }
        // The ranks go on.
        assert!(world.window(10).is_ok());
    });
}

#[test]
fn the_lengths_of_all_parts_together_are_compared_with_the_memory() {
    // A test with parts that each fit would fill the memory of this machine if it failed. Those are
    // tested in `window.rs`.
    let words = [1 << 50, 10, 1 << 50];
    let needed = words.iter().sum::<usize>() * size_of::<u64>();
    let begin = format!("rank 0 cannot register memory: the parts of all ranks need {needed} bytes together, of ");
    run(3, |world| {
        let why = world.window(words[world.rank() as usize]).unwrap_err().to_string();
        assert!(why.starts_with(&begin), "{why}");
        // It is the same one at all ranks.
        assert_eq!(world.all_gather_texts(why.as_ref()).unwrap(), [&*why; 3]);
        assert!(world.window(10).is_ok());
    });
}
