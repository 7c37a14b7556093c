//! Words and signs of the text of a module.

use crate::error::TritonError;

/// A word or a sign, and its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    /// The word: without its first sign for names (`%x`, `@f`, `^bb0`, `#loc1`, `!tt.ptr`), without quotes for strings.
    pub(crate) text: &'a str,
    pub(crate) line: u32,
    pub(crate) column: u32,
    /// True if it is the first of its line: a new operation begins on a new line.
    pub(crate) is_first: bool,
}

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `arith.addi`, `loc`, `true`.
    Word,
    /// `%x_3`.
    Value,
    /// `^bb0`.
    Block,
    /// `@kernel`.
    Symbol,
    /// `#loc3`.
    Hash,
    /// `!tt.ptr`.
    Bang,
    /// `12`, `1.5e-3`, `0x7F800000`; dimensions such as `128x64xf16` too.
    Number,
    /// `"text"`.
    String,
    /// `->`.
    Arrow,
    /// One of `( ) { } [ ] < > , : = - + * ? / ;`.
    Sign(u8),
    /// The end of the text.
    End,
}

/// Splits a text into tokens; the last one is the end.
pub(crate) fn tokens(text: &str) -> Result<Vec<Token<'_>>, TritonError> {
    let mut lexer = Lexer { text, at: 0, line: 1, line_start: 0, is_first: true };
    let mut tokens = Vec::new();
    loop {
        let token = lexer.next()?;
        tokens.push(token);
        if token.kind == Kind::End {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: u32,
    line_start: usize,
    is_first: bool,
}

impl<'a> Lexer<'a> {
    fn next(&mut self) -> Result<Token<'a>, TritonError> {
        self.skip_blanks();
        let bytes = self.text.as_bytes();
        let Some(&first) = bytes.get(self.at) else {
            return Ok(self.token(Kind::End, self.at, self.at, self.at));
        };
        let start = self.at;
        let named = |kind| (kind, start + 1, self.name_end(start + 1));
        let (kind, from, to) = match first {
            b'%' => named(Kind::Value),
            b'^' => named(Kind::Block),
            b'#' => named(Kind::Hash),
            b'!' => named(Kind::Bang),
            b'@' if bytes.get(start + 1) == Some(&b'"') => {
                let to = self.string_end(start + 1)?;
                (Kind::Symbol, start + 2, to)
            }
            b'@' => named(Kind::Symbol),
            b'"' => (Kind::String, start + 1, self.string_end(start)?),
            b'0'..=b'9' => (Kind::Number, start, self.number_end(start)),
            b'-' if bytes.get(start + 1) == Some(&b'>') => (Kind::Arrow, start, start + 2),
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => (Kind::Word, start, self.word_end(start)),
            b'(' | b')' | b'{' | b'}' | b'[' | b']' | b'<' | b'>' | b',' | b':' | b'=' | b'-'
            | b'+' | b'*' | b'?' | b'/' | b';' => (Kind::Sign(first), start, start + 1),
            _ => {
                let sign = self.text[start..].chars().next().unwrap_or_default();
                return Err(self.error(start, format!("unexpected sign `{sign}`")));
            }
        };
        let quoted = matches!(kind, Kind::String) || (kind == Kind::Symbol && from == start + 2);
        self.at = if quoted { to + 1 } else { to };
        Ok(self.token(kind, start, from, to))
    }

    fn token(&mut self, kind: Kind, start: usize, from: usize, to: usize) -> Token<'a> {
        let is_first = std::mem::replace(&mut self.is_first, false);
        let column = column(self.text, self.line_start, start);
        Token { kind, text: &self.text[from..to], line: self.line, column, is_first }
    }

    fn error(&self, at: usize, message: String) -> TritonError {
        let column = column(self.text, self.line_start, at);
        TritonError { line: self.line, column, operation: None, source: None, message }
    }

    /// Skips blanks, line ends and comments.
    fn skip_blanks(&mut self) {
        let bytes = self.text.as_bytes();
        while let Some(&byte) = bytes.get(self.at) {
            match byte {
                b'\n' => {
                    self.line = self.line.saturating_add(1);
                    self.line_start = self.at + 1;
                    self.is_first = true;
                }
                b' ' | b'\t' | b'\r' => {}
                b'/' if bytes.get(self.at + 1) == Some(&b'/') => {
                    while bytes.get(self.at + 1).is_some_and(|byte| *byte != b'\n') {
                        self.at += 1;
                    }
                }
                _ => return,
            }
            self.at += 1;
        }
    }

    fn end_of(&self, from: usize, belongs: impl Fn(u8) -> bool) -> usize {
        let rest = &self.text.as_bytes()[from..];
        from + rest.iter().position(|byte| !belongs(*byte)).unwrap_or(rest.len())
    }

    /// Returns the end of a name after its first sign: `x-1_i32`, `tt.ptr`.
    fn name_end(&self, from: usize) -> usize {
        let end = self.end_of(from, |byte| byte.is_ascii_alphanumeric() || b"_$.-".contains(&byte));
        // `%a->` does not occur, but a name never ends in a minus.
        if self.text.as_bytes()[from..end].last() == Some(&b'-') { end - 1 } else { end }
    }

    fn word_end(&self, from: usize) -> usize {
        self.end_of(from, |byte| byte.is_ascii_alphanumeric() || b"_$.".contains(&byte))
    }

    /// Returns the end of a number or of dimensions.
    fn number_end(&self, from: usize) -> usize {
        let bytes = self.text.as_bytes();
        let digits = self.end_of(from, |byte| byte.is_ascii_digit());
        match bytes.get(digits) {
            Some(b'x') => self.end_of(digits, |byte| byte.is_ascii_alphanumeric()),
            Some(b'.') => {
                let fraction = self.end_of(digits + 1, |byte| byte.is_ascii_digit());
                if !matches!(bytes.get(fraction), Some(b'e' | b'E')) {
                    return fraction;
                }
                let signed = matches!(bytes.get(fraction + 1), Some(b'+' | b'-'));
                self.end_of(fraction + 1 + usize::from(signed), |byte| byte.is_ascii_digit())
            }
            _ => digits,
        }
    }

    /// Returns the place of the closing quote of the string that opens at `start`.
    fn string_end(&self, start: usize) -> Result<usize, TritonError> {
        let bytes = self.text.as_bytes();
        let mut at = start + 1;
        while let Some(&byte) = bytes.get(at) {
            match byte {
                b'"' => return Ok(at),
                b'\n' => break,
                b'\\' => at += 2,
                _ => at += 1,
            }
        }
        Err(self.error(start, "this string has no end".to_owned()))
    }
}

fn column(text: &str, line_start: usize, at: usize) -> u32 {
    let column = text.get(line_start..at).map_or(0, |before| before.chars().count());
    u32::try_from(column + 1).unwrap_or(u32::MAX)
}
