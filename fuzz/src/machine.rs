//! Readers of texts of the kernel, which in containers other programs may have written.

use std::path::Path;

use policy::CpuSet;
use sys::cgroups::Hierarchy;
use sys::load::{CpuTime, ThreadCounts};
use sys::{pressure, scheduling, traffic::Traffic};

/// The numbers of the machine and of this process: files such as `/proc/stat` and `/proc/meminfo`.
pub(crate) fn machine(bytes: &[u8]) {
    if let Some(threads) = ThreadCounts::parse(bytes) {
        let written = format!("0 0 0 {}/{} 1", threads.runnable, threads.all);
        assert_eq!(ThreadCounts::parse(written.as_bytes()), Some(threads));
    }
    let text = String::from_utf8_lossy(bytes);
    for cpu in ["cpu", "cpu0"] {
        let share = CpuTime::parse(&text, cpu).and_then(CpuTime::stolen_percent);
        assert!(share.is_none_or(|share| (0.0..=100.0).contains(&share)), "{share:?}");
    }
    let online = text.parse::<CpuSet>().map_or(0, |cpus| cpus.iter().count());
    assert!(online <= 1 << 20);
    let _ = (Traffic::parse(&text), pressure::total(&text), scheduling::parse_run_delay(&text));
    assert!(sort::available::limits(&text).is_none(), "fuzzing sets no limits");
    if let Some(available) = sys::memory::parse_available(&text) {
        assert_eq!(sys::memory::parse_available(&format!("MemAvailable: {} kB", available >> 10)), Some(available));
    }
}

/// The control groups of this process: the mounts, the groups, and files of each group, separated
/// by zero bytes. The first line of a file is its name.
pub(crate) fn control_groups(bytes: &[u8]) {
    let mut texts = bytes.split(|&byte| byte == 0);
    let (mounts, own) = (texts.next().unwrap_or_default(), texts.next().unwrap_or_default());
    let files: Vec<(&[u8], &[u8])> = texts
        .map(|text| text.split_at(text.iter().position(|&byte| byte == b'\n').map_or(text.len(), |end| end + 1)))
        .collect();
    let read = |path: &Path| {
        let name = path.file_name()?.as_encoded_bytes();
        let (_, text) = files.iter().find(|(line, _)| line.strip_suffix(b"\n") == Some(name))?;
        String::from_utf8(text.to_vec()).ok()
    };
    for hierarchy in Hierarchy::parse(mounts, own) {
        assert!(hierarchy.folder.as_os_str().len() <= mounts.len() + own.len());
        assert!(hierarchy.mount.is_absolute());
        let below = hierarchy.folder.strip_prefix(&hierarchy.mount).expect("the group is in its hierarchy");
        let is_name = |part| matches!(part, std::path::Component::Normal(_));
        assert!(below.components().all(is_name), "{below:?} leads out of its hierarchy");
        assert_eq!(hierarchy.controllers.is_empty(), hierarchy.version == 2);
        let quota = hierarchy.quota_by(read);
        assert!(quota.is_none_or(|quota| quota.cpus() >= 0.0 && quota.file.starts_with(&hierarchy.mount)));
        assert!(hierarchy.memory_left_by(read).is_none_or(|left| left < 1 << 60));
    }
}
