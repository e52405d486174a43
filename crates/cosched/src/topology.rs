//! The mesh of cells that this machine is: cores in domains of a common cache.
//!
//! A cell is a core, with all of its hardware threads. A row has the cores that share a cache of
//! the last level. If the rows differ in length, or the kernel does not tell, there is one row.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use policy::layout::{Mesh, Shape};
use policy::{CellId, CpuId, CpuSet};
use serde::{Deserialize, Serialize};

/// Where the kernel describes the CPUs.
const ROOT: &str = "/sys/devices/system/cpu";
/// More caches than a CPU has.
const MOST_CACHES: u32 = 16;

/// A mesh of cells, each with CPUs of its own.
///
/// It may come from a file that any process of this user can write: what is deserialized is valid,
/// but may have CPUs that this machine does not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct Topology {
    mesh: Mesh,
    /// The CPUs of each cell, ascending.
    cells: Vec<Vec<u32>>,
}

/// A topology as it is serialized.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    shape: Shape,
    cells: Vec<Vec<u32>>,
}

/// Cells that are no mesh of this size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cells without CPUs of their own, or not as many as the mesh has")]
pub struct InvalidTopology;

impl Topology {
    /// The mesh of those parts of this machine that have some of these CPUs. It has no others. If
    /// there are none, it has CPU 0.
    ///
    /// Reads two files for each CPU.
    pub fn of_this_machine(permitted: &[u32]) -> Topology {
        Topology::read(Path::new(ROOT), permitted)
    }

    /// Reads the files in a folder like [`ROOT`].
    fn read(root: &Path, permitted: &[u32]) -> Topology {
        let known = permitted.iter().copied().filter(|&cpu| cpu <= CpuSet::LARGEST);
        let mut left: BTreeSet<u32> = known.take(Mesh::MOST_CELLS as usize).collect();
        if left.is_empty() {
            left.insert(0);
        }
        // By the first CPU of the common cache, or none if it is not known.
        let mut rows: BTreeMap<Option<CpuId>, Vec<Vec<u32>>> = BTreeMap::new();
        while let Some(first) = left.pop_first() {
            let about = root.join(format!("cpu{first}"));
            let siblings = read_cpus(&about.join("topology/thread_siblings_list")).unwrap_or_default();
            let others = siblings.iter().map(|cpu| cpu.0).filter(|cpu| left.remove(cpu));
            let cell = std::iter::once(first).chain(others).collect();
            rows.entry(last_level_cache(&about)).or_default().push(cell);
        }
        let row_lengths: BTreeSet<usize> = rows.values().map(Vec::len).collect();
        let has_rows = row_lengths.len() == 1 && !rows.contains_key(&None);
        let row_count = if has_rows { rows.len() } else { 1 };
        let cells: Vec<Vec<u32>> = rows.into_values().flatten().collect();
        let shape = Shape { columns: (cells.len() / row_count) as u32, rows: row_count as u32 };
        match Mesh::new(shape) {
            Some(mesh) => Topology { mesh, cells },
            None => unreachable!("there are 1 to {} cells", Mesh::MOST_CELLS),
        }
    }

    /// One row of cells with a CPU each.
    #[cfg(test)]
    pub(crate) fn of_cpus(cpus: &[u32]) -> Topology {
        Topology::read(Path::new("/nonexistent"), cpus)
    }

    /// Its size.
    pub fn mesh(&self) -> Mesh {
        self.mesh
    }

    /// The number of CPUs of all cells.
    pub(crate) fn cpus(&self) -> usize {
        self.cells.iter().map(Vec::len).sum()
    }

    /// The CPUs of a cell, ascending. None of a cell beyond the mesh.
    pub fn cpus_of(&self, cell: CellId) -> &[u32] {
        self.cells.get(cell.index()).map_or(&[], Vec::as_slice)
    }

    /// The cells that these CPUs belong to, ascending.
    pub fn cells_of(&self, cpus: &[u32]) -> Vec<CellId> {
        let cpus: BTreeSet<&u32> = cpus.iter().collect();
        let has_some = |cell: &CellId| self.cpus_of(*cell).iter().any(|cpu| cpus.contains(cpu));
        (0..self.mesh.cells()).map(CellId).filter(has_some).collect()
    }
}

impl From<Topology> for Stored {
    fn from(Topology { mesh, cells }: Topology) -> Stored {
        Stored { shape: mesh.shape(), cells }
    }
}

impl TryFrom<Stored> for Topology {
    type Error = InvalidTopology;

    fn try_from(Stored { shape, cells }: Stored) -> Result<Topology, InvalidTopology> {
        let mesh = Mesh::new(shape).filter(|mesh| mesh.cells() as usize == cells.len());
        let is_cell = |cell: &Vec<u32>| !cell.is_empty() && cell.is_sorted();
        let mut known = BTreeSet::new();
        let is_new = |cpu: &u32| *cpu <= CpuSet::LARGEST && known.insert(*cpu);
        let are_cells = cells.iter().all(is_cell) && cells.iter().flatten().all(is_new);
        mesh.filter(|_| are_cells).map(|mesh| Topology { mesh, cells }).ok_or(InvalidTopology)
    }
}

/// The first CPU that shares the last cache with a CPU, which this folder describes.
fn last_level_cache(about: &Path) -> Option<CpuId> {
    let caches = (0..MOST_CACHES).map(|index| about.join(format!("cache/index{index}")));
    let with_level = caches.map_while(|cache| {
        let level: u32 = fs::read_to_string(cache.join("level")).ok()?.trim().parse().ok()?;
        Some((level, cache))
    });
    let (_, last) = with_level.max_by_key(|(level, _)| *level)?;
    read_cpus(&last.join("shared_cpu_list"))?.iter().next()
}

fn read_cpus(file: &Path) -> Option<CpuSet> {
    fs::read_to_string(file).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A description of CPUs: their siblings, and those that share the caches from level 1 on.
    fn machine(cpus: &[(u32, &str, &[&str])]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (cpu, siblings, caches) in cpus {
            let about = root.path().join(format!("cpu{cpu}"));
            fs::create_dir_all(about.join("topology")).unwrap();
            fs::write(about.join("topology/thread_siblings_list"), format!("{siblings}\n")).unwrap();
            for (index, shared) in caches.iter().enumerate() {
                let cache = about.join(format!("cache/index{index}"));
                fs::create_dir_all(&cache).unwrap();
                fs::write(cache.join("level"), format!("{}\n", index + 1)).unwrap();
                fs::write(cache.join("shared_cpu_list"), format!("{shared}\n")).unwrap();
            }
        }
        root
    }

    fn read(cpus: &[(u32, &str, &[&str])], permitted: &[u32]) -> (String, Vec<Vec<u32>>) {
        let Topology { mesh, cells } = Topology::read(machine(cpus).path(), permitted);
        (mesh.to_string(), cells)
    }

    /// Four cores of two threads each, with a cache for two cores, numbered as by many kernels.
    const EIGHT: [(u32, &str, &[&str]); 8] = [
        (0, "0,4", &["0,4", "0,2,4,6"]),
        (1, "1,5", &["1,5", "1,3,5,7"]),
        (2, "2,6", &["2,6", "0,2,4,6"]),
        (3, "3,7", &["3,7", "1,3,5,7"]),
        (4, "0,4", &["0,4", "0,2,4,6"]),
        (5, "1,5", &["1,5", "1,3,5,7"]),
        (6, "2,6", &["2,6", "0,2,4,6"]),
        (7, "3,7", &["3,7", "1,3,5,7"]),
    ];

    #[test]
    fn a_cell_is_a_core_and_a_row_the_domain_of_a_last_level_cache() {
        let cells = vec![vec![0, 4], vec![2, 6], vec![1, 5], vec![3, 7]];
        assert_eq!(read(&EIGHT, &[0, 1, 2, 3, 4, 5, 6, 7]), ("2x2".to_owned(), cells));
    }

    #[test]
    fn there_are_only_permitted_cpus_and_one_row_if_rows_differ_in_length() {
        let cells = vec![vec![4], vec![6], vec![3, 7], vec![5]];
        assert_eq!(read(&EIGHT, &[7, 6, 5, 4, 3, 3]), ("2x2".to_owned(), cells));
        assert_eq!(read(&EIGHT, &[0, 4, 1, 3]), ("3x1".to_owned(), vec![vec![0, 4], vec![1], vec![3]]));
        assert_eq!(read(&EIGHT, &[2]), ("1x1".to_owned(), vec![vec![2]]));
    }

    #[test]
    fn what_the_kernel_does_not_tell_gives_one_row() {
        let one_without_cache = [(0, "0", &[][..]), (1, "1", &["1"])];
        assert_eq!(read(&one_without_cache, &[0, 1]), ("2x1".to_owned(), vec![vec![0], vec![1]]));
        assert_eq!(read(&[], &[9, 3]), ("2x1".to_owned(), vec![vec![3], vec![9]]));
        assert_eq!(read(&[], &[]), ("1x1".to_owned(), vec![vec![0]]));
        let contradictory = [(0, "1-2", &["0"][..]), (1, "0,7", &["1"]), (2, "x", &["2"]), (3, "", &["3"])];
        assert_eq!(read(&contradictory, &[0, 1, 2, 3]), ("1x2".to_owned(), vec![vec![0, 1, 2], vec![3]]));
    }

    #[test]
    fn a_machine_has_no_more_cells_than_a_mesh() {
        let many: Vec<u32> = (0..Mesh::MOST_CELLS + 5).chain([u32::MAX]).rev().collect();
        let topology = Topology::read(Path::new("/nowhere"), &many);
        assert_eq!(topology.mesh().cells(), Mesh::MOST_CELLS);
        assert!(topology.cells_of(&[u32::MAX]).is_empty());
    }

    #[test]
    fn cells_know_their_cpus_and_the_other_way_round() {
        let topology = Topology::read(machine(&EIGHT).path(), &[0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(topology.cpus_of(CellId(1)), [2, 6]);
        assert!(topology.cpus_of(CellId(4)).is_empty());
        assert_eq!(topology.cells_of(&[7, 6, 2, 100]), [CellId(1), CellId(3)]);
    }

    #[test]
    fn this_machine_has_each_permitted_cpu_once() {
        let permitted = sys::cpus::allowed().unwrap();
        let topology = Topology::of_this_machine(&permitted);
        let mut cpus = topology.cells.concat();
        cpus.sort_unstable();
        assert_eq!(cpus, permitted);
    }

    #[test]
    fn only_a_valid_topology_is_restored() {
        let topology = Topology::read(machine(&EIGHT).path(), &[0, 1, 2, 3, 4, 5, 6, 7]);
        let text = serde_json::to_string(&topology).unwrap();
        assert_eq!(text, r#"{"shape":{"columns":2,"rows":2},"cells":[[0,4],[2,6],[1,5],[3,7]]}"#);
        assert_eq!(serde_json::from_str::<Topology>(&text).unwrap(), topology);
        for (columns, rows, cells) in [
            (2, 1, "[[0]]"),
            (1, 1, "[[0],[1]]"),
            (1, 1, "[[]]"),
            (2, 1, "[[0],[]]"),
            (2, 1, "[[0,1],[1]]"),
            (1, 1, "[[0,0]]"),
            (1, 1, "[[1,0]]"),
            (1, 1, "[[1048576]]"),
            (1, 1, "[[-1]]"),
            (0, 0, "[]"),
            (65_536, 65_536, "[]"),
        ] {
            let text = format!(r#"{{"shape":{{"columns":{columns},"rows":{rows}}},"cells":{cells}}}"#);
            serde_json::from_str::<Topology>(&text).expect_err(&text);
        }
    }
}
