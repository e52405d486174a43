//! Sizes such as `512MiB`, `1.5 GiB`, `64 MB`, and `512M` as in GNU sort.

/// Units and their sizes. A unit that ends with another one comes before it.
const UNITS: [(&str, u64); 14] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("B", 1),
    // As other tools write KiB, MiB, GiB and TiB.
    ("k", 1 << 10),
    ("K", 1 << 10),
    ("M", 1 << 20),
    ("G", 1 << 30),
    ("T", 1 << 40),
];

/// Parses a size in bytes.
///
/// # Errors
/// The format of a size, or that it is too large.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let known = UNITS.iter().find_map(|&(unit, bytes)| Some((text.strip_suffix(unit)?, bytes)));
    let (number, unit) = known.unwrap_or((text, 1));
    let refused = || "write a number and a unit, as in 512MiB or \"1.5 GiB\"; without a unit it is bytes".to_owned();
    let number = number.trim_end();
    if !number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return Err(refused());
    }
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(unit).ok_or_else(|| "no machine has that much".to_owned());
    }
    let bytes = number.parse::<f64>().map_err(|_| refused())? * unit as f64;
    // Whole numbers that are too large get here, too.
    if bytes >= u64::MAX as f64 { Err("no machine has that much".to_owned()) } else { Ok(bytes as u64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_with_and_without_a_blank() {
        for (text, bytes) in [
            ("512MiB", 512 << 20),
            ("512 MiB", 512 << 20),
            (" 1GiB ", 1 << 30),
            ("1.5 GiB", 3 << 29),
            ("2 TiB", 2 << 40),
            ("64KiB", 64 << 10),
            ("64 MB", 64_000_000),
            ("8kB", 8_000),
            ("100000", 100_000),
            ("100K", 100 << 10),
            ("64k", 64 << 10),
            ("1.5G", 3 << 29),
            ("512 M", 512 << 20),
            ("7 B", 7),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn invalid_sizes_are_refused() {
        for text in [
            "",
            "MiB",
            "512m",
            "512b",
            "5 12MiB",
            "-1 MiB",
            "1e9",
            "inf GiB",
            "1..5 GiB",
            "20000000 TiB",
            "99999999999999999999",
        ] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
