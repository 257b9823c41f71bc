//! The line index of a document.

use apollo_compiler::parser::SourceSpan;
use async_graphql::Pos;

/// Finds lines and columns by byte offset without counting from the start: a document may be one long
/// line.
pub(super) struct LineIndex {
    /// The byte offset of each line.
    lines: Vec<usize>,
    /// The number of characters before each byte. None for ASCII documents.
    characters: Option<Vec<usize>>,
}

impl LineIndex {
    pub(super) fn new(document: &str) -> Self {
        let mut lines = vec![0];
        let mut bytes = document.bytes().enumerate().peekable();
        while let Some((at, byte)) = bytes.next() {
            // A carriage return with a line feed is one line break.
            let ends = byte == b'\n' || byte == b'\r' && bytes.peek().is_none_or(|(_, next)| *next != b'\n');
            if ends {
                lines.push(at + 1);
            }
        }
        let characters = (!document.is_ascii()).then(|| {
            let mut before = 0;
            let count = |at| {
                before += usize::from(document.is_char_boundary(at));
                before - 1
            };
            (0..=document.len()).map(count).collect()
        });
        Self { lines, characters }
    }

    pub(super) fn position_of(&self, span: Option<SourceSpan>) -> Option<Pos> {
        let offset = span?.offset();
        let line = self.lines.partition_point(|start| *start <= offset);
        let start = self.lines.get(line.checked_sub(1)?)?;
        let column = match &self.characters {
            Some(characters) => characters.get(offset)? - characters.get(*start)?,
            None => offset - start,
        };
        Some(Pos { line, column: column + 1 })
    }
}
