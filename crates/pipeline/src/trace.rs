//! A log of the calls of all stages, and its trace file.

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use serde::Serialize;
use serde_json::{Value, json};

/// A copy of a stage logs at most this many calls, about 40 MB.
const MOST: usize = 1 << 20;

#[derive(Clone, Debug)]
pub(crate) struct CallRecord {
    pub(crate) stage: Arc<str>,
    pub(crate) round: u64,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// The calls of one copy of a stage group.
#[derive(Debug)]
pub(crate) struct CallLog {
    beginning: Instant,
    pub(crate) is_enabled: bool,
    pub(crate) calls: Vec<CallRecord>,
}

impl CallLog {
    pub(crate) fn new(beginning: Instant, is_enabled: bool) -> CallLog {
        CallLog { beginning, is_enabled, calls: Vec::new() }
    }

    pub(crate) fn since_beginning(&self, now: Instant) -> u64 {
        now.duration_since(self.beginning).as_nanos() as u64
    }

    /// The time since the beginning of the run, in nanoseconds.
    pub(crate) fn now(&self) -> u64 {
        self.since_beginning(Instant::now())
    }

    pub(crate) fn record(&mut self, stage: &Arc<str>, round: u64, from: Instant, to: Instant) {
        if self.is_enabled && self.calls.len() < MOST {
            let (from, to) = (self.since_beginning(from), self.since_beginning(to));
            self.calls.push(CallRecord { stage: stage.clone(), round, from, to });
        }
    }
}

/// Held while a run writes its trace, since all runs of a process use the same file.
static WRITING: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// An event in the format of Chrome's trace viewer and Perfetto.
#[derive(Serialize)]
#[serde(tag = "ph")]
enum Event<'a> {
    /// Names a process, or one of its rows.
    #[serde(rename = "M")]
    Name { name: &'a str, pid: u32, tid: usize, args: Value },
    /// A call, with times in microseconds.
    #[serde(rename = "X")]
    Call { name: &'a str, cat: &'a str, pid: u32, tid: usize, ts: f64, dur: f64, args: Value },
}

/// Writes a trace file for Perfetto, with a row for each copy of a stage or of a group.
pub(crate) fn write(path: &Path, program: &str, rows: &[CallLog]) -> io::Result<()> {
    let _alone = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let target = sys::files::Target::create(path)?;
    let mut file = BufWriter::new(target.file());
    let pid = std::process::id();
    write!(file, "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
    let process = Event::Name { name: "process_name", pid, tid: 0, args: json!({ "name": program }) };
    serde_json::to_writer(&mut file, &process)?;
    for (row, log) in rows.iter().enumerate() {
        let tid = row + 1;
        // The stages of a group are called in the order of the pipeline for each buffer.
        let first = log.calls.first().map(|call| call.round);
        let stages = log.calls.iter().take_while(|call| Some(call.round) == first).map(|call| &*call.stage);
        let name = stages.collect::<Vec<&str>>().join("+");
        let thread = Event::Name { name: "thread_name", pid, tid, args: json!({ "name": name }) };
        file.write_all(b",\n")?;
        serde_json::to_writer(&mut file, &thread)?;
        for CallRecord { stage, round, from, to } in &log.calls {
            let [ts, end] = [from, to].map(|&nanos| nanos as f64 / 1000.0);
            let args = json!({ "buffer": round });
            file.write_all(b",\n")?;
            let call = Event::Call { name: stage, cat: "stage", pid, tid, ts, dur: end - ts, args };
            serde_json::to_writer(&mut file, &call)?;
        }
    }
    file.write_all(b"]}\n")?;
    file.flush()?;
    drop(file);
    target.finish()
}
