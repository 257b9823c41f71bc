//! The GraphQL types of the code that called Dask.

use async_graphql::{Object, SimpleObject};
use entity::json_columns;

use super::span_loaders::SnippetKey;
use crate::graphql::engine::{error::NullOnError, scope::AccountScope};

/// A frame of a call stack that led to Dask. Fields are null if they are unknown.
#[derive(SimpleObject)]
pub(crate) struct CodeFrame {
    /// The path of the file.
    file: Option<String>,
    /// The line in the file, counted from 1.
    line: Option<i64>,
    /// The line in the snippet, counted from 0.
    relative_line: Option<i64>,
    /// The code of the function, notebook cell or module around the line.
    snippet: Option<CodeSnippet>,
}

impl CodeFrame {
    /// Converts stored call stacks into GraphQL values.
    pub(crate) fn stacks(scope: &AccountScope, stored: &json_columns::CodeStacks) -> Vec<Vec<Self>> {
        stored.0.iter().map(|stack| stack.iter().map(|frame| Self::new(scope, frame)).collect()).collect()
    }

    fn new(scope: &AccountScope, frame: &json_columns::CodeFrame) -> Self {
        Self {
            file: frame.file.clone(),
            line: frame.line,
            relative_line: frame.relative_line,
            snippet: frame.hash.clone().map(|hash| CodeSnippet { scope: scope.clone(), hash }),
        }
    }
}

/// A piece of source code.
pub(crate) struct CodeSnippet {
    scope: AccountScope,
    hash: String,
}

/// A piece of source code. An account stores equal pieces once.
#[Object]
impl CodeSnippet {
    /// The SHA-256 hash of the text in UTF-8, in hexadecimal digits.
    async fn hash(&self) -> &str {
        &self.hash
    }

    /// The text. Null if it was not sent, or was deleted. Null, with the error code `KEY_MISSING` or
    /// `DAMAGED`, if it cannot be decrypted.
    async fn text(&self) -> NullOnError<String> {
        match self.scope.loader.load_one(SnippetKey(self.hash.clone())).await {
            Ok(row) => row.map(|row| Ok(self.scope.store.snippet_text(&row)?)),
            Err(error) => Some(Err(error.into())),
        }
    }
}
