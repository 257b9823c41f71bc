//! Scalars the specification does not have.

use std::fmt;

use async_graphql::{InputType, InputValueError, InputValueResult, Pos, Scalar, ScalarType, Value};
use chrono::{DateTime, Days, NaiveDate, Utc};

use crate::domain::bounded::MAX_EXACT_INTEGER;

/// Whether a scalar of the schema takes a value; if not, why. It is asked before anything runs, and the resolvers'
/// own parsing stays what decides.
pub(crate) fn check_scalar(name: &str, value: Value) -> Result<(), String> {
    let checked = match name {
        "BigInt" => <BigInt as ScalarType>::parse(value).map(drop).map_err(reason),
        "Date" => <Date as ScalarType>::parse(value).map(drop).map_err(reason),
        "DateTime" => <DateTime<Utc> as ScalarType>::parse(value).map(drop).map_err(reason),
        _ => Ok(()),
    };
    checked.map_err(|reason| format!("{reason} ({name})"))
}

fn reason<T: InputType>(error: InputValueError<T>) -> String {
    error.into_server_error(Pos::default()).message
}

/// A whole number that may need more than 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BigInt(pub(super) i64);

/// A whole number that may need more than 32 bits: a count, or bytes. It is a JSON number, and taken and counted of one
/// cluster below 2^53, which every client keeps exact. Sums over many clusters may be larger.
#[Scalar]
impl ScalarType for BigInt {
    fn parse(value: Value) -> InputValueResult<Self> {
        match &value {
            Value::Number(number) => match number.as_i64() {
                Some(number) if (-MAX_EXACT_INTEGER..=MAX_EXACT_INTEGER).contains(&number) => {
                    Ok(Self(number))
                }
                _ => Err(InputValueError::custom("not a whole number below 2^53")),
            },
            _ => Err(InputValueError::expected_type(value)),
        }
    }

    fn to_value(&self) -> Value {
        self.0.into()
    }
}

/// A day of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Date(NaiveDate);

impl Date {
    /// The day with this number: whole days since 1970-01-01.
    pub(super) fn from_number(day: i64) -> Self {
        let since = Days::new(day.clamp(0, LAST_DAY).unsigned_abs());
        Self(NaiveDate::default().checked_add_days(since).unwrap_or(NaiveDate::MAX))
    }

    /// Whole days since 1970-01-01.
    pub(super) fn number(self) -> i64 {
        (self.0 - NaiveDate::default()).num_days()
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.format("%Y-%m-%d").fmt(f)
    }
}

/// 9999-12-31, after which a date has no four-digit year.
const LAST_DAY: i64 = 2_932_896;

/// A day of the calendar in UTC, as in `2026-11-20`, from 1970-01-01 to 9999-12-31.
#[Scalar]
impl ScalarType for Date {
    fn parse(value: Value) -> InputValueResult<Self> {
        let Value::String(text) = &value else { return Err(InputValueError::expected_type(value)) };
        match NaiveDate::parse_from_str(text, "%Y-%m-%d").map(Self) {
            Ok(date) if text.len() == 10 && (0..=LAST_DAY).contains(&date.number()) => Ok(date),
            _ => Err(InputValueError::custom("not a date as in 2026-11-20, from 1970 to 9999")),
        }
    }

    fn to_value(&self) -> Value {
        self.to_string().into()
    }
}

/// Any JSON value.
#[derive(Clone, Debug)]
pub(super) struct Json(Value);

impl Json {
    pub(super) fn value(&self) -> &Value {
        &self.0
    }

    /// The value of a text that was written as JSON; what is none is shown as a text. It is not read as a
    /// `serde_json::Value`, for which there is an object that means the JSON in a text of it.
    pub(super) fn of(text: &str) -> Self {
        Self(serde_json::from_str(text).unwrap_or_else(|_| text.into()))
    }
}

/// Any JSON value: what somebody else wrote, in whatever shape. It has no fields to select.
#[Scalar(name = "JSON")]
impl ScalarType for Json {
    fn parse(value: Value) -> InputValueResult<Self> {
        Ok(Self(value))
    }

    fn to_value(&self) -> Value {
        self.0.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_written_as_it_was_whatever_its_names_are() {
        for text in [
            r#"{"$serde_json::private::RawValue":"{\"injected\":1}"}"#,
            r#"{"$serde_json::private::Number":"1"}"#,
            r#"{"not a name":[1,-2.5,18446744073709551615,null,{"":"\u0007"}]}"#,
            r#""text""#,
        ] {
            let written = serde_json::to_string(&ScalarType::to_value(&Json::of(text))).expect("it is JSON");
            assert_eq!(written, text);
        }
        assert_eq!(ScalarType::to_value(&Json::of("no JSON")), Value::from("no JSON"));
    }
}
