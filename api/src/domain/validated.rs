//! Types for external values that enforce their limits. Deserialization checks the limit, so that an
//! error carries the location of the wrong value, and the JSON Schema states the same limit.

use std::{borrow::Cow, collections::BTreeMap, fmt, marker::PhantomData};

use chrono::{DateTime, Utc};
use entity::Timestamp;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error, MapAccess, SeqAccess, Visitor},
};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{KnownFormat, ObjectBuilder, RefOr, Schema, SchemaFormat, schema::Type},
};

/// The largest integer that every JSON reader represents exactly.
pub const MAX_EXACT_INTEGER: i64 = (1 << 53) - 1;

/// The last second of the year 9999. RFC 3339 cannot represent later times.
const LAST_SECOND: f64 = 253_402_300_799.0;

/// An error about a value that conflicts with another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocatedError {
    /// The JSON pointer to the value, relative to the start of the check.
    pub pointer: String,
    /// The reason for the error.
    pub message: String,
}

impl LocatedError {
    /// Prefixes the pointer with an item of a list.
    #[must_use]
    pub fn within(self, list: &str, index: usize) -> Self {
        Self { pointer: format!("/{list}/{index}{}", self.pointer), ..self }
    }
}

/// A text of at most `MAX` characters. NUL, which PostgreSQL cannot store, is replaced by U+FFFD.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Text<const MAX: usize>(String);

impl<const MAX: usize> Text<MAX> {
    /// Returns the text as a `String`.
    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }

    /// Returns the text as a string slice.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Replaces the text with a part of it.
    pub fn replace_with_part(&mut self, part: impl FnOnce(&str) -> Cow<'_, str>) {
        if let Cow::Owned(part) = part(&self.0) {
            debug_assert!(part.len() <= self.0.len(), "a part is not longer");
            self.0 = part;
        }
    }
}

impl<'de, const MAX: usize> Deserialize<'de> for Text<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        // Characters are only counted if the bytes exceed the limit.
        if text.len() > MAX && text.chars().count() > MAX {
            return Err(D::Error::custom(format_args!("longer than {MAX} characters")));
        }
        Ok(Self(if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }))
    }
}

impl<const MAX: usize> PartialSchema for Text<MAX> {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new().schema_type(Type::String).max_length(Some(MAX)).into()
    }
}

impl<const MAX: usize> ToSchema for Text<MAX> {
    fn name() -> Cow<'static, str> {
        format!("Text{MAX}").into()
    }
}

/// A list of at most `MAX` items. Deserialization stops at the first item beyond the limit.
#[derive(Clone, Debug, PartialEq)]
pub struct List<T, const MAX: usize>(Vec<T>);

impl<T, const MAX: usize> Default for List<T, MAX> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T, const MAX: usize> List<T, MAX> {
    /// Returns the items as a `Vec`.
    #[must_use]
    pub fn into_vec(self) -> Vec<T> {
        self.0
    }

    /// Removes all items.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Keeps only the items for which `keep` returns true.
    pub fn retain(&mut self, keep: impl FnMut(&T) -> bool) {
        self.0.retain(keep);
    }

    /// Returns the items for modification.
    pub fn items_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

impl<T, const MAX: usize> std::ops::Deref for List<T, MAX> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for List<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Items<T, const MAX: usize>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for Items<T, MAX> {
            type Value = List<T, MAX>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "an array of at most {MAX} items")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = items.next_element()? {
                    if list.len() == MAX {
                        return Err(A::Error::custom(format_args!("more than {MAX} items")));
                    }
                    list.push(item);
                }
                Ok(List(list))
            }
        }

        deserializer.deserialize_seq(Items(PhantomData))
    }
}

/// A whole number from 0 to `MAX`, which is 2^53 - 1 by default: a count, or a number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Count<const MAX: i64 = MAX_EXACT_INTEGER>(i64);

impl<const MAX: i64> Count<MAX> {
    /// Returns the number.
    #[must_use]
    pub fn get(self) -> i64 {
        self.0
    }

    /// Returns the smaller of the number and `limit`.
    #[must_use]
    pub fn at_most(self, limit: i64) -> Self {
        Self(self.0.min(limit.max(0)))
    }
}

impl<'de, const MAX: i64> Deserialize<'de> for Count<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = i64::deserialize(deserializer)?;
        if (0..=MAX).contains(&number) {
            Ok(Self(number))
        } else {
            Err(D::Error::custom(format_args!("not between 0 and {MAX}")))
        }
    }
}

impl<const MAX: i64> PartialSchema for Count<MAX> {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::Integer)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
            .minimum(Some(0))
            .maximum(Some(MAX))
            .into()
    }
}

impl<const MAX: i64> ToSchema for Count<MAX> {
    fn name() -> Cow<'static, str> {
        if MAX == MAX_EXACT_INTEGER { "Count".into() } else { format!("Count{MAX}").into() }
    }
}

/// The largest number of threads, or workers, of a cluster. No scheduler manages a tenth of it.
pub const MAX_THREADS: i64 = 1_000_000;

/// A number of threads or workers at one time.
pub type Threads = Count<MAX_THREADS>;

/// The number of occurrences of an event of tasks. The limit is 10,000 in each second of three years,
/// which is more than a scheduler achieves.
pub type Times = Count<1_000_000_000_000>;

/// A number of seconds that no scheduler will ever reach. Sums of many such values stay finite.
const MAX_SECONDS: u64 = 1_000_000_000_000_000;

/// A number of threads or workers integrated over one hour.
pub type HourSeconds = Seconds<3_600_000_000>;

/// A time that counts for an hour but may have taken longer, because it becomes known at its end. Its
/// microseconds are an integer that every JSON reader represents exactly.
pub type WorkSeconds = Seconds<9_000_000_000>;

/// A duration in seconds, from 0 to `MAX`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Seconds<const MAX: u64 = MAX_SECONDS>(f64);

impl<const MAX: u64> Seconds<MAX> {
    #[expect(clippy::cast_precision_loss, reason = "bounds are round numbers below 2^53")]
    const MOST: f64 = MAX as f64;

    /// Returns the seconds.
    #[must_use]
    pub fn get(self) -> f64 {
        self.0
    }

    /// Returns the value clamped to a range.
    #[must_use]
    pub fn within(self, min: f64, max: f64) -> Self {
        Self(self.0.clamp(min, max))
    }

    /// Returns the smaller of the value and `limit`.
    #[must_use]
    pub fn at_most(self, limit: f64) -> Self {
        Self(self.0.min(limit.max(0.0)))
    }
}

impl<'de, const MAX: u64> Deserialize<'de> for Seconds<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        if (0.0..=Self::MOST).contains(&seconds) {
            Ok(Self(seconds))
        } else {
            Err(D::Error::custom(format_args!("not a duration of 0 to {MAX} seconds")))
        }
    }
}

impl<const MAX: u64> PartialSchema for Seconds<MAX> {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::Number)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Double)))
            .minimum(Some(0.0))
            .maximum(Some(Self::MOST))
            .description(Some("seconds"))
            .into()
    }
}

impl<const MAX: u64> ToSchema for Seconds<MAX> {
    fn name() -> Cow<'static, str> {
        if MAX == MAX_SECONDS { "Seconds".into() } else { format!("Seconds{MAX}").into() }
    }
}

impl<const MAX: u64> Seconds<MAX> {
    /// Returns the value in whole microseconds, whose sums are exact in any order.
    #[must_use]
    pub fn microseconds(self) -> i64 {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a float that is too large becomes the largest integer"
        )]
        let microseconds = (self.0 * 1e6).round() as i64;
        microseconds.min(MAX_EXACT_INTEGER)
    }
}

/// A finite number: neither infinite nor NaN.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize)]
pub struct Finite(f64);

impl Finite {
    /// Returns the number.
    #[must_use]
    pub fn get(self) -> f64 {
        self.0
    }
}

/// The largest accepted magnitude. Beyond it, sums of many numbers could become infinite.
const MAX_FINITE: f64 = 1e100;

impl<'de> Deserialize<'de> for Finite {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = f64::deserialize(deserializer)?;
        if number.abs() <= MAX_FINITE {
            Ok(Self(number))
        } else {
            Err(D::Error::custom(format_args!("not between -{MAX_FINITE:e} and {MAX_FINITE:e}")))
        }
    }
}

impl PartialSchema for Finite {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::Number)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Double)))
            .minimum(Some(-MAX_FINITE))
            .maximum(Some(MAX_FINITE))
            .into()
    }
}

impl ToSchema for Finite {}

/// A map of at most `MAX` entries. Deserialization stops at the first entry beyond the limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Map<K, V, const MAX: usize>(BTreeMap<K, V>);

impl<K, V, const MAX: usize> Default for Map<K, V, MAX> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K, V, const MAX: usize> std::ops::Deref for Map<K, V, MAX> {
    type Target = BTreeMap<K, V>;

    fn deref(&self) -> &BTreeMap<K, V> {
        &self.0
    }
}

impl<'de, K: Deserialize<'de> + Ord, V: Deserialize<'de>, const MAX: usize> Deserialize<'de>
    for Map<K, V, MAX>
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<K, V, const MAX: usize>(PhantomData<(K, V)>);

        impl<'de, K: Deserialize<'de> + Ord, V: Deserialize<'de>, const MAX: usize> Visitor<'de>
            for Entries<K, V, MAX>
        {
            type Value = Map<K, V, MAX>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "an object of at most {MAX} entries")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
                let mut map = BTreeMap::new();
                while let Some((key, value)) = entries.next_entry()? {
                    if map.len() == MAX {
                        return Err(A::Error::custom(format_args!("more than {MAX} entries")));
                    }
                    map.insert(key, value);
                }
                Ok(Map(map))
            }
        }

        deserializer.deserialize_map(Entries(PhantomData))
    }
}

/// A SHA-256 as 64 lower-case hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Digest(String);

impl Digest {
    /// Computes the digest of a text in UTF-8.
    #[must_use]
    pub fn of(text: &str) -> Self {
        use sha2::Digest as _;

        Self(hex(&sha2::Sha256::digest(text.as_bytes())))
    }

    /// Returns the digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Encodes bytes as lower-case hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut digits, byte| {
        for nibble in [byte >> 4, byte & 0xf] {
            digits.push(char::from_digit(nibble.into(), 16).unwrap_or_default());
        }
        digits
    })
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let digits = String::deserialize(deserializer)?;
        if digits.len() == 64 && digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')) {
            Ok(Self(digits))
        } else {
            Err(D::Error::custom("not 64 lower-case hexadecimal digits"))
        }
    }
}

impl PartialSchema for Digest {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new().schema_type(Type::String).pattern(Some("^[0-9a-f]{64}$")).into()
    }
}

impl ToSchema for Digest {}

/// A point in time in Dask's notation: seconds since 1970-01-01 UTC, up to the year 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnixTime(DateTime<Utc>);

impl UnixTime {
    /// Returns the time, rounded to milliseconds.
    #[must_use]
    pub fn timestamp(self) -> Timestamp {
        self.0.into()
    }

    /// Returns the earlier of the time and `last`.
    #[must_use]
    pub fn at_most(self, last: Timestamp) -> Self {
        Self(self.0.min(last.0))
    }
}

impl<'de> Deserialize<'de> for UnixTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        if !(0.0..=LAST_SECOND).contains(&seconds) {
            return Err(D::Error::custom("not a time in seconds between the years 1970 and 9999"));
        }
        #[expect(clippy::cast_possible_truncation, reason = "the bounds above fit well into 53 bits")]
        let milliseconds = (seconds * 1000.0).round() as i64;
        DateTime::from_timestamp_millis(milliseconds).map(Self).ok_or_else(|| D::Error::custom("not a time"))
    }
}

impl PartialSchema for UnixTime {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::Number)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Double)))
            .minimum(Some(0.0))
            .maximum(Some(LAST_SECOND))
            .description(Some("seconds since 1970-01-01 UTC"))
            .into()
    }
}

impl ToSchema for UnixTime {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_counts_characters_and_replaces_nul() {
        let read = |json: &str| serde_json::from_str::<Text<3>>(json).map(Text::into_string);
        assert_eq!(read(r#""äöü""#).expect("three characters"), "äöü");
        assert_eq!(read(r#""a\u0000b""#).expect("NUL is replaced"), "a\u{fffd}b");
        assert!(read(r#""abcd""#).is_err());
    }

    #[test]
    fn numbers_keep_their_bounds() {
        for (json, ok) in [
            ("0", true),
            ("9007199254740991", true),
            ("9007199254740992", false),
            ("-1", false),
            ("1.5", false),
        ] {
            assert_eq!(serde_json::from_str::<Count>(json).is_ok(), ok, "{json}");
        }
        for (json, ok) in [("1000000", true), ("1000001", false)] {
            assert_eq!(serde_json::from_str::<Threads>(json).is_ok(), ok, "{json}");
        }
        for (json, ok) in [("3600000000", true), ("3600000000.5", false), ("1e15", false)] {
            assert_eq!(serde_json::from_str::<HourSeconds>(json).is_ok(), ok, "{json}");
        }
        for (json, ok) in [("0", true), ("1e15", true), ("1e300", false), ("-0.1", false)] {
            assert_eq!(serde_json::from_str::<Seconds>(json).is_ok(), ok, "{json}");
        }
        for (json, ok) in [("0", true), ("1795199678.5054", true), ("-1", false), ("253402300800", false)] {
            assert_eq!(serde_json::from_str::<UnixTime>(json).is_ok(), ok, "{json}");
        }
        let time: UnixTime = serde_json::from_str("1795199678.5054").expect("a time");
        assert_eq!(time.timestamp().timestamp_millis(), 1_795_199_678_505);
    }

    #[test]
    fn a_list_stops_at_its_bound() {
        assert_eq!(serde_json::from_str::<List<u8, 2>>("[1,2]").expect("two").into_vec(), [1, 2]);
        assert!(serde_json::from_str::<List<u8, 2>>("[1,2,3]").is_err());
    }
}
