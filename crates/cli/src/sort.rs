//! `rowlock sort`: sorts records or lines, out of core.

mod done;
mod interruptible;
pub(crate) mod size;

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, anyhow};
use pipeline::Canceller;
use sort::{Algorithm, Format, Input, Order, Output, Sort, SortError, Variant};

use self::done::Done;
use self::interruptible::{Interrupt, Interruptible};
use crate::arguments::{self, TextOrJson};
use crate::output::{print, tell};
use crate::signals::Signals;
use crate::stop::Stop;

/// What ends the programs that write to a pipe that nobody reads any more.
const SIGPIPE: u8 = signal_hook::consts::SIGPIPE as u8;

/// Sorts, and says what was done.
pub(crate) fn sort(arguments: &arguments::sort::Sort) -> Result<(), Stop> {
    let memory = arguments.memory();
    let sort = prepare(arguments, memory)?;
    let (input, interrupt) = input(&arguments.input)?;
    let output = output(&arguments.output)?;
    let is_stream = !output.is_file();
    if is_stream && arguments.format == TextOrJson::Json {
        let name = arguments.output.display();
        return Err(Stop::Input(anyhow!("--format json: OUT has to be a file, which {name} is not")));
    }
    let canceller = Canceller::new();
    let signals = catch(canceller.clone(), interrupt, is_stream)?;

    let began = Instant::now();
    let outcome = match sort.run_until(input, output, &canceller) {
        Ok(outcome) => outcome,
        Err(_) if signals.number() != 0 => {
            tell("interrupted: the target is as it was");
            return Err(Stop::Interrupted(signals.number()));
        }
        Err(why) => return Err(stop(why, is_stream)),
    };
    let done = Done::new(arguments, memory, &outcome, began.elapsed());
    if arguments.format == TextOrJson::Json {
        let json = report::json::render(&done).context("cannot write the report").map_err(Stop::Failed)?;
        return print(&json);
    }
    if !arguments.quiet {
        tell(done.text());
    }
    Ok(())
}

/// What was asked for, if that can be.
fn prepare(arguments: &arguments::sort::Sort, memory: u64) -> Result<Sort, Stop> {
    if let Some(folder) = arguments.tmp.as_deref().filter(|folder| !folder.is_dir()) {
        return Err(Stop::Input(anyhow!("--tmp: {} is no folder", folder.display())));
    }
    let mut keys = if arguments.keys.is_empty() { vec![sort::Key::WHOLE] } else { arguments.keys.clone() };
    for key in &mut keys {
        key.descending ^= arguments.reverse;
    }
    let format = arguments.record.map_or(Format::Lines, Format::Fixed);
    let order = Order::new(format, keys).context("--key").map_err(Stop::Input)?;
    let mut sort = Sort::new(order)
        .memory(memory)
        .temporary(arguments.temporary())
        .algorithm(algorithm(arguments).map_err(Stop::Input)?);
    if arguments.unique {
        sort = sort.unique();
    }
    if arguments.verify {
        sort = sort.verify();
    }
    Ok(if arguments.quiet { sort } else { sort.progress() })
}

fn algorithm(arguments: &arguments::sort::Sort) -> anyhow::Result<Algorithm> {
    use arguments::sort::{Algorithm as Asked, Variant as AskedVariant};
    match (arguments.algorithm, arguments.variant) {
        (Asked::Merge, None) => Ok(Algorithm::Merge),
        (Asked::Merge, Some(_)) => Err(anyhow!("--variant: only columnsort has variants; say --algorithm columnsort")),
        (Asked::Columnsort, _) if arguments.record.is_none() => {
            Err(anyhow!("--algorithm columnsort: it sorts records of one size; say which by --record"))
        }
        (Asked::Columnsort, None | Some(AskedVariant::IoBound)) => Ok(Algorithm::Columnsort(Variant::IoBound)),
        (Asked::Columnsort, Some(AskedVariant::ComputeBound)) => Ok(Algorithm::Columnsort(Variant::ComputeBound)),
    }
}

impl arguments::sort::Sort {
    /// How much memory to use, in bytes.
    fn memory(&self) -> u64 {
        self.memory.unwrap_or_else(|| sort::available_memory() / 4)
    }

    /// The folder for temporary files. They are as large as the input, so the folder of the target, which has to hold that anyway, is a better place
    /// than `/tmp`, which is often in memory.
    fn temporary(&self) -> PathBuf {
        let of_the_user = || std::env::var_os("TMPDIR").filter(|folder| !folder.is_empty()).map(PathBuf::from);
        let folder = || match self.output.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        let of_the_target = || (!is_dash(&self.output) && may_be_a_file(&self.output)).then(folder);
        self.tmp.clone().or_else(of_the_user).or_else(of_the_target).unwrap_or_else(|| PathBuf::from("/var/tmp"))
    }
}

/// Whether it is a file, or nothing yet; and no pipe or device.
fn may_be_a_file(path: &Path) -> bool {
    path.metadata().map_or(true, |about| about.is_file())
}

fn is_dash(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// What is sorted, and what interrupts the wait for more of it, if it may have to be waited for.
fn input(path: &Path) -> Result<(Input, Option<Interrupt>), Stop> {
    let unreadable = |why: io::Error| Stop::Input(anyhow!("cannot read {}: {why}", path.display()));
    let (name, file) = if is_dash(path) {
        let file = File::from(io::stdin().as_fd().try_clone_to_owned().map_err(unreadable)?);
        if !may_wait(&file).map_err(unreadable)? {
            return Ok((Input::standard().map_err(|why| Stop::Input(why.into()))?, None));
        }
        ("the standard input".to_owned(), file)
    } else {
        let file = File::open(path).map_err(unreadable)?;
        if !may_wait(&file).map_err(unreadable)? {
            return Ok((Input::open(path).map_err(|why| Stop::Input(why.into()))?, None));
        }
        (path.display().to_string(), file)
    };
    let (file, interrupt) = Interruptible::new(file).map_err(unreadable)?;
    Ok((Input::stream(name, file), Some(interrupt)))
}

/// Whether reading may have to wait until somebody writes.
fn may_wait(file: &File) -> io::Result<bool> {
    let kind = file.metadata()?.file_type();
    Ok(kind.is_fifo() || kind.is_socket() || kind.is_char_device())
}

fn output(path: &Path) -> Result<Output, Stop> {
    let output = if is_dash(path) { Output::standard() } else { Output::create(path) };
    output.map_err(|why| Stop::Input(why.into()))
}

/// Lets signals end the sort.
fn catch(canceller: Canceller, interrupt: Option<Interrupt>, is_stream: bool) -> Result<Signals, Stop> {
    let end = move |number| {
        if is_stream {
            // Whoever reads may not read on. Nothing is begun that would have to be undone: temporary files have no names.
            std::process::exit(128 + number);
        }
        canceller.cancel();
        drop(interrupt);
    };
    Signals::catch_and(end).context("cannot catch signals").map_err(Stop::Failed)
}

/// What an error means to the one who called.
fn stop(why: SortError, is_stream: bool) -> Stop {
    match why {
        SortError::Write { why, .. } if is_stream && why.kind() == ErrorKind::BrokenPipe => Stop::Interrupted(SIGPIPE),
        SortError::Truncated { .. }
        | SortError::TooLong { .. }
        | SortError::Memory { .. }
        | SortError::Order(_)
        | SortError::Unsupported(_) => Stop::Input(why.into()),
        why => Stop::Failed(why.into()),
    }
}
