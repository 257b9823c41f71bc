//! The description of exports as REST routes, made of what the schema says of their fields.

use serde_json::json;
use utoipa::openapi::{
    ContentBuilder, ObjectBuilder, Ref, Required, ResponseBuilder, SecurityRequirement,
    extensions::ExtensionsBuilder,
    path::{Operation, OperationBuilder, Parameter, ParameterBuilder, ParameterIn},
    schema::Type,
};

use super::export::FORMAT;
use crate::export::{self, Export, Format, Of};

/// Answers that are not the file.
const PROBLEMS: [(&str, &str); 9] = [
    ("400", "A parameter is wrong; the message names it."),
    ("401", "No valid token."),
    ("403", "The token lacks the scope `read`, or `admin` where the list is for those who have it."),
    ("406", "The client accepts neither of the media types."),
    ("429", "The token has no points left; see Retry-After."),
    ("500", "A defect of the server; `reference` stands in its log."),
    ("503", "The store is busy or away; see Retry-After."),
    ("504", "The first page took too long: ask for less."),
    ("505", "HTTP/1.0, in which a file that was cut off looks whole."),
];

/// The description of an export's route.
pub(super) fn operation(export: &Export) -> Operation {
    let summary = format!("Export {}", export.name.replace('-', " "));
    let of = export.of.noun();
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
        .operation_id(Some(format!("export_{of}_{}", export.name.replace('-', "_")).replace(' ', "_")))
        .summary(Some(summary))
        .description(Some(&export.description))
        .security(SecurityRequirement::new("token", ["read"]))
        .extensions(Some(ExtensionsBuilder::new().add("x-columns", columns).build()));
    if export.of != Of::Account {
        let number = if export.of == Of::Cluster { ", or its number" } else { "" };
        let id = text("id", ParameterIn::Path, &format!("The {of}'s global identifier{number}."));
        operation = operation.parameter(id.required(Required::True));
    }
    let format =
        text(FORMAT, ParameterIn::Query, "`arrow` or `csv`; what the header Accept asks for if absent.");
    operation = operation.parameter(format.required(Required::False));
    for parameter in &export.parameters {
        operation = operation.parameter(argument(parameter));
    }
    let file = Format::ALL.into_iter().fold(ResponseBuilder::new(), |response, format| {
        let schema = ObjectBuilder::new().schema_type(Type::String);
        response.content(format.media_type(), ContentBuilder::new().schema(Some(schema)).build())
    });
    operation = operation.response("200", file.description("The list, to its end.").build());
    let missing = format!("No such {of}, or not for this token.");
    let missing = (export.of != Of::Account).then_some(("404", missing.as_str()));
    for (status, description) in PROBLEMS.into_iter().chain(missing) {
        let body = ContentBuilder::new().schema(Some(Ref::from_schema_name("ErrorBody"))).build();
        let response = ResponseBuilder::new().description(description).content("application/json", body);
        operation = operation.response(status, response.build());
    }
    operation.build()
}

fn argument(parameter: &export::Parameter) -> Parameter {
    let export::Parameter { name, ty, required, description, is_json, default } = parameter;
    let written = if *is_json { "JSON of the type" } else { "The type" };
    let default = default.as_ref().map(|default| format!(" `{default}` if absent.")).unwrap_or_default();
    let description = format!("{description} {written} `{ty}`.{default}");
    let required = if *required { Required::True } else { Required::False };
    text(name, ParameterIn::Query, &description).required(required).build()
}

fn text(name: &str, place: ParameterIn, description: &str) -> ParameterBuilder {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(place)
        .description(Some(description))
        .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
}
