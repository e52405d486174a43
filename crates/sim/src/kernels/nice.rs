//! Nice values and their weights in Linux.

/// The weight of a thread with nice value 0.
pub(crate) const NORMAL: u64 = 1024;

/// The weights of nice values from -20 to 19, each about 1.25 times the next:
/// `sched_prio_to_weight` in `kernel/sched/core.c` of Linux 6.18.
const WEIGHTS: [u64; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904, 3906, 3121, 2501,
    1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
];

/// The weight of a nice value. Values out of range are clamped.
pub(crate) fn weight(nice: i8) -> u64 {
    WEIGHTS[(nice.clamp(-20, 19) + 20) as usize]
}

/// Converts a real time to a virtual one, which passes more slowly the larger the weight is
/// (`calc_delta_fair`).
#[inline]
pub(crate) fn virtual_time(nanos: i64, weight: u32) -> i64 {
    if u64::from(weight) == NORMAL {
        return nanos;
    }
    (i128::from(nanos) * i128::from(NORMAL) / i128::from(weight)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_nice_value_lowers_the_weight_by_about_a_fifth() {
        assert_eq!([weight(-20), weight(-5), weight(0), weight(5), weight(19)], [88761, 3121, NORMAL, 335, 15]);
        assert!(WEIGHTS.windows(2).all(|pair| (1.15..1.35).contains(&(pair[0] as f64 / pair[1] as f64))));
    }
}
