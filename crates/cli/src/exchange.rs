//! `rowlock import` and `rowlock export`: conversion between scenarios and files of other tools.

use std::fs::{self, File};
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use ::exchange::{Format, ImportError, rt_app};
use anyhow::anyhow;
use measure::two_worlds::{TwoWorlds, needs_host};
use scenario::Scenario;
use scenario::result::World;

use crate::arguments::exchange::{Export, Import, To};
use crate::input;
use crate::output::{ResultFile, print, print_notes};
use crate::run::host;
use crate::signals::Signals;
use crate::stop::{OrStop, Stop};

/// Makes a scenario from a file.
pub(crate) fn import(arguments: &Import) -> Result<(), Stop> {
    let (name, bytes) = content(&arguments.file)?;
    let Some(format) = arguments.from.or_else(|| Format::guess(&bytes)) else {
        let formats = Format::ALL.map(Format::name).join(" or ");
        let error =
            anyhow!("{name} does not look like anything that can be imported; name its format with --from {formats}");
        return Err(Stop::Input(error));
    };
    let imported = ::exchange::import(format, &name, &bytes).map_err(|error| match error {
        ImportError::Refused(diagnostics) => Stop::Diagnosed(crate::check::render(&diagnostics)),
        ImportError::TooLarge(_) => Stop::Diagnosed(format!("error: {error}")),
        ImportError::Empty(_) => Stop::Input(error.into()),
    })?;
    deliver(&imported.toml, &arguments.file, arguments.out.as_deref())?;
    print_notes(&imported.notes);
    Ok(())
}

/// Makes another tool's file from a scenario.
pub(crate) fn export(arguments: &Export) -> Result<(), Stop> {
    let (scenario, _) = crate::check::read(&arguments.file)?;
    match arguments.to {
        To::RtApp => {
            let (text, remarks) = rt_app::write(&scenario).or_input()?;
            deliver(&text, &arguments.file, arguments.out.as_deref())?;
            print_notes(&remarks);
        }
        To::Ftrace => deliver(&ftrace(&scenario, arguments.seed)?, &arguments.file, arguments.out.as_deref())?,
    }
    Ok(())
}

/// Simulates the first arm and returns its events.
fn ftrace(scenario: &Scenario, seed: Option<u64>) -> Result<String, Stop> {
    let signals = Signals::catch()?;
    let host = match needs_host(scenario, &[World::Sim]) {
        true => Some(host(crate::calibrate::load(false)?)?),
        false => None,
    };
    let worlds = TwoWorlds::new(host, NonZeroUsize::MIN);
    worlds.check(scenario, &[World::Sim])?;
    let Some(arm) = scenario.arms.first() else { return Ok(String::new()) };
    if scenario.arms.len() > 1 {
        print_notes(&[format!("of the {} arms of the sweep only the first is simulated", scenario.arms.len())]);
    }
    let seed = seed.unwrap_or(scenario.experiment.seed);
    worlds.ftrace(&arm.setting, seed, signals.cancel()).map_err(|failure| signals.stop_for(failure))
}

/// The maximum size of an imported file, which is read into memory as a whole.
const MAX_SIZE: u64 = 1 << 30;

fn content(file: &Path) -> Result<(String, Vec<u8>), Stop> {
    let is_stdin = file == Path::new("-");
    let name =
        if is_stdin { "standard input".into() } else { report::words::word(&file.to_string_lossy()).into_owned() };
    let bytes = if is_stdin {
        input::read(&name, Ok(io::stdin().lock()), MAX_SIZE)?
    } else {
        input::read(&name, File::open(file), MAX_SIZE)?
    };
    if bytes.len() as u64 > MAX_SIZE {
        return Err(Stop::Input(anyhow!("{name} is larger than 1 GiB: import a part of it")));
    }
    Ok((name, bytes))
}

fn deliver(text: &str, from: &Path, to: Option<&Path>) -> Result<(), Stop> {
    match to {
        None => print(text),
        Some(path) if are_same_file(from, path) => {
            Err(Stop::Input(anyhow!("{} is the input: name another file to write", path.display())))
        }
        Some(path) => Ok(ResultFile::create(path).or_input()?.write(text)?),
    }
}

fn are_same_file(these: &Path, those: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).map(|of| (of.dev(), of.ino()));
    matches!((identity(these), identity(those)), (Ok(these), Ok(those)) if these == those)
}
