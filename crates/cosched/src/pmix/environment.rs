//! The variables that Open MPI needs beside those of libpmix.

use std::ffi::OsString;
use std::path::Path;

use super::protocol::Variables;

/// The variable that each rank of a step of Slurm has.
const STEP: &str = "SLURM_STEP_ID";

/// Version 4 believes that it is alone unless it seems to be in a step of Slurm. Version 5 knows
/// better, and needs none.
const STEP_OF_SLURM: [(&str, &str); 3] = [(STEP, "0"), ("SLURM_JOBID", "0"), ("SLURM_NODELIST", "localhost")];

/// A launcher that a rank calls would believe that as well, and start its ranks by Slurm. That of
/// version 5 has variables of its own. That of MPICH asks for more.
const LAUNCHERS_WITHOUT_SLURM: [(&str, &str); 4] =
    [("OMPI_MCA_plm", "^slurm"), ("OMPI_MCA_ras", "^slurm"), ("PRTE_MCA_plm", "^slurm"), ("PRTE_MCA_ras", "^slurm")];

/// The CPUs are chosen here. Version 5 binds no rank by itself.
const BINDING: (&str, &str) = ("OMPI_MCA_hwloc_base_binding_policy", "none");

/// Files in a folder are found and removed. The other ways to share memory are tried only if they
/// are not excluded, by segments that stay if a rank is killed then.
const SHARING: (&str, &str) = ("OMPI_MCA_shmem", "mmap");

/// The folders in which versions 4 and 5 share memory, and those of the files of their launchers.
const FOLDERS: [&str; 7] = [
    "OMPI_MCA_btl_vader_backing_directory",
    "OMPI_MCA_btl_sm_backing_directory",
    "OMPI_MCA_osc_sm_backing_directory",
    "OMPI_MCA_osc_rdma_backing_directory",
    "OMPI_MCA_osc_ucx_backing_directory",
    "OMPI_MCA_orte_tmpdir_base",
    "PRTE_MCA_prte_tmpdir_base",
];

/// The variables that a rank gets, with the folder for its files. They replace none that the user
/// has set, but those of a job around this one, whose folder has the same beginning of its name.
pub(super) fn variables(folder: &Path, prefix: &str, value_of: impl Fn(&str) -> Option<OsString>) -> Variables {
    let is_folder_of_job = |value: &OsString| {
        let name = Path::new(value).file_name().unwrap_or_default();
        name.as_encoded_bytes().starts_with(prefix.as_bytes())
    };
    let is_set = |name: &str| value_of(name).is_some_and(|value| !is_folder_of_job(&value));
    // Within a real step, all that is said about it is true.
    let slurm = STEP_OF_SLURM.into_iter().chain(LAUNCHERS_WITHOUT_SLURM).filter(|_| !is_set(STEP));
    let texts = slurm.chain([BINDING, SHARING]).map(|(name, value)| (name, OsString::from(value)));
    let folders = FOLDERS.into_iter().map(|name| (name, folder.as_os_str().to_owned()));
    let all = texts.chain(folders).filter(|(name, _)| !is_set(name));
    all.map(|(name, value)| (name.into(), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(value_of: impl Fn(&str) -> Option<OsString>) -> Vec<String> {
        let variables = variables(Path::new("/place/job-2"), "job-", value_of);
        variables.into_iter().map(|(name, _)| name.into_string().unwrap()).collect()
    }

    #[test]
    fn a_rank_seems_to_be_in_a_step_of_slurm_unless_it_is() {
        assert!(names(|_| None).contains(&STEP.to_owned()));
        let in_step = names(|name| (name == STEP).then(|| "3".into()));
        assert!(!in_step.iter().any(|name| name.starts_with("SLURM_") || name == "OMPI_MCA_plm"), "{in_step:?}");
        assert!(in_step.contains(&BINDING.0.to_owned()));
    }

    #[test]
    fn what_the_user_has_set_stays() {
        let all = names(|_| None);
        for one in all.iter().filter(|name| *name != STEP) {
            let others: Vec<_> = all.iter().filter(|name| *name != one).cloned().collect();
            assert_eq!(names(|name| (name == one).then(OsString::new)), others);
        }
    }

    #[test]
    fn a_job_within_another_has_a_folder_of_its_own() {
        let outer: Variables = variables(Path::new("/place/job-1"), "job-", |_| None);
        let inner = names(|name| outer.iter().find(|(of, _)| of == name).map(|(_, value)| value.clone()));
        assert_eq!(inner, FOLDERS);
    }
}
