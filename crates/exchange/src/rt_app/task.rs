//! Parses the tasks, phases and events in an rt-app file.

use std::collections::HashSet;
use std::ops::Range;

use policy::{CpuId, CpuSet, Span};
use scenario::Diagnostic;
use scenario::diagnostics::{did_you_mean, quoted};

use crate::json::{Document, Member, Node, Value};
use crate::name::Names;

/// The largest integer that rt-app accepts: it uses C's `int`.
pub(super) const LARGEST: i64 = i32::MAX as i64;

/// The parts of a file that matter for a scenario.
#[derive(Debug)]
pub(super) struct File {
    pub(super) tasks: Vec<Task>,
    /// Settings that are ignored because they do not affect the workload.
    pub(super) notes: Vec<String>,
}

/// A task object: a number of equal threads.
#[derive(Debug, Default)]
pub(super) struct Task {
    pub(super) name: String,
    pub(super) place: Range<usize>,
    pub(super) instances: u32,
    pub(super) delay: Span,
    pub(super) nice: i8,
    pub(super) cpus: Option<CpuSet>,
    pub(super) slice: Option<Span>,
    pub(super) loops: Loops,
    pub(super) phases: Vec<Phase>,
}

#[derive(Debug)]
pub(super) struct Phase {
    pub(super) loops: Loops,
    pub(super) events: Vec<Event>,
}

/// A number of rounds; `None` is endless.
#[derive(Clone, Debug, Default)]
pub(super) struct Loops {
    pub(super) times: Option<u64>,
    /// The place in the file.
    pub(super) place: Range<usize>,
}

#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) kind: EventKind,
    /// The whole key, such as `run_read`.
    pub(super) key: String,
    pub(super) place: Range<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum EventKind {
    Run(Span),
    Sleep(Span),
    Lock(String),
    Unlock(String),
    Barrier(String),
}

/// The prefixes of event keys. If one is a prefix of another, their order is that of rt-app.
const EVENTS: [&str; 20] = [
    "lock", "unlock", "wait", "signal", "broad", "sync", "sleep", "runtime", "run", "timer", "suspend", "resume",
    "memrun", "mem", "iorun", "yield", "barrier", "fork", "sem_post", "sem_wait",
];

/// Keys of tasks and phases other than events.
const PROPERTIES: [&str; 8] = ["instance", "delay", "loop", "phases", "policy", "priority", "dl-runtime", "cpus"];

/// The same, of those that a scenario cannot express.
const UNSUPPORTED: [&str; 8] =
    ["dl-period", "dl-deadline", "period", "deadline", "util_min", "util_max", "nodes_membind", "taskgroup"];

/// Global settings for measuring and logging, which do not affect the workload.
const MEASUREMENT_SETTINGS: [&str; 10] = [
    "calibration",
    "lock_pages",
    "logdir",
    "log_basename",
    "log_size",
    "ftrace",
    "gnuplot",
    "io_device",
    "mem_buffer_size",
    "cumulative_slack",
];

/// The reason why an event is rejected, and a hint.
fn refusal(event: &str) -> (&'static str, &'static str) {
    match event {
        "runtime" => (
            "`runtime` follows the clock, so that time without a CPU counts as work; a scenario's threads compute a fixed amount",
            "write `run`",
        ),
        "timer" => (
            "a scenario has no timers: its threads pause for a fixed time, whenever the pause began",
            "write `sleep` with the rest of the period after the `run`",
        ),
        "mem" | "memrun" | "iorun" => (
            "a scenario's threads only compute: it has no memory and no files",
            "write the time that it takes as `run`",
        ),
        "yield" => ("a scenario's threads yield only by a waiting rule", "leave it out"),
        "fork" => ("a scenario's jobs cannot start others", "give the forked task a `delay`"),
        _ => (
            "a scenario's threads meet at a barrier or take turns at a lock; it has no condition variables and semaphores",
            "write `barrier`, or `lock` and `unlock`",
        ),
    }
}

/// Parses the JSON of a file. Adds problems to `found`.
pub(super) fn read(document: &Document, found: &mut Vec<Diagnostic>) -> File {
    let mut reader = Reader { found, notes: Vec::new() };
    let mut tasks = None;
    let members = reader.members(&document.root, "an rt-app file");
    reader.distinct(members);
    for member in members {
        match member.key.as_str() {
            "tasks" => tasks = Some(member),
            "global" => reader.global(&member.node),
            "resources" => {
                reader.notes.push("`resources` is ignored: rt-app creates them where they are used".to_owned());
            }
            _ => reader.unknown(member, &["tasks", "global", "resources"]),
        }
    }
    let tasks = match tasks {
        Some(tasks) => reader.tasks(tasks),
        None => {
            reader.wrong(document.root.span.clone(), "there are no `tasks`", "is this a file for rt-app?");
            Vec::new()
        }
    };
    File { tasks, notes: reader.notes }
}

struct Reader<'f> {
    found: &'f mut Vec<Diagnostic>,
    notes: Vec<String>,
}

impl Reader<'_> {
    fn wrong(&mut self, place: Range<usize>, message: &str, help: &str) {
        self.found.push(Diagnostic::new(place, message).help(help));
    }

    /// Reports repeated keys, which only events may be.
    fn distinct(&mut self, members: &[Member]) {
        let mut seen = HashSet::new();
        for member in members.iter().filter(|member| !is_event(&member.key)) {
            if !seen.insert(&member.key) {
                let message = format!("{} is repeated", quoted(&member.key));
                self.wrong(member.place.clone(), &message, "only events and tasks may be repeated; keep one of them");
            }
        }
    }

    fn unknown(&mut self, member: &Member, known: &[&str]) {
        let message = format!("there is no key {} here", quoted(&member.key));
        let help = did_you_mean(&member.key, known.iter().copied());
        let help = help.unwrap_or_else(|| "rt-app would ignore it silently: leave it out".to_owned());
        self.wrong(member.place.clone(), &message, &help);
    }

    /// Reports a value of the wrong type, and returns `None` in place of one.
    fn mismatch<T>(&mut self, node: &Node, expected: &str) -> Option<T> {
        let message = format!("this is {}, but {expected} is needed", node.value.kind());
        self.wrong(node.span.clone(), &message, &format!("write {expected}"));
        None
    }

    fn members<'n>(&mut self, node: &'n Node, what: &str) -> &'n [Member] {
        match &node.value {
            Value::Object(members) => members,
            _ => {
                let message = format!("this is {}, but {what} must be an object", node.value.kind());
                self.wrong(node.span.clone(), &message, "write an object");
                &[]
            }
        }
    }

    fn whole(&mut self, node: &Node, least: i64, most: i64) -> Option<i64> {
        let Value::Whole(number) = node.value else { return self.mismatch(node, "an integer") };
        let fits = (least..=most).contains(&number);
        if !fits {
            let message = format!("this number is not between {least} and {most}");
            self.wrong(node.span.clone(), &message, "rt-app accepts no other here");
        }
        fits.then_some(number)
    }

    /// Reads a time in microseconds.
    fn micros(&mut self, node: &Node) -> Option<Span> {
        let number = self.whole(node, 0, LARGEST)?;
        Some(Span::from_micros(number.unsigned_abs()))
    }

    fn text<'n>(&mut self, node: &'n Node) -> Option<&'n str> {
        match &node.value {
            Value::Text(text) => Some(text),
            _ => self.mismatch(node, "a string"),
        }
    }

    fn global(&mut self, node: &Node) {
        let members = self.members(node, "rt-app's settings");
        self.distinct(members);
        for member in members {
            match member.key.as_str() {
                "duration" if member.node.value == Value::Whole(-1) => {}
                "duration" => self.wrong(
                    member.node.span.clone(),
                    "a scenario has no `duration`: it ends when its jobs end",
                    "write -1, and the number of rounds as `loop` in each task that sleeps or waits",
                ),
                "default_policy" => self.policy(&member.node),
                "pi_enabled" if member.node.value == Value::Flag(false) => {}
                "pi_enabled" => {
                    let message = "a scenario's locks have no priority inheritance";
                    self.wrong(member.node.span.clone(), message, "write false");
                }
                key if MEASUREMENT_SETTINGS.contains(&key) => {
                    self.notes.push(format!("`{key}` is ignored: it controls how rt-app measures and logs"));
                }
                _ => {
                    let known = ["duration", "default_policy", "pi_enabled"];
                    self.unknown(member, &[&known[..], &MEASUREMENT_SETTINGS[..]].concat());
                }
            }
        }
    }

    /// Accepts only the policy of normal threads.
    fn policy(&mut self, node: &Node) {
        if self.text(node).is_some_and(|policy| policy != "SCHED_OTHER") {
            let help = "write \"SCHED_OTHER\"; a `priority` is then a nice value";
            self.wrong(node.span.clone(), "a scenario's threads all use SCHED_OTHER", help);
        }
    }

    fn tasks(&mut self, member: &Member) -> Vec<Task> {
        let members = self.members(&member.node, "the list of tasks");
        if members.is_empty() {
            self.wrong(member.place.clone(), "there are no tasks", "write at least one");
        }
        let mut names = Names::default();
        members.iter().filter_map(|member| self.task(member, &mut names)).collect()
    }

    fn task(&mut self, member: &Member, names: &mut Names) -> Option<Task> {
        let count = self.found.len();
        let members = self.members(&member.node, "a task");
        // Tasks with the same name get a number, as in rt-app's workgen.
        let name = names.take(&member.key);
        if name != member.key {
            self.notes.push(format!("task {} becomes job `{name}`", quoted(&member.key)));
        }
        let nowhere = member.place.clone();
        let mut task = Task {
            name,
            place: member.place.clone(),
            instances: 1,
            loops: Loops { times: None, place: nowhere.clone() },
            ..Task::default()
        };
        let phases = members.iter().find(|member| member.key == "phases");
        let mut own = Phase { loops: Loops { times: Some(1), place: nowhere }, events: Vec::new() };
        self.distinct(members);
        for member in members {
            match member.key.as_str() {
                "instance" => task.instances = self.whole(&member.node, 1, LARGEST)?.try_into().ok()?,
                "delay" => task.delay = self.micros(&member.node)?,
                "phases" => {}
                "loop" => task.loops = self.read_loops(&member.node)?,
                _ if is_event(&member.key) && phases.is_some() => {
                    let message = "rt-app ignores events beside `phases`";
                    self.wrong(member.place.clone(), message, "put it into one of the phases");
                }
                _ => self.property_or_event(member, &mut task, &mut own),
            }
        }
        match phases {
            Some(phases) => self.phases(phases, &mut task),
            // rt-app then repeats the phase instead of the task, which is equivalent.
            None => task.phases.push(own),
        }
        if task.phases.iter().all(|phase| phase.events.is_empty()) && self.found.len() == count {
            self.wrong(member.place.clone(), "this task has no events", "write at least a `run`");
        }
        (self.found.len() == count).then_some(task)
    }

    fn phases(&mut self, member: &Member, task: &mut Task) {
        let phases = self.members(&member.node, "the list of phases");
        for phase in phases {
            let mut read = Phase { loops: Loops { times: Some(1), place: phase.place.clone() }, events: Vec::new() };
            let members = self.members(&phase.node, "a phase");
            self.distinct(members);
            for member in members {
                match member.key.as_str() {
                    "loop" => read.loops = self.read_loops(&member.node).unwrap_or(read.loops),
                    "instance" | "delay" | "phases" => {
                        self.wrong(member.place.clone(), "this belongs to a task, not to a phase", "move it up");
                    }
                    key if [PROPERTIES, UNSUPPORTED].concat().contains(&key) && phases.len() > 1 => self.wrong(
                        member.place.clone(),
                        "a scenario cannot change how a thread is scheduled",
                        "write it once, at the task, or split it into two tasks",
                    ),
                    _ => self.property_or_event(member, task, &mut read),
                }
            }
            task.phases.push(read);
        }
    }

    fn read_loops(&mut self, node: &Node) -> Option<Loops> {
        let times = self.whole(node, -1, LARGEST)?;
        if times == 0 {
            self.wrong(node.span.clone(), "a loop of 0 rounds does nothing", "leave it out, or write 1");
            return None;
        }
        Some(Loops { times: u64::try_from(times).ok(), place: node.span.clone() })
    }

    fn property_or_event(&mut self, member: &Member, task: &mut Task, phase: &mut Phase) {
        let node = &member.node;
        match member.key.as_str() {
            "policy" => self.policy(node),
            "priority" => {
                let nice = self.whole(node, -20, 19).and_then(|nice| i8::try_from(nice).ok());
                task.nice = nice.unwrap_or(task.nice);
            }
            "dl-runtime" => task.slice = self.micros(node).filter(|slice| !slice.is_zero()),
            "cpus" => task.cpus = self.cpus(node),
            key if UNSUPPORTED.contains(&key) => {
                let message = format!("a scenario cannot express {}", quoted(&member.key));
                self.wrong(member.place.clone(), &message, "leave it out");
            }
            key if is_event(key) => phase.events.extend(self.event(member)),
            _ => self.unknown(member, &[&PROPERTIES[..], &UNSUPPORTED, &EVENTS].concat()),
        }
    }

    fn cpus(&mut self, node: &Node) -> Option<CpuSet> {
        let Value::List(items) = &node.value else { return self.mismatch(node, "an array of CPUs, as in [0, 2],") };
        let mut cpus = CpuSet::default();
        for item in items {
            let cpu = self.whole(item, 0, i64::from(CpuSet::LARGEST))?;
            cpus.insert(CpuId(u32::try_from(cpu).ok()?));
        }
        if cpus.is_empty() {
            self.wrong(node.span.clone(), "a thread needs at least one CPU", "name a CPU, or leave it out");
            return None;
        }
        Some(cpus)
    }

    fn event(&mut self, member: &Member) -> Option<Event> {
        let prefix = EVENTS.into_iter().find(|event| member.key.starts_with(event))?;
        let kind = match prefix {
            "run" => EventKind::Run(self.micros(&member.node)?),
            "sleep" => EventKind::Sleep(self.micros(&member.node)?),
            "lock" => EventKind::Lock(self.text(&member.node)?.to_owned()),
            "unlock" => EventKind::Unlock(self.text(&member.node)?.to_owned()),
            "barrier" => EventKind::Barrier(self.text(&member.node)?.to_owned()),
            _ => {
                let (message, help) = refusal(prefix);
                self.wrong(member.place.clone(), message, help);
                return None;
            }
        };
        Some(Event { kind, key: member.key.clone(), place: member.place.clone() })
    }
}

fn is_event(key: &str) -> bool {
    // `lock_pages` is a global setting, but rt-app would take it for a `lock` here.
    EVENTS.iter().any(|event| key.starts_with(event))
}
