//! The definition of a word.

/// Whether a byte separates words, as ASCII white space does.
pub(crate) const fn is_space(byte: u8) -> bool {
    byte == b' ' || matches!(byte, b'\t'..=b'\r')
}

/// How many words begin in a text. The first byte begins none if it is within a word.
pub(crate) fn begun(text: &[u8], within_word: bool) -> u64 {
    let Some(&first) = text.first() else { return 0 };
    // A word begins after white space. The counters are bytes, which chunks of 255 cannot overflow,
    // so that the compiler can vectorize the loop.
    let begins = |(before, byte): (&u8, &u8)| u8::from(is_space(*before) & !is_space(*byte));
    let runs = text.chunks(255).zip(text[1..].chunks(255));
    let within: u64 = runs.map(|(before, bytes)| u64::from(before.iter().zip(bytes).map(begins).sum::<u8>())).sum();
    within + u64::from(!within_word && !is_space(first))
}
