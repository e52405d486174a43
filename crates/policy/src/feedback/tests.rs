use proptest::prelude::*;

use super::*;

fn us(n: u64) -> Span {
    Span::from_micros(n)
}

/// A queue of levels of 100 us, with this many threads.
fn queue_of(levels: u32, threads: u32) -> FeedbackQueue {
    let mut queue = FeedbackQueue::new(FeedbackRules { levels, ..FeedbackRules::default() });
    for thread in (0..threads).map(ThreadId) {
        queue.add(thread);
        queue.enqueue(thread);
    }
    queue
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
fn a_queue_gives_equal_shares_away_up_to_a_limit() {
    let shares =
        [(0, 1), (1, 1), (2, 1), (3, 1), (40, 3), (63, 1), (100, 1)].map(|(ready, takers)| given_share(ready, takers));
    assert_eq!(shares, [0, 1, 1, 2, 10, 32, MOST_GIVEN]);
}

#[test]
fn a_thread_at_the_bottom_runs_after_each_boost_however_many_arrive_at_the_top() {
    let mut queue = queue_of(3, 1);
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
fn a_thread_takes_twenty_four_bytes() {
    assert_eq!(size_of::<ThreadState>(), 24);
}

#[test]
fn boosts_are_counted_correctly_when_the_counter_wraps_around() {
    let mut queue = queue_of(3, 3);
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
    Add(usize),
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
        1 => (0_usize..8).prop_map(Call::Add),
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
    fn the_queue_behaves_like_a_plain_one(
        levels in prop_oneof![1_u32..5, 1_u32..80],
        calls in prop::collection::vec(any_call(), 1..120),
    ) {
        let mut queue = queue_of(levels, 0);
        let mut plain = Plain { levels: vec![Vec::new(); levels as usize], of: vec![(0, Span::ZERO); 8], inherited: vec![usize::MAX; 8] };
        (0..8).for_each(|thread| queue.add(ThreadId(thread)));
        for call in calls {
            let is_queued = |plain: &Plain, thread: usize| plain.levels.iter().flatten().any(|&other| other == thread as u32);
            match call {
                Call::Add(thread) if !is_queued(&plain, thread) => {
                    queue.add(ThreadId(thread as u32));
                    (plain.of[thread], plain.inherited[thread]) = ((0, Span::ZERO), usize::MAX);
                }
                Call::Take => {
                    let found = plain.take_if(|_| true);
                    prop_assert_eq!(queue.take(), found);
                }
                Call::TakeSome(barred) => {
                    let may_run = |thread: ThreadId| thread.0 != barred;
                    let level = queue.highest_if(may_run).map(|level| level.0 as usize);
                    let first = plain.levels.iter().position(|level| level.iter().any(|&thread| thread != barred));
                    prop_assert_eq!(level, first);
                    let found = plain.take_if(|thread| thread != barred);
                    prop_assert_eq!(queue.take_if(may_run), found);
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
            let order: Vec<u32> = plain.levels.iter().flatten().copied().collect();
            prop_assert_eq!(take_all(&mut queue.clone()), order);
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
