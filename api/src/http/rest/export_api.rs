//! The descriptions of exports as REST routes, generated from the schema's descriptions of their fields.

use serde_json::json;
use utoipa::openapi::{
    ContentBuilder, ObjectBuilder, Ref, Required, ResponseBuilder, SecurityRequirement,
    extensions::ExtensionsBuilder,
    path::{Operation, OperationBuilder, Parameter, ParameterBuilder, ParameterIn},
    schema::Type,
};

use super::export::FORMAT;
use crate::export::{self, Export, Format, ListParent};

/// The error responses.
const PROBLEMS: [(&str, &str); 9] = [
    ("400", "A parameter is invalid. The message names it."),
    ("401", "The token is missing or invalid."),
    ("403", "The token lacks the scope `read`, or `admin` for a list that requires it."),
    ("406", "The client accepts none of the available media types."),
    ("429", "The quota of points is used up. See `Retry-After`."),
    ("500", "An internal error. `reference` identifies it in the server's log."),
    ("503", "The server or its database is overloaded or unavailable. See `Retry-After`."),
    ("504", "The first page took too long. Request less data."),
    ("505", "The request uses HTTP/1.0, with which a truncated file looks complete."),
];

/// Returns the description of an export's route.
pub(crate) fn operation(export: &Export) -> Operation {
    let summary = format!("Export {}", export.name.replace('-', " "));
    let parent = export.parent.noun();
    let columns: Vec<_> = export
        .columns
        .iter()
        .map(|column| {
            json!({ "name": column.name, "type": column.kind.name(), "nullable": column.nullable,
                "description": column.description })
        })
        .collect();
    let mut operation = OperationBuilder::new()
        .tag("export")
        .operation_id(Some(format!("export_{parent}_{}", export.name.replace('-', "_")).replace(' ', "_")))
        .summary(Some(summary))
        .description(Some(&export.description))
        .security(SecurityRequirement::new("token", ["read"]))
        .extensions(Some(ExtensionsBuilder::new().add("x-columns", columns).build()));
    if export.parent != ListParent::Account {
        let number = if export.parent == ListParent::Cluster { ", or its number" } else { "" };
        let id = text("id", ParameterIn::Path, &format!("The {parent}'s global identifier{number}."));
        operation = operation.parameter(id.required(Required::True));
    }
    let format =
        text(FORMAT, ParameterIn::Query, "`arrow` or `csv`. Default: the format in the header `Accept`.");
    operation = operation.parameter(format.required(Required::False));
    for parameter in &export.parameters {
        operation = operation.parameter(argument(parameter));
    }
    let file = Format::ALL.into_iter().fold(ResponseBuilder::new(), |response, format| {
        let schema = ObjectBuilder::new().schema_type(Type::String);
        response.content(format.media_type(), ContentBuilder::new().schema(Some(schema)).build())
    });
    operation = operation.response("200", file.description("The complete list.").build());
    let missing = format!("The {parent} does not exist, or the token gives no access to it.");
    let missing = (export.parent != ListParent::Account).then_some(("404", missing.as_str()));
    for (status, description) in PROBLEMS.into_iter().chain(missing) {
        let body = ContentBuilder::new().schema(Some(Ref::from_schema_name("ErrorBody"))).build();
        let response = ResponseBuilder::new().description(description).content("application/json", body);
        operation = operation.response(status, response.build());
    }
    operation.build()
}

fn argument(parameter: &export::Parameter) -> Parameter {
    let export::Parameter { name, ty, required, description, is_json, default } = parameter;
    let type_prefix = if *is_json { "JSON of the type" } else { "The type" };
    let default = default.as_ref().map(|default| format!(" Default: `{}`.", default.text));
    let default = default.unwrap_or_default();
    let description = format!("{description} {type_prefix} `{ty}`.{default}");
    let required = if *required { Required::True } else { Required::False };
    text(name, ParameterIn::Query, &description).required(required).build()
}

fn text(name: &str, location: ParameterIn, description: &str) -> ParameterBuilder {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(location)
        .description(Some(description))
        .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
}
