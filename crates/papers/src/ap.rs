//! The example of Suzaki and Walsh: jobs that share a mesh in space and time, drawn slice by slice.
//!
//! Source: figures 2 and 3. Figure 2 requests rectangles of 2 x 2, 3 x 3 and 1 x 3 cells; figure 3
//! draws slices with single and multiple tasks. Their mesh has no stated size; here it has 6 x 4
//! cells, and two more jobs make multiple tasks. The slices are those of [`policy::slices`].

use policy::JobId;
use policy::layout::{Mesh, Partitioner, Request, Shape};
use policy::slices::{Movement, SliceTable};
use serde::Serialize;

/// The mesh.
const MESH: Shape = Shape { columns: 6, rows: 4 };

/// The requests, in the order of arrival.
const REQUESTS: [Shape; 5] = [
    Shape { columns: 2, rows: 2 },
    Shape { columns: 3, rows: 3 },
    Shape { columns: 1, rows: 3 },
    Shape { columns: 6, rows: 2 },
    Shape { columns: 1, rows: 1 },
];

/// The jobs and the slices after all requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Example {
    /// The columns and rows of the mesh.
    pub mesh: String,
    /// The jobs, in the order of arrival.
    pub jobs: Vec<ExampleJob>,
    /// The cells of each slice, row by row from the top: the number of the job, or a dot.
    pub slices: Vec<Vec<String>>,
}

/// A job of the example.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExampleJob {
    /// Its number, from one.
    pub job: u32,
    /// The requested columns and rows.
    pub request: String,
    /// The number of slices that it is in: a single task is in one, a multiple task in several.
    pub slices: usize,
}

impl Example {
    /// Places all jobs. `None` if a request does not fit: a defect of the example.
    pub fn new() -> Option<Example> {
        let mesh = Mesh::new(MESH)?;
        let mut table = SliceTable::new(mesh, Partitioner::AdaptiveScan, Movement::Never, None);
        for (job, shape) in (1..).zip(REQUESTS) {
            table.enter(JobId(job), Request::Rectangle(shape), 1).ok()?;
        }
        let count = |job| table.slices().iter().filter(|slice| slice.jobs.iter().any(|of| of.0 == job)).count();
        let job =
            |(job, shape): (u32, Shape)| ExampleJob { job, request: shape.to_string(), slices: count(JobId(job)) };
        Some(Example {
            mesh: MESH.to_string(),
            jobs: (1..).zip(REQUESTS).map(job).collect(),
            slices: table.slices().iter().map(|slice| slice.rows(mesh)).collect(),
        })
    }

    /// The example as text: the slices side by side, then the jobs.
    pub fn text(&self) -> String {
        let width = MESH.columns as usize * 2 - 1;
        let heading = |number: usize| format!("{:width$}", format!("slice {number}"));
        let headings: Vec<String> = (1..=self.slices.len()).map(heading).collect();
        let mut text = headings.join("   ").trim_end().to_owned() + "\n";
        for row in 0..MESH.rows as usize {
            let rows: Vec<&str> = self.slices.iter().map(|slice| slice[row].as_str()).collect();
            text += &(rows.join("   ") + "\n");
        }
        text.push('\n');
        for ExampleJob { job, request, slices } in &self.jobs {
            let kind = if *slices == 1 { "a single task" } else { "a multiple task" };
            text += &format!("job {job} asks for {request} cells and is {kind}\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_has_single_and_multiple_tasks_on_cells_that_do_not_change() {
        let example = Example::new().unwrap();
        let kinds: Vec<bool> = example.jobs.iter().map(|job| job.slices == 1).collect();
        assert!(kinds.contains(&true) && kinds.contains(&false), "{example:?}");
        for job in &example.jobs {
            let number = job.job.to_string();
            let cells = |slice: &Vec<String>| slice.iter().map(|row| row.match_indices(&number).count()).sum::<usize>();
            let shape: Shape = job.request.parse().unwrap();
            let here: Vec<usize> = example.slices.iter().map(cells).filter(|cells| *cells > 0).collect();
            assert_eq!(here, vec![shape.cells() as usize; job.slices], "job {number}");
        }
    }
}
