//! The time of requests for rectangles and slices: `cargo bench -p rowlock-bench-policy`, with the
//! number of requests after `--`, by default one million.
//!
//! Jobs enter and leave at random; 45 of 100 calls are releases. A request has sides of up to half
//! of the mesh. First one mesh, on which a request without room is dropped, by partitioner. Then
//! tables of slices, with a steady number of jobs. CPU time is measured, which a busy machine
//! affects much less than wall-clock time.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints its results, and a panic fails it")]

use policy::JobId;
use policy::layout::{Mesh, Occupancy, Partitioner, Rectangle, Request, Shape, adaptive_scan};
use policy::slices::{Movement, SliceTable};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The CPU time of this process in seconds.
fn cpu_time() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn mesh(columns: u32, rows: u32) -> Mesh {
    Mesh::new(Shape { columns, rows }).unwrap()
}

struct Draw(Xoshiro256PlusPlus);

impl Draw {
    fn new() -> Draw {
        Draw(Xoshiro256PlusPlus::seed_from_u64(1))
    }

    /// A number below `end`.
    fn below(&mut self, end: u32) -> u32 {
        self.0.next_u32() % end
    }

    fn shape(&mut self, mesh: Mesh) -> Shape {
        let Shape { columns, rows } = mesh.shape();
        Shape { columns: 1 + self.below(columns.div_ceil(2)), rows: 1 + self.below(rows.div_ceil(2)) }
    }
}

/// Enters and releases jobs on one mesh, for this many requests. Returns how many were met.
fn run(mesh: Mesh, requests: u32, mut find: impl FnMut(&Occupancy, Shape) -> Option<Rectangle>) -> u32 {
    let mut draw = Draw::new();
    let mut occupancy = Occupancy::new(mesh);
    let mut jobs: Vec<Rectangle> = Vec::new();
    let (mut count, mut met) = (0, 0);
    while count < requests {
        if !jobs.is_empty() && draw.below(100) < 45 {
            let place = draw.below(jobs.len() as u32);
            occupancy.release(jobs.swap_remove(place as usize));
            continue;
        }
        count += 1;
        if let Some(found) = find(&occupancy, draw.shape(mesh)) {
            assert!(occupancy.take(found));
            jobs.push(found);
            met += 1;
        }
    }
    met
}

/// Enters and releases jobs in a table with this many of them. Returns the time of a call and the
/// most slices.
fn table(mesh: Mesh, jobs: u32, movement: Movement, calls: u32) -> (f64, usize) {
    let mut draw = Draw::new();
    let mut table = SliceTable::new(mesh, Partitioner::AdaptiveScan, movement, None);
    let mut enter = |table: &mut SliceTable, job: u32| {
        table.enter(JobId(job), Request::Rectangle(draw.shape(mesh)), 1).unwrap();
    };
    (0..jobs).for_each(|job| enter(&mut table, job));
    let (mut most, start) = (0, cpu_time());
    for job in jobs..jobs + calls / 2 {
        table.release(JobId(job - jobs)).unwrap();
        enter(&mut table, job);
        most = most.max(table.slices().len());
    }
    ((cpu_time() - start) / f64::from(calls), most)
}

fn main() {
    let number = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    let many: u32 = number.map_or(1_000_000, |number| number.parse().unwrap());
    for (columns, rows) in [(8, 2), (32, 32), (64, 64)] {
        let mesh = mesh(columns, rows);
        let mut looks = 0;
        let met = run(mesh, many, |occupancy, shape| adaptive_scan::find(occupancy, shape, &mut looks));
        let (looks, met) = (looks as f64 / f64::from(many), 100. * f64::from(met) / f64::from(many));
        println!("{columns}x{rows}: adaptive-scan looks at {looks:.1} cells a request, {met:.0} % are met");
        for (partitioner, requests) in Partitioner::ALL.into_iter().zip([many, many / 10, many / 10]) {
            let start = cpu_time();
            run(mesh, requests, |occupancy, shape| partitioner.find(occupancy, Request::Rectangle(shape)));
            let seconds = (cpu_time() - start) / f64::from(requests) * 1e6;
            println!("{columns}x{rows}: 1 000 000 requests with their releases take {seconds:.2} s by {partitioner}");
        }
    }
    for (columns, rows, jobs, calls) in [(8, 2, 8, many / 10), (32, 32, 100, many / 100), (8, 2, 3_000, many / 1_000)] {
        for movement in Movement::ALL {
            let (seconds, most) = table(mesh(columns, rows), jobs, movement, calls);
            let micros = seconds * 1e6;
            println!(
                "{columns}x{rows}: a table of {jobs} jobs, move {movement}: {micros:.1} us a call, at most {most} slices"
            );
        }
    }
}
