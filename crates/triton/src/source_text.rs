//! The texts of source lines, carried by a compiled kernel.
//!
//! TTIR names the lines of a kernel's source by file and number. Triton keeps compiled kernels, which may outlive their source
//! file or be found again from another place; so the texts travel with the TTIR, as comments at its end.
//!
//! - **TEXT-1 (carried).** A kernel whose TTIR carries the texts of its lines needs no source file.

use crate::error::SourceLine;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::rc::Rc;

const MARK: &str = "// source\t";

/// The texts of source lines.
#[derive(Debug, Default)]
pub(crate) struct SourceTexts {
    carried: BTreeMap<SourceLine, String>,
    files: BTreeMap<Rc<str>, Vec<String>>,
}

impl SourceTexts {
    /// Returns the texts that a TTIR carries.
    pub(crate) fn carried_by(ttir: &str) -> Self {
        let carried = ttir.lines().filter_map(|line| read(line.strip_prefix(MARK)?)).collect();
        Self { carried, files: BTreeMap::new() }
    }

    /// Returns the text of a line: the text that the TTIR carries, else that of the file if the file is at hand.
    pub(crate) fn text_of(&mut self, source: &SourceLine) -> String {
        if let Some(text) = self.carried.get(source) {
            return text.clone();
        }
        let texts = self.files.entry(source.file.clone()).or_insert_with(|| {
            let text = std::fs::read_to_string(&*source.file).unwrap_or_default();
            text.lines().map(str::to_owned).collect()
        });
        texts.get((source.line as usize).saturating_sub(1)).cloned().unwrap_or_default()
    }
}

/// Reads one line after its mark: number, file, text.
fn read(line: &str) -> Option<(SourceLine, String)> {
    let mut parts = line.splitn(3, '\t');
    let (number, file, text) = (parts.next()?, parts.next()?, parts.next()?);
    Some((SourceLine { file: file.into(), line: number.parse().ok()? }, text.to_owned()))
}

/// Returns the comments that carry the texts of `lines`.
pub(crate) fn comments(lines: impl Iterator<Item = (SourceLine, String)>) -> String {
    let mut out = String::new();
    for (source, text) in lines.collect::<BTreeMap<_, _>>() {
        let _ = writeln!(out, "{MARK}{}\t{}\t{text}", source.line, source.file);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_1_a_kernel_keeps_the_texts_of_its_lines() {
        let folder =
            std::env::temp_dir().join(format!("phalanx-source-text-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("kernel.py");
        std::fs::write(&file, "first\n\tx = tl.load(p)  # a\ttab\n").unwrap();
        let source = SourceLine { file: file.to_str().unwrap().into(), line: 2 };
        let text = SourceTexts::default().text_of(&source);
        assert_eq!(text, "\tx = tl.load(p)  # a\ttab");
        let carried = comments([(source.clone(), text.clone())].into_iter());
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(SourceTexts::default().text_of(&source), "");
        assert_eq!(SourceTexts::carried_by(&format!("tt.func\n{carried}")).text_of(&source), text);
    }

    #[test]
    fn what_is_no_text_of_a_line_is_left_out() {
        let texts = SourceTexts::carried_by(
            "// source\tx\tfile\ttext\n// source\t3\n// source\t4294967296\ta\tb\n",
        );
        assert!(texts.carried.is_empty());
    }
}
