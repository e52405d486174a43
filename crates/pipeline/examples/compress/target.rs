//! Where the output goes: under another name until it is complete, so that nobody ever finds half of it.

use std::fs::{self, File, Metadata};
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

use anyhow::{Context, bail, ensure};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use tempfile::{NamedTempFile, TempPath};

/// The file that is being written. Who ends the program ends it too.
static UNFINISHED: LazyLock<Mutex<Option<TempPath>>> = LazyLock::new(Mutex::default);

/// Sees to it that the unfinished file is removed when the program is asked to end, at once, whatever its stages wait for. What is ignored, as
/// hangups are below `nohup`, stays so.
///
/// # Errors
/// The kernel's, where signals cannot be listened to.
pub(crate) fn remove_at_signals() -> io::Result<()> {
    let ignored = ignored();
    let wanted = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| ignored >> (signal - 1) & 1 == 0);
    let mut signals = Signals::new(wanted)?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            // Held until the end: no file is finished any more, none is begun.
            let mut unfinished = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
            drop(unfinished.take());
            // It ends the program, as if nobody had listened.
            let _ = emulate_default_handler(signal);
        }
    })?;
    Ok(())
}

/// The signals that the program was started to ignore, a bit each; none where the kernel does not tell.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Where the output goes.
pub(crate) struct Target {
    pub(crate) file: File,
    /// The name that the file gets when it is finished; none for what is written to as it is.
    path: Option<PathBuf>,
}

impl Target {
    /// Standard output.
    ///
    /// # Errors
    /// If a person would have to look at it.
    pub(crate) fn standard_output() -> anyhow::Result<Target> {
        let output = io::stdout();
        ensure!(
            !output.is_terminal(),
            "compressed data is nothing to look at: send it to a file, or name one with --output"
        );
        Ok(Target { file: File::from(output.as_fd().try_clone_to_owned()?), path: None })
    }

    /// A file of this name. Devices and pipes are written to as they are.
    ///
    /// # Errors
    /// Where there is one and it shall stay, or none can be made.
    pub(crate) fn at(path: &Path, replace: bool) -> anyhow::Result<Target> {
        if let Ok(there) = fs::metadata(path) {
            let kind = there.file_type();
            if kind.is_char_device() || kind.is_fifo() || kind.is_block_device() {
                let file = File::options().write(true).open(path)?;
                return Ok(Target { file, path: None });
            }
            ensure!(!kind.is_dir(), "it is a folder");
            if !replace {
                bail!("it is there already; --force replaces it");
            }
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut unfinished = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, temporary) = NamedTempFile::with_prefix_in(".compress-", folder)?.into_parts();
        *unfinished = Some(temporary);
        Ok(Target { file, path: Some(path.to_owned()) })
    }

    /// Whether it is a file that is made for this and nothing else.
    pub(crate) fn is_new(&self) -> bool {
        self.path.is_some()
    }

    /// Says that all is written: the file gets its name, and the permissions and the time of what it was made from.
    ///
    /// # Errors
    /// Where it cannot have its name. There is no file then.
    pub(crate) fn finish(mut self, source: Option<&Metadata>) -> anyhow::Result<()> {
        let Some(path) = self.path.take() else { return Ok(()) };
        if let Some(source) = source {
            // As well as the file system can.
            let _ = self.file.set_permissions(source.permissions());
            let _ = source.modified().and_then(|time| self.file.set_modified(time));
        }
        let mut unfinished = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
        let temporary = unfinished.take().context("it is gone")?;
        temporary.persist(&path).with_context(|| format!("cannot be given the name {}", path.display()))
    }
}

/// What was not finished is removed.
impl Drop for Target {
    fn drop(&mut self) {
        if self.path.is_some() {
            drop(UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}
