//! The ranks of a message job as threads.
//!
//! * **Send.** A message within a cell arrives at once, one to another cell when the network has
//!   carried it. Sending takes no time of the sender.
//! * **Arrive.** A message is stored in the mailbox of its receiver, whether that runs or not. If
//!   it is the last one that a waiting rank needs, a blocked rank is woken. A rank that spins with
//!   a CPU continues after all else that the event causes. Others look when they have a CPU.
//! * **Sleep.** A rank that sleeps is blocked. Messages that arrive meanwhile do not wake it.
//!
//! Receiving costs nothing beyond the switches that it causes. A waiter knows the ranks of which it
//! misses a message, and the CPUs on which they last did something. It is kept from wait to wait.

use policy::record::Recorder;
use policy::waiting::Observation;
use policy::{CpuId, ThreadId};

use super::Engine;
use super::device::TimedEvent;
use super::observer::{Observer, ThreadPhase};
use super::scheduler::Scheduler;
use super::threads::Activity;
use crate::workloads::messages::RankAction;

impl<S: Scheduler, R: Recorder + Default, W: Observer + ?Sized> Engine<'_, S, R, W> {
    /// A rank has a CPU and continues, until its next action takes time.
    pub(super) fn run_rank(&mut self, cpu: CpuId, thread: ThreadId) {
        let (job, rank) = self.workload.job_and_number(thread);
        self.workload.member(thread.index()).last_seen = Some(cpu);
        let now = self.now;
        loop {
            let of = &mut self.workload.jobs[job];
            let Some(messages) = &mut of.messages else { return };
            let action = messages.next(rank);
            if messages.has_begun {
                of.began.get_or_insert(now);
            }
            of.rounds_done = messages.rounds_done;
            match action {
                RankAction::Compute(left) => {
                    self.workload.threads[thread.index()].activity = Activity::Compute { left };
                    self.observer.thread_began(self.now, thread, ThreadPhase::Computation);
                    return self.await_event(cpu, thread);
                }
                RankAction::Sleep(span) => return self.sleep(cpu, thread, Some(self.now + span)),
                RankAction::Send => self.send_messages(thread),
                RankAction::Receive => {
                    if !self.receive(thread) {
                        let waiting = &mut self.workload.threads[thread.index()];
                        (waiting.is_waiting, waiting.has_spun) = (true, false);
                        return self.decide(cpu, thread, Observation::Arrived);
                    }
                }
                RankAction::EndRound { done } => {
                    if done && !self.keep_running {
                        return self.end(cpu, thread);
                    }
                    if done {
                        self.count_as_ended(thread);
                    }
                }
            }
        }
    }

    /// A rank sends a message to each of its receivers.
    fn send_messages(&mut self, from: ThreadId) {
        let (job, rank) = self.workload.job_and_number(from);
        let (first, cell) = (self.workload.jobs[job].threads.start as u32, self.workload.threads[from.index()].cell());
        let mut sent = 0;
        while let Some(messages) = &self.workload.jobs[job].messages
            && let Some(receiver) = messages.receivers(rank).get(sent)
        {
            sent += 1;
            let to = ThreadId(first + receiver);
            self.observer.message_sent(self.now, from, to);
            if self.workload.threads[to.index()].cell() == cell {
                self.deliver_message(from, to);
            } else {
                let at = self.network.send(self.now, cell.index(), messages.transmission);
                self.set_timed_event(at, TimedEvent::MessageArrives { from, to });
            }
        }
    }

    /// A message arrives.
    pub(super) fn deliver_message(&mut self, from: ThreadId, to: ThreadId) {
        let (job, receiver) = self.workload.job_and_number(to);
        let of = &mut self.workload.jobs[job];
        let sender = from.index() - of.threads.start;
        let was_missing = of.messages.as_mut().is_some_and(|messages| messages.arrive(sender, receiver));
        let thread = &self.workload.threads[to.index()];
        if !was_missing || !thread.is_waiting {
            return;
        }
        match thread.activity {
            Activity::Block => {
                self.observer.thread_woken(self.now, from, to);
                self.wake(to);
            }
            Activity::Spin { .. } => self.receivers.push(to),
            _ => {}
        }
        self.prefer_receiver(to);
    }

    /// Lets the ranks continue that spin with a CPU and whose last message has arrived in this
    /// event.
    #[inline]
    pub(super) fn continue_receivers(&mut self) {
        let mut next = 0;
        while let Some(&receiver) = self.receivers.get(next) {
            next += 1;
            if let Some(cpu) = self.workload.spins_on(receiver)
                && self.workload.has_messages(receiver)
            {
                self.charge(cpu);
                self.end_message_wait(cpu, receiver);
            }
        }
        self.receivers.clear();
    }

    /// A waiting rank that has a CPU receives its messages.
    pub(super) fn end_message_wait(&mut self, cpu: CpuId, thread: ThreadId) {
        self.workload.threads[thread.index()].is_waiting = false;
        self.workload.note_wait_over(thread.index());
        self.end_wait(thread);
        self.receive(thread);
        self.run_rank(cpu, thread);
    }

    /// A rank takes a message of each of its senders, if they are there.
    fn receive(&mut self, thread: ThreadId) -> bool {
        let (job, rank) = self.workload.job_and_number(thread);
        let of = &mut self.workload.jobs[job];
        let Some(messages) = &mut of.messages else { return false };
        let has_received = messages.receive(rank);
        if has_received {
            let senders = messages.senders(rank).map(|sender| ThreadId(of.threads.start as u32 + sender));
            senders.for_each(|sender| self.observer.message_received(self.now, sender, thread));
        }
        has_received
    }
}
