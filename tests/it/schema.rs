//! The GraphQL schema as a contract: committed, and fully described.

use async_graphql_parser::{
    Positioned, parse_schema,
    types::{
        FieldDefinition, InputValueDefinition, InterfaceType, ObjectType, Type, TypeDefinition, TypeKind,
        TypeSystemDefinition,
    },
};

fn sdl() -> &'static str {
    galvo::graphql::Schema::sdl()
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

/// Every type of the schema that is not defined by the specification.
fn types() -> Vec<TypeDefinition> {
    let definitions = parse_schema(sdl()).unwrap().definitions.into_iter();
    let types = definitions.filter_map(|definition| match definition {
        TypeSystemDefinition::Type(definition) => Some(definition.node),
        _ => None,
    });
    types.collect()
}

/// A field of an object, an interface or an input.
struct Field<'a> {
    name: String,
    ty: &'a Type,
    arguments: Vec<(String, &'a Type)>,
}

impl Field<'_> {
    /// The type of an argument; empty if there is none.
    fn argument(&self, name: &str) -> String {
        self.arguments
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, ty)| ty.to_string())
            .unwrap_or_default()
    }
}

fn fields(definition: &TypeDefinition) -> Vec<Field<'_>> {
    match &definition.kind {
        TypeKind::Object(ObjectType { fields, .. }) | TypeKind::Interface(InterfaceType { fields, .. }) => {
            fields
                .iter()
                .map(|field| Field {
                    name: field.node.name.node.to_string(),
                    ty: &field.node.ty.node,
                    arguments: inputs(&field.node.arguments),
                })
                .collect()
        }
        TypeKind::InputObject(input) => {
            let inputs = inputs(&input.fields).into_iter();
            inputs.map(|(name, ty)| Field { name, ty, arguments: Vec::new() }).collect()
        }
        TypeKind::Scalar | TypeKind::Union(_) | TypeKind::Enum(_) => Vec::new(),
    }
}

fn inputs(definitions: &[Positioned<InputValueDefinition>]) -> Vec<(String, &Type)> {
    definitions.iter().map(|input| (input.node.name.node.to_string(), &input.node.ty.node)).collect()
}

#[test]
fn names_are_written_as_everywhere() {
    let letters = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric());
    let upper = |name: &str| name.starts_with(|c: char| c.is_ascii_uppercase()) && letters(name);
    let lower = |name: &str| name.starts_with(|c: char| c.is_ascii_lowercase()) && letters(name);
    let word = |name: &str| {
        name.split('_').all(|part| {
            !part.is_empty() && part.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit())
        })
    };
    let mut wrong = Vec::new();
    for definition in types() {
        let name = definition.name.node.to_string();
        if !upper(&name) {
            wrong.push(name.clone());
        }
        for Field { name: field, ty, arguments } in fields(&definition) {
            let names = arguments.iter().map(|(argument, _)| argument).chain([&field]);
            wrong.extend(names.filter(|name| !lower(name)).map(|wrong| format!("{name}.{wrong}")));
            // Every mutation returns a payload, which several may share.
            if name == "Mutation" && !(ty.to_string().ends_with("Payload!")) {
                wrong.push(format!("{name}.{field}: {ty}"));
            }
        }
        if let TypeKind::Enum(values) = &definition.kind {
            let values = values.values.iter().map(|value| value.node.value.node.to_string());
            wrong.extend(values.filter(|value| !word(value)).map(|value| format!("{name}.{value}")));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn every_payload_lists_what_was_wrong() {
    let types = types();
    let of = |name: &str| {
        let definition = types.iter().find(|definition| definition.name.node == name);
        definition.map(fields).unwrap_or_default()
    };
    let error_fields = |ty: &str| {
        let errors = of(ty).into_iter().find(|field| field.name == "userErrors")?;
        let name = errors.ty.to_string();
        let each = of(name.strip_prefix('[')?.strip_suffix("!]!")?);
        Some(each.iter().map(|field| format!("{}: {}", field.name, field.ty)).collect::<Vec<_>>())
    };
    assert!(of("Mutation").len() > 20);
    let mut wrong = Vec::new();
    for Field { name: mutation, ty, .. } in of("Mutation") {
        let shape = error_fields(ty.to_string().trim_end_matches('!')).unwrap_or_default();
        let code =
            shape.get(1).is_some_and(|code| code.starts_with("code: ") && code.ends_with("ErrorCode!"));
        if shape.len() != 3 || shape[0] != "field: String!" || !code || shape[2] != "message: String!" {
            wrong.push(format!("{mutation}: {shape:?}"));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// The lists in which a null is a value: a gap in a series, and the parent of a profile's root.
const COLUMNS_WITH_NULLS: [&str; 4] =
    ["ProfileColumns.parents", "SeriesColumns.values", "SeriesColumns.min", "SeriesColumns.max"];

#[test]
fn lists_hold_no_nulls() {
    let mut wrong = Vec::new();
    for definition in types() {
        for Field { name: field, ty, arguments } in fields(&definition) {
            let all = arguments.iter().map(|(_, ty)| *ty).chain([ty]).map(Type::to_string);
            // A list's closing bracket must follow a non-null item.
            let nullable = all.filter(|ty| ty.replace("!]", "").contains(']'));
            wrong.extend(nullable.map(|_| format!("{}.{field}", definition.name.node)));
        }
    }
    assert_eq!(wrong, COLUMNS_WITH_NULLS);
}

#[test]
fn connections_have_the_shape_of_relays() {
    let types = types();
    let of = |name: &str| types.iter().find(|known| known.name.node == name).map(fields).unwrap_or_default();
    let ty = |fields: &[Field<'_>], name: &str| {
        fields.iter().find(|field| field.name == name).map(|field| field.ty.to_string()).unwrap_or_default()
    };
    let mut wrong = Vec::new();
    let mut expect = |place: String, found: String, expected: &str| {
        if found != expected {
            wrong.push(format!("{place} is '{found}', not '{expected}'"));
        }
    };
    let mut connections = 0;
    for definition in &types {
        let name = definition.name.node.to_string();
        if let Some(item) = name.strip_suffix("Connection") {
            connections += 1;
            let connection = fields(definition);
            for (field, expected) in [
                ("edges", format!("[{item}Edge!]!")),
                ("nodes", format!("[{item}!]!")),
                ("pageInfo", "PageInfo!".to_owned()),
                ("totalCount", "BigInt!".to_owned()),
            ] {
                expect(format!("{name}.{field}"), ty(&connection, field), &expected);
            }
            let edge = of(&format!("{item}Edge"));
            expect(format!("{item}Edge.cursor"), ty(&edge, "cursor"), "String!");
            expect(format!("{item}Edge.node"), ty(&edge, "node"), &format!("{item}!"));
        }
        for field in fields(definition) {
            if field.ty.to_string().ends_with("Connection!") {
                for (argument, expected) in
                    [("first", "Int"), ("after", "String"), ("last", "Int"), ("before", "String")]
                {
                    let place = format!("{name}.{}({argument})", field.name);
                    expect(place, field.argument(argument), expected);
                }
            }
        }
        if let TypeKind::Object(object) = &definition.kind
            && object.implements.iter().any(|interface| interface.node == "Node")
        {
            expect(format!("{name}.id"), ty(&fields(definition), "id"), "ID!");
        }
    }
    for (field, expected) in [
        ("hasNextPage", "Boolean!"),
        ("hasPreviousPage", "Boolean!"),
        ("startCursor", "String"),
        ("endCursor", "String"),
    ] {
        expect(format!("PageInfo.{field}"), ty(&of("PageInfo"), field), expected);
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(connections >= 10, "{connections}");
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
