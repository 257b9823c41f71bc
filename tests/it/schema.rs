//! The schema as a contract: committed, and described to the last argument.

use async_graphql_parser::{
    parse_schema,
    types::{FieldDefinition, TypeKind, TypeSystemDefinition},
};

fn sdl() -> String {
    galvo::graphql::Schema::build().sdl()
}

#[test]
fn the_committed_schema_is_the_one_that_is_served() {
    let committed = include_str!("../../schema.graphql");
    assert!(
        committed == sdl(),
        "the schema changed: run 'cargo run -- schema > schema.graphql' and read the difference"
    );
}

#[test]
fn everything_is_described() {
    let mut missing = Vec::new();
    let mut check = |name: String, described: bool| {
        if !described {
            missing.push(name);
        }
    };
    for definition in parse_schema(sdl()).unwrap().definitions {
        let TypeSystemDefinition::Type(definition) = definition else { continue };
        let definition = definition.node;
        let name = definition.name.node.to_string();
        check(name.clone(), definition.description.is_some());
        let mut fields = |fields: &[async_graphql_parser::Positioned<FieldDefinition>]| {
            for field in fields {
                let path = format!("{name}.{}", field.node.name.node);
                for argument in &field.node.arguments {
                    check(
                        format!("{path}({})", argument.node.name.node),
                        argument.node.description.is_some(),
                    );
                }
                check(path, field.node.description.is_some());
            }
        };
        match &definition.kind {
            TypeKind::Object(object) => fields(&object.fields),
            TypeKind::Interface(interface) => fields(&interface.fields),
            TypeKind::Enum(values) => {
                for value in &values.values {
                    check(format!("{name}.{}", value.node.value.node), value.node.description.is_some());
                }
            }
            TypeKind::InputObject(input) => {
                for field in &input.fields {
                    check(format!("{name}.{}", field.node.name.node), field.node.description.is_some());
                }
            }
            TypeKind::Scalar | TypeKind::Union(_) => {}
        }
    }
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn every_rest_body_has_a_schema_with_its_bounds() {
    let openapi = serde_json::to_value(galvo::http::openapi()).unwrap();
    let report = &openapi["paths"]["/api/v1/reports"]["post"];
    assert_eq!(
        report["requestBody"]["content"]["application/json"]["schema"]["$ref"],
        "#/components/schemas/Report"
    );
    for (status, response) in report["responses"].as_object().unwrap() {
        let body = &response["content"]["application/json"]["schema"]["$ref"];
        let expected = if status == "200" { "Acknowledgement" } else { "ErrorBody" };
        assert_eq!(body, &format!("#/components/schemas/{expected}"), "{status}");
    }
    let schemas = &openapi["components"]["schemas"];
    let of = |noun: &str, field: &str, keyword: &str| {
        let property = &schemas[noun]["properties"][field];
        let referred = property["$ref"].as_str().map(|name| &schemas[name.rsplit('/').next().unwrap()]);
        referred.unwrap_or(property)[keyword].clone()
    };
    assert_eq!(of("Report", "sequence", "maximum"), 9_007_199_254_740_991_i64);
    assert_eq!(of("Report", "sequence", "type"), "integer");
    assert_eq!(of("Report", "task_groups", "maxItems"), 5_000);
    assert_eq!(of("TaskGroupReport", "name", "maxLength"), 4_096);
    assert_eq!(of("ErrorReport", "traceback", "maxLength"), 100_000);
    assert_eq!(of("Totals", "compute_seconds", "minimum"), 0);
    for (noun, schema) in schemas.as_object().unwrap() {
        for (field, property) in schema["properties"].as_object().into_iter().flatten() {
            let described = property.get("description").is_some()
                || property.get("$ref").is_some()
                || property.get("oneOf").is_some();
            assert!(described, "{noun}.{field} has no description: {property}");
        }
    }
}
