//! JSON as rt-app takes it: in order, with keys that come twice, comments, and commas before a closing bracket.
//!
//! A map would keep one of two equal keys, and often another order; here an object is a list of members, and every key and
//! value knows its bytes. What the library below rt-app (json-c) accepts beyond JSON and nobody means to write is an error: texts
//! between single quotes, `NaN`, `True`.

use std::ops::Range;

use scenario::Diagnostic;

/// Nothing is nested deeper than this.
pub const DEEPEST: usize = 64;

/// Some editors begin a text with it. It says nothing.
pub const BYTE_ORDER_MARK: char = '\u{feff}';

/// A value and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// What it is.
    pub value: Value,
    /// Its bytes in the text.
    pub span: Range<usize>,
}

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `null`
    Null,
    /// `true` or `false`
    Flag(bool),
    /// A number without fraction and exponent that fits.
    Whole(i64),
    /// Any other number, as it is written.
    Number(String),
    /// A text, its escapes replaced.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// An object, in the order of the text; keys may come twice.
    Object(Vec<Member>),
}

impl Value {
    /// What it is, for people.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Flag(_) => "true or false",
            Value::Whole(_) => "a whole number",
            Value::Number(_) => "a number that is not whole, or too large",
            Value::Text(_) => "a text",
            Value::List(_) => "a list",
            Value::Object(_) => "an object",
        }
    }
}

/// A key and its value in an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// The key.
    pub key: String,
    /// Its bytes in the text, quotes included.
    pub place: Range<usize>,
    /// The value.
    pub node: Node,
}

/// A text that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// The value that it is.
    pub root: Node,
    /// The first comment, if it comes before all keys and values but objects.
    pub comment: Option<String>,
}

/// Reads a text that is one JSON value.
///
/// # Errors
///
/// The first thing that is wrong.
pub fn read(text: &str) -> Result<Document, Box<Diagnostic>> {
    let at = BYTE_ORDER_MARK.len_utf8() * usize::from(text.starts_with(BYTE_ORDER_MARK));
    let mut parser = Parser { text, at, is_at_start: true, comment: None };
    let root = parser.value(0)?;
    parser.skip()?;
    match parser.peek() {
        None => Ok(Document { root, comment: parser.comment }),
        Some(_) => Err(parser.wrong("there is more after the end of the JSON value", "leave it out")),
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    /// Whether nothing has come so far but opening braces.
    is_at_start: bool,
    comment: Option<String>,
}

type Parsed<T> = Result<T, Box<Diagnostic>>;

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

    /// Something is wrong with the next character.
    fn wrong(&self, message: &str, help: &str) -> Box<Diagnostic> {
        let end = self.at + self.peek().map_or(0, char::len_utf8);
        Box::new(Diagnostic::new(self.at..end, message).help(help))
    }

    /// Goes on to what is neither blank nor a comment.
    fn skip(&mut self) -> Parsed<()> {
        loop {
            let blank = self.rest().len() - self.rest().trim_start().len();
            self.at += blank;
            let begin = self.at;
            if self.consume("//") {
                let length = self.rest().find('\n').unwrap_or(self.rest().len());
                self.end_comment(length, 0);
            } else if self.consume("/*") {
                let Some(length) = self.rest().find("*/") else {
                    let diagnostic = Diagnostic::new(begin..begin + 2, "this comment does not end");
                    return Err(Box::new(diagnostic.help("close it by `*/`")));
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

    fn value(&mut self, depth: usize) -> Parsed<Node> {
        self.skip()?;
        if depth > DEEPEST {
            return Err(self.wrong("this is nested too deeply", "rt-app's files are some five levels deep"));
        }
        let begin = self.at;
        let value = match self.peek() {
            Some('{') => Value::Object(self.object(depth)?),
            Some('[') => Value::List(self.list(depth)?),
            Some('"') => Value::Text(self.text()?),
            Some('-' | '0'..='9') => self.number()?,
            _ if self.consume("true") => Value::Flag(true),
            _ if self.consume("false") => Value::Flag(false),
            _ if self.consume("null") => Value::Null,
            None => return Err(self.wrong("the text breaks off where a value should be", "is the file whole?")),
            Some(_) => {
                return Err(self.wrong("this is no JSON value", "texts and keys are written between quotes: \"\""));
            }
        };
        Ok(Node { value, span: begin..self.at })
    }

    /// After an item: whether there is another one. A comma may come before the closing bracket.
    fn next_item(&mut self, closing: &str, what: &str) -> Parsed<bool> {
        self.skip()?;
        let comma = self.consume(",");
        self.skip()?;
        if self.consume(closing) {
            return Ok(false);
        }
        match (comma, self.peek()) {
            (true, Some(_)) => Ok(true),
            (_, None) => Err(self.wrong(&format!("the text breaks off within {what}"), "is the file whole?")),
            (false, Some(_)) => Err(self.wrong("a comma is missing here", "write `,` after the value before this")),
        }
    }

    fn object(&mut self, depth: usize) -> Parsed<Vec<Member>> {
        let mut members = Vec::new();
        self.next();
        self.skip()?;
        if self.consume("}") {
            return Ok(members);
        }
        loop {
            self.skip()?;
            let begin = self.at;
            if self.peek() != Some('"') {
                return Err(self.wrong("there is no key here", "keys are written between quotes, as in \"run\" : 10"));
            }
            let key = self.text()?;
            let place = begin..self.at;
            self.skip()?;
            if !self.consume(":") {
                return Err(self.wrong("a key is followed by `:` and a value", "write `:` here"));
            }
            members.push(Member { key, place, node: self.value(depth + 1)? });
            if !self.next_item("}", "an object")? {
                return Ok(members);
            }
        }
    }

    fn list(&mut self, depth: usize) -> Parsed<Vec<Node>> {
        let mut items = Vec::new();
        self.next();
        self.skip()?;
        if self.consume("]") {
            return Ok(items);
        }
        loop {
            items.push(self.value(depth + 1)?);
            if !self.next_item("]", "a list")? {
                return Ok(items);
            }
        }
    }

    fn number(&mut self) -> Parsed<Value> {
        let is_of_number = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
        let length = self.rest().find(|c| !is_of_number(c)).unwrap_or(self.rest().len());
        let written = self.rest().get(..length).unwrap_or_default().to_owned();
        if !written.parse().is_ok_and(f64::is_finite) {
            return Err(self.wrong("this is no number", "write a whole number"));
        }
        self.at += length;
        Ok(written.parse().map_or(Value::Number(written), Value::Whole))
    }

    fn text(&mut self) -> Parsed<String> {
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
                        let diagnostic = Diagnostic::new(escape..self.at, "there is no such escape");
                        return Err(Box::new(diagnostic.help("a backslash itself is written `\\\\`")));
                    };
                    text.push(c);
                }
                Some('\n') | None => {
                    let diagnostic = Diagnostic::new(begin..begin + 1, "this text does not end");
                    return Err(Box::new(diagnostic.help("close it by `\"` on the same line")));
                }
                Some(c) => {
                    self.next();
                    text.push(c);
                }
            }
        }
    }

    /// What comes after a backslash.
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
                // The first half of a character beyond the basic plane; the other must follow.
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
