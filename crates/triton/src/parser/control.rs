//! Operations whose text has a shape of its own: constants, loops, branches, jumps, descriptors.

use super::{Parser, Read, shown};
use crate::ir::{Operation, Region, ValueId};
use crate::lexer::Kind;
use crate::types::{Element, Scalar, Type};

impl<'a> Parser<'a> {
    /// Reads `{..} dense<0> : tensor<8xi32>` or `true`.
    pub(super) fn constant(&mut self, operation: &mut Operation) -> Read<Type> {
        if self.accept(b'{') {
            operation.attributes = self.dictionary()?;
        }
        let value = self.deeper(Self::bare_attribute)?;
        operation.attributes.push(("value".to_owned(), value));
        if self.accept(b':') {
            return self.read_type();
        }
        Ok(Type::One(Element::Number(Scalar::Int(1))))
    }

    /// Reads `%i = %low to %high step %by iter_args(%x = %start) -> (T) : i32 { .. }`.
    pub(super) fn for_loop(&mut self, operation: &mut Operation) -> Read<Vec<Type>> {
        if self.accept_word("unsigned") {
            operation.words.push("unsigned".to_owned());
        }
        let counter = self.expect_kind(Kind::Value, "the counter of the loop")?;
        self.expect(b'=')?;
        operation.operands.push(self.value()?);
        self.expect_word("to")?;
        operation.operands.push(self.value()?);
        self.expect_word("step")?;
        operation.operands.push(self.value()?);
        let mut carried = Vec::new();
        let mut types = Vec::new();
        if self.accept_word("iter_args") {
            self.expect(b'(')?;
            carried = self.carried(operation)?;
            self.expect_arrow()?;
            types = self.type_list()?;
        }
        let counter_type = if self.accept(b':') {
            self.read_type()?
        } else {
            Type::One(Element::Number(Scalar::Int(64)))
        };
        self.same_count(carried.len(), types.len())?;
        let mark = self.undo.len();
        let mut arguments = vec![self.define(counter, &[counter_type])];
        arguments.extend(self.define_each(&carried, &types));
        self.inner_region(operation, arguments)?;
        self.leave_scope(mark);
        if !self.peek().is_first && self.accept(b'{') {
            operation.attributes = self.dictionary()?;
        }
        Ok(types)
    }

    /// Reads `(%x = %start) : (T) -> T { .. } do { .. }`.
    pub(super) fn while_loop(&mut self, operation: &mut Operation) -> Read<Vec<Type>> {
        let mut carried = Vec::new();
        if self.accept(b'(') {
            carried = self.carried(operation)?;
        }
        self.expect(b':')?;
        let before = self.type_list()?;
        self.expect_arrow()?;
        let after = self.type_list()?;
        self.same_count(carried.len(), before.len())?;
        let mark = self.undo.len();
        let arguments = self.define_each(&carried, &before);
        self.inner_region(operation, arguments)?;
        self.leave_scope(mark);
        self.expect_word("do")?;
        operation.regions.push(self.region()?);
        if self.accept_word("attributes") {
            self.expect(b'{')?;
            operation.attributes = self.dictionary()?;
        }
        Ok(after)
    }

    /// Reads `%condition -> (T) { .. } else { .. }`.
    pub(super) fn branch(&mut self, operation: &mut Operation) -> Read<Vec<Type>> {
        operation.operands.push(self.value()?);
        let mut types = Vec::new();
        if self.peek().kind == Kind::Arrow {
            self.advance();
            types = self.type_list()?;
        }
        operation.regions.push(self.region()?);
        if self.accept_word("else") {
            operation.regions.push(self.region()?);
        }
        if !self.peek().is_first && self.accept(b'{') {
            operation.attributes = self.dictionary()?;
        }
        Ok(types)
    }

    /// Reads `%condition, ^bb1, ^bb2(%x : T)` or `^bb1`.
    pub(super) fn jump(
        &mut self,
        operation: &mut Operation,
        labels: &[&'a str],
    ) -> Read<Vec<Type>> {
        let is_conditional = operation.name == "cf.cond_br";
        if is_conditional {
            operation.operands.push(self.value()?);
            if self.accept_word("weights") {
                self.expect(b'(')?;
                self.attribute_value()?;
                self.expect(b')')?;
            }
            self.expect(b',')?;
        }
        operation.successors.push(self.successor(labels)?);
        if is_conditional {
            self.expect(b',')?;
            operation.successors.push(self.successor(labels)?);
        }
        Ok(Vec::new())
    }

    /// Reads `^bb2(%x, %y : T, T)`.
    fn successor(&mut self, labels: &[&'a str]) -> Read<(usize, Vec<ValueId>)> {
        let token = self.peek();
        let name = self.expect_kind(Kind::Block, "a block")?;
        let Some(block) = labels.iter().position(|label| *label == name) else {
            return Err(self.error_at(token, format!("no block `^{name}` in this region")));
        };
        let mut values = Vec::new();
        if self.accept(b'(') {
            while !self.accept(b':') {
                values.push(self.value()?);
                self.accept(b',');
            }
            while !self.accept(b')') {
                self.read_type()?;
                self.accept(b',');
            }
        }
        Ok((block, values))
    }

    /// Reads `%base, [%n, %m], [%s, %t] : <f16>, <32x64xf16>`, with the names of the types or without.
    pub(super) fn descriptor(&mut self, operation: &mut Operation) -> Read<Type> {
        operation.operands.push(self.value()?);
        while self.accept(b',') {
            if self.accept(b'[') {
                let group = self.values_until(b']')?;
                operation.groups.push(group.len());
                operation.operands.extend(group);
            }
        }
        if self.accept(b'{') {
            operation.attributes = self.dictionary()?;
        }
        self.expect(b':')?;
        if self.is_sign(b'<') {
            self.skip_angles()?;
        } else {
            self.read_type()?;
        }
        self.expect(b',')?;
        if self.is_sign(b'<') { self.descriptor_type() } else { self.read_type() }
    }

    /// Reads `%x = %start, ..)` after the opening parenthesis; gives the names.
    fn carried(&mut self, operation: &mut Operation) -> Read<Vec<&'a str>> {
        let mut names = Vec::new();
        while !self.accept(b')') {
            names.push(self.expect_kind(Kind::Value, "a value of the loop")?);
            self.expect(b'=')?;
            operation.operands.push(self.value()?);
            if !self.is_sign(b')') {
                self.expect(b',')?;
            }
        }
        Ok(names)
    }

    fn same_count(&self, names: usize, types: usize) -> Read<()> {
        if names == types {
            return Ok(());
        }
        Err(self.error(format!("{names} values of the loop, but {types} types")))
    }

    fn define_each(&mut self, names: &[&'a str], types: &[Type]) -> Vec<ValueId> {
        names
            .iter()
            .zip(types)
            .map(|(name, kind)| self.define(name, std::slice::from_ref(kind)))
            .collect()
    }

    /// Reads a region whose first block has these arguments.
    fn inner_region(&mut self, operation: &mut Operation, arguments: Vec<ValueId>) -> Read<()> {
        let mut region: Region = self.region()?;
        if let Some(block) = region.blocks.first_mut() {
            block.arguments = arguments;
        }
        operation.regions.push(region);
        Ok(())
    }

    fn expect_arrow(&mut self) -> Read<()> {
        if self.peek().kind == Kind::Arrow {
            self.advance();
            return Ok(());
        }
        Err(self.error(format!("expected `->`, found {}", shown(self.peek()))))
    }
}
