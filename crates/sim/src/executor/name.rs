//! The names of processes.

use std::fmt;

/// The name of a process. Reports of waits and deadlocks show it; most names are never asked for, so words can be put together then.
pub struct Name(Words);

enum Words {
    Fixed(&'static str),
    Text(String),
    Later(Box<dyn Fn() -> String>),
}

impl Name {
    /// Makes a name whose words `make` puts together when they are asked for.
    pub fn later(make: impl Fn() -> String + 'static) -> Self {
        Self(Words::Later(Box::new(make)))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Words::Fixed(text) => f.write_str(text),
            Words::Text(text) => f.write_str(text),
            Words::Later(make) => f.write_str(&make()),
        }
    }
}

impl From<&'static str> for Name {
    fn from(text: &'static str) -> Self {
        Self(Words::Fixed(text))
    }
}

impl From<String> for Name {
    fn from(text: String) -> Self {
        Self(Words::Text(text))
    }
}
