//! A sliced Latin hypercube: points that cover a cube evenly, in slices that do so, too.
//!
//! In a Latin hypercube of n points each factor has exactly one point in each of n equal intervals.
//! In a sliced one the points are divided into slices, and each slice is a Latin hypercube of its
//! own (Qian 2012, Sliced Latin Hypercube Designs). So the first slice is a fair sample of all.

use scenario::draw::Stream;

/// Draws `slices * size` points, slice by slice. `F` is the number of factors, and each coordinate
/// is the middle of its interval.
pub fn draw<const F: usize>(slices: u32, size: u32, seed: u64) -> Vec<[f64; F]> {
    let count = slices * size;
    let factors: [Vec<u32>; F] = std::array::from_fn(|factor| {
        let mut stream = Stream::named(seed, "factor", factor as u32);
        intervals(slices, size, &mut stream)
    });
    let middle = |interval: u32| (f64::from(interval) + 0.5) / f64::from(count);
    (0..count as usize).map(|point| std::array::from_fn(|factor| middle(factors[factor][point]))).collect()
}

/// The intervals of one factor, for all points.
fn intervals(slices: u32, size: u32, stream: &mut Stream) -> Vec<u32> {
    let mut of_slices = vec![Vec::new(); slices as usize];
    for group in 0..size {
        // Of each group of neighbouring intervals, every slice gets one.
        let mut neighbours: Vec<u32> = (group * slices..(group + 1) * slices).collect();
        stream.shuffle(&mut neighbours);
        of_slices.iter_mut().zip(neighbours).for_each(|(of_slice, interval)| of_slice.push(interval));
    }
    of_slices.iter_mut().for_each(|of_slice| stream.shuffle(of_slice));
    of_slices.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(points: &[[f64; 3]], factor: usize) -> Vec<usize> {
        let mut intervals: Vec<usize> =
            points.iter().map(|point| (point[factor] * points.len() as f64) as usize).collect();
        intervals.sort_unstable();
        intervals
    }

    #[test]
    fn each_factor_has_one_point_in_each_interval_of_the_whole_and_of_each_slice() {
        let points = draw::<3>(5, 12, 7);
        for factor in 0..3 {
            assert_eq!(sorted(&points, factor), (0..60).collect::<Vec<_>>());
            for slice in points.chunks(12) {
                assert_eq!(sorted(slice, factor), (0..12).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn the_points_depend_on_the_seed_alone() {
        assert_eq!(draw::<3>(5, 12, 7), draw::<3>(5, 12, 7));
        assert_ne!(draw::<3>(5, 12, 7), draw::<3>(5, 12, 8));
    }
}
