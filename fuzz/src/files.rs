//! Readers of files that another process may have changed.

use std::fs;
use std::io::Cursor;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::sync::LazyLock;

use cosched::State;
use counters::Region;
use exec::Obstacle;
use host::HostCalibration;
use measure::folder::{Folder, MANIFEST, RECORDS};
use policy::{Instant, Span};
use scenario::result::Run;
use serde::Deserialize;
use sys::identity::Stat;
use sys::unnamed::UnnamedFile;

use crate::texts::refused;

/// A calibration in the cache of the machine that it names.
pub(crate) fn calibration(bytes: &[u8]) {
    #[derive(Deserialize)]
    struct Cached {
        calibration: HostCalibration,
    }
    let Ok(Cached { calibration: HostCalibration { machine, .. } }) = serde_json::from_slice(bytes) else { return };
    let Some(calibration) = HostCalibration::from_cached(bytes, &machine) else { return };
    let written = calibration.to_cached().expect("its path was read from UTF-8");
    assert_eq!(HostCalibration::from_cached(&written, &machine).as_ref(), Some(&calibration));
    let costs = host::calibration::twin(&calibration).costs();
    assert!([costs.cs, costs.lone_yield, costs.tick].into_iter().all(|cost| cost <= Span::from_millis(1000)));
}

/// The statistics region, of which a watched program may have written every byte.
pub(crate) fn statistics(bytes: &[u8]) {
    /// Creating one takes longer than reading it.
    static REGION: LazyLock<(Region, UnnamedFile)> = LazyLock::new(|| Region::unnamed().expect("there is memory"));
    let (region, file) = &*REGION;
    let bytes = &bytes[..bytes.len().min(1 << 16)];
    // After the magic number, without which there is no report, comes the number of claims.
    let write = |bytes: &[u8]| file.file().write_all_at(bytes, 8).expect("it has this length");
    write(bytes);
    for process in region.processes() {
        for waits in process.waits {
            let _ = waits.time_saved(process.cs);
        }
    }
    let _ = (region.rejected(), region.lost());
    write(&vec![0; bytes.len()]);
}

/// A version of the table of jobs. It decides the same when it is written and read again.
pub(crate) fn table(bytes: &[u8]) {
    let now = Instant::ZERO + Span::from_millis(1_000_000_000);
    let state = match State::from_bytes(bytes, now) {
        Ok(state) => state,
        Err(why) => return refused(&why),
    };
    let written = state.to_bytes();
    let again = State::from_bytes(&written, now).expect("it was written by us");
    assert_eq!(String::from_utf8_lossy(&again.to_bytes()), String::from_utf8_lossy(&written));
    let decided = |state: &State| {
        let actions: Vec<_> = state.jobs().map(|(job, _)| (job, state.action(job, now))).collect();
        (state.next_boundary(now), actions)
    };
    assert_eq!(decided(&again), decided(&state));
}

/// The kernel's line about a process, which chose its own name.
pub(crate) fn process(bytes: &[u8]) {
    if let Some(Stat { pid, .. }) = Stat::parse(bytes) {
        // The name may contain anything, even the fields that follow it.
        let renamed =
            [pid.to_string().as_bytes(), b" (", bytes, b") S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19"].concat();
        let found = Stat::parse(&renamed).expect("its fields are there");
        assert_eq!((found.pid, found.parent, found.state), (pid, 1, b'S'));
        let name = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
        assert_eq!(found.name(), &name[..name.len().min(15)]);
    }
}

/// The file of a program to start: ELF, or a script.
pub(crate) fn program(bytes: &[u8]) {
    if let Some(interpreter) = exec::interpreter(bytes) {
        let name = interpreter.as_bytes();
        assert!(!name.is_empty() && !name.iter().any(|byte| b" \t\n".contains(byte)), "{interpreter:?}");
        assert!(name == b"/bin/sh" || bytes.windows(name.len()).any(|part| part == name), "{interpreter:?}");
    }
    if let Some(obstacle) = Obstacle::in_file(Cursor::new(bytes)) {
        refused(&obstacle);
    }
}

/// The records and the manifest of an experiment to be continued, separated by a zero byte.
pub(crate) fn result_folder(bytes: &[u8]) {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let (records, manifest) = (&bytes[..end], bytes.get(end + 1..));
    let folder = temporary_folder();
    let write = |name, bytes| fs::write(folder.path().join(name), bytes).expect("there is room in memory");
    write(RECORDS, records);
    if let Some(manifest) = manifest {
        write(MANIFEST, manifest);
    }
    match Folder::append(folder.path()) {
        Ok(results) => {
            let _ = results.earlier::<Run>().map_err(|why| refused(&why));
            let _ = results.earlier::<papers::fg::runs::Observation>();
            let _ = results.earlier::<papers::threads::runs::Observation>();
            let _ = results.earlier_settings::<papers::fg::report::Settings>();
        }
        Err(why) => refused(&why),
    }
}

/// A folder in memory, if there is such a file system.
fn temporary_folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("some folder is writable")
}
