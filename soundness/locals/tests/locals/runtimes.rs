//! `tokio`: which runtime a thread is in, the tasks of a thread, and its budget.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::mpsc::channel;
use tokio::task::{LocalSet, spawn_local};
use ways::{each, switch, together};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}

/// Switches and returns to the executor, in turns.
async fn switches(turns: u32) {
    let mut left = turns;
    poll_fn(|context| {
        switch();
        left -= 1;
        if left == 0 {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

fn guards_of_runtimes_may_overlap_in_strands() -> Vec<bool> {
    together(3, |_| {
        let (one, other) = (runtime(), runtime());
        let is = |runtime: &Runtime| {
            switch();
            Handle::try_current().is_ok_and(|current| current.id() == runtime.handle().id())
        };
        let outer = one.enter();
        let first = is(&one);
        let inner = other.enter();
        let second = is(&other);
        drop(inner);
        let third = is(&one);
        drop(outer);
        switch();
        first && second && third && Handle::try_current().is_err()
    })
}

fn strands_block_on_runtimes_of_their_own() -> Vec<u32> {
    together(3, |who| {
        let runtime = runtime();
        let sum = runtime.block_on(async {
            let tasks = (0..4).map(|task| {
                tokio::spawn(async move {
                    switches(5).await;
                    task
                })
            });
            let mut sum = 100 * who as u32;
            for task in tasks.collect::<Vec<_>>() {
                switch();
                sum += task.await.unwrap();
            }
            sum
        });
        switch();
        drop(runtime);
        sum
    })
}

/// Tasks that are not `Send` belong to a thread.
fn local_tasks_stay_with_their_strand() -> Vec<usize> {
    together(3, |who| {
        let (local, shared) = (LocalSet::new(), Rc::new(Cell::new(who)));
        local.block_on(&runtime(), async {
            let tasks: Vec<_> = (0..4)
                .map(|_| {
                    let shared = Rc::clone(&shared);
                    spawn_local(async move {
                        let before = shared.get();
                        switch();
                        shared.set(before + 10);
                        switches(3).await;
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
        shared.get()
    })
}

tokio::task_local! {
    static TASK: usize;
}

fn values_of_tasks_belong_to_tasks() -> Vec<(usize, bool)> {
    together(3, |who| {
        let value = runtime().block_on(TASK.scope(who, async {
            switches(4).await;
            TASK.get()
        }));
        let inner = TASK.sync_scope(who, || {
            switch();
            TASK.get() == who
        });
        switch();
        (value, inner && TASK.try_with(|_| ()).is_err())
    })
}

/// An executor in an executor of the same thread is refused.
fn a_runtime_inside_a_runtime_is_refused_and_beside_it_is_not() -> Vec<bool> {
    together(3, |_| {
        let (outer, inner) = (runtime(), runtime());
        outer.block_on(async {
            switch();
            let refused = std::panic::catch_unwind(|| inner.block_on(async {})).is_err();
            switch();
            refused
        })
    })
}

/// These wait in the kernel.
fn sleeps_end_and_strands_wake_each_other() -> Vec<usize> {
    let (mut senders, receivers): (Vec<_>, Vec<_>) = (0..3).map(|_| channel::<usize>(1)).unzip();
    senders.rotate_left(1);
    each(senders.into_iter().zip(receivers).enumerate(), |(who, (next, mut receiver))| {
        runtime().block_on(async {
            let sends = tokio::spawn(async move {
                for round in 0..5 {
                    tokio::time::sleep(Duration::from_micros(300)).await;
                    next.send(who * 10 + round).await.unwrap();
                }
            });
            let mut sum = 0;
            while let Some(value) = receiver.recv().await {
                switch();
                sum += value;
            }
            sends.await.unwrap();
            sum
        })
    })
}

mod switching {
    use super::*;
    ways::in_every_way! {
        guards_of_runtimes_may_overlap_in_strands
        strands_block_on_runtimes_of_their_own
        local_tasks_stay_with_their_strand
        values_of_tasks_belong_to_tasks
        a_runtime_inside_a_runtime_is_refused_and_beside_it_is_not
    }
}

mod waiting {
    use super::*;
    ways::in_every_way! {
        if_calls_are_interposed;
        sleeps_end_and_strands_wake_each_other
    }
}
