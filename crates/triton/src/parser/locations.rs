//! Locations: `loc("file":line:column)`, names of values, calls, and aliases that are defined elsewhere in the text.

use super::{Parser, Read, shown};
use crate::error::SourceLine;
use crate::ir::{Location, Region};
use crate::lexer::Kind;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The number of a location of the text.
pub(super) type LocationId = usize;

/// The locations of a text; number 0 is the unknown one.
#[derive(Default)]
pub(super) struct Locations<'a> {
    nodes: Vec<Form<'a>>,
    aliases: BTreeMap<&'a str, LocationId>,
}

enum Form<'a> {
    Unknown,
    File(&'a str, u32),
    Alias(&'a str),
    /// A location with another name.
    Named(LocationId),
    Call {
        inner: LocationId,
        outer: LocationId,
    },
    Fused(Vec<LocationId>),
}

/// The most lines of one location, and steps to find them.
const MOST: usize = 64;

impl<'a> Locations<'a> {
    fn add(&mut self, node: Form<'a>) -> LocationId {
        if self.nodes.is_empty() {
            self.nodes.push(Form::Unknown);
        }
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// Returns the lines of every location, innermost call first.
    pub(super) fn resolve(&self) -> Vec<Rc<[SourceLine]>> {
        let mut files: BTreeMap<&str, Rc<str>> = BTreeMap::new();
        for node in &self.nodes {
            if let Form::File(name, _) = node {
                files.entry(name).or_insert_with(|| (*name).into());
            }
        }
        (0..self.nodes.len())
            .map(|id| {
                let (mut lines, mut steps) = (Vec::new(), 0);
                self.collect(id, &files, &mut lines, &mut steps);
                lines.into()
            })
            .collect()
    }

    fn collect(
        &self,
        id: LocationId,
        files: &BTreeMap<&str, Rc<str>>,
        lines: &mut Vec<SourceLine>,
        steps: &mut usize,
    ) {
        *steps += 1;
        if *steps > MOST {
            return;
        }
        match self.nodes.get(id) {
            None | Some(Form::Unknown) => {}
            Some(Form::File(name, line)) => {
                if let Some(file) = files.get(name) {
                    lines.push(SourceLine { file: file.clone(), line: *line });
                }
            }
            Some(Form::Alias(name)) => {
                if let Some(target) = self.aliases.get(name) {
                    self.collect(*target, files, lines, steps);
                }
            }
            Some(Form::Named(inner)) => self.collect(*inner, files, lines, steps),
            Some(Form::Call { inner, outer }) => {
                self.collect(*inner, files, lines, steps);
                self.collect(*outer, files, lines, steps);
            }
            Some(Form::Fused(parts)) => {
                // The parts are the same operation; the first that is known stands for all.
                for part in parts {
                    if lines.is_empty() {
                        self.collect(*part, files, lines, steps);
                    }
                }
            }
        }
    }
}

impl<'a> Parser<'a> {
    /// Reads `#loc3 = loc(...)`; other aliases are skipped.
    pub(super) fn alias(&mut self) -> Read<()> {
        let name = self.advance().text;
        self.expect(b'=')?;
        if !self.is_word("loc") {
            self.attribute_value()?;
            return Ok(());
        }
        let location = self.read_location()?;
        self.locations.aliases.insert(name, location);
        Ok(())
    }

    /// Reads `loc(...)`.
    pub(super) fn read_location(&mut self) -> Read<LocationId> {
        self.expect_word("loc")?;
        self.expect(b'(')?;
        let location = self.deeper(Self::inner_location)?;
        self.expect(b')')?;
        Ok(location)
    }

    /// Reads a location without `loc(` and `)`.
    fn inner_location(&mut self) -> Read<LocationId> {
        let token = self.advance();
        match (token.kind, token.text) {
            (Kind::Hash, name) => Ok(self.locations.add(Form::Alias(name))),
            (Kind::Word, "unknown") => Ok(LocationId::default()),
            (Kind::Word, "loc") => {
                self.at -= 1;
                self.read_location()
            }
            (Kind::Word, "callsite") => {
                self.expect(b'(')?;
                let inner = self.deeper(Self::inner_location)?;
                self.expect_word("at")?;
                let outer = self.deeper(Self::inner_location)?;
                self.expect(b')')?;
                Ok(self.locations.add(Form::Call { inner, outer }))
            }
            (Kind::Word, "fused") => {
                self.skip_angles()?;
                self.expect(b'[')?;
                let mut parts = Vec::new();
                while !self.accept(b']') {
                    parts.push(self.deeper(Self::inner_location)?);
                    if !self.is_sign(b']') {
                        self.expect(b',')?;
                    }
                }
                Ok(self.locations.add(Form::Fused(parts)))
            }
            (Kind::String, text) => self.named_location(text),
            _ => Err(self.error_at(token, format!("expected a location, found {}", shown(token)))),
        }
    }

    /// Reads `:line:column`, or `(location)`, after a string.
    fn named_location(&mut self, text: &'a str) -> Read<LocationId> {
        if self.accept(b':') {
            let line = self.line_number()?;
            if self.accept(b':') {
                self.line_number()?;
            }
            if self.accept_word("to") {
                while matches!(self.peek().kind, Kind::Sign(b':') | Kind::Number) {
                    self.advance();
                }
            }
            return Ok(self.locations.add(Form::File(text, line)));
        }
        if self.accept(b'(') {
            let inner = self.deeper(Self::inner_location)?;
            self.expect(b')')?;
            return Ok(self.locations.add(Form::Named(inner)));
        }
        Ok(LocationId::default())
    }

    fn line_number(&mut self) -> Read<u32> {
        let token = self.peek();
        let text = self.expect_kind(Kind::Number, "a number")?;
        text.parse().map_err(|_| self.error_at(token, format!("`{text}` is not a line")))
    }
}

/// Calls `visit` with every place of a region.
pub(super) fn each_place(region: &mut Region, visit: &dyn Fn(&mut Location)) {
    for operation in region.blocks.iter_mut().flat_map(|block| &mut block.operations) {
        visit(&mut operation.place);
        operation.regions.iter_mut().for_each(|region| each_place(region, visit));
    }
}
