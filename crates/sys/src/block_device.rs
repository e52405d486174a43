//! Block devices: the device below a file, and how long it has been busy.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{major, minor};

/// The kernel has a folder here for every block device, named by its numbers.
const DEVICES: &str = "/sys/dev/block";

/// A device that stores files. For a partition it is the disk, whose partitions share its time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BlockDevice {
    folder: PathBuf,
}

impl BlockDevice {
    /// The device that stores a file or folder, or that the path itself names. Returns `None` if
    /// the path does not exist, or if there is no device: on file systems in memory, over a network
    /// or laid over others, or if the kernel does not show it, as in many containers.
    pub fn under(path: &Path) -> Option<BlockDevice> {
        let file = fs::metadata(path).ok()?;
        let number = if file.file_type().is_block_device() { file.rdev() } else { file.dev() };
        BlockDevice::with_numbers(Path::new(DEVICES), major(number), minor(number))
    }

    /// The devices that store the files which this process has open now, each once. Reads a folder
    /// below `/proc`, which takes some microseconds per file.
    pub fn under_open_files() -> Vec<BlockDevice> {
        let mut numbers: Vec<u64> = Vec::new();
        for entry in fs::read_dir("/proc/self/fd").into_iter().flatten().flatten() {
            // Follows the link. Its target may be closed by now.
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

    /// Its name in the kernel, such as `sda`.
    pub fn name(&self) -> String {
        self.folder.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned())
    }

    /// Its numbers as control groups write them, such as `8:0`.
    pub fn numbers(&self) -> Option<String> {
        let numbers = fs::read_to_string(self.folder.join("dev")).ok()?;
        Some(numbers.trim().to_owned())
    }

    /// The time since boot during which it had requests. Reads a file below `/sys`.
    ///
    /// A device that serves several requests at a time is busy while it has at least one, so a
    /// device that is always busy may have capacity left.
    pub fn busy(&self) -> Option<Duration> {
        let stat = fs::read_to_string(self.folder.join("stat")).ok()?;
        // The tenth field, `io_ticks`.
        stat.split_ascii_whitespace().nth(9)?.parse().ok().map(Duration::from_millis)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const STAT: &str = " 2291 104 78542 1034 1183 2106 94408 3020 0 2475 4307 12 0 51168 251 120 1\n";

    /// A disk `sda` (8:0), its partition `sda1` (8:1), and a device without statistics (7:0).
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
    fn a_device_without_statistics_is_not_found() {
        let machine = machine();
        let found = |major, minor| BlockDevice::with_numbers(&machine.path().join("block"), major, minor);
        assert_eq!((found(7, 0), found(8, 2)), (None, None));
        fs::write(machine.path().join("devices/sda/stat"), "1 2 3\n").unwrap();
        assert_eq!(found(8, 0), None);
    }

    #[test]
    fn files_without_a_device_have_none() {
        for path in ["/proc/self/stat", "/nonexistent/file", "/proc/self/fd"] {
            assert_eq!(BlockDevice::under(Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn devices_of_open_files_are_found() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let device = BlockDevice::under(file.path());
        let open = BlockDevice::under_open_files();
        assert!(device.is_none_or(|device| open.contains(&device) && device.busy().is_some()), "{open:?}");
        assert!(open.iter().all(|device| !device.name().is_empty()));
    }
}
