use proptest::prelude::*;

use super::*;

fn us(n: u64) -> Span {
    Span::from_micros(n)
}

/// A queue of levels of 100 us, with this many threads enqueued.
fn queue_of(levels: u32, threads: u32) -> FeedbackQueue {
    let mut queue = FeedbackQueue::new(FeedbackRules { levels, ..FeedbackRules::default() });
    for thread in (0..threads).map(ThreadId) {
        queue.add(thread);
        queue.enqueue(thread);
    }
    queue
}

fn queue(threads: u32) -> FeedbackQueue {
    queue_of(3, threads)
}

/// The first thread runs for this long and is enqueued again.
fn turn(queue: &mut FeedbackQueue, micros: u64) -> ThreadId {
    let thread = queue.take().unwrap();
    queue.charge(thread, us(micros));
    queue.enqueue(thread);
    thread
}

fn take_all(queue: &mut FeedbackQueue) -> Vec<u32> {
    std::iter::from_fn(|| queue.take()).map(|thread| thread.0).collect()
}

const A: ThreadId = ThreadId(0);
const B: ThreadId = ThreadId(1);

#[test]
fn a_thread_that_has_used_up_its_running_time_moves_down_and_stays_at_the_bottom() {
    let mut queue = queue(1);
    queue.take();
    let levels: Vec<(TurnOutcome, u32)> = (0..6).map(|_| (queue.charge(A, us(50)), queue.level(A).0)).collect();
    let (on, over) = (TurnOutcome::TimeLeft, TurnOutcome::UsedUp);
    assert_eq!(levels, [(on, 0), (over, 1), (on, 1), (over, 2), (on, 2), (over, 2)]);
    // Time beyond the running time is forgiven.
    queue.add(A);
    assert_eq!(queue.charge(A, us(1_000)), TurnOutcome::UsedUp);
    assert_eq!((queue.level(A), queue.time_left(A)), (Level(1), us(100)));
}

#[test]
fn giving_up_the_cpu_early_gains_nothing() {
    let mut queue = queue(2);
    for _ in 0..2 {
        assert_eq!(turn(&mut queue, 40), A);
        assert_eq!((queue.level(A), turn(&mut queue, 0)), (Level(0), B));
    }
    assert_eq!((queue.time_left(A), queue.take()), (us(20), Some(A)));
    assert_eq!(queue.charge(A, us(20)), TurnOutcome::UsedUp);
    assert_eq!((queue.level(A), queue.time_left(A)), (Level(1), us(100)));
}

#[test]
fn higher_levels_run_first_and_each_level_is_served_in_order_of_arrival() {
    let mut queue = queue(4);
    turn(&mut queue, 100);
    assert_eq!(queue.highest(), Some(Level(0)));
    assert_eq!(take_all(&mut queue), [1, 2, 3, 0]);
    assert_eq!((queue.highest(), queue.waiting()), (None, 0));
}

#[test]
fn a_thread_preempted_before_its_time_is_used_up_goes_first_and_afterwards_last() {
    let mut queue = queue(3);
    queue.take();
    queue.charge(A, us(30));
    queue.enqueue_preempted(A);
    assert_eq!(queue.take(), Some(A), "with 70 us left");
    queue.charge(A, us(70));
    // Both are at level 1 with nothing used.
    assert_eq!(turn(&mut queue, 100), B);
    queue.enqueue_preempted(A);
    assert_eq!(take_all(&mut queue), [2, 1, 0]);
}

#[test]
fn a_boost_moves_all_threads_up_in_order_whether_they_are_enqueued_or_not() {
    let mut queue = queue(4);
    assert_eq!([turn(&mut queue, 100), turn(&mut queue, 100)], [A, B]);
    let runs = queue.take().unwrap();
    queue.charge(runs, us(120));
    queue.charge(runs, us(30));
    assert_eq!((runs, queue.level(runs)), (ThreadId(2), Level(1)));
    queue.boost();
    assert_eq!((queue.level(runs), queue.time_left(runs)), (Level(0), us(70)), "a boost renews no running time");
    queue.enqueue(runs);
    assert_eq!(take_all(&mut queue), [3, 0, 1, 2]);
}

#[test]
fn a_thread_at_the_bottom_runs_after_each_boost_however_many_arrive_at_the_top() {
    let mut queue = queue(1);
    (0..3).for_each(|_| _ = turn(&mut queue, 100));
    let mut turns = Vec::new();
    for round in 0..50 {
        // Before each turn a new thread arrives. It leaves after its own turn.
        queue.add(ThreadId(round + 1));
        queue.enqueue(ThreadId(round + 1));
        if round % 10 == 9 {
            queue.boost();
        }
        if queue.take() == Some(A) {
            turns.push(round);
            queue.charge(A, us(100));
            queue.enqueue(A);
        }
    }
    // Each time it waits for the threads that were at the top before it: one more than the last
    // time.
    assert_eq!(turns, [10, 21, 32, 43]);
}

#[test]
fn threads_that_may_not_run_are_skipped() {
    let mut queue = queue(4);
    let odd = |thread: ThreadId| thread.0 % 2 == 1;
    queue.take();
    assert_eq!(turn(&mut queue, 100), B);
    assert_eq!((queue.highest_if(odd), queue.take_if(odd)), (Some(Level(0)), Some(ThreadId(3))));
    assert_eq!((queue.highest_if(odd), queue.take_if(odd)), (Some(Level(1)), Some(B)));
    assert_eq!((queue.take_if(odd), take_all(&mut queue)), (None, vec![2]));
}

#[test]
fn a_thread_that_inherits_a_level_waits_there_and_returns_to_its_own() {
    let mut queue = queue(4);
    assert_eq!((turn(&mut queue, 100), queue.level(A)), (A, Level(1)));
    queue.inherit(A, Level(0));
    assert_eq!((queue.level(A), queue.highest(), queue.waiting()), (Level(0), Some(Level(0)), 4));
    assert_eq!(take_all(&mut queue.clone()), [1, 2, 3, 0], "behind those that were there before");
    queue.disinherit(A);
    assert_eq!((queue.level(A), take_all(&mut queue)), (Level(1), vec![1, 2, 3, 0]));
}

#[test]
fn a_running_thread_inherits_too_and_a_higher_level_is_not_replaced_by_a_lower_one() {
    let mut queue = queue(2);
    queue.take();
    (0..2).for_each(|_| _ = queue.charge(A, us(100)));
    queue.inherit(A, Level(1));
    assert_eq!(queue.level(A), Level(1));
    queue.inherit(A, Level(0));
    queue.inherit(A, Level(1));
    assert_eq!((queue.level(A), queue.time_left(A)), (Level(0), us(100)));
    queue.enqueue(A);
    assert_eq!(take_all(&mut queue), [1, 0]);
    queue.disinherit(A);
    queue.inherit(A, Level(7));
    assert_eq!(queue.level(A), Level(2), "there are three levels");
}

#[test]
fn a_thread_that_inherits_a_level_still_moves_down_and_a_new_thread_inherits_none() {
    let mut queue = queue(1);
    queue.take();
    queue.inherit(A, Level(0));
    assert_eq!(queue.charge(A, us(100)), TurnOutcome::UsedUp);
    assert_eq!(queue.level(A), Level(0));
    queue.disinherit(A);
    assert_eq!(queue.level(A), Level(1));
    queue.inherit(A, Level(0));
    queue.add(A);
    queue.charge(A, us(100));
    assert_eq!(queue.level(A), Level(1));
}

#[test]
fn a_thread_takes_twenty_four_bytes() {
    assert_eq!(size_of::<ThreadState>(), 24);
}

#[test]
fn boosts_are_counted_correctly_when_the_counter_wraps_around() {
    let mut queue = queue(3);
    queue.boost();
    turn(&mut queue, 100);
    queue.take();
    queue.charge(B, us(100));
    assert_eq!((queue.level(A), queue.level(B)), (Level(1), Level(1)));
    // As many as wrap the counter around.
    (0..1 << 16).for_each(|_| queue.boost());
    assert_eq!((queue.level(A), queue.level(B)), (Level(0), Level(0)));
    queue.enqueue(B);
    assert_eq!(take_all(&mut queue), [2, 0, 1]);
}

#[test]
fn boosts_parse_back_as_printed_and_an_invalid_one_is_rejected_with_a_reason() {
    for text in ["0 us", "often"] {
        let why = text.parse::<Boost>().unwrap_err().to_string();
        assert!(why.contains("`never`"), "{why}");
    }
    for boost in [Boost::Never, Boost::Every(us(7))] {
        assert_eq!(boost.to_string().parse(), Ok(boost));
    }
}

/// A straightforward model of the queue: a list of threads for each level, and the time that each
/// thread has used.
struct Plain {
    levels: Vec<Vec<u32>>,
    of: Vec<(usize, Span)>,
    inherited: Vec<usize>,
}

impl Plain {
    fn level(&self, thread: usize) -> usize {
        self.of[thread].0.min(self.inherited[thread])
    }

    /// The position of an enqueued thread: its level, and how many are in front of it.
    fn place(&self, thread: usize) -> Option<(usize, usize)> {
        let mut levels = self.levels.iter().enumerate();
        levels.find_map(|(level, list)| Some((level, list.iter().position(|&other| other as usize == thread)?)))
    }

    /// Takes the first thread that may run.
    fn take_if(&mut self, may_run: impl Fn(u32) -> bool) -> Option<ThreadId> {
        self.levels.iter_mut().find_map(|level| {
            let place = level.iter().position(|&thread| may_run(thread))?;
            Some(ThreadId(level.remove(place)))
        })
    }

    /// Sets the level that a thread inherits.
    fn inherit(&mut self, thread: usize, inherited: usize) {
        let before = self.level(thread);
        self.inherited[thread] = inherited;
        let now = self.level(thread);
        if let Some((level, place)) = self.place(thread)
            && now != before
        {
            self.levels[level].remove(place);
            self.levels[now].push(thread as u32);
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Call {
    Take,
    TakeSome(u32),
    Run(usize, u64),
    Enqueue(usize),
    EnqueuePreempted(usize),
    RequeueAndTake(usize),
    Inherit(usize, u32),
    Disinherit(usize),
    Boost,
}

fn any_call() -> impl Strategy<Value = Call> {
    prop_oneof![
        4 => Just(Call::Take),
        2 => (0_u32..8).prop_map(Call::TakeSome),
        5 => (0_usize..8, 0_u64..130).prop_map(|(thread, micros)| Call::Run(thread, micros)),
        4 => (0_usize..8).prop_map(Call::Enqueue),
        2 => (0_usize..8).prop_map(Call::EnqueuePreempted),
        4 => (0_usize..8).prop_map(Call::RequeueAndTake),
        3 => (0_usize..8, 0_u32..6).prop_map(|(thread, level)| Call::Inherit(thread, level)),
        2 => (0_usize..8).prop_map(Call::Disinherit),
        1 => Just(Call::Boost),
    ]
}

proptest! {
    /// No thread is lost or duplicated, levels are served in order, and no thread that may run is
    /// skipped.
    #[test]
    fn the_queue_behaves_like_a_plain_one(levels in 1_u32..80, calls in prop::collection::vec(any_call(), 1..120)) {
        let mut queue = queue_of(levels, 0);
        let mut plain = Plain { levels: vec![Vec::new(); levels as usize], of: vec![(0, Span::ZERO); 8], inherited: vec![usize::MAX; 8] };
        (0..8).for_each(|thread| queue.add(ThreadId(thread)));
        for call in calls {
            let is_queued = |plain: &Plain, thread: usize| plain.levels.iter().flatten().any(|&other| other == thread as u32);
            match call {
                Call::Take => {
                    let found = plain.take_if(|_| true);
                    prop_assert_eq!(queue.take(), found);
                }
                Call::TakeSome(barred) => {
                    let found = plain.take_if(|thread| thread != barred);
                    prop_assert_eq!(queue.take_if(|thread| thread.0 != barred), found);
                }
                Call::RequeueAndTake(thread) if !is_queued(&plain, thread) => {
                    let level = plain.level(thread);
                    plain.levels[level].push(thread as u32);
                    prop_assert_eq!(Some(queue.requeue_and_take(ThreadId(thread as u32))), plain.take_if(|_| true));
                }
                Call::Run(thread, micros) => {
                    let (level, used) = &mut plain.of[thread];
                    *used += us(micros);
                    let mut turn = TurnOutcome::TimeLeft;
                    if *used >= us(100) {
                        (*level, *used) = ((*level + 1).min(levels as usize - 1), Span::ZERO);
                        turn = TurnOutcome::UsedUp;
                    }
                    prop_assert_eq!(queue.charge(ThreadId(thread as u32), us(micros)), turn);
                }
                Call::Enqueue(thread) if !is_queued(&plain, thread) => {
                    queue.enqueue(ThreadId(thread as u32));
                    let level = plain.level(thread);
                    plain.levels[level].push(thread as u32);
                }
                Call::EnqueuePreempted(thread) if !is_queued(&plain, thread) => {
                    queue.enqueue_preempted(ThreadId(thread as u32));
                    let (level, used) = (plain.level(thread), plain.of[thread].1);
                    let place = if used.is_zero() { plain.levels[level].len() } else { 0 };
                    plain.levels[level].insert(place, thread as u32);
                }
                Call::Inherit(thread, level) => {
                    queue.inherit(ThreadId(thread as u32), Level(level));
                    let inherited = plain.inherited[thread].min(level as usize).min(levels as usize - 1);
                    plain.inherit(thread, inherited);
                }
                Call::Disinherit(thread) => {
                    queue.disinherit(ThreadId(thread as u32));
                    plain.inherit(thread, usize::MAX);
                }
                Call::Boost => {
                    queue.boost();
                    plain.levels[0] = plain.levels.iter_mut().flat_map(std::mem::take).collect();
                    plain.of.iter_mut().for_each(|of| of.0 = 0);
                    plain.inherited.iter_mut().filter(|inherited| **inherited != usize::MAX).for_each(|inherited| *inherited = 0);
                }
                _ => {}
            }
            prop_assert_eq!(queue.waiting(), plain.levels.iter().map(Vec::len).sum::<usize>());
            let highest = plain.levels.iter().position(|level| !level.is_empty());
            prop_assert_eq!(queue.highest(), highest.map(|level| Level(level as u32)));
            for (thread, &(_, used)) in plain.of.iter().enumerate() {
                let level = plain.level(thread);
                let thread = ThreadId(thread as u32);
                prop_assert_eq!((queue.level(thread).0 as usize, queue.time_left(thread)), (level, us(100) - used));
            }
        }
    }

    /// With a boost, each of the threads that all compute without end runs again and again.
    #[test]
    fn with_a_boost_no_thread_starves(threads in 2_u32..12, levels in 1_u32..6, newcomer in any::<bool>()) {
        let mut queue = queue_of(levels, threads);
        let mut turns = vec![0; threads as usize];
        for turn in 0..50 * threads {
            // The newcomer always returns at the highest level.
            if turn % (3 * threads) == 0 {
                queue.boost();
            }
            let thread = queue.take().unwrap();
            turns[thread.index()] += 1;
            if newcomer && thread == A {
                queue.add(A);
            } else {
                queue.charge(thread, us(100));
            }
            queue.enqueue(thread);
        }
        prop_assert!(turns.iter().all(|&turns| turns >= 10), "{:?}", turns);
    }
}
