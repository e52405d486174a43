//! Parses JSON as rt-app does: ordered, with repeated keys, comments, and trailing commas.
//!
//! A map would drop repeated keys and might change their order. Here an object is a list of
//! members, and every key and value has its position in the text. Some extensions of json-c, the
//! library that rt-app uses, are rejected because they are never intended: strings in single
//! quotes, `NaN`, `True`. Numbers may have leading zeros, which json-c refuses only in strict mode.
//!
//! No crate replaces this module. `serde_json` accepts no comments and gives no positions, and
//! `jsonc-parser` 0.34 accepts line breaks in strings and 512 levels of nesting, and reports
//! missing commas and brackets at other places.

use std::ops::Range;

use scenario::Diagnostic;

use crate::{Refused, refuse};

/// The maximum nesting depth.
pub const DEEPEST: usize = 64;

/// A mark without meaning that some editors put at the beginning of a text.
pub const BYTE_ORDER_MARK: &str = "\u{feff}";

/// A value and its position.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// The bytes of the value in the text.
    pub span: Range<usize>,
}

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `null`
    Null,
    /// `true` or `false`
    Flag(bool),
    /// An integer that fits.
    Whole(i64),
    /// Any other number, as written.
    Number(String),
    /// A string with its escapes replaced.
    Text(String),
    /// An array.
    List(Vec<Node>),
    /// An object, in the order of the text; keys may be repeated.
    Object(Vec<Member>),
}

impl Value {
    /// A description for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Flag(_) => "true or false",
            Value::Whole(_) => "an integer",
            Value::Number(_) => "a number that is not an integer, or too large",
            Value::Text(_) => "a string",
            Value::List(_) => "an array",
            Value::Object(_) => "an object",
        }
    }
}

/// A key and its value in an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// The key.
    pub key: String,
    /// The bytes of the key in the text, including its quotes.
    pub place: Range<usize>,
    /// The value.
    pub node: Node,
}

/// A parsed text.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// The value.
    pub root: Node,
    /// The first comment, if only opening braces precede it.
    pub comment: Option<String>,
}

/// Parses a text that is one JSON value.
///
/// # Errors
///
/// Returns the first problem.
pub fn read(text: &str) -> Result<Document, Box<Diagnostic>> {
    let at = BYTE_ORDER_MARK.len() * usize::from(text.starts_with(BYTE_ORDER_MARK));
    let mut parser = Parser { text, at, is_at_start: true, comment: None };
    let root = parser.value(0)?;
    parser.skip()?;
    match parser.peek() {
        None => Ok(Document { root, comment: parser.comment }),
        Some(_) => parser.wrong("there is more after the end of the JSON value", "leave it out"),
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    /// Whether only opening braces have been read.
    is_at_start: bool,
    comment: Option<String>,
}

impl Parser<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek();
        self.at += next.map_or(0, char::len_utf8);
        next
    }

    fn consume(&mut self, what: &str) -> bool {
        let is_next = self.rest().starts_with(what);
        self.at += if is_next { what.len() } else { 0 };
        is_next
    }

    /// Reports a problem with the next character.
    fn wrong<T>(&self, message: &str, help: &str) -> Refused<T> {
        let end = self.at + self.peek().map_or(0, char::len_utf8);
        refuse(&(self.at..end), message, help)
    }

    /// Skips blanks and comments.
    fn skip(&mut self) -> Refused<()> {
        loop {
            let blank = self.rest().len() - self.rest().trim_start().len();
            self.at += blank;
            let begin = self.at;
            if self.consume("//") {
                let length = self.rest().find('\n').unwrap_or(self.rest().len());
                self.end_comment(length, 0);
            } else if self.consume("/*") {
                let Some(length) = self.rest().find("*/") else {
                    return refuse(&(begin..begin + 2), "this comment does not end", "close it by `*/`");
                };
                self.end_comment(length, 2);
            } else {
                return Ok(());
            }
        }
    }

    fn end_comment(&mut self, length: usize, closing: usize) {
        let comment = self.rest().get(..length).unwrap_or_default().trim();
        if self.is_at_start && self.comment.is_none() {
            // Lines of a long comment often begin with an asterisk.
            let lines = comment.lines().map(|line| line.trim().trim_start_matches("* "));
            self.comment = Some(lines.collect::<Vec<_>>().join(" ").trim().to_owned());
        }
        self.at += length + closing;
    }

    fn value(&mut self, depth: usize) -> Refused<Node> {
        self.skip()?;
        if depth > DEEPEST {
            return self.wrong("this is nested too deeply", "rt-app's files are some five levels deep");
        }
        let begin = self.at;
        let value = match self.peek() {
            Some('{') => Value::Object(self.items("}", "an object", |parser| parser.member(depth + 1))?),
            Some('[') => Value::List(self.items("]", "an array", |parser| parser.value(depth + 1))?),
            Some('"') => Value::Text(self.text()?),
            Some('-' | '0'..='9') => self.number()?,
            _ if self.consume("true") => Value::Flag(true),
            _ if self.consume("false") => Value::Flag(false),
            _ if self.consume("null") => Value::Null,
            None => return self.wrong("the text ends where a value is expected", "is the file complete?"),
            Some(_) => {
                return self.wrong("this is not a JSON value", "strings and keys are written between quotes: \"\"");
            }
        };
        Ok(Node { value, span: begin..self.at })
    }

    /// Reads items from the opening bracket to the closing one, which a comma may precede.
    fn items<T>(&mut self, closing: &str, what: &str, item: impl Fn(&mut Self) -> Refused<T>) -> Refused<Vec<T>> {
        let mut items = Vec::new();
        self.next();
        self.skip()?;
        while !self.consume(closing) {
            items.push(item(self)?);
            self.skip()?;
            let has_comma = self.consume(",");
            self.skip()?;
            if self.rest().is_empty() {
                return self.wrong(&format!("the text ends within {what}"), "is the file complete?");
            }
            if !has_comma && !self.rest().starts_with(closing) {
                return self.wrong("a comma is missing here", "write `,` after the value before this");
            }
        }
        Ok(items)
    }

    fn member(&mut self, depth: usize) -> Refused<Member> {
        let begin = self.at;
        if self.peek() != Some('"') {
            return self.wrong("a key is missing here", "keys are written between quotes, as in \"run\" : 10");
        }
        let key = self.text()?;
        let place = begin..self.at;
        self.skip()?;
        if !self.consume(":") {
            return self.wrong("a key is followed by `:` and a value", "write `:` here");
        }
        Ok(Member { key, place, node: self.value(depth)? })
    }

    fn number(&mut self) -> Refused<Value> {
        let is_of_number = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
        let length = self.rest().find(|c| !is_of_number(c)).unwrap_or(self.rest().len());
        let written = self.rest().get(..length).unwrap_or_default().to_owned();
        if !written.parse().is_ok_and(f64::is_finite) {
            return self.wrong("this is not a number", "write an integer");
        }
        self.at += length;
        Ok(written.parse().map_or(Value::Number(written), Value::Whole))
    }

    fn text(&mut self) -> Refused<String> {
        let begin = self.at;
        let mut text = String::new();
        self.is_at_start = false;
        self.next();
        loop {
            match self.peek() {
                Some('"') => {
                    self.next();
                    return Ok(text);
                }
                Some('\\') => {
                    let escape = self.at;
                    self.next();
                    let Some(c) = self.escaped() else {
                        let help = "a backslash itself is written `\\\\`";
                        return refuse(&(escape..self.at), "there is no such escape", help);
                    };
                    text.push(c);
                }
                Some('\n') | None => {
                    let help = "close it by `\"` on the same line";
                    return refuse(&(begin..begin + 1), "this string does not end", help);
                }
                Some(c) => {
                    self.next();
                    text.push(c);
                }
            }
        }
    }

    /// Reads the character after a backslash.
    fn escaped(&mut self) -> Option<char> {
        match self.next()? {
            c @ ('"' | '\\' | '/') => Some(c),
            'b' => Some('\u{8}'),
            'f' => Some('\u{c}'),
            'n' => Some('\n'),
            'r' => Some('\r'),
            't' => Some('\t'),
            'u' => {
                let unit = self.four_digits()?;
                if !(0xd800..0xdc00).contains(&unit) {
                    return char::from_u32(unit);
                }
                // The first half of a surrogate pair; the other half must follow.
                let low = if self.consume("\\u") { self.four_digits()? } else { 0 };
                (0xdc00..0xe000).contains(&low).then_some(())?;
                char::from_u32(0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00))
            }
            _ => None,
        }
    }

    fn four_digits(&mut self) -> Option<u32> {
        let digits = self.rest().get(..4).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
        let number = u32::from_str_radix(digits, 16).ok()?;
        self.at += 4;
        Some(number)
    }
}
