//! Decimal numbers in text, of any length, compared exactly.

use std::cmp::Ordering;

use crate::normal_form::PrefixWriter;

/// A decimal number: ±0.d₁d₂.. · 10^exponent; neither the first nor the last digit is 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decimal<'t> {
    /// -1, 0 or 1; if it is 0, there are no digits.
    sign: i8,
    exponent: i64,
    /// The digits in ASCII, first these, then those in `fraction`.
    whole: &'t [u8],
    fraction: &'t [u8],
}

impl<'t> Decimal<'t> {
    /// Parses the number at the beginning of the text: blanks, a sign, digits, a decimal point and
    /// digits, all of them optional. Text without a number is 0.
    pub(crate) fn parse(text: &'t [u8]) -> Decimal<'t> {
        let (_, text) = split(text, |byte| byte == b' ' || byte == b'\t');
        let (sign, text) = match text {
            [b'-', rest @ ..] => (-1, rest),
            [b'+', rest @ ..] => (1, rest),
            _ => (1, text),
        };
        let (whole, text) = split(text, |byte| byte.is_ascii_digit());
        let fraction = match text {
            [b'.', rest @ ..] => split(rest, |byte| byte.is_ascii_digit()).0,
            _ => &[],
        };
        let (_, mut whole) = split(whole, |byte| byte == b'0');
        let mut fraction = without_last_zeros(fraction);
        let exponent;
        if whole.is_empty() {
            let (zeros, rest) = split(fraction, |byte| byte == b'0');
            exponent = -(zeros.len() as i64);
            fraction = rest;
        } else {
            exponent = whole.len() as i64;
            if fraction.is_empty() {
                whole = without_last_zeros(whole);
            }
        }
        if whole.is_empty() && fraction.is_empty() {
            return Decimal { sign: 0, exponent: 0, whole, fraction };
        }
        Decimal { sign, exponent, whole, fraction }
    }

    fn digits(&self) -> impl Iterator<Item = u8> {
        self.whole.iter().chain(self.fraction).copied()
    }

    /// Compares two numbers.
    pub(crate) fn compare(&self, other: &Decimal<'_>) -> Ordering {
        let magnitude = || self.exponent.cmp(&other.exponent).then_with(|| self.digits().cmp(other.digits()));
        self.sign.cmp(&other.sign).then_with(|| match self.sign {
            -1 => magnitude().reverse(),
            _ => magnitude(),
        })
    }

    /// Writes the normal form, whose bytes compare as the numbers do. No form is a prefix of
    /// another one. It consists of one byte for sign and exponent, eight more for a large exponent,
    /// one for every two digits, and a terminator 0; all are inverted if the number is negative. 0
    /// is one byte.
    pub(crate) fn normalize(&self, room: &mut PrefixWriter<'_>, flip: u8) {
        let flip = match self.sign {
            0 => return room.put(&[ZERO], flip),
            -1 => !flip,
            _ => flip,
        };
        if self.exponent.abs() <= SMALL {
            room.put(&[(i64::from(ONE) + self.exponent) as u8], flip);
        } else {
            room.put(&[if self.exponent < 0 { TINY } else { HUGE }], flip);
            // The exponent as an unsigned integer of the same order.
            room.put(&(self.exponent.cast_unsigned() ^ (1 << 63)).to_be_bytes(), flip);
        }
        let mut digits = self.digits();
        while let Some(first) = digits.next() {
            if !room.is_whole {
                return;
            }
            let second = digits.next().unwrap_or(b'0');
            room.put(&[(first - b'0') * 10 + (second - b'0') + 1], flip);
        }
        room.put(&[0], flip);
    }
}

/// Zero, and the first byte of positive numbers; negative numbers have it inverted. TINY < ONE -
/// SMALL and ONE + SMALL < HUGE.
const ZERO: u8 = 0x80;
const TINY: u8 = 0x81;
const ONE: u8 = 0xC0;
const HUGE: u8 = 0xFF;
const SMALL: i64 = 60;

/// The maximum number of bytes that [`Decimal::normalize`] writes for a text of this length,
/// without the terminator, which is needed only if another key follows.
pub(crate) const fn normal_width(length: usize) -> usize {
    let head = if length as u64 > SMALL as u64 { 9 } else { 1 };
    head + length.div_ceil(2)
}

/// Splits the text after its longest prefix of matching bytes.
fn split(text: &[u8], is_such: impl Fn(u8) -> bool) -> (&[u8], &[u8]) {
    text.split_at(text.iter().position(|&byte| !is_such(byte)).unwrap_or(text.len()))
}

fn without_last_zeros(digits: &[u8]) -> &[u8] {
    let last = digits.iter().rposition(|&digit| digit != b'0');
    &digits[..last.map_or(0, |last| last + 1)]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Compares two numbers digit by digit, after padding both to the same number of digits before
    /// and after the decimal point.
    fn reference(left: &[u8], right: &[u8]) -> Ordering {
        fn read(text: &[u8]) -> (bool, String, String) {
            let text = String::from_utf8_lossy(text).into_owned();
            let text = text.trim_start_matches([' ', '\t']);
            let is_negative = text.starts_with('-');
            let text = text.strip_prefix(['-', '+']).unwrap_or(text);
            let whole: String = text.chars().take_while(char::is_ascii_digit).collect();
            let rest = &text[whole.len()..];
            let fraction = rest.strip_prefix('.').unwrap_or("").chars().take_while(char::is_ascii_digit).collect();
            (is_negative, whole, fraction)
        }
        let (left, right) = (read(left), read(right));
        let whole = left.1.len().max(right.1.len());
        let fraction = left.2.len().max(right.2.len());
        let [left, right] = [left, right].map(|(is_negative, before, after)| {
            let digits = format!("{before:0>whole$}{after:0<fraction$}");
            let is_zero = digits.bytes().all(|digit| digit == b'0');
            (is_negative && !is_zero, digits)
        });
        match (left.0, right.0) {
            (false, false) => left.1.cmp(&right.1),
            (true, true) => right.1.cmp(&left.1),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        }
    }

    fn compare(left: &[u8], right: &[u8]) -> Ordering {
        Decimal::parse(left).compare(&Decimal::parse(right))
    }

    fn normal(text: &[u8]) -> Vec<u8> {
        let mut out = vec![0; 2 * text.len() + 10];
        let mut room = PrefixWriter::new(&mut out);
        Decimal::parse(text).normalize(&mut room, 0);
        let PrefixWriter { used, is_whole, .. } = room;
        assert!(is_whole);
        out.truncate(used);
        out
    }

    #[test]
    fn numbers_are_parsed_as_people_read_them() {
        for equal in [
            &["0", "-0", "+0", "", "-", "+", ".", "-.", "abc", "00", "0.000", "- 5", "-.0x", " \t0", "e5", "\u{a0}5"][..],
            &["1", "1e5", "+1", "01", "1.", "1.0", "1.000", " \t 1", "1-2", "1,000", "1.0.5", "1 2", "000001.x"],
            &[".5", "0.5", "+.5", "00.50", ".5.5"],
            &["-.5", "-0.5", "  -000.50"],
            &["-100", "-100.0", "-0100,5"],
        ] {
            for pair in equal.windows(2) {
                assert_eq!(compare(pair[0].as_bytes(), pair[1].as_bytes()), Ordering::Equal, "{pair:?}");
                assert_eq!(normal(pair[0].as_bytes()), normal(pair[1].as_bytes()), "{pair:?}");
            }
        }
    }

    #[test]
    fn different_numbers_compare_by_value() {
        let huge = |digit: &str, zeros| format!("{digit}{}", "0".repeat(zeros));
        let tiny = |zeros, digit: &str| format!(".{}{digit}", "0".repeat(zeros));
        let mut positive = vec![tiny(100, "1"), tiny(61, "1"), tiny(60, "1")];
        let short = "0.01 0.09 .1 0.100000000000000000000000000000000000000001 0.11 1 1.01 2 9 10 10.5 11.9 12 1000 \
                     18446744073709551616 18446744073709551617";
        positive.extend(short.split(' ').map(str::to_owned));
        positive.extend(
            [("1", 58), ("1", 59), ("9", 59), ("1", 60), ("1", 100), ("2", 100)]
                .map(|(digit, zeros)| huge(digit, zeros)),
        );
        let negative = positive.iter().rev().map(|number| format!("-{number}"));
        let ascending: Vec<String> = negative.chain(["0".to_owned()]).chain(positive.iter().cloned()).collect();
        for (at, left) in ascending.iter().enumerate() {
            for (other, right) in ascending.iter().enumerate() {
                assert_eq!(compare(left.as_bytes(), right.as_bytes()), at.cmp(&other), "{left} {right}");
                assert_eq!(normal(left.as_bytes()).cmp(&normal(right.as_bytes())), at.cmp(&other), "{left} {right}");
            }
        }
    }

    fn text() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            "[ ]{0,2}[-+]?[0-9]{0,30}[.]?[0-9]{0,30}",
            "[-+]?0{0,3}[0-2]{0,3}[.]?0{0,3}[0-2]{0,3}",
            "[-+]?[1]?0{55,65}[.]?0{55,65}[1]?",
            "[-+. 0e1x]{0,6}",
        ]
        .prop_map(String::into_bytes)
    }

    proptest! {
        #[test]
        fn numbers_compare_as_in_the_digit_by_digit_reference(left in text(), right in text()) {
            prop_assert_eq!(compare(&left, &right), reference(&left, &right));
        }

        #[test]
        fn normal_forms_compare_as_the_numbers_and_are_prefix_free(left in text(), right in text()) {
            let ordering = reference(&left, &right);
            let (left, right) = (normal(&left), normal(&right));
            prop_assert_eq!(left.cmp(&right), ordering);
            if ordering != Ordering::Equal {
                prop_assert!(!left.starts_with(&right) && !right.starts_with(&left));
            }
        }

        #[test]
        fn normal_forms_stay_within_their_maximum_width(text in text()) {
            // One more for the terminator.
            prop_assert!(normal(&text).len() <= normal_width(text.len()) + 1);
        }
    }
}
