//! Readers of files that another process may have changed.

use std::fs;
use std::os::unix::fs::FileExt;

use counters::Region;
use host::HostCalibration;
use measure::folder::{Folder, MANIFEST, RECORDS};
use scenario::result::Run;

/// A calibration from the cache.
pub(crate) fn calibration(bytes: &[u8]) {
    if let Ok(calibration) = serde_json::from_slice::<HostCalibration>(bytes) {
        let _ = host::calibration::twin(&calibration).costs();
    }
}

/// The statistics region, of which a watched program may have written every byte.
pub(crate) fn statistics(bytes: &[u8]) {
    let folder = temporary_folder();
    let path = folder.path().join("region");
    let region = Region::create(&path).expect("there is room in memory");
    let _slot = region.claim().expect("it is new");
    // After the magic number, which other files lack, comes the number of claims.
    let file = fs::OpenOptions::new().write(true).open(&path).expect("it exists");
    file.write_all_at(&bytes[..bytes.len().min(1 << 16)], 8).expect("there is room in memory");
    for process in region.processes() {
        for waits in process.waits {
            let _ = waits.time_saved(process.cs);
        }
    }
    let _ = region.rejected();
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
            let _ = results.earlier::<Run>().map_err(|why| assert!(!why.to_string().is_empty()));
            let _ = results.earlier::<papers::fg::runs::Observation>();
            let _ = results.earlier::<papers::threads::runs::Observation>();
            let _ = results.earlier_settings::<papers::fg::report::Settings>();
        }
        Err(why) => assert!(!why.to_string().is_empty()),
    }
}

/// A folder in memory, if there is such a file system.
pub(crate) fn temporary_folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("some folder is writable")
}
