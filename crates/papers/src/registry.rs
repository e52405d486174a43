//! The registry of all papers.

use measure::plan::Plan;
use report::WIDTH;
use report::words;
use scenario::Diagnostics;
use scenario::result::World;
use serde::Serialize;

use self::Study::{Example, Fg, Figure, Threads, Today};
use crate::figure::FigureFiles;
use crate::today::grid::Extent;
use crate::{fg, threads};

/// A figure, a table or a section of a paper that can be run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Paper {
    /// The name on the command line.
    #[serde(rename = "paper")]
    pub name: &'static str,
    /// Where it is published.
    pub source: &'static str,
    /// Its claim.
    pub shows: &'static str,
    /// The approximate duration with all defaults, on two CPUs.
    #[serde(skip)]
    pub takes: &'static str,
    /// The study that it belongs to.
    #[serde(skip)]
    pub study: Study,
}

/// A study, and the part of it that a paper repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Study {
    /// A simulated figure with bands.
    Figure(FigureFiles),
    /// The advice of the paper on barriers on later kernels, simulated.
    Today,
    /// The example of Suzaki and Walsh: a layout, drawn.
    Example,
    /// Roysden on the scheduling of pipelines, measured.
    Fg(fg::Experiment),
    /// Patel, Hidalgo and Ismail on user-level threads, measured.
    Threads(threads::Experiment),
}

macro_rules! paper {
    ($name:expr, $source:expr, $takes:expr, $study:expr, $shows:expr) => {
        Paper { name: $name, source: $source, shows: $shows, takes: $takes, study: $study }
    };
}

macro_rules! figure {
    ($study:literal, $authors:literal, $name:literal, $source:literal, $takes:literal, $shows:literal) => {
        paper!(
            concat!($study, "/", $name),
            concat!($authors, ", ", $source),
            $takes,
            Figure(FigureFiles {
                name: concat!($study, "/", $name, ".toml"),
                scenario: include_str!(concat!("../papers/", $study, "/", $name, ".toml")),
                bands: include_str!(concat!("../papers/", $study, "/", $name, ".bands.toml")),
            }),
            $shows
        )
    };
}

macro_rules! ap {
    ($($of:literal),*) => { figure!("ap", "Suzaki and Walsh", $($of),*) };
}

macro_rules! barrier {
    ($($of:literal),*) => { figure!("barrier", "Tsafrir and Feitelson", $($of),*) };
}

/// All papers, in the order of the list.
pub static PAPERS: [Paper; 35] = [
    barrier! { "fig1", "section 3 and figure 1", "10 s",
    "If threads far outnumber the processors, less than half of the spins of equal jobs succeed, whatever the load." },
    barrier! { "fig2", "section 3 and figure 2", "5 s",
    "A job's threads soon fall into two groups that take turns: one completes a round while it spins, the other has to be woken." },
    barrier! { "fig3", "section 4.1 and figure 3", "10 s",
    "Spinning for CS succeeds about half of the time, but nearly always if the number of threads is a multiple of 16." },
    barrier! { "fig4", "section 4.1 and figure 4", "2 s",
    "From some moment on, the threads of the job are scheduled together, and their spins succeed." },
    barrier! { "fig5", "section 4.2 and figure 5", "20 s",
    "Spinning a little longer than two context switches makes nearly all spins of fine-grain jobs succeed, whatever the load." },
    barrier! { "fig6", "section 5.1 and figure 6", "4 s",
    "Among jobs of other granularities, fine-grain jobs get priority for the time that they lose by blocking, and tolerate more threads than among \
     equal jobs." },
    barrier! { "fig7", "section 5.2 and figure 7", "30 s",
    "Spinning up to a little longer than two context switches is far better than blocking immediately; shorter spins may not be." },
    barrier! { "fig8", "section 5.2 and figure 8", "5 s",
    "In a mix of jobs, fine-grain jobs gain from spinning up to about twice as many threads as processors, and the spinning time matters little." },
    barrier! { "fig9", "section 5.3 and figure 9", "25 s",
    "On larger machines, too, spinning beats blocking immediately if there are fewer than 1.8 threads per processor." },
    barrier! { "six", "sections 2.3, 3 and 5", "5 s",
    "Under Linux 2.4, a job that spins does well beside CPU-bound threads, no better than under round robin among equal jobs, and in between in a mix." },
    barrier! { "wakeup", "section 4.3", "40 s",
    "Linux 2.4 may wake all threads of a job for the same processor. Remembering which ones are taken solves that; nothing more is needed." },
    barrier! { "wakeup-pair", "section 4.3", "30 s",
    "Two jobs with threads for more than half of the processors each gain as much from a better wakeup scheme as a job beside CPU-bound threads." },
    paper! { "barrier/today", "Tsafrir and Feitelson, section 6", "10 minutes", Today,
    "Whether spinning for 2cs+ pays on later kernels if there are fewer threads than twice the CPUs, and which rule is best." },
    paper! { "fg/table2", "Roysden, section 4, \"Kernel improvements\", and table 2", "5 min", Fg(fg::Experiment::Kernels),
    "Linux 2.6 with NPTL is 6 % faster than Linux 2.4 with LinuxThreads if the processors are the limit, and 3 % if the disk is." },
    paper! { "fg/table3", "Roysden, section 4, \"Fixed scheduling\", and table 3", "5 min", Fg(fg::Experiment::FixedRules),
    "Lowering the stages that do I/O makes the compute-bound program 5 % faster; no other rule makes a difference." },
    paper! { "fg/table4", "Roysden, section 4, \"Adjusting scheduling\", and table 4", "8 min", Fg(fg::Experiment::AdjustingRules),
    "Rules that adjust priorities to the state of the queues change the clock time by about 1 %. Two rules beyond the thesis are measured beside them." },
    paper! { "fg/table5", "Roysden, section 4, \"Adjusting scheduling\", and table 5", "12 min", Fg(fg::Experiment::Regression),
    "A second more of processor time costs half a second if the processors are the limit and two share the load, and more if the disk is." },
    paper! { "fg/magnitude", "Roysden, section 3, \"System calls for scheduling\"", "4 min", Fg(fg::Experiment::Magnitude),
    "\"the magnitude of priority differences does not matter (i.e., priority 2 versus priority 1 has the same behavior as priority 20 versus \
     priority 1)\"" },
    paper! { "fg/starvation", "Roysden, section 3, \"Linux scheduling\" and \"System calls for scheduling\"", "1 min", Fg(fg::Experiment::Starvation),
    "\"the higher priority thread always runs\", and the high-priority threads continue to run, starving low-priority threads." },
    paper! { "threads/table2", "Patel, Hidalgo and Ismail, Thread Scheduling, table 2 and the chart after it", "3 min", Threads(threads::Experiment::Systems),
    "\"The POSIX library outperforms our thread scheduler with this testing program. It scales very well as the number of threads increases.\"" },
    paper! { "threads/configs", "Patel, Hidalgo and Ismail, Thread Scheduling, table 1 and the charts after it", "1 min", Threads(threads::Experiment::Configurations),
    "Configurations with few priority levels and a short running time are better with few threads; they \"are outperformed by about 300%\" from \
     1000 threads on; and the configurations \"converge into three categories\"." },
    paper! { "threads/workloads", "Patel, Hidalgo and Ismail, Thread Scheduling, the last paragraph", "1 min", Threads(threads::Experiment::Workloads),
    "\"Depending on the exact program specifics [...] and what kind of metrics are favorable (execution time, response time, etc), different \
     configurations of the thread scheduler would be more optimal.\"" },
    ap! { "fig5", "section 4.1 and figure 5", "10 s",
    "There is no major difference between the process times of CellOS and AP/Linux, whatever the communication pattern." },
    ap! { "table2", "section 4.1 and table 2", "1 s",
    "Running a job under AP/Linux costs about 0.8 s besides its process time, under CellOS about 5.4 s." },
    ap! { "fig6", "section 4.2 and figure 6", "10 s",
    "Jobs of 2 x 2 cells share the machine in space: the total time grows in steps of four jobs." },
    ap! { "fig7", "section 4.2 and figure 7", "10 s",
    "Jobs of 4 x 2 cells: the total time grows in steps of two jobs." },
    ap! { "table3", "section 4.2 and table 3", "10 s",
    "The total time is proportional to the number of slices, and hardly grows while jobs fit into the slices that there are." },
    ap! { "fig8", "section 4.2 and figure 8", "5 s",
    "Coarse jobs that block overlap: their total time stays nearly flat under moderate co-scheduling, not under strict co-scheduling or CellOS." },
    ap! { "fig9", "section 4.2 and figure 9", "5 s",
    "The time to create several jobs grows almost linearly with their number." },
    ap! { "skew", "section 4.3", "1 s",
    "Cells act on a boundary about 10 ms late, with a standard deviation of 5 ms, at a slice of 200 ms." },
    ap! { "baselines", "section 5", "30 s",
    "Implicit and dynamic co-scheduling rely on local schedulers that dispatch quickly; for fine grains this is not enough." },
    figure! { "ap", "Our own", "wide", "on section 1 of Suzaki and Walsh", "30 s",
    "Without co-scheduling, jobs that wait by spinning lose more the more cells they have." },
    figure! { "ap", "Our own", "mixes", "measured on 2 CPUs with Linux 6.18", "1 min",
    "Only jobs that wait by spinning should take turns; jobs that block should be left to the local scheduler." },
    figure! { "ap", "Our own", "mixes-weights", "measured on 2 CPUs with Linux 6.18", "20 s",
    "Lowering by the weights of groups keeps a larger part of the machine for the active job than a nice value does." },
    paper! { "ap/example", "Suzaki and Walsh, section 3.2 and figures 2 and 3", "0 s", Example,
    "Jobs that do not fit side by side go to different slices. A job keeps its cells, and runs in every slice in which they are free." },
];

impl Paper {
    /// The paper of this name.
    pub fn named(name: &str) -> Option<&'static Paper> {
        PAPERS.iter().find(|paper| paper.name == name)
    }

    /// The name as part of a file name.
    pub fn stem(&self) -> String {
        self.name.replace('/', "-")
    }

    /// The files of a simulated figure with bands. `None` for the others.
    pub fn figure(&self) -> Option<FigureFiles> {
        if let Figure(files) = self.study { Some(files) } else { None }
    }

    /// The statement and its place.
    pub fn statement(&self) -> String {
        format!("{}: {}", self.source, self.shows)
    }
}

/// The list of all papers, with their contents, sizes and durations.
///
/// # Errors
///
/// A built-in scenario is invalid: a defect of rowlock.
pub fn list() -> Result<String, Diagnostics> {
    let entry = |Paper { name, source, shows, takes, study }: &Paper| {
        let scenario = match study {
            Figure(files) => Some(files.scenario()?),
            Today | Example | Fg(_) | Threads(_) => None,
        };
        let size = match (scenario, study) {
            (Some(scenario), _) => format!("{} runs", Plan::new(&scenario, &[World::Sim]).runs()),
            (None, Today) => format!("a sample of {} cells", Extent::Sample.cells().len()),
            (None, Example) => "a drawing".to_owned(),
            (None, _) => "on this machine".to_owned(),
        };
        let shows = words::wrap(shows, WIDTH - 2);
        Ok(format!("{name}  {source}\n  {shows}\n  {size}; about {takes} on two CPUs\n"))
    };
    PAPERS.iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn papers_are_found_by_their_names() {
        for paper in &PAPERS {
            assert_eq!(Paper::named(paper.name), Some(paper), "{}", paper.name);
        }
        assert_eq!(Paper::named("barrier/fig0"), None);
    }
}
