//! What arguments are looked at for before a statement is made of them.

use super::error::ApiError;

/// Characters of a text that is compared with what is stored, none of which is longer.
const MAX_TEXT: usize = 1_024;

/// A list in an argument has its bound, since each item is a value of the statement.
pub(super) fn at_most<T>(argument: &'static str, items: Option<&[T]>, most: usize) -> Result<(), ApiError> {
    if items.is_some_and(|items| items.len() > most) {
        return Err(ApiError::invalid(argument, format!("must be at most {most}")));
    }
    Ok(())
}

/// The same of a list of texts that are compared with what is stored.
pub(super) fn texts(argument: &'static str, items: Option<&[String]>, most: usize) -> Result<(), ApiError> {
    at_most(argument, items, most)?;
    items.unwrap_or_default().iter().try_for_each(|text| storable(argument, text))
}

/// A text that may be looked for: `PostgreSQL` takes no U+0000, and none is stored.
pub(super) fn storable(argument: &'static str, text: &str) -> Result<(), ApiError> {
    if text.contains('\0') {
        return Err(ApiError::invalid(argument, "must not contain U+0000"));
    }
    if text.chars().nth(MAX_TEXT).is_some() {
        return Err(ApiError::invalid(argument, format!("must have at most {MAX_TEXT} characters")));
    }
    Ok(())
}
