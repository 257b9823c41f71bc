//! JSON of any structure in reports.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Number, Value};

/// A JSON value of at most `MAX` bytes, stored as text. NUL, which PostgreSQL cannot store, is replaced
/// by U+FFFD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Json<const MAX: usize>(String);

impl<const MAX: usize> Json<MAX> {
    /// Returns the JSON text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Parses the JSON text.
    #[must_use]
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.0).map_or(Value::Null, |Plain(value)| value)
    }

    /// Replaces the value, unless the text of the new one exceeds the limit.
    pub fn replace(&mut self, value: &Value) {
        let text = value.to_string();
        if text.len() <= MAX {
            self.0 = text;
        }
    }
}

impl<'de, const MAX: usize> Deserialize<'de> for Json<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Plain(mut value) = Plain::deserialize(deserializer)?;
        let mut text = value.to_string();
        if text.contains("\\u0000") {
            replace_nul(&mut value);
            text = value.to_string();
        }
        if text.len() > MAX {
            return Err(D::Error::custom(format_args!("longer than {MAX} bytes as JSON")));
        }
        Ok(Self(text))
    }
}

fn replace_nul(value: &mut Value) {
    let replaced = |text: &str| text.replace('\0', "\u{fffd}");
    match value {
        Value::String(text) => *text = replaced(text),
        Value::Array(items) => items.iter_mut().for_each(replace_nul),
        Value::Object(fields) => {
            let entries = std::mem::take(fields).into_iter();
            *fields = entries.map(|(name, value)| (replaced(&name), value)).collect();
            fields.values_mut().for_each(replace_nul);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A plain JSON value. `serde_json::Value` treats objects with certain field names as numbers or as raw
/// JSON if any dependency enables those features, and rejects other objects with these names.
struct Plain(Value);

impl<'de> Deserialize<'de> for Plain {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PlainVisitor).map(Self)
    }
}

struct PlainVisitor;

impl<'de> Visitor<'de> for PlainVisitor {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(Plain(item)) = items.next_element()? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some((name, Plain(value))) = fields.next_entry()? {
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nul_is_replaced_wherever_json_has_one_and_nowhere_else() {
        let json = r#"{"a\u0000": ["\u0000b", "\\u0000", {"\u0000": 1}]}"#;
        let read: Json<100> = serde_json::from_str(json).expect("JSON");
        let expected = r#"{"a?":["?b","\\u0000",{"?":1}]}"#.replace('?', "\u{fffd}");
        assert_eq!(read.as_str(), expected);
    }
}
