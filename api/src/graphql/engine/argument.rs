//! Checks of arguments before they become parts of a statement.

use super::error::ApiError;

/// The error message if `from` lies after `to`.
pub(crate) const FROM_AFTER_TO: &str = "must not be later than 'to'";

/// The error message if `from` lies after `to` within the value of one argument.
pub(crate) const RANGE_FROM_AFTER_TO: &str = "'from' must not be later than 'to'";

/// The maximum number of characters of a text that is compared with stored texts. No stored text is
/// longer.
const MAX_TEXT: usize = 1_024;

/// Returns an error if the list has more than `max_items` items. Each item becomes a parameter of the
/// statement.
pub(crate) fn check_max_len<T>(
    argument: &'static str,
    items: Option<&[T]>,
    max_items: usize,
) -> Result<(), ApiError> {
    if items.is_some_and(|items| items.len() > max_items) {
        return Err(ApiError::invalid(argument, format!("must be at most {max_items}")));
    }
    Ok(())
}

/// Returns an error if the list has more than `max_items` texts, or if one of them cannot equal a stored
/// text.
pub(crate) fn check_text_list(
    argument: &'static str,
    items: Option<&[String]>,
    max_items: usize,
) -> Result<(), ApiError> {
    check_max_len(argument, items, max_items)?;
    items.unwrap_or_default().iter().try_for_each(|text| check_text(argument, text))
}

/// Returns an error if `from` lies after `to`.
pub(crate) fn check_range<T: PartialOrd>(from: Option<T>, to: Option<T>) -> Result<(), ApiError> {
    check_range_of("from", FROM_AFTER_TO, from, to)
}

/// Returns an error with `reason` if `from` lies after `to`. For ranges with other names, or within the
/// value of one argument.
pub(crate) fn check_range_of<T: PartialOrd>(
    argument: &'static str,
    reason: &'static str,
    from: Option<T>,
    to: Option<T>,
) -> Result<(), ApiError> {
    if from.zip(to).is_some_and(|(from, to)| from > to) {
        return Err(ApiError::invalid(argument, reason));
    }
    Ok(())
}

/// Returns an error if the text cannot equal a stored one. `PostgreSQL` accepts no U+0000, and no stored
/// text contains it.
pub(crate) fn check_text(argument: &'static str, text: &str) -> Result<(), ApiError> {
    if text.contains('\0') {
        return Err(ApiError::invalid(argument, "must not contain U+0000"));
    }
    if text.chars().nth(MAX_TEXT).is_some() {
        return Err(ApiError::invalid(argument, format!("must have at most {MAX_TEXT} characters")));
    }
    Ok(())
}
