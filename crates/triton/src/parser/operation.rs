//! Operations whose text has the common shape: words, operands, attributes and regions in any order, then types.

use super::{Parser, Read, shown};
use crate::ir::{Operation, ValueId};
use crate::lexer::Kind;
use crate::types::{Element, Scalar, Type};

/// The types at the end of an operation.
#[derive(Default)]
struct Signature {
    /// The types before the arrow.
    operands: Vec<Type>,
    /// The types after the arrow, if there is one.
    results: Option<Vec<Type>>,
}

impl<'a> Parser<'a> {
    /// Reads one operation; `labels` are the blocks of its region.
    pub(super) fn operation(&mut self, labels: &[&'a str]) -> Read<Operation> {
        let mut place = self.place();
        let names = self.result_names()?;
        let token = self.peek();
        let is_name =
            token.kind == Kind::String || (token.kind == Kind::Word && token.text.contains('.'));
        if !is_name {
            return Err(self.error(format!("expected an operation, found {}", shown(token))));
        }
        self.advance();
        let outer = self.operation.replace(token.text);
        let mut operation = Operation {
            name: token.text.to_owned(),
            operands: Vec::new(),
            groups: Vec::new(),
            results: Vec::new(),
            words: Vec::new(),
            attributes: Vec::new(),
            regions: Vec::new(),
            successors: Vec::new(),
            place: place.clone(),
        };
        let count: usize = names.iter().map(|(_, count)| *count).sum();
        let types = match token.text {
            "arith.constant" => vec![self.constant(&mut operation)?],
            "scf.for" => self.for_loop(&mut operation)?,
            "scf.while" => self.while_loop(&mut operation)?,
            "scf.if" => self.branch(&mut operation)?,
            "cf.br" | "cf.cond_br" => self.jump(&mut operation, labels)?,
            "tt.make_tensor_descriptor" => vec![self.descriptor(&mut operation)?],
            _ => {
                let signature = self.tail(&mut operation)?;
                self.result_types(&operation, count, signature)?
            }
        };
        self.location(&mut place)?;
        if types.len() != count {
            let text = format!("{} results, but {count} names", types.len());
            return Err(self.error_at(token, text));
        }
        operation.place = place;
        operation.results = self.define_results(&names, &types);
        self.operation = outer;
        Ok(operation)
    }

    /// Reads `%a, %b:2 =`; gives names and their numbers of values.
    fn result_names(&mut self) -> Read<Vec<(&'a str, usize)>> {
        let mut names = Vec::new();
        if self.peek().kind != Kind::Value {
            return Ok(names);
        }
        loop {
            let name = self.expect_kind(Kind::Value, "a value")?;
            let mut count = 1;
            if self.accept(b':') {
                let token = self.peek();
                let text = self.expect_kind(Kind::Number, "a number")?;
                count = text.parse().ok().filter(|count| (1..=1000).contains(count)).ok_or_else(
                    || self.error_at(token, format!("`{text}` is not a number of values")),
                )?;
            }
            names.push((name, count));
            if !self.accept(b',') {
                break;
            }
        }
        self.expect(b'=')?;
        Ok(names)
    }

    fn define_results(&mut self, names: &[(&'a str, usize)], types: &[Type]) -> Vec<ValueId> {
        let (mut results, mut at) = (Vec::new(), 0);
        for (name, count) in names {
            let first = self.define(name, &types[at..at + count]);
            results.extend((0..*count).filter_map(|i| Some(first + u32::try_from(i).ok()?)));
            at += count;
        }
        results
    }

    /// True if the next token is not of this operation.
    fn is_over(&self) -> bool {
        let token = self.peek();
        token.is_first || token.kind == Kind::End || self.is_word("loc") || self.is_sign(b'}')
    }

    /// Reads all that follows the name.
    fn tail(&mut self, operation: &mut Operation) -> Read<Signature> {
        while !self.is_over() {
            let token = self.peek();
            match token.kind {
                Kind::Value => operation.operands.push(self.value()?),
                Kind::Word => self.word(operation)?,
                Kind::String | Kind::Symbol => operation.words.push(self.advance().text.to_owned()),
                Kind::Sign(b',') => {
                    self.advance();
                }
                Kind::Sign(b'{') => {
                    self.advance();
                    operation.attributes.extend(self.dictionary()?);
                }
                Kind::Sign(b'<') => {
                    self.advance();
                    self.expect(b'{')?;
                    operation.attributes.extend(self.dictionary()?);
                    self.expect(b'>')?;
                }
                Kind::Sign(b'(') => self.parentheses(operation)?,
                Kind::Sign(b'[') => {
                    self.advance();
                    let group = self.values_until(b']')?;
                    operation.groups.push(group.len());
                    operation.operands.extend(group);
                }
                Kind::Sign(b':') => {
                    self.advance();
                    // `tt.print` lists its operands after a colon.
                    if self.peek().kind != Kind::Value {
                        return self.signature();
                    }
                }
                _ => return Err(self.error(format!("unexpected {}", shown(token)))),
            }
        }
        Ok(Signature::default())
    }

    /// Reads `word`, `word<...>` or `word = value`.
    fn word(&mut self, operation: &mut Operation) -> Read<()> {
        let word = self.advance().text.to_owned();
        if self.accept(b'=') {
            let value = self.attribute_value()?;
            operation.attributes.push((word, value));
            return Ok(());
        }
        self.skip_angles()?;
        operation.words.push(word);
        Ok(())
    }

    /// Reads `(%a, %b)` or `({ region }, { region })`.
    fn parentheses(&mut self, operation: &mut Operation) -> Read<()> {
        self.advance();
        if !self.is_sign(b'{') {
            operation.operands.extend(self.values_until(b')')?);
            return Ok(());
        }
        loop {
            operation.regions.push(self.region()?);
            if !self.accept(b',') {
                return self.expect(b')');
            }
        }
    }

    /// Reads `T, T -> T`, `T * T -> T`, `T to T` or `(T, T) -> (T, T)`.
    fn signature(&mut self) -> Read<Signature> {
        let mut operands = Vec::new();
        loop {
            operands.extend(self.type_list()?);
            if !self.accept(b',') && !self.accept(b'*') {
                break;
            }
        }
        let mut results = None;
        if self.peek().kind == Kind::Arrow || self.is_word("to") {
            self.advance();
            let mut types = self.type_list()?;
            while self.accept(b',') {
                types.extend(self.type_list()?);
            }
            results = Some(types);
        }
        Ok(Signature { operands, results })
    }

    /// Returns the types of the `count` results of an operation.
    fn result_types(
        &self,
        operation: &Operation,
        count: usize,
        signature: Signature,
    ) -> Read<Vec<Type>> {
        let Signature { operands, results } = signature;
        if let Some(types) = results {
            return Ok(match types.as_slice() {
                _ if count == 0 => Vec::new(),
                [one] if count > 1 => vec![one.clone(); count],
                _ => types,
            });
        }
        if count == 0 {
            return Ok(Vec::new());
        }
        let is_bool = Element::Number(Scalar::Int(1));
        let kind = match operation.name.as_str() {
            "arith.cmpi" | "arith.cmpf" => operands.first().map(|kind| kind.with(is_bool)),
            "arith.select" => operands.last().cloned(),
            "tt.load" => operands.first().map(|kind| match kind.element() {
                Element::Pointer(scalar) | Element::Number(scalar) => {
                    kind.with(Element::Number(scalar))
                }
            }),
            _ => operands.first().cloned(),
        };
        kind.map(|kind| vec![kind]).ok_or_else(|| self.error("an operation without a type"))
    }
}
