//! The processor's state: registers of all kinds, and the modes of arithmetic; and `errno`, which
//! is almost one.

use crate::adversary::case::{alone, hazard};

#[test]
fn arithmetic_is_right() {
    /// A sum that any wrong bit changes.
    #[inline(never)]
    fn sum(seed: u64) -> (f64, f32, u64, [f64; 16]) {
        let (mut double, mut single, mut whole) = (seed as f64 + 0.1, seed as f32 + 0.1, seed);
        let mut lanes: [f64; 16] = std::array::from_fn(|i| (seed + i as u64) as f64);
        for i in 1..400_u64 {
            double = double * 1.000_1 + (i as f64).sqrt();
            single = single.mul_add(1.000_1, 1.0 / i as f32);
            whole = whole.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(7) ^ i;
            lanes.iter_mut().for_each(|lane| *lane = *lane * 0.999 + double);
        }
        (double, single, whole, lanes)
    }
    alone(|| {
        let right: Vec<_> = (0..32).map(sum).collect();
        hazard(move |who, round| {
            let seed = (who + round) % 32;
            assert_eq!(sum(seed), right[seed as usize]);
        });
    });
}

#[test]
fn errno_belongs_to_the_fibers_own_call() {
    alone(|| {
        hazard(|who, _| {
            let number = || std::io::Error::last_os_error().raw_os_error();
            let spin = || {
                (0..300).for_each(|i| {
                    std::hint::black_box(i);
                });
            };
            for _ in 0..20 {
                if who % 2 == 0 {
                    assert_eq!(unsafe { libc::close(-1) }, -1);
                    spin();
                    assert_eq!(number(), Some(libc::EBADF));
                } else {
                    assert_eq!(unsafe { libc::open(c"/there/is/no/such".as_ptr(), libc::O_RDONLY) }, -1);
                    spin();
                    assert_eq!(number(), Some(libc::ENOENT));
                }
            }
        });
    });
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::arch::asm;

    use super::*;

    /// How long values stay in registers, in iterations of a loop.
    const TURNS: u64 = 20_000;

    #[repr(align(64))]
    struct Vectors<const BYTES: usize>([[u8; BYTES]; 16]);

    impl<const BYTES: usize> Vectors<BYTES> {
        fn new(seed: u64) -> Self {
            Vectors(std::array::from_fn(|i| std::array::from_fn(|j| (seed as usize + i * BYTES + j) as u8)))
        }

        fn is(&self, seed: u64) -> bool {
            self.0 == Self::new(seed).0
        }
    }

    /// Keeps these values in all vector registers for a while, and returns them.
    macro_rules! hold {
        ($name:ident, $bytes:literal, $move:literal, $register:literal) => {
            hold!($name, $bytes, $move, $register, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
        };
        ($name:ident, $bytes:literal, $move:literal, $register:literal, $($number:literal)*) => {
            /// # Safety
            /// The processor has the instructions.
            #[inline(never)]
            unsafe fn $name(vectors: &mut Vectors<$bytes>) {
                unsafe {
                    asm!(
                        $(concat!($move, " ", $register, $number, ", [{at} + ", $bytes, "*", $number, "]"),)*
                        "2:",
                        "dec rcx",
                        "jnz 2b",
                        $(concat!($move, " [{at} + ", $bytes, "*", $number, "], ", $register, $number),)*
                        at = in(reg) vectors,
                        inout("rcx") TURNS => _,
                        clobber_abi("C"),
                    );
                }
            }
        };
    }
    hold!(hold_sse, 16, "movups", "xmm");
    hold!(hold_avx, 32, "vmovups", "ymm");
    hold!(hold_avx512, 64, "vmovups", "zmm");

    #[test]
    fn vector_registers_belong_to_the_fiber() {
        alone(|| {
            hazard(|who, round| {
                let seed = who * 17 + round;
                let (mut sse, mut avx, mut avx512) = (Vectors::new(seed), Vectors::new(seed), Vectors::new(seed));
                // SAFETY: the processor's support is checked.
                unsafe {
                    hold_sse(&mut sse);
                    if is_x86_feature_detected!("avx") {
                        hold_avx(&mut avx);
                    }
                    if is_x86_feature_detected!("avx512f") {
                        hold_avx512(&mut avx512);
                    }
                }
                assert!(sse.is(seed) && avx.is(seed) && avx512.is(seed));
            });
        });
    }

    #[test]
    fn x87_registers_belong_to_the_fiber() {
        alone(|| {
            hazard(|who, round| {
                let numbers: [f64; 6] = std::array::from_fn(|i| (who * 1_000 + round * 10 + i as u64) as f64);
                let mut found = [0.0_f64; 6];
                // SAFETY: what is pushed is popped.
                unsafe {
                    asm!(
                        "fld qword ptr [{from}]",
                        "fld qword ptr [{from} + 8]",
                        "fld qword ptr [{from} + 16]",
                        "fld qword ptr [{from} + 24]",
                        "fld qword ptr [{from} + 32]",
                        "fld qword ptr [{from} + 40]",
                        "2:",
                        "dec {turns}",
                        "jnz 2b",
                        "fstp qword ptr [{to} + 40]",
                        "fstp qword ptr [{to} + 32]",
                        "fstp qword ptr [{to} + 24]",
                        "fstp qword ptr [{to} + 16]",
                        "fstp qword ptr [{to} + 8]",
                        "fstp qword ptr [{to}]",
                        from = in(reg) &numbers,
                        to = in(reg) &mut found,
                        turns = inout(reg) TURNS => _,
                        out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                        out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                    );
                }
                assert_eq!(numbers, found);
            });
        });
    }

    /// Divides one by three again and again in this rounding mode. Returns the last quotient and
    /// the sum of the differences from the first one.
    fn thirds(rounding: u32) -> (f64, f64) {
        let (mut usual, mode) = (0_u32, mode(rounding));
        let (quotient, differs): (f64, f64);
        // SAFETY: the mode is restored.
        unsafe {
            asm!(
                "stmxcsr [{usual}]",
                "ldmxcsr [{mode}]",
                "movapd xmm2, {one}",
                "divsd xmm2, {three}",
                "xorpd {differs}, {differs}",
                "2:",
                "movapd {quotient}, {one}",
                "divsd {quotient}, {three}",
                "movapd xmm3, {quotient}",
                "subsd xmm3, xmm2",
                "addsd {differs}, xmm3",
                "dec {turns}",
                "jnz 2b",
                "ldmxcsr [{usual}]",
                usual = in(reg) &mut usual,
                mode = in(reg) &mode,
                one = in(xmm_reg) 1.0_f64,
                three = in(xmm_reg) 3.0_f64,
                quotient = out(xmm_reg) quotient,
                differs = out(xmm_reg) differs,
                turns = inout(reg) TURNS => _,
                out("xmm2") _, out("xmm3") _,
            );
        }
        (quotient, differs)
    }

    /// MXCSR with this rounding mode and all exceptions masked.
    fn mode(rounding: u32) -> u32 {
        0x1f80 | rounding << 13
    }

    #[test]
    fn a_rounding_mode_belongs_to_the_fiber() {
        alone(|| {
            let right: Vec<u64> = (0..4).map(|rounding| thirds(rounding).0.to_bits()).collect();
            assert!(right[1] < right[2], "down and up");
            hazard(move |who, round| {
                let rounding = ((who + round) % 4) as u32;
                let (quotient, differs) = thirds(rounding);
                assert_eq!((quotient.to_bits(), differs), (right[rounding as usize], 0.0));
                let mut now = 0_u32;
                unsafe { asm!("stmxcsr [{}]", in(reg) &mut now) };
                assert_eq!(now & !0x3f, mode(0), "no fiber has left another mode");
            });
        });
    }
}
