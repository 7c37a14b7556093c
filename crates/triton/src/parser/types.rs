//! Types in the text.

use super::{Parser, Read, shown};
use crate::lexer::{Kind, Token};
use crate::types::{Element, Scalar, Type};
use phalanx_sim::config::suggestion;

/// The most elements of a tensor: Triton's own limit.
const MOST_ELEMENTS: usize = 1 << 20;

impl<'a> Parser<'a> {
    /// Reads a type.
    pub(crate) fn read_type(&mut self) -> Read<Type> {
        let token = self.peek();
        match (token.kind, token.text) {
            (Kind::Word, "tensor") => {
                self.advance();
                self.expect(b'<')?;
                let (extent, element) = self.shaped()?;
                self.skip_encoding()?;
                Ok(Type::Tensor(extent.into(), element))
            }
            (Kind::Bang, "tt.tensordesc") => {
                self.advance();
                self.descriptor_type()
            }
            (Kind::Bang, "tt.ptr") | (Kind::Word, _) => self.element().map(Type::One),
            _ => Err(self.error(format!("expected a type, found {}", shown(token)))),
        }
    }

    /// Reads `<128x64xf16>` or `<tensor<128x64xf16>>` of a descriptor, after its name.
    pub(crate) fn descriptor_type(&mut self) -> Read<Type> {
        self.expect(b'<')?;
        let is_nested = self.accept_word("tensor");
        if is_nested {
            self.expect(b'<')?;
        }
        let (extent, element) = self.shaped()?;
        self.skip_encoding()?;
        if is_nested {
            self.expect(b'>')?;
        }
        match element {
            Element::Number(scalar) => Ok(Type::Descriptor(extent.into(), scalar)),
            Element::Pointer(_) => Err(self.error("a descriptor describes numbers")),
        }
    }

    /// Reads what may follow the elements of a tensor, and its end.
    fn skip_encoding(&mut self) -> Read<()> {
        if self.accept(b',') {
            self.attribute_value()?;
        }
        self.expect(b'>')
    }

    /// Reads `128x64xf16`, `16x!tt.ptr<f32>` or `f32`.
    fn shaped(&mut self) -> Read<(Vec<usize>, Element)> {
        let token = self.peek();
        if token.kind != Kind::Number {
            return Ok((Vec::new(), self.element()?));
        }
        self.advance();
        let mut extent = Vec::new();
        let mut rest = token.text;
        while let Some((dim, after)) = rest.split_once('x') {
            let Ok(dim) = dim.parse::<usize>() else { break };
            extent.push(dim);
            rest = after;
        }
        let elements = extent.iter().try_fold(1usize, |all, dim| all.checked_mul(*dim));
        if extent.is_empty() || extent.contains(&0) {
            return Err(
                self.error_at(token, format!("`{}` is not the extent of a tensor", token.text))
            );
        }
        if elements.is_none_or(|elements| elements > MOST_ELEMENTS) {
            let text = format!("a tensor of more than {MOST_ELEMENTS} elements");
            return Err(self.error_at(token, text));
        }
        let element = match rest {
            "" => self.element()?,
            name => Element::Number(self.scalar(token, name)?),
        };
        Ok((extent, element))
    }

    fn element(&mut self) -> Read<Element> {
        let token = self.advance();
        match token.kind {
            Kind::Bang if token.text == "tt.ptr" => {
                self.expect(b'<')?;
                let pointee = self.peek();
                // A pointer to pointers holds addresses, which are integers.
                let scalar = if pointee.kind == Kind::Bang {
                    self.deeper(Self::element)?;
                    Scalar::Int(64)
                } else {
                    self.advance();
                    self.scalar(pointee, pointee.text)?
                };
                if self.accept(b',') {
                    self.advance();
                }
                self.expect(b'>')?;
                Ok(Element::Pointer(scalar))
            }
            Kind::Word => Ok(Element::Number(self.scalar(token, token.text)?)),
            _ => Err(self.error_at(token, format!("expected a type, found {}", shown(token)))),
        }
    }

    fn scalar(&self, token: Token<'a>, name: &str) -> Read<Scalar> {
        Scalar::of_name(name).ok_or_else(|| {
            let near = suggestion(name, Scalar::NAMES);
            let hint = near.map_or_else(
                || format!("known are {}", Scalar::NAMES.join(", ")),
                |near| format!("did you mean `{near}`?"),
            );
            self.error_at(token, format!("no type `{name}`: {hint}"))
        })
    }

    /// Reads `T` or `(T, T)`.
    pub(crate) fn type_list(&mut self) -> Read<Vec<Type>> {
        if !self.accept(b'(') {
            return Ok(vec![self.read_type()?]);
        }
        let mut types = Vec::new();
        while !self.accept(b')') {
            types.push(self.read_type()?);
            if !self.is_sign(b')') {
                self.expect(b',')?;
            }
        }
        Ok(types)
    }
}
