//! Lines and columns of a document.

use apollo_compiler::parser::SourceSpan;
use async_graphql::Pos;

/// Finds lines and columns by bytes, without counting from the start each time: a document may be one long line.
pub(super) struct Places {
    /// Where each line begins.
    lines: Vec<usize>,
    /// Characters before each byte, if there are fewer of them than bytes.
    characters: Option<Vec<usize>>,
}

impl Places {
    pub(super) fn new(document: &str) -> Self {
        let mut lines = vec![0];
        let mut bytes = document.bytes().enumerate().peekable();
        while let Some((at, byte)) = bytes.next() {
            // A carriage return and a line feed are one end of a line.
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

    pub(super) fn of(&self, span: Option<SourceSpan>) -> Option<Pos> {
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
