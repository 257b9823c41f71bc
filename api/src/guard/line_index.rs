//! The lines and columns of a document.

use apollo_compiler::parser::SourceSpan;
use async_graphql::Pos;

/// Finds lines and columns by byte offset without counting from the start: a document may be one long
/// line.
pub(super) struct LineIndex {
    /// The byte offset at which each line starts.
    line_starts: Vec<usize>,
    /// The number of characters before each byte. `None` for ASCII documents.
    characters_before: Option<Vec<usize>>,
}

impl LineIndex {
    pub(super) fn new(document: &str) -> Self {
        let mut line_starts = vec![0];
        let mut bytes = document.bytes().enumerate().peekable();
        while let Some((offset, byte)) = bytes.next() {
            // A carriage return with a line feed is one line break.
            let is_line_break =
                byte == b'\n' || byte == b'\r' && bytes.peek().is_none_or(|(_, next)| *next != b'\n');
            if is_line_break {
                line_starts.push(offset + 1);
            }
        }
        let characters_before = (!document.is_ascii()).then(|| {
            let mut character_count = 0;
            let count = |offset| {
                character_count += usize::from(document.is_char_boundary(offset));
                character_count - 1
            };
            (0..=document.len()).map(count).collect()
        });
        Self { line_starts, characters_before }
    }

    pub(super) fn position_of(&self, span: Option<SourceSpan>) -> Option<Pos> {
        let offset = span?.offset();
        let line = self.line_starts.partition_point(|start| *start <= offset);
        let start = self.line_starts.get(line.checked_sub(1)?)?;
        let column = match &self.characters_before {
            Some(characters_before) => characters_before.get(offset)? - characters_before.get(*start)?,
            None => offset - start,
        };
        Some(Pos { line, column: column + 1 })
    }
}
