//! Control groups: the group of this process, and the CPU time and memory that its limits leave.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Access, access};

/// A limit of the CPU time of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The CPU time that the group gets on all CPUs together in each period.
    pub time: Duration,
    /// The length of a period.
    pub period: Duration,
    /// The file that sets the limit.
    pub file: PathBuf,
}

impl Quota {
    /// The limit as a number of CPUs.
    pub fn cpus(&self) -> f64 {
        self.time.as_nanos() as f64 / self.period.as_nanos() as f64
    }
}

/// A mounted hierarchy of groups, and the group of this process in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// The version of the interface, 1 or 2.
    pub version: u32,
    /// Its controllers. Empty for version 2, which has one hierarchy for all controllers.
    pub controllers: Vec<String>,
    /// The folder of the outermost visible group.
    pub mount: PathBuf,
    /// The folder of the group of this process.
    pub folder: PathBuf,
}

impl Hierarchy {
    /// All mounted hierarchies that contain this process.
    pub fn all() -> Vec<Hierarchy> {
        let read = |path: &str| fs::read(path).unwrap_or_default();
        Hierarchy::parse(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"))
    }

    /// The hierarchies in `/proc/self/mountinfo`, with the groups in `/proc/self/cgroup`. Other
    /// users may have named mount points and groups.
    pub fn parse(mountinfo: &[u8], own: &[u8]) -> Vec<Hierarchy> {
        mountinfo.split(|&byte| byte == b'\n').filter_map(|line| hierarchy(line, own)).collect()
    }

    /// The hierarchy with the CPU controller, or the newest if none has it.
    pub fn of_cpus(hierarchies: &[Hierarchy]) -> Option<&Hierarchy> {
        let has_cpu = |hierarchy: &&Hierarchy| hierarchy.available().iter().any(|name| name == "cpu");
        let newest = || hierarchies.iter().max_by_key(|hierarchy| hierarchy.version);
        hierarchies.iter().find(has_cpu).or_else(newest)
    }

    /// Whether the group of this process, or one around it, has a CPU share separate from other
    /// groups. Only for the hierarchy with the CPU controller.
    pub fn has_a_cpu_share(&self) -> bool {
        self.cpu_share().is_some()
    }

    /// The folder of the innermost group of this process that has a CPU share separate from other
    /// groups. Only for the hierarchy with the CPU controller.
    pub fn cpu_share(&self) -> Option<&Path> {
        match self.version {
            // In version 1 the root group has this file, too.
            1 => (self.folder != self.mount).then_some(self.folder.as_path()),
            _ => self.folders().find(|folder| folder.join("cpu.weight").exists()),
        }
    }

    /// The group of this process and its ancestors, innermost first.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        self.folder.ancestors().take_while(|folder| folder.starts_with(&self.mount))
    }

    /// The controllers that can act on the group of this process.
    pub fn available(&self) -> Vec<String> {
        if self.version == 1 {
            return self.controllers.clone();
        }
        let text = fs::read_to_string(self.folder.join("cgroup.controllers")).unwrap_or_default();
        let mut names: Vec<String> = text.split_ascii_whitespace().map(str::to_owned).collect();
        // Freezing is not a controller in version 2: every group but the outermost can be frozen.
        if self.folder.join("cgroup.procs").exists() {
            names.push("freezer".to_owned());
        }
        names
    }

    /// Whether this process may create groups below its own and move processes into them.
    pub fn is_writable(&self) -> bool {
        is_writable(&self.folder)
    }

    /// The tightest CPU limit of the group of this process and its ancestors.
    pub fn quota(&self) -> Option<Quota> {
        self.quota_by(|file| fs::read_to_string(file).ok())
    }

    /// The same by the texts of files.
    pub fn quota_by(&self, read: impl Fn(&Path) -> Option<String>) -> Option<Quota> {
        let quotas = self.folders().filter_map(|folder| self.quota_of(folder, &read));
        quotas.min_by(|one, other| one.cpus().total_cmp(&other.cpus()))
    }

    fn quota_of(&self, folder: &Path, read: impl Fn(&Path) -> Option<String>) -> Option<Quota> {
        let read = |name: &str| read(&folder.join(name));
        let (name, text) = if self.version == 1 {
            ("cpu.cfs_quota_us", format!("{} {}", read("cpu.cfs_quota_us")?.trim(), read("cpu.cfs_period_us")?.trim()))
        } else {
            ("cpu.max", read("cpu.max")?)
        };
        let (time, period) = parse_quota(&text)?;
        Some(Quota { time, period, file: folder.join(name) })
    }

    /// The tightest limit of memory of the group of this process and its ancestors, in bytes.
    /// Returns `None` if there is none.
    pub fn memory_limit(&self) -> Option<u64> {
        self.folders().filter_map(|folder| self.memory_limit_in(folder, |file| fs::read_to_string(file).ok())).min()
    }

    fn memory_limit_in(&self, folder: &Path, read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
        let number = |name: &&str| read(&folder.join(name))?.trim().parse::<u64>().ok();
        let limits = match self.version {
            1 => &["memory.limit_in_bytes"][..],
            _ => &["memory.max", "memory.high"],
        };
        // Version 1 reports a number beyond all memory if there is no limit.
        limits.iter().filter_map(number).min().filter(|&limit| limit < 1 << 60)
    }

    /// The bytes of memory that the limits of the group of this process and its ancestors leave.
    /// File pages in the page cache do not count as used. Returns `None` if there is no limit.
    pub fn memory_left(&self) -> Option<u64> {
        self.memory_left_by(|file| fs::read_to_string(file).ok())
    }

    /// The same by the texts of files.
    pub fn memory_left_by(&self, read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
        self.folders().filter_map(|folder| self.memory_left_in(folder, &read)).min()
    }

    fn memory_left_in(&self, folder: &Path, read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
        let limit = self.memory_limit_in(folder, &read)?;
        let read = |name: &str| read(&folder.join(name));
        let number = |name: &str| read(name)?.trim().parse::<u64>().ok();
        let (used, cached) = match self.version {
            1 => ("memory.usage_in_bytes", ["total_active_file", "total_inactive_file"]),
            _ => ("memory.current", ["active_file", "inactive_file"]),
        };
        let statistics = read("memory.stat").unwrap_or_default();
        let kept = statistics
            .lines()
            .filter_map(|line| line.split_once(' '))
            .filter(|(name, _)| cached.contains(name))
            .filter_map(|(_, bytes)| bytes.parse::<u64>().ok())
            .fold(0, u64::saturating_add);
        Some(limit.saturating_sub(number(used).unwrap_or(0).saturating_sub(kept)))
    }
}

/// Whether this process may create groups in the group with this folder, and move processes into
/// them from there.
pub(crate) fn is_writable(folder: &Path) -> bool {
    let write = |path: &Path| access(path, Access::WRITE_OK).is_ok();
    write(folder) && write(&folder.join("cgroup.procs"))
}

/// Whether this process belongs to a group with a CPU share of its own.
pub fn has_a_cpu_share() -> bool {
    Hierarchy::of_cpus(&Hierarchy::all()).is_some_and(Hierarchy::has_a_cpu_share)
}

/// Parses time and period in microseconds. Returns `None` without a limit: `max` or negative.
fn parse_quota(text: &str) -> Option<(Duration, Duration)> {
    let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
    let (time, period) = (numbers.next()?.ok()?, numbers.next()?.ok().filter(|&period| period > 0)?);
    Some((Duration::from_micros(time), Duration::from_micros(period)))
}

/// The hierarchy in a line of `/proc/self/mountinfo`, with the group in `/proc/self/cgroup`.
fn hierarchy(line: &[u8], own: &[u8]) -> Option<Hierarchy> {
    // number parent device root mount options [fields] - type source options
    let mut fields = line.split(|&byte| byte == b' ').skip(3);
    let (root, mount) = (unescaped(fields.next()?), unescaped(fields.next()?));
    if !mount.is_absolute() {
        return None;
    }
    let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
    let version = match fields.next()? {
        b"cgroup" => 1,
        b"cgroup2" => 2,
        _ => return None,
    };
    let options = std::str::from_utf8(fields.nth(1)?).ok()?;
    // number:controllers:path
    let mut places = own.split(|&byte| byte == b'\n').filter_map(|line| {
        let mut fields = line.splitn(3, |&byte| byte == b':').skip(1);
        Some((std::str::from_utf8(fields.next()?).ok()?, Path::new(OsStr::from_bytes(fields.next()?))))
    });
    let is_option = |name: &str| options.split(',').any(|option| option == name);
    let (controllers, path) = places.find(|(controllers, _)| match version {
        1 => !controllers.is_empty() && controllers.split(',').all(is_option),
        _ => controllers.is_empty(),
    })?;
    // If only a part of the hierarchy is mounted, the path still starts at the root of the
    // hierarchy, unless the process is in a cgroup namespace, which begins at the mount point.
    let below = path.strip_prefix(root).or_else(|_| path.strip_prefix("/")).ok()?;
    let is_inside = below.components().all(|part| matches!(part, Component::Normal(_)));
    let folder = if is_inside && below != Path::new("") { mount.join(below) } else { mount.clone() };
    let controllers = if version == 1 { controllers.split(',').map(str::to_owned).collect() } else { Vec::new() };
    Some(Hierarchy { version, controllers, mount, folder })
}

/// The path in a field, in which blanks and backslashes are octal, as in `\040`.
fn unescaped(field: &[u8]) -> PathBuf {
    let (mut rest, mut path) = (field, Vec::new());
    while let [first, after @ ..] = rest {
        let code = after.first_chunk::<3>().filter(|_| *first == b'\\');
        let code = code.and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 8).ok());
        path.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    OsString::from_vec(path).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
38 31 0:35 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

    fn folders(mountinfo: &str, own: &str) -> Vec<(u32, String)> {
        let found = Hierarchy::parse(mountinfo.as_bytes(), own.as_bytes());
        found.into_iter().map(|found| (found.version, found.folder.display().to_string())).collect()
    }

    #[test]
    fn hierarchies_of_both_versions_are_found() {
        let own = "4:cpu,cpuacct:/jobs/a\n1:name=systemd:/\n0::/user.slice\n";
        let expected = [
            (1, "/sys/fs/cgroup/cpu,cpuacct/jobs/a"),
            (1, "/sys/fs/cgroup/systemd"),
            (2, "/sys/fs/cgroup/unified/user.slice"),
        ];
        assert_eq!(folders(HYBRID, own), expected.map(|(version, folder)| (version, folder.to_owned())));
        assert_eq!(folders("", own), []);
        assert_eq!(folders(HYBRID, ""), []);
    }

    #[test]
    fn a_partial_mount_is_resolved_with_and_without_a_namespace() {
        let mount = "41 31 0:38 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw";
        for (own, folder) in [
            ("0::/docker/abc/inner", "/sys/fs/cgroup/inner"),
            ("0::/docker/abc", "/sys/fs/cgroup"),
            ("0::/", "/sys/fs/cgroup"),
            ("0::/../elsewhere", "/sys/fs/cgroup"),
            ("0::/inner/../../elsewhere", "/sys/fs/cgroup"),
        ] {
            assert_eq!(folders(mount, own), [(2, folder.to_owned())], "{own}");
        }
    }

    #[test]
    fn a_group_is_within_an_absolute_mount() {
        assert_eq!(folders("1 2 0:3  /m ro - cgroup2 cgroup rw", "0::/etc"), [(2, "/m".to_owned())]);
        assert_eq!(folders("1 2 0:3 / m ro - cgroup2 cgroup rw", "0::/etc"), []);
    }

    #[test]
    fn blanks_in_paths_are_decoded() {
        let mount = r"41 31 0:38 /my\040groups /mnt/c\040d\134e\0 rw - cgroup2 cgroup rw";
        assert_eq!(folders(mount, "0::/my groups/a b"), [(2, r"/mnt/c d\e\0/a b".to_owned())]);
    }

    #[test]
    fn names_may_be_other_than_utf_8() {
        let mountinfo = b"9 1 0:1 / /home/\xff rw - fuse \xfe rw\n41 31 0:38 / /mnt/\xfd rw - cgroup2 cgroup rw\n";
        let found = Hierarchy::parse(mountinfo, b"0::/\xfc\n");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].folder.as_os_str().as_bytes(), b"/mnt/\xfd/\xfc");
    }

    #[test]
    fn statistics_that_do_not_fit_leave_all_memory() {
        let (_top, hierarchy, write) = inner_group();
        write("a", "memory.max", "9000\n");
        write("a", "memory.stat", "active_file 18446744073709551615\ninactive_file 1400\n");
        assert_eq!(hierarchy.memory_left(), Some(9000));
    }

    /// The group `a/b` of a hierarchy of version 2, and a function that writes a file of a group.
    fn inner_group() -> (tempfile::TempDir, Hierarchy, impl Fn(&str, &str, &str)) {
        let top = tempfile::tempdir().unwrap();
        let (mount, folder) = (top.path().to_owned(), top.path().join("a/b"));
        fs::create_dir_all(&folder).unwrap();
        let hierarchy = Hierarchy { version: 2, controllers: vec![], mount: mount.clone(), folder };
        let write = move |group: &str, name: &str, text: &str| fs::write(mount.join(group).join(name), text).unwrap();
        (top, hierarchy, write)
    }

    #[test]
    fn quotas_are_read_from_innermost_to_outermost() {
        let (top, hierarchy, write) = inner_group();
        let text = |file: &Path| fs::read_to_string(file).ok();
        write("a/b", "cpu.max", "max 100000\n");
        write("a", "cpu.max", "150000 100000\n");
        let quotas: Vec<Quota> = hierarchy.folders().filter_map(|folder| hierarchy.quota_of(folder, text)).collect();
        let file = top.path().join("a/cpu.max");
        assert_eq!(quotas, [Quota { time: Duration::from_millis(150), period: Duration::from_millis(100), file }]);
        assert_eq!(quotas[0].cpus(), 1.5);

        let hierarchy = Hierarchy { version: 1, ..hierarchy };
        write("a/b", "cpu.cfs_quota_us", "50000\n");
        write("a/b", "cpu.cfs_period_us", "100000\n");
        assert_eq!(hierarchy.quota_of(&hierarchy.folder, text).unwrap().cpus(), 0.5);
        write("a/b", "cpu.cfs_quota_us", "-1\n");
        assert_eq!(hierarchy.quota_of(&hierarchy.folder, text), None);
    }

    #[test]
    fn the_tightest_quota_counts() {
        let (_top, hierarchy, write) = inner_group();
        assert_eq!(hierarchy.quota(), None);
        for (group, quota) in [("a/b", "400000 100000"), ("a", "250000 100000"), (".", "300000 100000")] {
            write(group, "cpu.max", quota);
        }
        assert_eq!(hierarchy.quota().unwrap().cpus(), 2.5);
    }

    #[test]
    fn the_tightest_memory_limit_counts_and_cached_files_do_not() {
        let (_top, second, write) = inner_group();
        assert_eq!(second.memory_left(), None);
        write("a/b", "memory.max", "max\n");
        write("a", "memory.max", "9000\n");
        write("a", "memory.high", "5000\n");
        write("a", "memory.current", "3000\n");
        write("a", "memory.stat", "anon 1000\nactive_file 500\ninactive_file 1400\nfile 2000\n");
        assert_eq!((second.memory_left(), second.memory_limit()), (Some(5000 - (3000 - 1900)), Some(5000)));

        let first = Hierarchy { version: 1, ..second };
        write(".", "memory.limit_in_bytes", "9223372036854771712\n");
        write("a/b", "memory.limit_in_bytes", "4096\n");
        write("a/b", "memory.usage_in_bytes", "5000\n");
        write("a/b", "memory.stat", "active_file 7\ntotal_active_file 600\ntotal_inactive_file 400\n");
        assert_eq!((first.memory_left(), first.memory_limit()), (Some(96), Some(4096)));
    }

    #[test]
    fn a_cpu_share_is_that_of_the_innermost_group_that_has_one() {
        let (top, second, write) = inner_group();
        assert_eq!(second.cpu_share(), None);
        write("a", "cpu.weight", "100\n");
        assert_eq!(second.cpu_share(), Some(top.path().join("a").as_path()));
        write("a/b", "cpu.weight", "100\n");
        assert_eq!(second.cpu_share(), Some(top.path().join("a/b").as_path()));
        let first = Hierarchy { version: 1, ..second };
        assert_eq!(first.cpu_share(), Some(first.folder.as_path()));
        assert_eq!(Hierarchy { folder: first.mount.clone(), ..first }.cpu_share(), None);
    }

    #[test]
    fn an_invalid_quota_is_ignored() {
        for text in ["", "max", "max 100000", "5", "5 0", "-1 100000", "a b"] {
            assert_eq!(parse_quota(text), None, "{text:?}");
        }
    }
}
