//! Formats numbers, factors and lists for people.

use std::borrow::Cow;

use scenario::keys::PATH_SEPARATOR;

use stats::Estimate;

/// A text in which control characters, which a terminal would obey, are escapes, such as `\u{1b}`.
/// Line feeds and tabs stay.
///
/// Everything that is printed goes through it, since it may contain names and messages of other
/// programs.
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c.is_control() && c != '\n' && c != '\t')
}

/// A [printable] name or other word, which stays on its line: line feeds and tabs are escapes, too.
pub fn word(word: &str) -> Cow<'_, str> {
    escaped(word, char::is_control)
}

/// A [printable] message. Its author indents further lines; other line feeds are escapes, since
/// they belong to names. So no name can begin a line, as if it were another message.
pub fn message(text: &str) -> String {
    let text = printable(text);
    let mut lines = text.split('\n');
    let mut message = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        message.push_str(if line.starts_with(' ') { "\n" } else { "\\n" });
        message.push_str(line);
    }
    message
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let shown = |c: char| if is_escaped(c) { c.escape_default().to_string() } else { c.to_string() };
    Cow::Owned(text.chars().map(shown).collect())
}

/// The value of a factor; strings without their quotes.
pub fn value(value: &toml::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The path of a factor, or of all paths that vary together in it, without the prefix `job.`.
pub fn path(path: &str) -> String {
    let short = |path: &str| path.strip_prefix("job.").unwrap_or(path).to_owned();
    path.split(PATH_SEPARATOR).map(short).collect::<Vec<_>>().join(PATH_SEPARATOR)
}

/// Factors and their values, as in `crowd.threads = 2, crew.waiting = cs`; empty without factors.
pub fn factors<'a>(factors: impl IntoIterator<Item = (&'a String, &'a toml::Value)>) -> String {
    let words: Vec<String> = factors.into_iter().map(|(name, of)| format!("{} = {}", path(name), value(of))).collect();
    words.join(", ")
}

/// A number with this many significant digits, without an exponent.
pub fn significant(number: f64, digits: usize) -> String {
    let written = format!("{number:.*e}", digits.saturating_sub(1));
    let exponent: i64 = written.rsplit('e').next().and_then(|exponent| exponent.parse().ok()).unwrap_or(0);
    let decimals = usize::try_from(digits as i64 - 1 - exponent).unwrap_or(0);
    if number == 0.0 { "0".to_owned() } else { format!("{number:.decimals$}") }
}

/// A number of any size with four significant digits: `0.4770`, `1.234e-9`.
pub fn figure(number: f64) -> String {
    let is_plain = number == 0.0 || (1e-4..1e7).contains(&number.abs());
    if is_plain || !number.is_finite() { significant(number, 4) } else { format!("{number:.3e}") }
}

/// A p value with two digits, unless it is very small.
pub fn p_value(p: f64) -> String {
    if p < 0.0001 { "< 0.0001".to_owned() } else { significant(p, 2) }
}

/// Nanoseconds in a suitable unit, with four digits: `1.234 s`.
pub fn time(nanos: f64) -> String {
    scaled(nanos, &[(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")])
}

/// A count or a rate with four digits: `16.03 k`. Integers of up to four digits are not scaled.
pub fn count(number: f64) -> String {
    if number.fract() == 0.0 && number.abs() < 1e4 {
        return number.to_string();
    }
    let units: &[(f64, &str)] = &[(1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")];
    scaled(number, if number.abs() < 9_999.5 { &units[3..] } else { units })
}

fn scaled(number: f64, units: &[(f64, &str)]) -> String {
    // Values that would round up to the next unit use it: 999.96 ms is 1.000 s.
    let fits = |&&(length, _): &&(f64, &str)| number.abs() >= length * 0.99995;
    let (length, unit) = units.iter().find(fits).or(units.last()).copied().unwrap_or((1.0, ""));
    format!("{} {unit}", significant(number / length, 4)).trim_end().to_owned()
}

/// An estimate and its interval as a percentage of the mean: `1.234 s ±2.1 %`.
pub fn with_share(estimate: &Estimate, number: fn(f64) -> String) -> String {
    let percent = estimate.relative_half_width().map(|share| format!(" ±{} %", percent(share)));
    number(estimate.mean) + &percent.unwrap_or_default()
}

/// A share in percent, to two digits, or to one below 1 %.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    significant(percent, if percent < 1.0 { 1 } else { 2 })
}

/// An estimate and half the width of its interval in the same unit: `94.2 ±0.3`.
pub fn with_half_width(estimate: &Estimate) -> String {
    let half = estimate.half_width().map_or(String::new(), |half| format!(" ±{half:.1}"));
    format!("{:.1}{half}", estimate.mean)
}

/// A ratio and its interval: `1.52 [1.48, 1.57]`; small ones as inverses: `1/198 [1/313, 1/125]`.
pub fn ratio(estimate: &Estimate) -> String {
    let written = |ratio: f64| match ratio {
        9.995.. => significant(ratio, 3),
        0.095.. => format!("{ratio:.2}"),
        _ => format!("1/{:.0}", 1.0 / ratio),
    };
    let interval =
        estimate.interval.map_or(String::new(), |(low, high)| format!(" [{}, {}]", written(low), written(high)));
    written(estimate.mean) + &interval
}

/// A difference with its sign and interval: `+3.2 [+1.1, +5.3]`.
pub fn signed(estimate: &Estimate) -> String {
    let interval = estimate.interval.map_or(String::new(), |(low, high)| format!(" [{}, {}]", sign(low), sign(high)));
    sign(estimate.mean) + &interval
}

fn sign(number: f64) -> String {
    // Large differences have no decimals, and 0 has no sign.
    let decimals = usize::from(number.abs() < 9.95);
    let written = format!("{number:+.decimals$}");
    if written.trim_matches(['+', '-', '0', '.']).is_empty() { "0".to_owned() } else { written }
}

/// A count with its noun: `1 run`, `2 runs`.
pub fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Items in back-quotes as in `a, b and c`.
pub fn list(items: &[toml::Value]) -> String {
    let quoted: Vec<String> = items.iter().map(|item| format!("`{}`", value(item))).collect();
    match quoted.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Shortens a text to `width` characters with an ellipsis.
pub(crate) fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// Breaks a sentence into lines of at most `width` characters. Indents all but the first.
pub fn wrap(sentence: &str, width: usize) -> String {
    broken(sentence, width, "  ").join("\n")
}

/// Breaks a text at spaces into lines of at most `width` characters, if its words are no longer.
/// All but the first begin with `indent`.
pub(crate) fn broken(text: &str, width: usize, indent: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut words = text.split(' ');
    let mut line = words.next().unwrap_or_default().to_owned();
    for word in words {
        if line.chars().count() + 1 + word.chars().count() > width && !line.is_empty() {
            lines.push(std::mem::replace(&mut line, format!("{indent}{word}")));
        } else {
            line = format!("{line} {word}");
        }
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printable_text_has_no_control_characters_but_line_feeds_and_tabs() {
        assert_eq!(printable("a\tä\u{fffd}\n"), "a\tä\u{fffd}\n");
        assert_eq!(printable("\u{1b}[2J\u{9b}c\r\u{7f}\0"), "\\u{1b}[2J\\u{9b}c\\r\\u{7f}\\u{0}");
    }

    #[test]
    fn a_word_stays_on_its_line() {
        assert_eq!(word("a\n\tä\u{1b}"), "a\\n\\tä\\u{1b}");
    }

    #[test]
    fn only_indented_lines_of_a_message_begin_a_line() {
        assert_eq!(message("cannot read a\nerror: b\n\r\n"), "cannot read a\\nerror: b\\n\\r\\n");
        assert_eq!(message("it said:\n  one\n  two"), "it said:\n  one\n  two");
    }

    #[test]
    fn numbers_have_four_digits_and_a_suitable_unit() {
        for (nanos, text) in [
            (1_234_000_000.0, "1.234 s"),
            (999_960_000.0, "1.000 s"),
            (999_900_000.0, "999.9 ms"),
            (5_320.0, "5.320 us"),
            (3.0, "3.000 ns"),
            (0.0, "0 ns"),
            (7.2e12, "7200 s"),
        ] {
            assert_eq!(time(nanos), text);
        }
        for (number, text) in
            [(812.0, "812"), (0.0, "0"), (16_034.0, "16.03 k"), (12.345, "12.35"), (3e6, "3.000 M"), (1_063.4, "1063")]
        {
            assert_eq!(count(number), text);
        }
    }

    #[test]
    fn numbers_of_any_size_and_p_values_are_short() {
        for (number, text) in [(0.47697, "0.4770"), (-123456.0, "-123456"), (1.2344e-9, "1.234e-9"), (0.0, "0")] {
            assert_eq!(figure(number), text);
        }
        assert_eq!(figure(f64::INFINITY), "inf");
        assert_eq!((p_value(0.0499), p_value(9e-5), p_value(1.0)), ("0.050".into(), "< 0.0001".into(), "1.0".into()));
    }

    #[test]
    fn estimates_show_their_interval_if_they_have_one() {
        let sure = Estimate { mean: 2e9, interval: Some((1.9e9, 2.1e9)), samples: 3 };
        let single = Estimate { interval: None, ..sure };
        assert_eq!(with_share(&sure, time), "2.000 s ±5.0 %");
        assert_eq!(with_share(&single, time), "2.000 s");
        assert_eq!(ratio(&sure.map(|x| x / 1e9)), "2.00 [1.90, 2.10]");
        assert_eq!(ratio(&sure.map(|x| x / 1e8)), "20.0 [19.0, 21.0]");
        assert_eq!(ratio(&single.map(|x| x / 1e12)), "1/500");
        assert_eq!(signed(&sure.map(|x| x / 1e9 - 2.0)), "0 [-0.1, +0.1]");
        assert_eq!(signed(&single.map(|x| x / 1e7)), "+200");
    }

    proptest::proptest! {
        #[test]
        fn parsing_significant_digits_is_accurate_to_half_of_the_last_digit(number in 1e-9..1e12_f64, digits in 1..9_usize) {
            let read: f64 = significant(number, digits).parse().unwrap();
            // Half of the last digit is at most 5 parts in 10^digits. Integers are not rounded.
            assert!((read - number).abs() <= number * 0.500001 * 10_f64.powi(1 - digits as i32), "{read} {number}");
        }
    }

    #[test]
    fn lists_end_in_and() {
        let items: Vec<toml::Value> = ["a", "b", "c"].map(toml::Value::from).to_vec();
        assert_eq!(list(&items), "`a`, `b` and `c`");
        assert_eq!(list(&items[..1]), "`a`");
    }

    #[test]
    fn lines_break_only_between_words() {
        assert_eq!(wrap("one two three", 7), "one two\n  three");
        assert_eq!(wrap("incomprehensible", 7), "incomprehensible");
    }
}
