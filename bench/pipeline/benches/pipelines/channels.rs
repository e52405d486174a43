//! A thread for each stage with channels in between, as programs are written by hand. Boxed tokens
//! circulate from the first stage to the last one and back, so that their number limits the work in
//! flight, and no channel is ever full.

use std::hint::black_box;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use anyhow::{Context, ensure};

use crate::load::{Load, STAGES};

/// A buffer: the number of its item.
type Token = Box<u64>;

/// The sending side of a channel. Returns `false` if it is closed.
trait Give: Send {
    fn give(&self, token: Token) -> bool;
}

/// The receiving side of a channel. Returns `None` if it is closed.
trait Take: Send {
    fn take(&self) -> Option<Token>;
}

macro_rules! channel {
    ($giver:ty, $taker:ty) => {
        impl Give for $giver {
            fn give(&self, token: Token) -> bool {
                self.send(token).is_ok()
            }
        }
        impl Take for $taker {
            fn take(&self) -> Option<Token> {
                self.recv().ok()
            }
        }
    };
}
channel!(SyncSender<Token>, Receiver<Token>);
channel!(crossbeam_channel::Sender<Token>, crossbeam_channel::Receiver<Token>);
channel!(kanal::Sender<Token>, kanal::Receiver<Token>);

/// With the standard library's channels.
pub(crate) fn with_std(load: &Load) -> anyhow::Result<()> {
    ring(load, sync_channel)
}

/// With channels of `crossbeam-channel`.
pub(crate) fn with_crossbeam(load: &Load) -> anyhow::Result<()> {
    ring(load, crossbeam_channel::bounded)
}

/// With channels of `kanal`.
pub(crate) fn with_kanal(load: &Load) -> anyhow::Result<()> {
    ring(load, kanal::bounded)
}

fn ring<G: Give, T: Take>(load: &Load, channel: impl Fn(usize) -> (G, T)) -> anyhow::Result<()> {
    let (mut givers, takers): (Vec<G>, Vec<T>) = (0..STAGES).map(|_| channel(load.buffers)).unzip();
    for _ in 0..load.buffers {
        ensure!(givers[0].give(Box::default()), "a new channel is closed");
    }
    // A stage receives from the channel of its own number and sends to the next one.
    givers.rotate_left(1);
    thread::scope(|scope| {
        let mut stages = Vec::new();
        for (number, (giver, taker)) in givers.into_iter().zip(takers).enumerate() {
            stages.push(scope.spawn(move || match number {
                0 => first(load, &giver, &taker),
                number if number == STAGES - 1 => last(load, &giver, &taker),
                number => middle(load, number, &giver, &taker),
            }));
        }
        stages.into_iter().try_for_each(|stage| stage.join().ok().context("a stage has panicked")?)
    })
}

fn first(load: &Load, giver: &impl Give, taker: &impl Take) -> anyhow::Result<()> {
    for item in 0..load.items {
        let mut token = taker.take().context("a channel was closed early")?;
        *token = item;
        load.stage(0);
        ensure!(giver.give(token), "a channel was closed early");
    }
    Ok(())
}

fn middle(load: &Load, number: usize, giver: &impl Give, taker: &impl Take) -> anyhow::Result<()> {
    while let Some(token) = taker.take() {
        black_box(&*token);
        load.stage(number);
        ensure!(giver.give(token), "a channel was closed early");
    }
    Ok(())
}

fn last(load: &Load, giver: &impl Give, taker: &impl Take) -> anyhow::Result<()> {
    let mut seen = 0;
    while let Some(token) = taker.take() {
        ensure!(*token == seen, "item {token} arrived in place of {seen}");
        load.stage(STAGES - 1);
        seen += 1;
        // The first stage may have ended, since it does not need the last tokens.
        giver.give(token);
    }
    ensure!(seen == load.items, "{seen} of {} items arrived", load.items);
    Ok(())
}
