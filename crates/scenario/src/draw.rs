//! Random draws that are the same on every machine, in both worlds, and for every policy.
//!
//! Each thread owns a stream that is named after its job and number and seeded by the run's seed.
//! So the interleaving that a scheduler or a waiting rule chooses cannot change what any thread
//! draws, and all arms of a comparison face equal work. No function here depends on the system's
//! libm.

mod law;

pub use law::Law;
use policy::Span;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The random numbers of one consumer.
#[derive(Clone, Debug)]
pub struct Stream(Xoshiro256PlusPlus);

impl Stream {
    /// The stream of the consumer called `name` (as in `crew.0`), its `index`-th thread, in the run
    /// with this seed.
    pub fn named(seed: u64, name: &str, index: u32) -> Stream {
        Stream(Xoshiro256PlusPlus::seed_from_u64(fnv1a(&[&seed.to_le_bytes(), name.as_bytes(), &index.to_le_bytes()])))
    }

    /// The next draw from the open interval (0, 1).
    pub fn uniform(&mut self) -> f64 {
        // The middle of one of 2^52 equal cells, so that neither end can occur.
        ((self.0.next_u64() >> 12) as f64 + 0.5) * (1.0 / (1_u64 << 52) as f64)
    }

    /// The next draw from 0, 1, ..., `n` - 1; 0 if `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        // Lemire's multiplication: the bias of at most n / 2^64 is beyond any simulation's reach.
        ((u128::from(self.0.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// Shuffles the items.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

/// Hashes parts by FNV-1a, 64 bits, each part with its length, so that different lists of parts
/// never have the same bytes.
fn fnv1a(parts: &[&[u8]]) -> u64 {
    let bytes = parts.iter().flat_map(|part| (part.len() as u64).to_le_bytes().into_iter().chain(part.iter().copied()));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// A normal distribution of spans, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normal {
    /// The mean.
    pub mean: f64,
    /// The standard deviation.
    pub sd: f64,
}

impl Normal {
    /// Draws a span, rounded down to whole steps and at least one step long. It takes exactly one
    /// number from the stream, so a change of the parameters does not change other draws.
    pub fn draw(self, stream: &mut Stream, step: Span) -> Span {
        on_grid(self.mean + self.sd * normal_quantile(stream.uniform()), step)
    }
}

/// Rounds nanoseconds down to whole steps, at least one.
fn on_grid(nanos: f64, step: Span) -> Span {
    let step = step.max(Span::from_nanos(1));
    // A float beyond the range of u64 becomes the nearest u64; a negative one zero.
    Span::from_nanos(nanos as u64).floor_to(step).max(step)
}

/// The quantile function of the standard normal distribution at `p` in (0, 1): Wichura's algorithm
/// AS 241 (PPND16, 1988), accurate to about one part in 10^16.
fn normal_quantile(p: f64) -> f64 {
    /// The values of numerator and denominator.
    fn fraction(coefficients: Rational, x: f64) -> (f64, f64) {
        let next = |sums: (f64, f64), of: (f64, f64)| (sums.0 * x + of.0, sums.1 * x + of.1);
        coefficients.into_iter().rev().fold((0.0, 0.0), next)
    }
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        let (numerator, denominator) = fraction(CENTRE, 0.180625 - q * q);
        return q * numerator / denominator;
    }
    let tail = if q < 0.0 { p } else { 1.0 - p };
    let r = libm::sqrt(-libm::log(tail));
    let (numerator, denominator) = if r <= 5.0 { fraction(SHOULDER, r - 1.6) } else { fraction(TAIL, r - 5.0) };
    let x = numerator / denominator;
    if q < 0.0 { -x } else { x }
}

/// The coefficients of numerator and denominator, lowest first, of one of the algorithm's three
/// rational approximations.
type Rational = [(f64, f64); 8];

const CENTRE: Rational = [
    (3.387_132_872_796_366_5, 1.0),
    (1.331_416_678_917_843_8e2, 4.231_333_070_160_091e1),
    (1.971_590_950_306_551_3e3, 6.871_870_074_920_579e2),
    (1.373_169_376_550_946e4, 5.394_196_021_424_751e3),
    (4.592_195_393_154_987e4, 2.121_379_430_158_659_7e4),
    (6.726_577_092_700_87e4, 3.930_789_580_009_271e4),
    (3.343_057_558_358_813e4, 2.872_908_573_572_194_3e4),
    (2.509_080_928_730_122_7e3, 5.226_495_278_852_854e3),
];

const SHOULDER: Rational = [
    (1.423_437_110_749_683_5, 1.0),
    (4.630_337_846_156_546, 2.053_191_626_637_759),
    (5.769_497_221_460_691, 1.676_384_830_183_803_8),
    (3.647_848_324_763_204_5, 6.897_673_349_851e-1),
    (1.270_458_252_452_368_4, 1.481_039_764_274_800_8e-1),
    (2.417_807_251_774_506e-1, 1.519_866_656_361_645_7e-2),
    (2.272_384_498_926_918_4e-2, 5.475_938_084_995_345e-4),
    (7.745_450_142_783_414e-4, 1.050_750_071_644_416_9e-9),
];

const TAIL: Rational = [
    (6.657_904_643_501_103, 1.0),
    (5.463_784_911_164_114, 5.998_322_065_558_88e-1),
    (1.784_826_539_917_291_3, 1.369_298_809_227_358e-1),
    (2.965_605_718_285_048_7e-1, 1.487_536_129_085_061_5e-2),
    (2.653_218_952_657_612_4e-2, 7.868_691_311_456_133e-4),
    (1.242_660_947_388_078_4e-3, 1.846_318_317_510_054_8e-5),
    (2.711_555_568_743_487_6e-5, 1.421_511_758_316_446e-7),
    (2.010_334_399_292_288_1e-7, 2.044_263_103_389_939_8e-15),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_match_the_tables() {
        // Stored values from R's qnorm.
        for (p, quantile) in [
            (0.5, 0.0),
            (0.9, 1.281_551_565_544_600_4),
            (0.975, 1.959_963_984_540_054),
            (1e-10, -6.361_340_902_404_056),
        ] {
            assert!((normal_quantile(p) - quantile).abs() < 1e-14, "{p}: {}", normal_quantile(p));
        }
        for p in [1e-3, 0.07, 0.2, 0.49] {
            assert!((normal_quantile(p) + normal_quantile(1.0 - p)).abs() < 1e-13, "not symmetric at {p}");
        }
    }

    #[test]
    fn streams_differ_only_by_seed_name_and_index() {
        let first = |seed, name, index| Stream::named(seed, name, index).uniform();
        let own = first(1, "crew", 0);
        assert_eq!(own, first(1, "crew", 0));
        for other in [first(2, "crew", 0), first(1, "crew.0", 0), first(1, "crew", 1)] {
            assert_ne!(own, other);
        }
    }

    #[test]
    fn a_shuffle_keeps_all_items_and_depends_on_the_seed() {
        let shuffled = |seed| {
            let mut items: Vec<u32> = (0..50).collect();
            Stream::named(seed, "order", 0).shuffle(&mut items);
            items
        };
        assert_ne!(shuffled(1), shuffled(2));
        let mut sorted = shuffled(1);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..50).collect::<Vec<_>>());
    }
}
