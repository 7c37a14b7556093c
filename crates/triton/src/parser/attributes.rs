//! Attributes in the text.

use super::{Parser, Read, shown};
use crate::ir::Attribute;
use crate::lexer::Kind;

impl Parser<'_> {
    /// Reads `name = value, name, ...}` after the opening brace.
    pub(crate) fn dictionary(&mut self) -> Read<Vec<(String, Attribute)>> {
        let mut entries = Vec::new();
        while !self.accept(b'}') {
            let token = self.peek();
            if !matches!(token.kind, Kind::Word | Kind::String) {
                return Err(self.error(format!("expected an attribute, found {}", shown(token))));
            }
            self.advance();
            let value = if self.accept(b'=') { self.attribute_value()? } else { Attribute::Unit };
            entries.push((token.text.to_owned(), value));
            if !self.is_sign(b'}') {
                self.expect(b',')?;
            }
        }
        Ok(entries)
    }

    /// Reads the value of an attribute, with its type if there is one.
    pub(crate) fn attribute_value(&mut self) -> Read<Attribute> {
        let value = self.deeper(Self::bare_attribute)?;
        let is_typed =
            matches!(value, Attribute::Int(_) | Attribute::Float(_) | Attribute::Bits(_));
        if is_typed && self.is_sign(b':') {
            self.advance();
            self.read_type()?;
        }
        Ok(value)
    }

    /// Reads a value without its type.
    pub(crate) fn bare_attribute(&mut self) -> Read<Attribute> {
        let token = self.peek();
        match token.kind {
            Kind::Number | Kind::Sign(b'-') => self.number(),
            Kind::String | Kind::Symbol => Ok(Attribute::Text(self.advance().text.to_owned())),
            Kind::Sign(b'[') => {
                self.advance();
                self.attribute_list(b']')
            }
            Kind::Sign(b'{') => {
                self.advance();
                self.dictionary()?;
                Ok(Attribute::Unit)
            }
            Kind::Word if token.text == "array" => {
                self.advance();
                self.expect(b'<')?;
                self.read_type()?;
                if !self.accept(b':') {
                    self.expect(b'>')?;
                    return Ok(Attribute::List(Vec::new()));
                }
                self.attribute_list(b'>')
            }
            Kind::Word if token.text == "dense" => {
                self.advance();
                self.expect(b'<')?;
                let value = self.deeper(Self::bare_attribute)?;
                self.expect(b'>')?;
                Ok(value)
            }
            Kind::Word => {
                self.advance();
                self.skip_angles()?;
                Ok(match token.text {
                    "true" => Attribute::Bool(true),
                    "false" => Attribute::Bool(false),
                    text => Attribute::Text(text.to_owned()),
                })
            }
            Kind::Hash | Kind::Bang => {
                self.advance();
                self.skip_angles()?;
                Ok(Attribute::Text(token.text.to_owned()))
            }
            _ => Err(self.error(format!("expected a constant, found {}", shown(token)))),
        }
    }

    fn attribute_list(&mut self, close: u8) -> Read<Attribute> {
        let mut entries = Vec::new();
        while !self.accept(close) {
            entries.push(self.attribute_value()?);
            if !self.is_sign(close) {
                self.expect(b',')?;
            }
        }
        Ok(Attribute::List(entries))
    }

    /// Skips `<...>` with all nested brackets.
    pub(crate) fn skip_angles(&mut self) -> Read<()> {
        if !self.is_sign(b'<') {
            return Ok(());
        }
        let (open, mut depth) = (self.peek(), 0usize);
        loop {
            let token = self.advance();
            match token.kind {
                Kind::Sign(b'<') => depth += 1,
                Kind::Sign(b'>') => depth -= 1,
                Kind::End => return Err(self.error_at(open, "`<` without `>`")),
                _ => {}
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }

    /// Reads a number with its sign.
    fn number(&mut self) -> Read<Attribute> {
        let is_negative = self.accept(b'-');
        let token = self.peek();
        let text = self.expect_kind(Kind::Number, "a number")?;
        let bad = || self.error_at(token, format!("`{text}` is not a number"));
        if let Some(bits) = text.strip_prefix("0x") {
            return u64::from_str_radix(bits, 16).map(Attribute::Bits).map_err(|_| bad());
        }
        if text.contains('.') {
            let number: f64 = text.parse().map_err(|_| bad())?;
            return Ok(Attribute::Float(if is_negative { -number } else { number }));
        }
        // Integers of 64 bits may be written without a sign.
        let number: i128 = text.parse().map_err(|_| bad())?;
        let number = if is_negative { -number } else { number };
        #[expect(clippy::cast_possible_truncation, reason = "the bits of an integer of 64 bits")]
        let wrapped = number as i64;
        let fits = i64::try_from(number).is_ok() || u64::try_from(number).is_ok();
        if fits { Ok(Attribute::Int(wrapped)) } else { Err(bad()) }
    }
}
