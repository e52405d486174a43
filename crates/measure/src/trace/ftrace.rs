//! The trace of a simulation as text, in the format in which the kernel's tracefs prints scheduling
//! events.
//!
//! People and other tools can read it, and `rowlock import` does.
//!
//! A switch takes time that belongs to neither thread. The thread that leaves switches to idle when
//! the switch begins, and the next thread switches from idle when it ends. The running times in the
//! text are therefore exactly the work. Times have nine decimals; the kernel prints six.

use policy::{CpuId, Instant, ThreadId};
use scenario::Setting;
use sim::observer::{CpuState, LeaveReason, Observer, ThreadPhase};
use sim::scheduler::ReadyReason;

use trace::model::Participants;

/// Writes the events of a simulation.
#[derive(Debug)]
pub struct FtraceWriter {
    text: String,
    entries: u64,
    cpus: Vec<Option<ThreadId>>,
    threads: Vec<Thread>,
}

#[derive(Debug)]
struct Thread {
    name: String,
    id: i32,
    process: i32,
    priority: i32,
    /// The CPU on which it last ran.
    cpu: u32,
}

impl FtraceWriter {
    /// Begins the trace of a simulation of `setting` on `cpus` CPUs.
    pub fn new(setting: &Setting, cpus: u32) -> FtraceWriter {
        let participants = Participants::of(setting, cpus);
        let nice: Vec<i8> = setting.jobs_with_copies().map(|(_, job)| job.attributes.nice).collect();
        let thread = |thread: &trace::model::Thread| {
            let job = &participants.jobs[thread.job];
            // A process has the name of its first thread.
            let name = if thread.id == job.id { job.name.clone() } else { thread.name.clone() };
            Thread { name, id: thread.id, process: job.id, priority: 120 + i32::from(nice[thread.job]), cpu: 0 }
        };
        let threads = participants.threads.iter().map(thread).collect();
        let mut ftrace = FtraceWriter { text: String::new(), entries: 0, cpus: vec![None; cpus as usize], threads };
        ftrace.mark(Instant::ZERO, "the run begins");
        ftrace
    }

    /// The trace of a simulation that ended at this moment.
    pub fn finish(mut self, over: Instant) -> String {
        self.mark(over, "the run ends");
        let FtraceWriter { text, entries, cpus, .. } = self;
        format!(
            "# tracer: nop\n#\n# entries-in-buffer/entries-written: {entries}/{entries}   #P:{}\n#\n\
             #           TASK-PID       TGID    CPU#  |||||  TIMESTAMP  FUNCTION\n{text}",
            cpus.len()
        )
    }

    /// Writes an event on a CPU where `thread` runs, or the idle task.
    fn line(&mut self, at: Instant, cpu: u32, thread: Option<ThreadId>, what: &str) {
        let (task, process) = match thread.map(|thread| &self.threads[thread.index()]) {
            Some(Thread { name, id, process, .. }) => (format!("{name}-{id}"), format!("{process:7}")),
            None => ("<idle>-0".to_owned(), "-------".to_owned()),
        };
        let nanos = at.as_nanos();
        let (seconds, fraction) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
        self.text += &format!("{task:>23} ({process}) [{cpu:03}] ..... {seconds:5}.{fraction:09}: {what}\n");
        self.entries += 1;
    }

    fn mark(&mut self, at: Instant, what: &str) {
        self.line(at, 0, None, &format!("tracing_mark_write: rowlock: {what}"));
    }

    fn switch(&mut self, at: Instant, cpu: CpuId, state: &str, to: Option<ThreadId>) {
        let Some(running) = self.cpus.get_mut(cpu.index()) else { return };
        let from = std::mem::replace(running, to);
        let task = |thread: Option<ThreadId>| match thread.map(|thread| &self.threads[thread.index()]) {
            Some(Thread { name, id, priority, .. }) => (name.clone(), *id, *priority),
            None => (format!("swapper/{}", cpu.0), 0, 120),
        };
        let ((from_name, from_id, from_priority), (to_name, to_id, to_priority)) = (task(from), task(to));
        let state = if from.is_some() { state } else { "R" };
        let what = format!(
            "sched_switch: prev_comm={from_name} prev_pid={from_id} prev_prio={from_priority} prev_state={state} ==> \
             next_comm={to_name} next_pid={to_id} next_prio={to_priority}"
        );
        self.line(at, cpu.0, from, &what);
    }

    fn about(&mut self, at: Instant, thread: ThreadId, by: Option<ThreadId>, event: &str, rest: &str) {
        let Thread { name, id, priority, cpu, .. } = &self.threads[thread.index()];
        let (what, cpu) = (format!("{event}: comm={name} pid={id} prio={priority}"), *cpu);
        let rest = if rest.is_empty() { String::new() } else { format!(" {rest}={cpu:03}") };
        self.line(at, cpu, by, &(what + &rest));
    }
}

impl Observer for FtraceWriter {
    fn cpu_changed(&mut self, at: Instant, cpu: CpuId, state: CpuState) {
        let runs = self.cpus.get(cpu.index()).copied().flatten();
        match state {
            CpuState::Switching { from: Some((_, how)), .. } if runs.is_some() => {
                let state = match how {
                    LeaveReason::Preempted => "R+",
                    LeaveReason::Yielding => "R",
                    LeaveReason::Blocking => "S",
                    LeaveReason::Stopped => "T",
                    LeaveReason::Ending => "X",
                };
                self.switch(at, cpu, state, None);
            }
            CpuState::Running(thread) if runs != Some(thread) => {
                self.threads[thread.index()].cpu = cpu.0;
                self.switch(at, cpu, "R+", Some(thread));
            }
            CpuState::Switching { .. } | CpuState::Running(_) | CpuState::Idle => {}
        }
    }

    fn thread_began(&mut self, at: Instant, thread: ThreadId, what: ThreadPhase) {
        if what == ThreadPhase::End {
            self.about(at, thread, Some(thread), "sched_process_exit", "");
        }
    }

    fn thread_ready(&mut self, at: Instant, thread: ThreadId, why: ReadyReason) {
        match why {
            ReadyReason::New => self.about(at, thread, None, "sched_wakeup_new", "target_cpu"),
            ReadyReason::Woken => self.about(at, thread, None, "sched_waking", "target_cpu"),
            ReadyReason::Preempted | ReadyReason::Yielded | ReadyReason::Moved(_) => {}
        }
    }
}
