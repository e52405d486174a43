//! Which stage was called when, for a picture of the run.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use serde::Serialize;

/// No more calls than these are noted by a copy of a stage: some 40 MB.
const MOST: usize = 1 << 20;

/// One call.
#[derive(Clone, Debug)]
pub(crate) struct Note {
    pub(crate) stage: Arc<str>,
    pub(crate) round: u64,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// What one copy of a stage notes.
#[derive(Debug)]
pub(crate) struct Notes {
    beginning: Instant,
    are_wanted: bool,
    pub(crate) notes: Vec<Note>,
}

impl Notes {
    pub(crate) fn new(beginning: Instant, are_wanted: bool) -> Notes {
        Notes { beginning, are_wanted, notes: Vec::new() }
    }

    pub(crate) fn are_wanted(&self) -> bool {
        self.are_wanted
    }

    pub(crate) fn since_beginning(&self, now: Instant) -> u64 {
        now.duration_since(self.beginning).as_nanos() as u64
    }

    pub(crate) fn called(&mut self, stage: &Arc<str>, round: u64, from: Instant, to: Instant) {
        if self.are_wanted && self.notes.len() < MOST {
            let (from, to) = (self.since_beginning(from), self.since_beginning(to));
            self.notes.push(Note { stage: stage.clone(), round, from, to });
        }
    }
}

/// One run at a time writes its trace: the file of several is the same.
static WRITING: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// An event as Chrome's trace viewer and Perfetto read it.
#[derive(Serialize)]
#[serde(tag = "ph")]
enum Event<'a> {
    /// A name for a process or a row of it.
    #[serde(rename = "M")]
    Name { name: &'a str, pid: u32, tid: usize, args: Named<'a> },
    /// Something that lasted, in microseconds.
    #[serde(rename = "X")]
    Call { name: &'a str, cat: &'a str, pid: u32, tid: usize, ts: f64, dur: f64, args: Numbered },
}

#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
}

#[derive(Serialize)]
struct Numbered {
    buffer: u64,
}

/// Writes what was noted as a file that Perfetto opens: a row for each copy of a stage, or of several that are run as one.
pub(crate) fn write(path: &Path, program: &str, rows: &[Notes]) -> io::Result<()> {
    let _alone = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut file = BufWriter::new(File::create(path)?);
    let pid = std::process::id();
    write!(file, "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
    let process = Event::Name { name: "process_name", pid, tid: 0, args: Named { name: program } };
    serde_json::to_writer(&mut file, &process)?;
    for (row, notes) in rows.iter().enumerate() {
        let tid = row + 1;
        // Stages that are run as one are called in the order of the pipeline for each buffer.
        let first = notes.notes.first().map(|note| note.round);
        let stages = notes.notes.iter().take_while(|note| Some(note.round) == first).map(|note| &*note.stage);
        let name = stages.collect::<Vec<&str>>().join("+");
        let thread = Event::Name { name: "thread_name", pid, tid, args: Named { name: &name } };
        file.write_all(b",\n")?;
        serde_json::to_writer(&mut file, &thread)?;
        for Note { stage, round, from, to } in &notes.notes {
            let [ts, end] = [from, to].map(|&nanos| nanos as f64 / 1000.0);
            let args = Numbered { buffer: *round };
            file.write_all(b",\n")?;
            let call = Event::Call { name: stage, cat: "stage", pid, tid, ts, dur: end - ts, args };
            serde_json::to_writer(&mut file, &call)?;
        }
    }
    file.write_all(b"]}\n")?;
    file.flush()
}
