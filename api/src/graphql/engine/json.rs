//! The serialization of values to JSON.
//!
//! Values that are written directly, without an executor value for each number and text, are carried to
//! the response as [`Value::Binary`]. No input from a client can become a [`Value::Binary`], so no
//! client text is taken for JSON.

use async_graphql::{ID, Value, resolver_utils::EnumType};
use chrono::{DateTime, Datelike, NaiveDate, Timelike, Utc};

use super::scalar::{BigInt, Date, Json, ShortFloat};

/// Writes an executor value as JSON.
pub(crate) fn write(value: &Value, json: &mut Vec<u8>) {
    match value {
        Value::Null => json.extend_from_slice(b"null"),
        Value::Number(number) => serialize(number, json),
        Value::String(text) => serialize(text, json),
        Value::Boolean(boolean) => serialize(boolean, json),
        Value::Binary(bytes) => json.extend_from_slice(bytes),
        Value::Enum(name) => serialize(name.as_str(), json),
        Value::List(items) => write_delimited(b'[', items, b']', json, write),
        Value::Object(fields) => write_delimited(b'{', fields, b'}', json, |(name, value), json| {
            serialize(name.as_str(), json);
            json.push(b':');
            write(value, json);
        }),
    }
}

fn write_delimited<T>(
    open: u8,
    items: impl IntoIterator<Item = T>,
    close: u8,
    json: &mut Vec<u8>,
    write_item: impl Fn(T, &mut Vec<u8>),
) {
    json.push(open);
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            json.push(b',');
        }
        write_item(item, json);
    }
    json.push(close);
}

/// Writes a value with serde. NaN and infinite numbers become null, as in the executor.
fn serialize<T: serde::Serialize + ?Sized>(value: &T, json: &mut Vec<u8>) {
    // The values written here always serialize, and writing to a `Vec` does not fail.
    let _ = serde_json::to_writer(json, value);
}

/// The error of a field that cannot be written directly: it has to wait, or it failed.
#[derive(Debug)]
pub(crate) struct NeedsExecutor;

/// A value without sub-fields.
pub(crate) trait WriteJson {
    /// Writes the value exactly as the executor would.
    fn write_json(&self, json: &mut Vec<u8>) -> Result<(), NeedsExecutor>;
}

macro_rules! leaf {
    ($($leaf:ty: |$value:ident| $serializable:expr),* $(,)?) => {$(
        impl WriteJson for $leaf {
            fn write_json(&self, json: &mut Vec<u8>) -> Result<(), NeedsExecutor> {
                let $value = self;
                serialize($serializable, json);
                Ok(())
            }
        }
    )*};
}

leaf! {
    str: |text| text,
    String: |text| text,
    bool: |boolean| boolean,
    i32: |number| number,
    f64: |number| number,
    BigInt: |number| &number.0,
    ID: |id| id.as_str(),
}

/// Writes the same text as [`DateTime::to_rfc3339`], which takes ten times as long. The speed matters,
/// because each row of a list has several times.
impl WriteJson for DateTime<Utc> {
    fn write_json(&self, json: &mut Vec<u8>) -> Result<(), NeedsExecutor> {
        let (date, time) = (self.date_naive(), self.time());
        let nanos = time.nanosecond();
        let has_common_format = (0..=9999).contains(&date.year()) && nanos < 1_000_000_000;
        if !has_common_format {
            serialize(&self.to_rfc3339(), json);
            return Ok(());
        }
        json.push(b'"');
        write_date(date, json);
        for (mark, number) in [(b'T', time.hour()), (b':', time.minute()), (b':', time.second())] {
            json.push(mark);
            write_digits::<2>(number, json);
        }
        if nanos > 0 {
            json.push(b'.');
            if nanos.is_multiple_of(1_000_000) {
                write_digits::<3>(nanos / 1_000_000, json);
            } else if nanos.is_multiple_of(1_000) {
                write_digits::<6>(nanos / 1_000, json);
            } else {
                write_digits::<9>(nanos, json);
            }
        }
        json.extend_from_slice(b"+00:00\"");
        Ok(())
    }
}

/// Writes the same text as the type's `Display`, for the same reason. A table of usage has one per row.
impl WriteJson for Date {
    fn write_json(&self, json: &mut Vec<u8>) -> Result<(), NeedsExecutor> {
        json.push(b'"');
        write_date(self.naive_date(), json);
        json.push(b'"');
        Ok(())
    }
}

/// Writes a date of the years 0 to 9999.
fn write_date(date: NaiveDate, json: &mut Vec<u8>) {
    write_digits::<4>(date.year().unsigned_abs(), json);
    for number in [date.month(), date.day()] {
        json.push(b'-');
        write_digits::<2>(number, json);
    }
}

/// Writes a number with exactly `COUNT` digits, padded with zeros.
fn write_digits<const COUNT: usize>(mut number: u32, json: &mut Vec<u8>) {
    let mut text = [b'0'; COUNT];
    for digit in text.iter_mut().rev() {
        *digit += u8::try_from(number % 10).unwrap_or_default();
        number /= 10;
    }
    json.extend_from_slice(&text);
}

impl WriteJson for ShortFloat {
    fn write_json(&self, json: &mut Vec<u8>) -> Result<(), NeedsExecutor> {
        match self.integer() {
            Some(integer) => serialize(&integer, json),
            None => serialize(&self.0, json),
        }
        Ok(())
    }
}

impl WriteJson for Json {
    fn write_json(&self, json: &mut Vec<u8>) -> Result<(), NeedsExecutor> {
        write(self.value(), json);
        Ok(())
    }
}

impl<T: WriteJson + ?Sized> WriteJson for &T {
    fn write_json(&self, json: &mut Vec<u8>) -> Result<(), NeedsExecutor> {
        (**self).write_json(json)
    }
}

impl<T: WriteJson> WriteJson for Option<T> {
    fn write_json(&self, json: &mut Vec<u8>) -> Result<(), NeedsExecutor> {
        if let Some(value) = self {
            return value.write_json(json);
        }
        json.extend_from_slice(b"null");
        Ok(())
    }
}

/// An error is returned as [`NeedsExecutor`], because the executor has to report it beside the data.
impl<T: WriteJson, Failure> WriteJson for Result<T, Failure> {
    fn write_json(&self, json: &mut Vec<u8>) -> Result<(), NeedsExecutor> {
        self.as_ref().map_err(|_| NeedsExecutor)?.write_json(json)
    }
}

impl<T: WriteJson> WriteJson for [T] {
    fn write_json(&self, json: &mut Vec<u8>) -> Result<(), NeedsExecutor> {
        write_list(self, json, T::write_json)
    }
}

impl<T: WriteJson> WriteJson for Vec<T> {
    fn write_json(&self, json: &mut Vec<u8>) -> Result<(), NeedsExecutor> {
        self.as_slice().write_json(json)
    }
}

/// Writes a list whose items `write_item` writes.
pub(crate) fn write_list<T, E>(
    items: impl IntoIterator<Item = T>,
    json: &mut Vec<u8>,
    mut write_item: impl FnMut(T, &mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    json.push(b'[');
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            json.push(b',');
        }
        write_item(item, json)?;
    }
    json.push(b']');
    Ok(())
}

/// Writes a JSON text with the values that `write_gap` writes at the offsets `gaps`, by their indices.
pub(crate) fn write_with_gaps(
    text: &[u8],
    gaps: &[usize],
    json: &mut Vec<u8>,
    mut write_gap: impl FnMut(usize, &mut Vec<u8>),
) {
    let mut written = 0;
    for (index, gap) in gaps.iter().enumerate() {
        json.extend_from_slice(&text[written..*gap]);
        write_gap(index, json);
        written = *gap;
    }
    json.extend_from_slice(&text[written..]);
}

/// Writes the name of an enum value.
pub(crate) fn write_enum_name<T: EnumType>(value: T, json: &mut Vec<u8>) -> Result<(), NeedsExecutor> {
    let item = T::items().iter().find(|item| item.value == value).ok_or(NeedsExecutor)?;
    serialize(item.name, json);
    Ok(())
}

/// Implements [`WriteJson`] for enums, which are written by their names.
macro_rules! write_enums_by_name {
    ($($name:ty),* $(,)?) => {$(
        impl $crate::graphql::engine::json::WriteJson for $name {
            fn write_json(&self, json: &mut Vec<u8>) -> Result<(), $crate::graphql::engine::json::NeedsExecutor> {
                $crate::graphql::engine::json::write_enum_name(*self, json)
            }
        }
    )*};
}

pub(crate) use write_enums_by_name;

#[cfg(test)]
mod tests {
    use async_graphql::{Name, OutputType, indexmap::IndexMap};

    use super::*;

    fn executor_json(value: &Value) -> String {
        let mut json = Vec::new();
        write(value, &mut json);
        String::from_utf8(json).expect("it is text")
    }

    fn leaf_json(leaf: &impl WriteJson) -> String {
        let mut json = Vec::new();
        leaf.write_json(&mut json).expect("it is at hand");
        String::from_utf8(json).expect("it is text")
    }

    #[test]
    fn what_is_written_is_what_serde_writes() {
        let object = IndexMap::from([
            (Name::new("text"), Value::from("\u{7}\"\\\u{2028}ü")),
            (Name::new("numbers"), Value::List(vec![1.into(), (-2.5e-7).into(), u64::MAX.into()])),
            (Name::new("null"), Value::Null),
            (Name::new("not"), Value::from(false)),
            (Name::new("name"), Value::Enum(Name::new("RUNNING"))),
            (Name::new("none"), Value::Object(IndexMap::new())),
        ]);
        let value = Value::Object(object);
        assert_eq!(executor_json(&value), serde_json::to_string(&value).expect("it is JSON"));
    }

    #[test]
    fn what_was_written_before_is_taken_as_it_is() {
        let list = Value::List(vec![Value::Binary(r#"{"a":1}"#.into()), Value::from(r#"{"a":1}"#)]);
        assert_eq!(executor_json(&list), r#"[{"a":1},"{\"a\":1}"]"#);
    }

    #[test]
    fn a_leaf_is_written_as_the_executor_would() {
        let time = DateTime::from_timestamp_micros(1_795_000_000_123_400).expect("it is a time");
        assert_eq!(leaf_json(&time), executor_json(&async_graphql::ScalarType::to_value(&time)));
        assert_eq!(leaf_json(&time), r#""2026-11-18T11:06:40.123400+00:00""#);
        // The range from the first to the last year with four digits, and some years outside it, with
        // different fractions of a second.
        let (first, last) = (-62_167_219_200_i64, 253_402_300_799);
        let seconds = (0..20_000).map(|step| first + (last - first) / 20_000 * step + 13 * step);
        for (step, second) in seconds.chain([first - 1, first, last, last + 1, 0, -1]).enumerate() {
            let nanos = [0, 1_000_000, 999_000_000, 7_000, 123_456_789, 999_999_999, 120_000_000][step % 7];
            let time = DateTime::from_timestamp(second, nanos).expect("it is a time");
            assert_eq!(leaf_json(&time), format!("\"{}\"", time.to_rfc3339()));
        }
        let leap = DateTime::from_timestamp(1_483_228_799, 1_500_000_000).expect("it is a time");
        assert_eq!(leaf_json(&leap), format!("\"{}\"", leap.to_rfc3339()));
        for number in (0..2_932_896).step_by(97).chain([2_932_896]) {
            let date = NaiveDate::from_epoch_days(number).expect("it is a date");
            assert_eq!(leaf_json(&Date::from_number(number.into())), format!("\"{date}\""));
        }
        for (number, text) in [(1.0, "1.0"), (1e300, "1e+300"), (f64::NAN, "null"), (-0.1, "-0.1")] {
            assert_eq!(leaf_json(&number), text);
            assert_eq!(executor_json(&async_graphql::ScalarType::to_value(&number)), text);
        }
        for (number, text) in [(1.0, "1"), (-0.0, "0"), (1e300, "1e+300"), (f64::NAN, "null"), (0.5, "0.5")] {
            assert_eq!(leaf_json(&ShortFloat(number)), text);
        }
        assert_eq!(leaf_json(&Some(BigInt(-1))), "-1");
        assert_eq!(leaf_json(&None::<BigInt>), "null");
        assert_eq!(leaf_json(&vec![Some("a"), None]), r#"["a",null]"#);
        assert_eq!(leaf_json(&ID::from("a\"b")), r#""a\"b""#);
        assert!(Err::<i32, ()>(()).write_json(&mut Vec::new()).is_err());
        // The GraphQL type of `f64` is `Float`.
        assert_eq!(<f64 as OutputType>::type_name(), "Float");
    }
}
