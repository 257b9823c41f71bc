//! Custom scalars.

use std::{borrow::Cow, fmt};

use async_graphql::{
    ContextSelectionSet, InputType, InputValueError, InputValueResult, OutputType, Pos, Positioned, Scalar,
    ScalarType, ServerResult, Value, parser::types::Field, registry::Registry,
};
use chrono::{DateTime, Days, NaiveDate, Utc};

use crate::domain::{
    time::{self, TimeError},
    validated::MAX_EXACT_INTEGER,
};

/// Checks a value of a custom scalar before execution. The resolvers' own parsing remains decisive.
///
/// # Errors
/// Returns the reason if the scalar does not accept the value.
pub(crate) fn check_scalar(name: &str, value: Value) -> Result<(), String> {
    let outcome = match name {
        "BigInt" => <BigInt as ScalarType>::parse(value).map(drop).map_err(error_message),
        "Date" => <Date as ScalarType>::parse(value).map(drop).map_err(error_message),
        "DateTime" => match &value {
            // For a text that ends too early, the library only reports that it ends; `time::parse` names
            // the missing part.
            Value::String(text) => match time::parse(text) {
                Err(TimeError::Other) => {
                    <DateTime<Utc> as ScalarType>::parse(value).map(drop).map_err(error_message)
                }
                parsed => parsed.map(drop).map_err(|error| error.to_string()),
            },
            _ => <DateTime<Utc> as ScalarType>::parse(value).map(drop).map_err(error_message),
        },
        _ => Ok(()),
    };
    outcome.map_err(|reason| format!("{reason} ({name})"))
}

fn error_message<T: InputType>(error: InputValueError<T>) -> String {
    error.into_server_error(Pos::default()).message
}

/// An integer that may need more than 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BigInt(pub(crate) i64);

/// An integer that may need more than 32 bits, such as a count or a number of bytes. It is a JSON
/// number. Input values, and counts of one cluster, are below 2^53, which every client represents
/// exactly. Sums over many clusters may be larger.
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

/// A calendar day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Date(NaiveDate);

impl Date {
    /// Returns the day with this number: the number of days since 1970-01-01.
    pub(crate) fn from_number(day: i64) -> Self {
        let days = Days::new(day.clamp(0, LAST_DAY).unsigned_abs());
        Self(NaiveDate::default().checked_add_days(days).unwrap_or(NaiveDate::MAX))
    }

    /// Returns the number of days since 1970-01-01.
    pub(crate) fn number(self) -> i64 {
        (self.0 - NaiveDate::default()).num_days()
    }

    /// Returns the day as a date from 1970-01-01 to 9999-12-31.
    pub(crate) fn naive_date(self) -> NaiveDate {
        self.0
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.format("%Y-%m-%d").fmt(f)
    }
}

/// 9999-12-31, the last date with a four-digit year.
const LAST_DAY: i64 = 2_932_896;

/// A calendar day in UTC, such as `2026-11-20`, from 1970-01-01 to 9999-12-31.
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

/// 2^53 - 1, up to which floats represent all integers.
const MAX_EXACT_FLOAT: f64 = 9_007_199_254_740_991.0;

/// A `Float` of a long list. It is written without a fraction of zero, which JSON does not need.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ShortFloat(pub(crate) f64);

impl ShortFloat {
    /// Returns the value if it is an integer that a float represents exactly.
    pub(crate) fn integer(self) -> Option<i64> {
        let is_exact = self.0.fract() == 0.0 && self.0.abs() <= MAX_EXACT_FLOAT;
        #[expect(clippy::cast_possible_truncation, reason = "it is a whole number within the bound")]
        is_exact.then_some(self.0 as i64)
    }
}

impl OutputType for ShortFloat {
    fn type_name() -> Cow<'static, str> {
        <f64 as OutputType>::type_name()
    }

    fn create_type_info(registry: &mut Registry) -> String {
        <f64 as OutputType>::create_type_info(registry)
    }

    async fn resolve(&self, _: &ContextSelectionSet<'_>, _: &Positioned<Field>) -> ServerResult<Value> {
        Ok(self.integer().map_or_else(|| self.0.into(), Into::into))
    }
}

/// Any JSON value.
#[derive(Clone, Debug)]
pub(crate) struct Json(Value);

impl Json {
    pub(crate) fn value(&self) -> &Value {
        &self.0
    }

    /// Parses a JSON text. A text that is not JSON becomes a string value. The text is not parsed as a
    /// `serde_json::Value`, because that type interprets an object with the internal key of
    /// `serde_json::value::RawValue` as raw JSON text.
    pub(crate) fn from_text(text: &str) -> Self {
        Self(serde_json::from_str(text).unwrap_or_else(|_| text.into()))
    }
}

/// Any JSON value, in the form in which its author wrote it. It has no fields to select.
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
            let written =
                serde_json::to_string(&ScalarType::to_value(&Json::from_text(text))).expect("it is JSON");
            assert_eq!(written, text);
        }
        assert_eq!(ScalarType::to_value(&Json::from_text("no JSON")), Value::from("no JSON"));
    }
}
