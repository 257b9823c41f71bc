//! Tags: what people call clusters, to find them and to sum them up by it.

use std::collections::BTreeSet;

use entity::list::TagPattern;

/// Tags of one cluster at the most.
pub const MAX_TAGS: usize = 50;

/// Patterns in one list at the most: each is a part of a statement.
pub const MAX_PATTERNS: usize = 20;

/// Characters of a key at the most.
const MAX_KEY: usize = 100;

/// Characters of a value at the most.
const MAX_VALUE: usize = 200;

/// A word on a cluster, as `nightly`, or a key with a value, as `team` and `risk`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag {
    key: String,
    /// Empty for none.
    value: String,
}

/// Why something cannot be a tag, or not beside the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TagError {
    /// The key is no key.
    #[error("a key must have 1 to {MAX_KEY} characters, none of them a control character")]
    Key,
    /// The value is no value.
    #[error("a value must have at most {MAX_VALUE} characters, none of them a control character")]
    Value,
    /// A cluster has one value for a key.
    #[error("each key can be given once")]
    Twice,
    /// A cluster has no more.
    #[error("must be at most {MAX_TAGS}")]
    TooMany,
}

impl Tag {
    /// A tag as it came, without the white space round it.
    ///
    /// # Errors
    /// [`TagError::Key`] and [`TagError::Value`].
    pub fn new(key: &str, value: Option<&str>) -> Result<Self, TagError> {
        let (key, value) = (key.trim(), value.unwrap_or_default().trim());
        if key.is_empty() || !fits(key, MAX_KEY) {
            return Err(TagError::Key);
        }
        if !fits(value, MAX_VALUE) {
            return Err(TagError::Value);
        }
        Ok(Self { key: key.to_owned(), value: value.to_owned() })
    }

    /// A tag as it is stored, where the value of one without is empty.
    pub(crate) fn stored(key: String, value: String) -> Self {
        Self { key, value }
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The value, if it has one.
    #[must_use]
    pub fn value(&self) -> Option<&str> {
        Some(self.value.as_str()).filter(|value| !value.is_empty())
    }
}

/// All tags of a cluster, as they came.
///
/// # Errors
/// What is wrong, each kind of it once.
pub fn check<'a>(
    tags: impl IntoIterator<Item = (&'a str, Option<&'a str>)>,
) -> Result<Vec<Tag>, Vec<TagError>> {
    let (mut found, mut keys, mut errors) = (Vec::new(), BTreeSet::new(), Vec::new());
    let mut wrong = |error| {
        if !errors.contains(&error) {
            errors.push(error);
        }
    };
    for (key, value) in tags {
        match Tag::new(key, value) {
            Ok(tag) => {
                if !keys.insert(tag.key.clone()) {
                    wrong(TagError::Twice);
                }
                found.push(tag);
            }
            Err(error) => wrong(error),
        }
    }
    if found.len() > MAX_TAGS {
        wrong(TagError::TooMany);
    }
    if errors.is_empty() { Ok(found) } else { Err(errors) }
}

/// Which tags are meant: all with a key, or those of them with a value.
///
/// # Errors
/// [`TagError::Key`] and [`TagError::Value`], as for the tags themselves.
pub fn pattern(key: &str, value: Option<&str>) -> Result<TagPattern, TagError> {
    let tag = Tag::new(key, value)?;
    Ok(TagPattern { key: tag.key, value: value.map(|_| tag.value) })
}

fn fits(text: &str, most: usize) -> bool {
    text.chars().count() <= most && !text.contains(char::is_control)
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
