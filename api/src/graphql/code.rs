//! Code that called Dask.

use async_graphql::{Object, SimpleObject};
use entity::list;

use super::{error::Alone, scope::AccountScope, span_loaders::SnippetOf};

/// A place in code that led to Dask, as far as it is known.
#[derive(SimpleObject)]
pub(super) struct CodeFrame {
    /// The file.
    file: Option<String>,
    /// The line in the file, counted from 1.
    line: Option<i64>,
    /// The line within the snippet, counted from 0.
    relative_line: Option<i64>,
    /// The function, notebook cell or module round the line.
    snippet: Option<CodeSnippet>,
}

impl CodeFrame {
    /// Stored stacks as the schema has them.
    pub(super) fn stacks(scope: &AccountScope, stored: &list::CodeStacks) -> Vec<Vec<Self>> {
        stored.0.iter().map(|stack| stack.iter().map(|frame| Self::new(scope, frame)).collect()).collect()
    }

    fn new(scope: &AccountScope, frame: &list::CodeFrame) -> Self {
        Self {
            file: frame.file.clone(),
            line: frame.line,
            relative_line: frame.relative_line,
            snippet: frame.hash.clone().map(|hash| CodeSnippet { scope: scope.clone(), hash }),
        }
    }
}

/// A text of code.
pub(super) struct CodeSnippet {
    scope: AccountScope,
    hash: String,
}

/// A text of code, stored once in an account.
#[Object]
impl CodeSnippet {
    /// SHA-256 of the text in UTF-8, as hexadecimal digits.
    async fn hash(&self) -> &str {
        &self.hash
    }

    /// The text; null when it was not sent, or deleted, and null, with an error, when the key it is encrypted
    /// with is lost.
    async fn text(&self) -> Alone<String> {
        match self.scope.loader.load_one(SnippetOf(self.hash.clone())).await {
            Ok(row) => row.map(|row| Ok(self.scope.store.snippet_text(&row)?)),
            Err(error) => Some(Err(error.into())),
        }
    }
}
