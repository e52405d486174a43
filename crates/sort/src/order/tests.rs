use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::key::KINDS;

fn order(format: Format, keys: &[&str]) -> Result<Order, OrderError> {
    Order::new(format, keys.iter().map(|key| key.parse().unwrap()).collect())
}

fn fixed(size: usize, keys: &[&str]) -> Order {
    order(Format::Fixed(size), keys).unwrap()
}

fn lines(keys: &[&str]) -> Order {
    order(Format::Lines, keys).unwrap()
}

fn normal(order: &Order, record: &[u8], most: usize) -> (Vec<u8>, bool) {
    let mut out = b"before".to_vec();
    let is_whole = order.append_normal_form(record, most, &mut out);
    assert!(out.starts_with(b"before"));
    (out.split_off(6), is_whole)
}

#[test]
fn invalid_keys_are_rejected_with_a_message() {
    for (format, key, problem) in [
        (Format::Fixed(0), "0:1", "records of 0 bytes cannot be distinguished"),
        (Format::Fixed(8), "0:9", "the key 0:9 is not within the records, which have 8 bytes"),
        (Format::Fixed(8), "8", "the key 8 is not within the records"),
        (Format::Fixed(8), "9:1", "the key 9:1 is not within the records"),
        (Format::Fixed(8), "1:18446744073709551615", "is not within the records"),
        (Format::Fixed(8), "18446744073709551615", "is not within the records"),
        (Format::Fixed(8), "0:0", "the key 0:0 has no bytes to compare"),
        (Format::Lines, "0:0:decimal", "the key 0:0:decimal has no bytes to compare"),
        (Format::Fixed(20), "0:17:unsigned-le", "has 17 bytes, but unsigned-le numbers have 1 to 16"),
        (Format::Fixed(20), "1:signed-be", "has 19 bytes, but signed-be numbers have 1 to 16"),
        (Format::Fixed(20), "1:5:float-be", "has 5 bytes, but float-be numbers have 4 or 8"),
        (Format::Lines, "1:4:float-be", "cannot be used with lines: any byte of a float-be number may be a line feed"),
        (Format::Lines, "1:4:unsigned-le:descending", "the key 1:4:unsigned-le:descending cannot be used with lines"),
    ] {
        let error = order(format, &[key]).unwrap_err().to_string();
        assert!(error.contains(problem), "{key}: {error}");
    }
    for (format, key) in [
        (Format::Fixed(8), "7"),
        (Format::Fixed(8), "0:8"),
        (Format::Fixed(20), "4:signed-le"),
        (Format::Fixed(20), "19:unsigned-le"),
        (Format::Fixed(20), "16:float-be"),
        (Format::Fixed(100), "0:100:decimal"),
        (Format::Lines, "5:decimal"),
        (Format::Lines, "99999999:99999999"),
    ] {
        assert!(order(format, &[key]).is_ok(), "{key}");
    }
}

#[test]
fn without_keys_the_whole_record_is_the_key() {
    assert_eq!(lines(&[]).keys, [Key::WHOLE]);
    assert_eq!(fixed(7, &[]).keys, [Key { length: Some(7), ..Key::WHOLE }]);
}

#[test]
fn a_prefix_decides_if_no_key_can_be_longer() {
    for (order, is_decided) in [
        (fixed(100, &["0:10"]), true),
        (fixed(100, &["0:12"]), true),
        (fixed(100, &["0:13"]), false),
        (fixed(100, &["90:10"]), true),
        (fixed(100, &["90:10:descending"]), true),
        (fixed(12, &[]), true),
        (fixed(13, &[]), false),
        (fixed(100, &["0:8:float-le", "20:4:signed-be:descending"]), true),
        (fixed(100, &["0:8:float-le", "20:5"]), false),
        (fixed(100, &["0:22:decimal"]), true),
        (fixed(100, &["0:23:decimal"]), false),
        (fixed(100, &["0:12:decimal", "12:4"]), true),
        (fixed(100, &["0:13:decimal", "12:4"]), false),
        (lines(&[]), false),
        (lines(&["0:11"]), true),
        (lines(&["0:12"]), false),
        (lines(&["0:5", "5:5:descending"]), true),
        (lines(&["0:5", "5:6:descending"]), false),
        (lines(&["0:22:decimal"]), true),
        (lines(&["0:decimal"]), false),
    ] {
        assert_eq!(order.is_decided_by_prefix(), is_decided, "{order:?}");
    }
}

#[test]
fn a_prefix_that_contains_the_end_of_a_decimal_number_decides() {
    for (key, number, is_decided) in [
        ("0:decimal", "0", true),
        ("0:decimal", "-12.5", true),
        ("0:decimal", "12345678901234567890", true),
        ("0:decimal", "-12345678901234567890", false),
        ("0:decimal", "12345678901234567890123", false),
        ("0:decimal:descending", "12345", true),
        ("0", "12345", false),
    ] {
        let order = lines(&[key]);
        assert_eq!(order.is_decided(order.prefix(number.as_bytes())), is_decided, "{key} {number}");
    }
    // Longer numbers can have the same prefix.
    let order = lines(&["0:decimal"]);
    let [short, long] = ["-1.2345678901234567890123", "-1.23456789012345678901234"];
    assert_eq!(order.prefix(short.as_bytes()), order.prefix(long.as_bytes()));
}

#[test]
fn further_keys_fill_up_a_prefix() {
    for (order, record, prefix) in [
        (fixed(10, &["0:2", "4:2"]), &b"abcdefghij"[..], &b"abef"[..]),
        (fixed(10, &["4:2", "0:4", "0:4", "0:4"]), b"abcdefghij", b"efabcdabcdab"),
        (fixed(10, &["0:2", "2:8:unsigned-be"]), b"abcdefghij", b"abcdefghij"),
        (fixed(10, &["0:1:unsigned-le:descending", "2:2:signed-le"]), b"\x01b\x02\x03", b"\xfe\x83\x02"),
        (
            fixed(20, &["0:4", "4:16:signed-be:descending"]),
            b"abcd\x01\x02\x03\x04\x05\x06\x07\x08\x09abcdefg",
            b"abcd\x7e\xfd\xfc\xfb\xfa\xf9\xf8\xf7",
        ),
        (lines(&["0:2", "2"]), b"ab", b"ab\x02"),
        (lines(&["0:2", "2"]), b"abcdefghijklm", b"ab\x02cdefghijk"),
        (lines(&["0:12", "2"]), b"a\x00b", b"a\x01\x01b\x00b"),
        (lines(&["0:decimal", "0"]), b"-12x", b"\x3d\xf2\xff-12x"),
    ] {
        let found = order.prefix(record).to_be_bytes();
        let mut expected = [0; 16];
        expected[..prefix.len()].copy_from_slice(prefix);
        assert_eq!(found, expected, "{order:?}: {found:x?}");
    }
}

/// Bytes that are often equal, often extreme, and often part of a number.
fn byte() -> impl Strategy<Value = u8> {
    prop_oneof![
        4 => prop::sample::select(b"012. -".to_vec()),
        3 => prop::sample::select(vec![0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF]),
        1 => any::<u8>(),
    ]
}

fn key(format: Format) -> BoxedStrategy<Key> {
    let kinds = match format {
        Format::Fixed(_) => KINDS.map(|(_, kind)| kind).to_vec(),
        Format::Lines => vec![KeyKind::Bytes, KeyKind::Decimal],
    };
    let offset = match format {
        Format::Fixed(size) => 0..size,
        Format::Lines => 0..12,
    };
    (offset, prop::sample::select(kinds), any::<bool>(), 1..20usize, any::<bool>())
        .prop_filter_map("a key of that kind", move |(offset, kind, descending, length, is_bounded)| {
            let length = match kind {
                KeyKind::Float(_) => Some(if length % 2 == 0 { 4 } else { 8 }),
                _ => is_bounded.then_some(length),
            };
            let key = Key { offset, length, kind, descending };
            Order::new(format, vec![key.clone()]).is_ok().then_some(key)
        })
        .boxed()
}

/// An order and records without line feeds. The records are changed copies of each other, so that
/// they are often nearly equal.
pub(crate) fn order_and_records(count: usize) -> impl Strategy<Value = (Order, Vec<Vec<u8>>)> {
    let format = prop_oneof![(1..40usize).prop_map(Format::Fixed), Just(Format::Lines)];
    format
        .prop_flat_map(move |format| {
            let length = match format {
                Format::Fixed(size) => size..size + 1,
                Format::Lines => 0..40,
            };
            let changes = vec((0..4, any::<prop::sample::Index>(), byte()), 0..4);
            let records = (vec(byte(), length), vec(changes, 0..=count));
            (Just(format), vec((key(format), any::<bool>()), 0..4), records)
        })
        .prop_map(|(format, wanted, (first, changes))| {
            let mut keys: Vec<Key> = Vec::new();
            for (mut key, is_next) in wanted {
                // Makes adjacent keys more likely.
                if let Some(Key { offset, length: Some(length), .. }) = keys.last().filter(|_| is_next) {
                    let moved = Key { offset: offset + length, ..key.clone() };
                    if Order::new(format, vec![moved.clone()]).is_ok() {
                        key = moved;
                    }
                }
                keys.push(key);
            }
            let mut records = vec![first];
            for change in changes {
                let mut record = records[records.len() / 2].clone();
                for (change, place, byte) in change {
                    let place = place.index(record.len() + 1);
                    match format {
                        Format::Lines if change == 0 => record.truncate(place),
                        Format::Lines if change == 1 => record.insert(place, byte),
                        Format::Lines if change == 2 => record.push(byte),
                        _ if place < record.len() => record[place] = byte,
                        _ => {}
                    }
                }
                records.push(record);
            }
            if format == Format::Lines {
                records.iter_mut().for_each(|record| record.retain(|&byte| byte != b'\n'));
            }
            (Order::new(format, keys).unwrap(), records)
        })
}

/// Compares records by the values of their keys.
fn reference(order: &Order, left: &[u8], right: &[u8]) -> Ordering {
    fn number(bytes: &[u8], endian: Endian) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        if endian == Endian::Little {
            bytes.reverse();
        }
        bytes
    }
    fn unsigned(bytes: &[u8], endian: Endian) -> u128 {
        number(bytes, endian).iter().fold(0, |number, &byte| number << 8 | u128::from(byte))
    }
    fn signed(bytes: &[u8], endian: Endian) -> i128 {
        let spare = 128 - 8 * bytes.len() as u32;
        (unsigned(bytes, endian) << spare) as i128 >> spare
    }
    for key in &order.keys {
        let (left, right) = (key.of(left), key.of(right));
        let ordering = match key.kind {
            KeyKind::Bytes => left.cmp(right),
            KeyKind::Unsigned(endian) => unsigned(left, endian).cmp(&unsigned(right, endian)),
            KeyKind::Signed(endian) => signed(left, endian).cmp(&signed(right, endian)),
            KeyKind::Float(endian) if left.len() == 4 => {
                let [left, right] = [left, right].map(|bytes| f32::from_bits(unsigned(bytes, endian) as u32));
                left.total_cmp(&right)
            }
            KeyKind::Float(endian) => {
                let [left, right] = [left, right].map(|bytes| f64::from_bits(unsigned(bytes, endian) as u64));
                left.total_cmp(&right)
            }
            KeyKind::Decimal => Decimal::parse(left).compare(&Decimal::parse(right)),
        };
        let ordering = if key.descending { ordering.reverse() } else { ordering };
        if ordering != Ordering::Equal {
            return ordering;
        }
    }
    Ordering::Equal
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn records_compare_by_the_values_of_their_keys((order, records) in order_and_records(1)) {
        let [left, right] = [&records[0], &records[records.len() - 1]];
        prop_assert_eq!(order.compare(left, right), reference(&order, left, right));
    }

    #[test]
    fn a_prefix_never_contradicts_the_order_and_decides_if_it_claims_to((order, records) in order_and_records(4)) {
        for left in &records {
            prop_assert_eq!(order.prefix(left) << (u128::BITS - FREE_BITS), 0);
            for right in &records {
                let prefixes = order.prefix(left).cmp(&order.prefix(right));
                let ordering = order.compare(left, right);
                prop_assert!(prefixes == Ordering::Equal || prefixes == ordering);
                prop_assert!(prefixes == ordering || !order.is_decided_by_prefix());
                prop_assert!(prefixes == ordering || !order.is_decided(order.prefix(left)));
            }
        }
    }

    #[test]
    fn normal_forms_and_their_prefixes_compare_as_the_records(
        (order, records) in order_and_records(4), most in 0..40usize,
    ) {
        for left in &records {
            let (cut_left, is_left_whole) = normal(&order, left, most);
            let (whole_left, is_whole) = normal(&order, left, usize::MAX);
            prop_assert!(is_whole);
            prop_assert!(cut_left.len() <= most && whole_left.starts_with(&cut_left));
            prop_assert_eq!(is_left_whole, cut_left == whole_left);
            for right in &records {
                let ordering = order.compare(left, right);
                let (whole_right, _) = normal(&order, right, usize::MAX);
                prop_assert_eq!(whole_left.cmp(&whole_right), ordering);
                let (cut_right, is_right_whole) = normal(&order, right, most);
                let cut = cut_left.cmp(&cut_right);
                prop_assert!(cut == ordering || cut == Ordering::Equal && !(is_left_whole && is_right_whole));
            }
        }
    }
}
