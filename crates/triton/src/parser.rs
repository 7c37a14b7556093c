//! Reads the text of a module.
//!
//! The reader knows the shape of the text, not the meaning of its operations: an operation is a name, its operands, attributes,
//! regions and types. Operations whose text has another shape (`scf.for`, `arith.constant`, `cf.br`, ...) are read by
//! `parser/control.rs`.
//!
//! - **TTR-1 (total).** Any text gives a module or an error with line and column; no text makes the reader panic, or takes more
//!   than [`DEPTH`] levels of its stack.
//! - **TTR-2 (typed).** Every value has a type, and is defined before it is used.
//! - **TTR-3 (lines).** An operation knows the lines of the kernel's source: that of the operation, and those of the calls around.

mod attributes;
mod control;
mod locations;
mod operation;
mod types;

use crate::error::TritonError;
use crate::ir::{Block, Function, Location, Module, Region, ValueId};
use crate::lexer::{Kind, Token, tokens};
use crate::types::Type;
use locations::Locations;
use std::collections::BTreeMap;

/// The deepest nesting of a text.
const DEPTH: usize = 100;

/// Reads a module.
///
/// # Errors
///
/// If the text is not a module; the error has line and column.
pub fn parse(text: &str) -> Result<Module, TritonError> {
    let mut parser = Parser {
        tokens: tokens(text)?,
        at: 0,
        depth: 0,
        names: BTreeMap::new(),
        undo: Vec::new(),
        values: Vec::new(),
        locations: Locations::default(),
        operation: None,
    };
    let mut module = Module { functions: Vec::new() };
    while parser.peek().kind != Kind::End {
        parser.item(&mut module)?;
    }
    let frames = parser.locations.resolve();
    let place = |place: &mut Location| {
        if let Some(found) = frames.get(place.id) {
            place.frames = found.clone();
        }
    };
    for function in &mut module.functions {
        place(&mut function.place);
        locations::each_place(&mut function.body, &place);
    }
    Ok(module)
}

pub(crate) struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
    depth: usize,
    /// The values in scope, by name; with the number of values of a group (`%0:2`).
    names: BTreeMap<&'a str, (ValueId, u32)>,
    /// The former meanings of names in the open scopes.
    undo: Vec<(&'a str, Option<(ValueId, u32)>)>,
    values: Vec<Type>,
    locations: Locations<'a>,
    /// The operation that is read, for errors.
    operation: Option<&'a str>,
}

type Read<T> = Result<T, TritonError>;

impl<'a> Parser<'a> {
    pub(crate) fn peek(&self) -> Token<'a> {
        self.ahead(0)
    }

    pub(crate) fn ahead(&self, count: usize) -> Token<'a> {
        self.tokens[(self.at + count).min(self.tokens.len() - 1)]
    }

    pub(crate) fn advance(&mut self) -> Token<'a> {
        let token = self.peek();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    /// Returns an error at the next token.
    pub(crate) fn error(&self, message: impl Into<String>) -> TritonError {
        self.error_at(self.peek(), message)
    }

    pub(crate) fn error_at(&self, token: Token<'a>, message: impl Into<String>) -> TritonError {
        TritonError {
            line: token.line,
            column: token.column,
            operation: self.operation.map(str::to_owned),
            source: None,
            message: message.into(),
        }
    }

    pub(crate) fn is_sign(&self, sign: u8) -> bool {
        self.peek().kind == Kind::Sign(sign)
    }

    /// Takes the next token if it is `sign`.
    pub(crate) fn accept(&mut self, sign: u8) -> bool {
        let found = self.is_sign(sign);
        if found {
            self.advance();
        }
        found
    }

    pub(crate) fn is_word(&self, word: &str) -> bool {
        let token = self.peek();
        token.kind == Kind::Word && token.text == word
    }

    pub(crate) fn accept_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.advance();
        }
        found
    }

    pub(crate) fn expect(&mut self, sign: u8) -> Read<()> {
        if self.accept(sign) {
            return Ok(());
        }
        Err(self.error(format!("expected `{}`, found {}", char::from(sign), shown(self.peek()))))
    }

    pub(crate) fn expect_word(&mut self, word: &str) -> Read<()> {
        if self.accept_word(word) {
            return Ok(());
        }
        Err(self.error(format!("expected `{word}`, found {}", shown(self.peek()))))
    }

    pub(crate) fn expect_kind(&mut self, kind: Kind, what: &str) -> Read<&'a str> {
        if self.peek().kind == kind {
            return Ok(self.advance().text);
        }
        Err(self.error(format!("expected {what}, found {}", shown(self.peek()))))
    }

    /// Reads one level deeper; too deep is an error.
    pub(crate) fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        if self.depth == DEPTH {
            return Err(self.error(format!("more than {DEPTH} levels of nesting")));
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// Defines a name; returns its first value.
    fn define(&mut self, name: &'a str, types: &[Type]) -> ValueId {
        let first = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        self.values.extend_from_slice(types);
        let count = u32::try_from(types.len()).unwrap_or(u32::MAX);
        let before = self.names.insert(name, (first, count));
        self.undo.push((name, before));
        first
    }

    /// Forgets the names since `mark`.
    fn leave_scope(&mut self, mark: usize) {
        for (name, before) in self.undo.drain(mark..).rev() {
            match before {
                Some(before) => self.names.insert(name, before),
                None => self.names.remove(name),
            };
        }
    }

    /// Reads a use of a value: `%x` or `%x#1`.
    pub(crate) fn value(&mut self) -> Read<ValueId> {
        let token = self.peek();
        let name = self.expect_kind(Kind::Value, "a value")?;
        let Some(&(first, count)) = self.names.get(name) else {
            return Err(self.error_at(token, format!("`%{name}` is not defined")));
        };
        if self.peek().kind == Kind::Hash && self.peek().text.parse::<u32>().is_ok() {
            let number = self.advance().text.parse::<u32>().unwrap_or(u32::MAX);
            if number >= count {
                return Err(self.error_at(token, format!("`%{name}` has {count} values")));
            }
            return Ok(first + number);
        }
        Ok(first)
    }

    /// Reads `%a, %b` until `close`.
    pub(crate) fn values_until(&mut self, close: u8) -> Read<Vec<ValueId>> {
        let mut values = Vec::new();
        while !self.accept(close) {
            values.push(self.value()?);
            if !self.is_sign(close) {
                self.expect(b',')?;
            }
        }
        Ok(values)
    }

    /// Begins a place at the next token.
    fn place(&self) -> Location {
        let token = self.peek();
        Location { line: token.line, column: token.column, ..Location::default() }
    }

    /// Reads `loc(...)` if there is one, and gives it to `place`.
    fn location(&mut self, place: &mut Location) -> Read<()> {
        if self.is_word("loc") {
            place.id = self.read_location()?;
        }
        Ok(())
    }

    /// Reads a module, a function, or the definition of an alias.
    fn item(&mut self, module: &mut Module) -> Read<()> {
        let token = self.peek();
        match (token.kind, token.text) {
            (Kind::Hash, _) => self.alias(),
            (Kind::Word, "module") => self.deeper(|parser| parser.module(module)),
            (Kind::Word, "tt.func") => {
                module.functions.push(self.function()?);
                self.operation = None;
                Ok(())
            }
            _ => Err(self
                .error(format!("expected `module`, `tt.func` or `#loc`, found {}", shown(token)))),
        }
    }

    fn module(&mut self, module: &mut Module) -> Read<()> {
        self.advance();
        if self.peek().kind == Kind::Symbol {
            self.advance();
        }
        if self.accept_word("attributes") {
            self.expect(b'{')?;
            self.dictionary()?;
        }
        self.expect(b'{')?;
        while !self.accept(b'}') {
            self.item(module)?;
        }
        self.location(&mut Location::default())
    }

    fn function(&mut self) -> Read<Function> {
        let mut place = self.place();
        self.operation = Some(self.advance().text);
        let is_public = !self.accept_word("private");
        self.accept_word("public");
        let name = self.expect_kind(Kind::Symbol, "the name of a function")?.to_owned();
        (self.values, self.names, self.undo) = (Vec::new(), BTreeMap::new(), Vec::new());
        self.expect(b'(')?;
        let mut arguments = Vec::new();
        while !self.accept(b')') {
            let name = self.expect_kind(Kind::Value, "an argument")?;
            self.expect(b':')?;
            let kind = self.read_type()?;
            if self.accept(b'{') {
                self.dictionary()?;
            }
            self.location(&mut Location::default())?;
            arguments.push((name.to_owned(), self.define(name, &[kind])));
            if !self.is_sign(b')') {
                self.expect(b',')?;
            }
        }
        let results = match self.peek().kind {
            Kind::Arrow => {
                self.advance();
                self.type_list()?
            }
            _ => Vec::new(),
        };
        if self.accept_word("attributes") {
            self.expect(b'{')?;
            self.dictionary()?;
        }
        let body = self.region()?;
        self.location(&mut place)?;
        let values = std::mem::take(&mut self.values);
        Ok(Function { name, is_public, arguments, values, results, body, place })
    }

    /// Reads `{ ... }`: blocks of operations.
    pub(crate) fn region(&mut self) -> Read<Region> {
        self.expect(b'{')?;
        self.deeper(Self::region_body)
    }

    fn region_body(&mut self) -> Read<Region> {
        let mark = self.undo.len();
        let labels = self.labels();
        let mut region = Region::default();
        let mut block = Block::default();
        let mut is_begun = false;
        while !self.accept(b'}') {
            if self.peek().kind == Kind::Block {
                if std::mem::replace(&mut is_begun, true) {
                    region.blocks.push(std::mem::take(&mut block));
                }
                block.arguments = self.block_head()?;
            } else {
                is_begun = true;
                block.operations.push(self.deeper(|parser| parser.operation(&labels))?);
            }
        }
        region.blocks.push(block);
        self.leave_scope(mark);
        Ok(region)
    }

    /// Returns the names of the region's blocks after its opening brace; a first block without a label has no name.
    fn labels(&self) -> Vec<&'a str> {
        let mut labels = Vec::new();
        let (mut depth, mut is_first) = (0usize, true);
        for (at, token) in self.tokens.iter().enumerate().skip(self.at) {
            match token.kind {
                Kind::Sign(b'{' | b'(' | b'[') => depth += 1,
                Kind::Sign(b'}' | b')' | b']') if depth == 0 => break,
                Kind::Sign(b'}' | b')' | b']') => depth -= 1,
                Kind::Block if depth == 0 && token.is_first => {
                    if is_first && at != self.at {
                        labels.push("");
                    }
                    labels.push(token.text);
                    is_first = false;
                }
                _ => {}
            }
        }
        labels
    }

    /// Reads `^bb1(%x: i32 loc(..), ..):`.
    fn block_head(&mut self) -> Read<Vec<ValueId>> {
        self.advance();
        let mut arguments = Vec::new();
        if self.accept(b'(') {
            while !self.accept(b')') {
                let name = self.expect_kind(Kind::Value, "an argument of a block")?;
                self.expect(b':')?;
                let kind = self.read_type()?;
                self.location(&mut Location::default())?;
                arguments.push(self.define(name, &[kind]));
                if !self.is_sign(b')') {
                    self.expect(b',')?;
                }
            }
        }
        self.expect(b':')?;
        Ok(arguments)
    }
}

/// Shows a token in an error.
pub(crate) fn shown(token: Token<'_>) -> String {
    let sign = match token.kind {
        Kind::End => return "the end of the text".to_owned(),
        Kind::Value => "%",
        Kind::Block => "^",
        Kind::Symbol => "@",
        Kind::Hash => "#",
        Kind::Bang => "!",
        Kind::String => return format!("\"{}\"", token.text),
        _ => "",
    };
    format!("`{sign}{}`", token.text)
}

#[cfg(test)]
mod tests;
