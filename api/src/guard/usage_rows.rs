//! The number of rows of a usage table by time, which its arguments determine.

use apollo_compiler::{
    executable::{Field, Value},
    response::{JsonMap, JsonValue},
};
use chrono::NaiveDate;

/// The units of time of a usage table, with the hours of the shortest one and the number of further rows
/// for periods that begin or end within a unit.
const UNITS: [(&str, u64, u64); 4] =
    [("HOUR", 1, 0), ("DAY", 24, 0), ("WEEK", 7 * 24, 1), ("MONTH", 28 * 24, 1)];

/// Returns the largest number of rows of a usage table whose only dimension is a unit of time. Returns
/// None for other fields, and for arguments that the resolver refuses.
pub(super) fn count(field: &Field, variables: &JsonMap) -> Option<u64> {
    let date = |name| argument_texts(field, name, variables)?.first()?.parse::<NaiveDate>().ok();
    if field.name != "usageTable" {
        return None;
    }
    let dimensions = argument_texts(field, "by", variables).unwrap_or_else(|| vec!["DAY"]);
    let [dimension] = dimensions[..] else { return None };
    let (_, hours, extra_rows) = UNITS.into_iter().find(|(unit, ..)| *unit == dimension)?;
    let period = date("to")?.signed_duration_since(date("from")?).num_hours();
    Some(u64::try_from(period).ok()?.div_ceil(hours) + extra_rows)
}

/// Returns the strings or enum values of an argument, which may be a single value. Returns None for an
/// argument that is not given, and for other values.
fn argument_texts<'request>(
    field: &'request Field,
    name: &str,
    variables: &'request JsonMap,
) -> Option<Vec<&'request str>> {
    let value = &*field.arguments.iter().find(|argument| argument.name == name)?.value;
    match value {
        Value::List(items) => items.iter().map(|item| text(item, variables)).collect(),
        Value::Variable(variable) => match variables.get(variable.as_str())? {
            JsonValue::Array(items) => items.iter().map(JsonValue::as_str).collect(),
            item => Some(vec![item.as_str()?]),
        },
        item => Some(vec![text(item, variables)?]),
    }
}

fn text<'request>(value: &'request Value, variables: &'request JsonMap) -> Option<&'request str> {
    match value {
        Value::Enum(name) => Some(name.as_str()),
        Value::String(text) => Some(text),
        Value::Variable(variable) => variables.get(variable.as_str())?.as_str(),
        _ => None,
    }
}
