//! Tags with which users label clusters, to find them and to group sums.

use std::collections::BTreeSet;

use entity::json_columns::TagPattern;

/// The largest number of tags of one cluster.
pub const MAX_TAGS: usize = 50;

/// The largest number of patterns in one list. Each adds a condition to the statement.
pub const MAX_PATTERNS: usize = 20;

/// The largest length of a key, in characters.
const MAX_KEY: usize = 100;

/// The largest length of a value, in characters.
const MAX_VALUE: usize = 200;

/// A label of a cluster: a key alone, such as `nightly`, or a key with a value, such as `team` and
/// `risk`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag {
    key: String,
    /// The value. Empty if there is none.
    value: String,
}

/// The reason for rejecting a tag or a list of tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TagError {
    /// The key is not valid.
    #[error("a key must have 1 to {MAX_KEY} characters, none of them a control character")]
    Key,
    /// The value is not valid.
    #[error("a value must have at most {MAX_VALUE} characters, none of them a control character")]
    Value,
    /// A key occurs more than once.
    #[error("each key can be given once")]
    Twice,
    /// The cluster would have too many tags.
    #[error("must be at most {MAX_TAGS}")]
    TooMany,
}

impl Tag {
    /// Creates a tag without the surrounding white space.
    ///
    /// # Errors
    /// Returns [`TagError::Key`] or [`TagError::Value`] if a part is not valid.
    pub fn new(key: &str, value: Option<&str>) -> Result<Self, TagError> {
        let (key, value) = (key.trim(), value.unwrap_or_default().trim());
        if key.is_empty() || !is_valid_text(key, MAX_KEY) {
            return Err(TagError::Key);
        }
        if !is_valid_text(value, MAX_VALUE) {
            return Err(TagError::Value);
        }
        Ok(Self { key: key.to_owned(), value: value.to_owned() })
    }

    /// Creates a tag from a stored row, where an absent value is empty.
    pub(crate) fn stored(key: String, value: String) -> Self {
        Self { key, value }
    }

    /// Returns the key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the value, if there is one.
    #[must_use]
    pub fn value(&self) -> Option<&str> {
        Some(self.value.as_str()).filter(|value| !value.is_empty())
    }
}

/// Creates all tags of a cluster.
///
/// # Errors
/// Returns the violated rules, each once.
pub fn check<'a>(
    tags: impl IntoIterator<Item = (&'a str, Option<&'a str>)>,
) -> Result<Vec<Tag>, Vec<TagError>> {
    let (mut checked_tags, mut keys, mut errors) = (Vec::new(), BTreeSet::new(), Vec::new());
    let mut add_error = |error| {
        if !errors.contains(&error) {
            errors.push(error);
        }
    };
    for (key, value) in tags {
        match Tag::new(key, value) {
            Ok(tag) => {
                if !keys.insert(tag.key.clone()) {
                    add_error(TagError::Twice);
                }
                checked_tags.push(tag);
            }
            Err(error) => add_error(error),
        }
    }
    if checked_tags.len() > MAX_TAGS {
        add_error(TagError::TooMany);
    }
    if errors.is_empty() { Ok(checked_tags) } else { Err(errors) }
}

/// Creates a pattern: all tags with a key, or only those with a value.
///
/// # Errors
/// Returns [`TagError::Key`] or [`TagError::Value`], as for the tags themselves.
pub fn pattern(key: &str, value: Option<&str>) -> Result<TagPattern, TagError> {
    let tag = Tag::new(key, value)?;
    Ok(TagPattern { key: tag.key, value: value.map(|_| tag.value) })
}

fn is_valid_text(text: &str, max_characters: usize) -> bool {
    text.chars().count() <= max_characters && !text.contains(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(key: &str, value: Option<&str>) -> Result<(String, Option<String>), TagError> {
        Tag::new(key, value).map(|tag| (tag.key().to_owned(), tag.value().map(str::to_owned)))
    }

    #[test]
    fn what_is_a_tag() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(read(" team ", Some(" risk and more\n")), Ok(("team".to_owned(), some("risk and more"))));
        assert_eq!(read("nightly", None), Ok(("nightly".to_owned(), None)));
        assert_eq!(read("nightly", Some(" ")), Ok(("nightly".to_owned(), None)));
        assert_eq!(read(&"ä".repeat(100), Some(&"ä".repeat(200))).map(|(key, _)| key.len()), Ok(200));
        for key in ["", " ", "a\0", "a\tb", &"a".repeat(101)] {
            assert_eq!(read(key, None), Err(TagError::Key), "{key}");
        }
        for value in ["a\nb", &"a".repeat(201)] {
            assert_eq!(read("key", Some(value)), Err(TagError::Value), "{value}");
        }
    }

    #[test]
    fn a_cluster_has_one_value_for_a_key() {
        assert_eq!(check([("a", None), ("b", Some("1"))]).map(|tags| tags.len()), Ok(2));
        let wrong = check([("a", None), ("a ", Some("1")), ("", None), ("", None)]);
        assert_eq!(wrong, Err(vec![TagError::Twice, TagError::Key]));
        let keys: Vec<String> = (0..51).map(|number| number.to_string()).collect();
        assert!(check(keys[..50].iter().map(|key| (key.as_str(), None))).is_ok());
        let many = check(keys.iter().map(|key| (key.as_str(), None)));
        assert_eq!(many, Err(vec![TagError::TooMany]));
    }

    #[test]
    fn a_pattern_without_a_value_is_not_one_with_an_empty_value() {
        let pattern = |value| pattern("team", value).map(|pattern| pattern.value);
        assert_eq!(pattern(None), Ok(None));
        assert_eq!(pattern(Some("")), Ok(Some(String::new())));
        assert_eq!(pattern(Some(" risk ")), Ok(Some("risk".to_owned())));
    }
}
