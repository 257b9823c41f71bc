//! Fields that may read every cluster of the account, however small their page is.
//!
//! The document shows which fields these are, but not the number of clusters. The caller of the
//! operation knows the account, and charges [`points`] for each scan.

use apollo_compiler::{
    Name,
    executable::{Field, Value},
    response::{JsonMap, JsonValue},
};

/// The number of clusters that a scan reads for one point. The database reads about 700,000 clusters per
/// second, and [a millisecond of its time](crate::http) costs 100 points.
const CLUSTERS_PER_POINT: u64 = 8;

/// Fields that read all clusters that match a filter.
const SCANNING_FIELDS: [(&str, &str); 8] = [
    ("Account", "search"),
    ("ClusterConnection", "aggregates"),
    ("ClusterConnection", "totalCount"),
    ("ClusterFacets", "flags"),
    ("ClusterFacets", "packageVersions"),
    ("ClusterFacets", "states"),
    ("ClusterFacets", "tags"),
    ("ClusterFacets", "users"),
];

/// Fields that apply their filter of clusters in several statements, with the number of the statements.
const REPEATED_FILTERS: [(&str, &str, u64); 1] = [("Account", "statistics", 3)];

/// Orders of clusters that have an index. Any other order reads all matching clusters and sorts them.
const INDEXED_ORDERS: [&str; 2] = ["STARTED_AT", "ENDED_AT"];

/// Fields of `ClusterFilter` that have an index. With any other field, one page may read all clusters.
const INDEXED_CONDITIONS: [&str; 5] = ["endedIn", "ids", "startedIn", "states", "users"];

/// The types of the arguments that order and filter clusters.
const ORDER: &str = "ClusterOrder";
const FILTER: &str = "ClusterFilter";

/// Returns the cost in points of this many scans in an account with this many clusters.
pub(super) fn points(scans: u64, clusters: u64) -> u64 {
    scans.saturating_mul(clusters / CLUSTERS_PER_POINT)
}

/// Returns the number of times that the field itself may read all clusters of the account.
pub(super) fn count_scans(parent: &Name, field: &Field, variables: &JsonMap) -> u64 {
    if SCANNING_FIELDS.iter().any(|(owner, name)| parent == owner && field.name == *name) {
        return 1;
    }
    let scans = field.arguments.iter().any(|argument| {
        let Some(definition) =
            field.definition.arguments.iter().find(|definition| definition.name == argument.name)
        else {
            return false;
        };
        match definition.ty.inner_named_type().as_str() {
            ORDER => {
                let order =
                    input_fields(&argument.value, variables).into_iter().find(|(name, _)| name == "field");
                order.is_some_and(|(_, value)| !INDEXED_ORDERS.contains(&value.as_str()))
            }
            FILTER => input_fields(&argument.value, variables)
                .iter()
                .any(|(name, _)| !INDEXED_CONDITIONS.contains(&name.as_str())),
            _ => false,
        }
    });
    let repeated = REPEATED_FILTERS.iter().find(|(owner, name, _)| parent == owner && field.name == *name);
    u64::from(scans) * repeated.map_or(1, |(.., statements)| *statements)
}

/// Returns the non-null fields of an input object, each with its enum value or string, or an empty
/// string.
fn input_fields(value: &Value, variables: &JsonMap) -> Vec<(String, String)> {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter_map(|(name, value)| {
                let text = match &**value {
                    Value::Null => return None,
                    Value::Enum(name) => name.to_string(),
                    Value::Variable(variable) => string_or_empty(variables.get(variable.as_str())?)?,
                    _ => String::new(),
                };
                Some((name.to_string(), text))
            })
            .collect(),
        Value::Variable(variable) => {
            let Some(object) = variables.get(variable.as_str()).and_then(JsonValue::as_object) else {
                return Vec::new();
            };
            object
                .iter()
                .filter_map(|(name, value)| Some((name.as_str().to_owned(), string_or_empty(value)?)))
                .collect()
        }
        _ => Vec::new(),
    }
}

/// Returns a string value, or an empty string for a value of another type. Returns `None` for null.
fn string_or_empty(value: &JsonValue) -> Option<String> {
    (!value.is_null()).then(|| value.as_str().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use apollo_compiler::schema::ExtendedType;

    use super::*;
    use crate::graphql::Schema;

    /// A renamed entry would make its field free of charge.
    #[test]
    fn the_tables_name_parts_of_the_schema() {
        let schema = Schema::validation_schema();
        let repeated = REPEATED_FILTERS.map(|(parent, name, _)| (parent, name));
        for (parent, name) in SCANNING_FIELDS.into_iter().chain(repeated) {
            assert!(schema.type_field(parent, name).is_ok(), "{parent}.{name}");
        }
        let Some(ExtendedType::InputObject(order)) = schema.types.get(ORDER) else { panic!("{ORDER}") };
        let default = order.fields["field"].default_value.as_ref().and_then(|value| value.as_enum());
        assert!(
            default.is_some_and(|name| INDEXED_ORDERS.contains(&name.as_str())),
            "the default order has no index"
        );
        let orders = order.fields["field"].ty.inner_named_type();
        let Some(ExtendedType::Enum(orders)) = schema.types.get(orders) else { panic!("{orders}") };
        assert!(INDEXED_ORDERS.iter().all(|name| orders.values.contains_key(*name)));
        let Some(ExtendedType::InputObject(filter)) = schema.types.get(FILTER) else { panic!("{FILTER}") };
        assert!(INDEXED_CONDITIONS.iter().all(|name| filter.fields.contains_key(*name)));
    }
}
