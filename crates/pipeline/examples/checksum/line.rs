//! Lines in the format of `sha256sum`.

use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The checksum, two spaces and the name. A name with line breaks or backslashes is escaped, which
/// a leading backslash indicates.
pub(crate) fn of(digest: &[u8; 32], path: &Path) -> Vec<u8> {
    let name = path.as_os_str().as_bytes();
    let mut line = Vec::with_capacity(name.len() + 68);
    if name.iter().any(|byte| escaped(*byte).is_some()) {
        line.push(b'\\');
    }
    for byte in digest {
        // Writing to a vector does not fail.
        let _ = write!(line, "{byte:02x}");
    }
    line.extend_from_slice(b"  ");
    for byte in name {
        match escaped(*byte) {
            Some(letter) => line.extend_from_slice(&[b'\\', letter]),
            None => line.push(*byte),
        }
    }
    line.push(b'\n');
    line
}

fn escaped(byte: u8) -> Option<u8> {
    match byte {
        b'\\' => Some(b'\\'),
        b'\n' => Some(b'n'),
        b'\r' => Some(b'r'),
        _ => None,
    }
}
