//! The target of the output: a temporary file that gets its name when it is complete.

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

/// The unfinished file. It must be removed if the program is terminated.
static UNFINISHED: LazyLock<Mutex<Option<TempPath>>> = LazyLock::new(Mutex::default);

/// Removes the unfinished file when a signal terminates the program, even while its stages wait.
/// Signals that are ignored, like hangups under `nohup`, remain ignored.
///
/// # Errors
/// The kernel's, if signals cannot be handled.
pub(crate) fn remove_at_signals() -> io::Result<()> {
    let ignored = ignored();
    let wanted = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| ignored >> (signal - 1) & 1 == 0);
    let mut signals = Signals::new(wanted)?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            // Held until the end, so no file is finished or started any more.
            let mut unfinished = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
            drop(unfinished.take());
            // Terminates the program, as the default handler does.
            let _ = emulate_default_handler(signal);
        }
    })?;
    Ok(())
}

/// A bit mask of the signals that were ignored when the program started. 0 if the kernel does not
/// say.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// The target of the output.
pub(crate) struct Target {
    pub(crate) file: File,
    /// The final name of the file. `None` if the target is written directly.
    path: Option<PathBuf>,
}

impl Target {
    /// Standard output.
    ///
    /// # Errors
    /// If it is a terminal.
    pub(crate) fn standard_output() -> anyhow::Result<Target> {
        let output = io::stdout();
        ensure!(
            !output.is_terminal(),
            "compressed data is not for terminals: redirect it to a file, or name one with --output"
        );
        Ok(Target { file: File::from(output.as_fd().try_clone_to_owned()?), path: None })
    }

    /// A file of this name. Devices and pipes are written directly.
    ///
    /// # Errors
    /// If it exists and `replace` is not set, or if it cannot be created.
    pub(crate) fn at(path: &Path, replace: bool) -> anyhow::Result<Target> {
        if let Ok(there) = fs::metadata(path) {
            let kind = there.file_type();
            if kind.is_char_device() || kind.is_fifo() || kind.is_block_device() {
                let file = File::options().write(true).open(path)?;
                return Ok(Target { file, path: None });
            }
            ensure!(!kind.is_dir(), "it is a folder");
            if !replace {
                bail!("it exists; --force replaces it");
            }
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut unfinished = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, temporary) = NamedTempFile::with_prefix_in(".compress-", folder)?.into_parts();
        *unfinished = Some(temporary);
        Ok(Target { file, path: Some(path.to_owned()) })
    }

    /// Whether it is a new file of this program.
    pub(crate) fn is_new(&self) -> bool {
        self.path.is_some()
    }

    /// Completes the file: it gets its name, and the permissions and the modification time of the
    /// input.
    ///
    /// # Errors
    /// If it cannot be renamed. The file is removed then.
    pub(crate) fn finish(mut self, source: Option<&Metadata>) -> anyhow::Result<()> {
        let Some(path) = self.path.take() else { return Ok(()) };
        if let Some(source) = source {
            // Only if the file system supports it.
            let _ = self.file.set_permissions(source.permissions());
            let _ = source.modified().and_then(|time| self.file.set_modified(time));
        }
        let mut unfinished = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
        let temporary = unfinished.take().context("the temporary file has disappeared")?;
        temporary.persist(&path).with_context(|| format!("cannot rename to {}", path.display()))
    }
}

/// Removes an unfinished file.
impl Drop for Target {
    fn drop(&mut self) {
        if self.path.is_some() {
            drop(UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}
