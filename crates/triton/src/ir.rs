//! The typed form of a module: functions, regions, blocks and operations.

use crate::error::SourceLine;
use crate::types::Type;
use std::rc::Rc;

/// The number of a value in its function.
pub(crate) type ValueId = u32;

/// The functions of a text.
#[derive(Debug)]
pub struct Module {
    /// The functions, in the order of the text.
    pub functions: Vec<Function>,
}

/// A function.
#[derive(Debug)]
pub struct Function {
    /// The name.
    pub name: String,
    /// True if it can be launched.
    pub is_public: bool,
    /// Names and values of the arguments.
    pub arguments: Vec<(String, ValueId)>,
    /// The types of all values.
    pub values: Vec<Type>,
    /// The types of the results.
    pub results: Vec<Type>,
    /// The code.
    pub body: Region,
    /// The line of the source.
    pub place: Location,
}

/// A list of blocks; the first is entered.
#[derive(Debug, Default)]
pub struct Region {
    /// The blocks.
    pub blocks: Vec<Block>,
}

/// Operations that are performed one after the other.
#[derive(Debug, Default)]
pub struct Block {
    /// Values that a jump gives.
    pub arguments: Vec<ValueId>,
    /// The operations.
    pub operations: Vec<Operation>,
}

/// The place of an operation in the text, and in the source of the kernel.
#[derive(Clone, Debug, Default)]
pub struct Location {
    /// Line of the text, from 1.
    pub line: u32,
    /// Column of the text, from 1.
    pub column: u32,
    /// The lines of the source, innermost call first.
    pub frames: Rc<[SourceLine]>,
    /// Its number among the locations that the text defines.
    pub(crate) id: usize,
}

/// One operation.
#[derive(Debug)]
pub struct Operation {
    /// Its name, such as `arith.addi`.
    pub name: String,
    /// The values it takes.
    pub operands: Vec<ValueId>,
    /// The number of operands in each pair of brackets: `%d[%i, %j]` has one group of two.
    pub groups: Vec<usize>,
    /// The values it gives.
    pub results: Vec<ValueId>,
    /// Bare words such as `slt` or `acq_rel`, in order, and strings.
    pub words: Vec<String>,
    /// Named attributes.
    pub attributes: Vec<(String, Attribute)>,
    /// The code inside.
    pub regions: Vec<Region>,
    /// The blocks that it may jump to, with their arguments.
    pub successors: Vec<(usize, Vec<ValueId>)>,
    /// The place of the operation.
    pub place: Location,
}

/// A constant of an operation.
#[derive(Clone, Debug, PartialEq)]
pub enum Attribute {
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// The bits of a float, written in base 16.
    Bits(u64),
    /// `true` or `false`.
    Bool(bool),
    /// A word or a string.
    Text(String),
    /// `array<...>`, `[...]`, or the elements of `dense<[...]>`.
    List(Vec<Attribute>),
    /// Present without a value, or not needed here.
    Unit,
}

impl Operation {
    /// Returns the attribute of this name.
    pub fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// Returns an integer attribute.
    pub fn int(&self, name: &str) -> Option<i64> {
        match self.attribute(name) {
            Some(Attribute::Int(number)) => Some(*number),
            Some(Attribute::Bool(is_set)) => Some(i64::from(*is_set)),
            _ => None,
        }
    }

    /// Returns a textual attribute.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.attribute(name) {
            Some(Attribute::Text(text)) => Some(text),
            _ => None,
        }
    }
}

impl Region {
    /// Calls `visit` with every operation, those inside others too.
    pub fn each<'a>(&'a self, visit: &mut dyn FnMut(&'a Operation)) {
        for operation in self.blocks.iter().flat_map(|block| &block.operations) {
            visit(operation);
            operation.regions.iter().for_each(|region| region.each(visit));
        }
    }
}
