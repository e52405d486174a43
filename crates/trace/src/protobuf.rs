//! A minimal Protocol Buffers encoder: fields of numbers, bytes and messages, appended to a buffer.

/// The wire types of fields.
const VARINT: u32 = 0;
const FIXED_64: u32 = 1;
const LENGTH: u32 = 2;

/// Appends a number in groups of seven bits, the lowest first.
pub fn varint(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

fn tag(to: &mut Vec<u8>, field: u32, kind: u32) {
    varint(to, (field << 3 | kind).into());
}

/// Appends a field that is a number.
pub fn number(to: &mut Vec<u8>, field: u32, number: u64) {
    tag(to, field, VARINT);
    varint(to, number);
}

/// Appends a field that is a number of fixed size, eight bytes.
pub fn fixed(to: &mut Vec<u8>, field: u32, number: u64) {
    tag(to, field, FIXED_64);
    to.extend(number.to_le_bytes());
}

/// Appends a field that is bytes, text, or a packed list of numbers.
pub fn bytes(to: &mut Vec<u8>, field: u32, bytes: &[u8]) {
    tag(to, field, LENGTH);
    varint(to, bytes.len() as u64);
    to.extend_from_slice(bytes);
}

/// Appends a field that is a message, whose fields `fill` appends.
pub fn message(to: &mut Vec<u8>, field: u32, fill: impl FnOnce(&mut Vec<u8>)) {
    tag(to, field, LENGTH);
    // Most messages are so short that their length takes one byte.
    let place = to.len();
    to.push(0);
    fill(to);
    let length = to.len() - place - 1;
    if length < 0x80 {
        to[place] = length as u8;
    } else {
        let mut prefix = Vec::new();
        varint(&mut prefix, length as u64);
        to.splice(place..=place, prefix);
    }
}
