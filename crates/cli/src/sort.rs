//! `rowlock sort`: sorts records or lines, out of core.

mod done;
mod interruptible;
mod ranks;

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use pipeline::Canceller;
use sort::{Algorithm, Format, Input, Order, Outcome, Output, Sort, SortError, Variant};

use self::done::SortReport;
use self::interruptible::{Interrupt, Interruptible};
use crate::arguments::{self, TextOrJson};
use crate::output::{json, print, print_message};
use crate::signals::Signals;
use crate::stop::{OrStop, Stop};

/// The signal for programs that write to a pipe without readers.
const SIGPIPE: u8 = signal_hook::consts::SIGPIPE as u8;
const INTERRUPTED: &str = "interrupted: the target is unchanged";

/// Sorts, and prints a summary.
pub(crate) fn sort(arguments: &arguments::sort::Sort) -> Result<(), Stop> {
    match arguments.ranks {
        Some(ranks) if ranks::is_rank() => ranks::sort_as_rank(arguments, ranks),
        Some(ranks) => ranks::start(arguments, ranks),
        None => sort_alone(arguments),
    }
}

/// The end because of arguments that are refused. If they are those of ranks that sort together,
/// one of these says why.
pub(crate) fn refuse(refusal: clap::Error) -> Result<(), Stop> {
    let mut words = std::env::args_os().skip(1);
    let is_sort = words.next().is_some_and(|command| command == "sort");
    let has_ranks = words.any(|word| word.as_encoded_bytes().split(|&byte| byte == b'=').next() == Some(b"--ranks"));
    let stop = Stop::Refused(refusal);
    let is_error = stop.code() != 0;
    if is_error && is_sort && has_ranks && message::is_launched() { ranks::in_job(|_| Err(stop)) } else { Err(stop) }
}

/// Sorts in this process.
fn sort_alone(arguments: &arguments::sort::Sort) -> Result<(), Stop> {
    sort::fit_into_limits().or_input()?;
    let sort = prepare(arguments)?;
    let (input, interrupt) = input(&arguments.input)?;
    let output = output(&arguments.output)?;
    let is_stream = !output.is_file();
    if is_stream && arguments.format == TextOrJson::Json {
        let name = arguments.output.display();
        return Err(Stop::Input(anyhow!("--format json: OUT has to be a file, which {name} is not")));
    }
    let canceller = Canceller::new();
    let signals = catch(canceller.clone(), interrupt, is_stream)?;

    let started = Instant::now();
    let outcome = match sort.run_until(input, output, &canceller) {
        Ok(outcome) => outcome,
        Err(_) if signals.number() != 0 => {
            print_message(INTERRUPTED);
            return Err(signals.interruption());
        }
        Err(why) => return Err(stop_for(why, is_stream)),
    };
    report(arguments, &outcome, started.elapsed())
}

/// Prints the summary.
fn report(arguments: &arguments::sort::Sort, outcome: &Outcome, elapsed: Duration) -> Result<(), Stop> {
    let done = SortReport::new(arguments, outcome, elapsed);
    if arguments.format == TextOrJson::Json {
        return print(&json(&done, "the report")?);
    }
    if !arguments.quiet {
        print_message(done.text());
    }
    Ok(())
}

/// The sort that the arguments describe.
fn prepare(arguments: &arguments::sort::Sort) -> Result<Sort, Stop> {
    if let Some(folder) = arguments.tmp.as_deref().filter(|folder| !folder.is_dir()) {
        return Err(Stop::Input(anyhow!("--tmp: {} is not a folder", folder.display())));
    }
    let mut keys = if arguments.keys.is_empty() { vec![sort::Key::WHOLE] } else { arguments.keys.clone() };
    for key in &mut keys {
        key.descending ^= arguments.reverse;
    }
    let format = arguments.record.map_or(Format::Lines, Format::Fixed);
    let order = Order::new(format, keys).context("--key").or_input()?;
    Ok(Sort {
        order,
        memory: arguments.memory(),
        temporary: arguments.temporary(),
        algorithm: algorithm(arguments).or_input()?,
        is_unique: arguments.unique,
        verifies: arguments.verify,
        shows_progress: !arguments.quiet,
    })
}

fn algorithm(arguments: &arguments::sort::Sort) -> anyhow::Result<Algorithm> {
    use arguments::sort::{Algorithm as Requested, Variant as RequestedVariant};
    match (arguments.algorithm(), arguments.variant) {
        (Requested::Merge, _) if arguments.ranks.is_some() => {
            Err(anyhow!("--algorithm merge: several ranks sort by columnsort; leave out one of the two options"))
        }
        (Requested::Merge, None) => Ok(Algorithm::Merge),
        (Requested::Merge, Some(_)) => {
            Err(anyhow!("--variant: only columnsort has variants; add --algorithm columnsort"))
        }
        (Requested::Columnsort, _) if arguments.record.is_none() => {
            let option = if arguments.ranks.is_some() { "--ranks" } else { "--algorithm columnsort" };
            Err(anyhow!("{option}: it sorts records of one size; give the size with --record"))
        }
        (Requested::Columnsort, variant) => Ok(Algorithm::Columnsort(match variant.unwrap_or_default() {
            RequestedVariant::IoBound => Variant::IoBound,
            RequestedVariant::ComputeBound => Variant::ComputeBound,
        })),
    }
}

impl arguments::sort::Sort {
    fn algorithm(&self) -> arguments::sort::Algorithm {
        use arguments::sort::Algorithm::{Columnsort, Merge};
        self.algorithm.unwrap_or(if self.ranks.is_some() { Columnsort } else { Merge })
    }

    /// The memory to use, in bytes.
    fn memory(&self) -> u64 {
        self.memory.unwrap_or_else(|| sys::memory::available() / 4)
    }

    /// The folder for temporary files. They are as large as the input. The target's folder must
    /// have that much space anyway, so it is better than `/tmp`, which is often in memory.
    fn temporary(&self) -> PathBuf {
        let of_the_user = || std::env::var_os("TMPDIR").filter(|folder| !folder.is_empty()).map(PathBuf::from);
        let folder = || match self.output.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        let of_the_target = || (!is_dash(&self.output) && can_be_file(&self.output)).then(folder);
        self.tmp.clone().or_else(of_the_user).or_else(of_the_target).unwrap_or_else(|| PathBuf::from("/var/tmp"))
    }
}

/// Whether it is a file or does not exist, as opposed to a pipe or device.
fn can_be_file(path: &Path) -> bool {
    path.metadata().map_or(true, |about| about.is_file())
}

fn is_dash(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// The input, and an interrupt if reading it may block.
fn input(path: &Path) -> Result<(Input, Option<Interrupt>), Stop> {
    let open = || -> io::Result<_> {
        let file = if is_dash(path) { io::stdin().as_fd().try_clone_to_owned()?.into() } else { File::open(path)? };
        if may_wait(&file)? { Interruptible::new(file).map(Some) } else { Ok(None) }
    };
    let interruptible = open().map_err(|why| Stop::Input(anyhow!("cannot read {}: {why}", path.display())))?;
    let Some((file, interrupt)) = interruptible else {
        let input = if is_dash(path) { Input::standard() } else { Input::open(path) };
        return Ok((input.or_input()?, None));
    };
    let name = if is_dash(path) { "the standard input".to_owned() } else { path.display().to_string() };
    Ok((Input::stream(name, file), Some(interrupt)))
}

/// Whether reading may block until another process writes.
fn may_wait(file: &File) -> io::Result<bool> {
    let kind = file.metadata()?.file_type();
    Ok(kind.is_fifo() || kind.is_socket() || kind.is_char_device())
}

fn output(path: &Path) -> Result<Output, Stop> {
    let output = if is_dash(path) { Output::standard() } else { Output::create(path) };
    output.or_input()
}

/// Makes signals end the sort.
fn catch(canceller: Canceller, interrupt: Option<Interrupt>, is_stream: bool) -> Result<Signals, Stop> {
    let end = move |number| {
        if is_stream {
            // The reader may have stopped reading. There is nothing to clean up: temporary files
            // have no names.
            std::process::exit(128 + number);
        }
        canceller.cancel();
        drop(interrupt);
    };
    Ok(Signals::catch_and(end)?)
}

/// The exit for an error.
fn stop_for(why: SortError, is_stream: bool) -> Stop {
    match why {
        SortError::Write { why, .. } if is_stream && why.kind() == ErrorKind::BrokenPipe => Stop::Interrupted(SIGPIPE),
        SortError::Truncated { .. }
        | SortError::TooLong { .. }
        | SortError::Memory { .. }
        | SortError::Reduced { .. }
        | SortError::Limit { .. }
        | SortError::Order(_)
        | SortError::Unsupported(_) => Stop::Input(why.into()),
        why => Stop::Failed(why.into()),
    }
}
