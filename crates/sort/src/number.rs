//! Maps binary numbers to unsigned integers of the same order.

use crate::key::{Endian, KeyKind};

/// Maps the bytes of a number to an integer that preserves the order among numbers of the same
/// length and kind. The first byte is the most significant one. Fewer than 16 bytes are padded with
/// 0; bytes after the 16th are ignored.
#[inline]
pub(crate) fn ordinal(bytes: &[u8], kind: KeyKind) -> u128 {
    const SIGN: u128 = 1 << 127;
    let (KeyKind::Unsigned(endian) | KeyKind::Signed(endian) | KeyKind::Float(endian)) = kind else {
        return load(bytes);
    };
    let bits = match endian {
        Endian::Big => load(bytes),
        Endian::Little => {
            let swapped = load(bytes).swap_bytes();
            // Moves the padding from the most to the least significant bytes.
            swapped.checked_shl(8 * (16 - bytes.len().min(16)) as u32).unwrap_or(0)
        }
    };
    match kind {
        KeyKind::Signed(_) => bits ^ SIGN,
        // Of negative numbers, the one with the greater magnitude is less.
        KeyKind::Float(_) if bits & SIGN != 0 => !bits,
        KeyKind::Float(_) => bits | SIGN,
        _ => bits,
    }
}

/// Loads the first 16 bytes in big-endian order, padded with 0.
#[inline]
pub(crate) fn load(bytes: &[u8]) -> u128 {
    match bytes.first_chunk() {
        Some(&bytes) => u128::from_be_bytes(bytes),
        None => {
            let mut padded = [0; 16];
            padded[..bytes.len()].copy_from_slice(bytes);
            u128::from_be_bytes(padded)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn both<const N: usize>(little: [u8; N], kind: fn(Endian) -> KeyKind) -> u128 {
        let mut big = little;
        big.reverse();
        let ordinal = ordinal(&little, kind(Endian::Little));
        assert_eq!(ordinal, super::ordinal(&big, kind(Endian::Big)));
        ordinal
    }

    /// Arbitrary or special bits: an `f64`, and an `f32` in its lower half.
    fn float() -> impl Strategy<Value = u64> {
        let special = [0.0, -0.0, 1.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN, f64::MIN_POSITIVE];
        let special = special.map(|float| float.to_bits() | u64::from((float as f32).to_bits()));
        prop_oneof![any::<u64>(), prop::sample::select(special.to_vec())]
    }

    proptest! {
        #[test]
        fn integers_keep_their_order(left: i128, right: i128, width in 1..=16usize) {
            let shift = 8 * (16 - width) as u32;
            let (left, right) = (left >> shift, right >> shift);
            for endian in [Endian::Little, Endian::Big] {
                let bytes = |number: i128| match endian {
                    Endian::Little => number.to_le_bytes()[..width].to_vec(),
                    Endian::Big => number.to_be_bytes()[16 - width..].to_vec(),
                };
                let signed = |number| ordinal(&bytes(number), KeyKind::Signed(endian));
                prop_assert_eq!(signed(left).cmp(&signed(right)), left.cmp(&right));
                let mask = u128::MAX >> shift;
                let unsigned = |number| ordinal(&bytes(number), KeyKind::Unsigned(endian));
                prop_assert_eq!(unsigned(left).cmp(&unsigned(right)), (left as u128 & mask).cmp(&(right as u128 & mask)));
            }
        }

        #[test]
        fn floats_are_in_their_total_order(left in float(), right in float()) {
            let [small_left, small_right] = [left, right].map(|bits| f32::from_bits(bits as u32));
            let [left, right] = [left, right].map(f64::from_bits);
            let [a, b] = [left, right].map(|float| both(float.to_le_bytes(), KeyKind::Float));
            prop_assert_eq!(a.cmp(&b), left.total_cmp(&right));
            let [a, b] = [small_left, small_right].map(|float| both(float.to_le_bytes(), KeyKind::Float));
            prop_assert_eq!(a.cmp(&b), small_left.total_cmp(&small_right));
        }
    }

    #[test]
    fn nothing_is_zero() {
        assert_eq!(ordinal(b"", KeyKind::Unsigned(Endian::Little)), 0);
        assert_eq!(load(b"\x01"), 1 << 120);
    }
}
