//! Block devices: which one a file lies on, and how long it has been busy.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{major, minor};

/// Where the kernel keeps a folder for every block device, by its numbers.
const DEVICES: &str = "/sys/dev/block";

/// A device that files lie on. Of one that is divided up, the whole: its partitions share its time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BlockDevice {
    folder: PathBuf,
}

impl BlockDevice {
    /// The device that a file or folder lies on, or that it is. Nothing where there is none, as on file systems in memory, over a network,
    /// or laid over others, and where the kernel does not show it, as in many containers; nor for what is not there.
    pub fn under(path: &Path) -> Option<BlockDevice> {
        let file = fs::metadata(path).ok()?;
        let number = if file.file_type().is_block_device() { file.rdev() } else { file.dev() };
        BlockDevice::with_numbers(Path::new(DEVICES), major(number), minor(number))
    }

    /// The devices that the files lie on which this process has open now, each once. Reads a folder below `/proc`: some microseconds for each file.
    pub fn under_open_files() -> Vec<BlockDevice> {
        let mut numbers: Vec<u64> = Vec::new();
        for entry in fs::read_dir("/proc/self/fd").into_iter().flatten().flatten() {
            // Not the link but what it leads to, which may be closed by now.
            let Ok(file) = fs::metadata(entry.path()) else { continue };
            let number = match file.file_type() {
                kind if kind.is_block_device() => file.rdev(),
                kind if kind.is_file() => file.dev(),
                _ => continue,
            };
            if !numbers.contains(&number) {
                numbers.push(number);
            }
        }
        let mut devices: Vec<BlockDevice> = Vec::new();
        for number in numbers {
            let device = BlockDevice::with_numbers(Path::new(DEVICES), major(number), minor(number));
            devices.extend(device.filter(|device| !devices.contains(device)));
        }
        devices
    }

    fn with_numbers(devices: &Path, major: u32, minor: u32) -> Option<BlockDevice> {
        let folder = fs::canonicalize(devices.join(format!("{major}:{minor}"))).ok()?;
        let is_partition = folder.join("partition").exists();
        let folder = if is_partition { folder.parent()?.to_owned() } else { folder };
        let device = BlockDevice { folder };
        device.busy().map(|_| device)
    }

    /// As the kernel calls it, such as `sda`.
    pub fn name(&self) -> String {
        self.folder.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned())
    }

    /// Its numbers, as control groups name it, such as `8:0`.
    pub fn numbers(&self) -> Option<String> {
        let numbers = fs::read_to_string(self.folder.join("dev")).ok()?;
        Some(numbers.trim().to_owned())
    }

    /// How long it has had something to do since the machine was started, in steps of a millisecond. Reads a file below `/sys`.
    ///
    /// A device that serves several requests at a time is busy as long as it has one: one that is busy all the time may do more yet.
    pub fn busy(&self) -> Option<Duration> {
        busy_time(&fs::read_to_string(self.folder.join("stat")).ok()?)
    }
}

/// The tenth field of a device's `stat`, `io_ticks`.
fn busy_time(stat: &str) -> Option<Duration> {
    stat.split_ascii_whitespace().nth(9)?.parse().ok().map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const STAT: &str = " 2291 104 78542 1034 1183 2106 94408 3020 0 2475 4307 12 0 51168 251 120 1\n";

    /// A machine with a disk `sda` (8:0), its partition `sda1` (8:1), and something that counts nothing (7:0).
    fn machine() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        fs::create_dir_all(at("devices/sda/sda1")).unwrap();
        fs::create_dir_all(at("devices/loop0")).unwrap();
        fs::create_dir_all(at("block")).unwrap();
        fs::write(at("devices/sda/stat"), STAT).unwrap();
        fs::write(at("devices/sda/sda1/stat"), STAT.replace("2475", "17")).unwrap();
        fs::write(at("devices/sda/sda1/partition"), "1\n").unwrap();
        fs::write(at("devices/sda/dev"), "8:0\n").unwrap();
        for (number, folder) in [("8:0", "sda"), ("8:1", "sda/sda1"), ("7:0", "loop0")] {
            symlink(format!("../devices/{folder}"), at("block").join(number)).unwrap();
        }
        root
    }

    #[test]
    fn a_partition_is_busy_as_long_as_its_disk() {
        let machine = machine();
        let found = |major, minor| BlockDevice::with_numbers(&machine.path().join("block"), major, minor);
        let disk = found(8, 0).unwrap();
        assert_eq!((disk.name().as_str(), disk.busy()), ("sda", Some(Duration::from_millis(2475))));
        assert_eq!(disk.numbers().as_deref(), Some("8:0"));
        assert_eq!(found(8, 1), Some(disk));
    }

    #[test]
    fn what_is_not_there_or_counts_nothing_is_no_device() {
        let machine = machine();
        let found = |major, minor| BlockDevice::with_numbers(&machine.path().join("block"), major, minor);
        assert_eq!((found(7, 0), found(8, 2)), (None, None));
        fs::write(machine.path().join("devices/sda/stat"), "1 2 3\n").unwrap();
        assert_eq!(found(8, 0), None);
    }

    #[test]
    fn files_that_lie_nowhere_have_no_device() {
        for path in ["/proc/self/stat", "/nonexistent/file", "/proc/self/fd"] {
            assert_eq!(BlockDevice::under(Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn an_open_file_leads_to_the_device_below_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let device = BlockDevice::under(file.path());
        let open = BlockDevice::under_open_files();
        assert!(device.is_none_or(|device| open.contains(&device) && device.busy().is_some()), "{open:?}");
        assert!(open.iter().all(|device| !device.name().is_empty()));
    }
}
