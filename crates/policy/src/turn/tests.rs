use proptest::prelude::*;

use super::*;

const TURN: Span = Span::from_millis(200);

fn at(turn: u64) -> Instant {
    Instant::from_nanos(turn * TURN.as_nanos())
}

fn ms(n: u64) -> Instant {
    Instant::from_nanos(n * 1_000_000)
}

fn table(version: u64, reference: Instant, order: &[u32]) -> TurnTable {
    TurnTable { version, reference, slice: TURN, order: order.to_vec() }
}

#[test]
fn the_active_slice_follows_from_the_time_alone() {
    let table = table(1, ms(100), &[2, 0, 1]);
    let times = [99, 100, 299, 300, 500, 700, 100 + 3 * 200 * 1_000_000, 100 + 200 * 1_000_001];
    assert_eq!(
        times.map(|time| table.active(ms(time))),
        [None, Some(2), Some(2), Some(0), Some(1), Some(2), Some(2), Some(1)]
    );
    assert_eq!(
        [0, 99, 100, 250, 299, 300].map(|time| table.next_boundary(ms(time))),
        [100, 100, 300, 300, 300, 500].map(ms)
    );
}

#[test]
fn tables_without_slices_and_the_end_of_time_are_harmless() {
    assert_eq!(table(1, ms(100), &[]).active(ms(500)), None);
    let end = Instant::from_nanos(u64::MAX);
    let last = table(1, ms(100), &[4]);
    assert_eq!((last.active(end), last.next_boundary(end)), (Some(4), end));
    let zero = TurnTable { slice: Span::ZERO, ..table(1, Instant::ZERO, &[4, 5]) };
    assert_eq!((zero.active(ms(1)), zero.next_boundary(Instant::ZERO)), (Some(4), Instant::from_nanos(1)));
    assert_eq!((Turns::new().active(end), Turns::new().next_boundary(end)), (None, None));
}

#[test]
fn a_cell_ignores_stale_tables_and_changes_at_the_reference_time() {
    let mut cell = Turns::new();
    assert!(cell.publish(table(2, ms(0), &[7])));
    assert!(!cell.publish(table(2, ms(0), &[8])) && !cell.publish(table(1, ms(400), &[8])));
    assert_eq!(cell.active(ms(450)), Some(7));
    // The second one for the same boundary replaces the first.
    assert!(cell.publish(table(3, ms(400), &[8])) && cell.publish(table(4, ms(400), &[9])));
    assert_eq!([399, 400].map(|time| cell.active(ms(time))), [Some(7), Some(9)]);
    // A boundary that is not one of the old table.
    assert!(cell.publish(table(5, ms(700), &[6])));
    assert_eq!(
        [199, 250, 399, 650, 700].map(|time| cell.next_boundary(ms(time))),
        [200, 400, 400, 700, 900].map(|time| Some(ms(time)))
    );
}

#[test]
fn a_table_replaces_those_that_would_begin_later() {
    let mut cell = Turns::new();
    for (version, reference) in [(0, ms(0)), (1, ms(500)), (2, ms(300)), (3, ms(300))] {
        assert!(cell.publish(table(version, reference, &[version as u32])));
    }
    assert!(cell.tables.iter().map(|table| table.version).eq([0, 3]));
    assert_eq!([0, 300, 500].map(|time| cell.active(ms(time))), [0, 3, 3].map(Some));
    assert_eq!([250, 300].map(|time| cell.next_table(ms(time))), [Some(ms(300)), None]);
}

#[test]
fn a_cell_forgets_only_tables_that_were_replaced_before_the_earliest_clock() {
    let mut cell = Turns::new();
    for version in 0..5 {
        assert!(cell.publish(table(version, at(version), &[version as u32])));
    }
    cell.forget_before(Instant::ZERO);
    assert_eq!([0, 1, 2, 3, 4].map(|turn| cell.active(at(turn))), [0, 1, 2, 3, 4].map(Some));
    cell.forget_before(ms(599));
    assert!(cell.tables.iter().map(|table| table.version).eq([2, 3, 4]));
    assert_eq!(cell.active(ms(599)), Some(2));
    cell.forget_before(at(100));
    assert_eq!(cell.tables, [table(4, at(4), &[4])]);
}

proptest! {
    #[test]
    fn two_cells_differ_only_within_the_skew_of_a_boundary(
        // The turns from one reference time to the next, and the order of each table.
        publications in prop::collection::vec((0..4_u64, prop::collection::vec(0..5_u32, 0..5)), 1..12),
        told in 0..100_u64,
        late in 0..100_u64,
        skew in prop_oneof![0..100_u64, 0..1_500_u64],
        mut looks in prop::collection::vec((400..9_000_u64, 0..=1_500_u64, 0..=1_500_u64), 50),
    ) {
        // The tables, and by definition the slice of each turn. One cell is told of them from 0 to
        // 100 ms after the boundary before their reference time, on the clock of the publisher, and
        // the other one later.
        let mut tables = Vec::new();
        let mut turns = vec![None; 50];
        let mut reference = 3;
        for ((later, order), version) in publications.iter().zip(1..) {
            reference += later;
            tables.push((200 * (reference - 1) + told, table(version, at(reference), order)));
            for (turn, active) in turns.iter_mut().enumerate().skip(reference as usize) {
                *active = order.get((turn - reference as usize) % order.len().max(1)).copied();
            }
        }
        // No clock is ahead of the publisher's, and none is behind by more than the skew.
        let mut cells = [0, late].map(|late| (Turns::new(), late, tables.iter().peekable()));
        looks.sort_unstable();
        for (time, one, other) in looks {
            for (cell, late, tables) in &mut cells {
                while let Some((_, table)) = tables.next_if(|&&(told, _)| told + *late <= time) {
                    prop_assert!(cell.publish(table.clone()));
                }
                cell.forget_before(ms(time.saturating_sub(skew)));
            }
            let clocks = [one, other].map(|behind| time.saturating_sub(behind.min(skew)));
            let answers = [0, 1].map(|cell| cells[cell].0.active(ms(clocks[cell])));
            prop_assert_eq!(answers, clocks.map(|clock| turns[clock as usize / 200]));
            let boundary_between = clocks[0] / 200 != clocks[1] / 200;
            prop_assert!(answers[0] == answers[1] || boundary_between && clocks[0].abs_diff(clocks[1]) <= skew);
            for ((clock, answer), (cell, ..)) in clocks.into_iter().zip(answers).zip(&cells) {
                let next = cell.next_boundary(ms(clock));
                prop_assert!(answer.is_none() || next == Some(ms((clock / 200 + 1) * 200)));
            }
        }
    }
}
