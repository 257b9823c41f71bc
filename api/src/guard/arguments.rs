//! Arguments that are invalid regardless of the stored data: page sizes beyond the limit, and time ranges
//! that end before they start.
//!
//! The resolvers refuse them as well, and a failed field is null. If neither the field nor a field above it
//! is nullable, the whole result is null: such a request is refused before any of it runs. Errors below a
//! nullable field are left to the resolvers, which set that field to null.

use std::collections::HashSet;

use apollo_compiler::{
    ExecutableDocument, Name, Node, Schema,
    ast::{DirectiveList, InputValueDefinition, Type},
    executable::{Field, Operation, Selection, SelectionSet, Value},
    parser::SourceSpan,
    response::{JsonMap, JsonValue},
    schema::ExtendedType,
};
use async_graphql::ServerError;
use chrono::{DateTime, NaiveDate, NaiveTime, Utc};

use super::{
    cost,
    line_index::LineIndex,
    refusal::{self, Code},
};
use crate::{domain::time, graphql::parse_page_limit};

/// The pairs of arguments that form a time range.
const RANGES: [(&str, &str); 2] = [("from", "to"), ("since", "until")];

/// The scalars that hold times.
const TIME_SCALARS: [&str; 2] = ["Date", "DateTime"];

/// Returns an error for arguments that would make the whole result null.
pub(super) fn check(
    schema: &Schema,
    document: &ExecutableDocument,
    operation: &Operation,
    variables: &JsonMap,
    line_index: &LineIndex,
) -> Result<(), ServerError> {
    let mut visitor = ArgumentVisitor { schema, document, variables, visited_fragments: HashSet::new() };
    let result = visitor.check_selections(&operation.selection_set);
    result.map_err(|ArgumentError { message, location }| {
        refusal::at(Code::Input, message, line_index.position_of(location))
    })
}

struct ArgumentVisitor<'request> {
    schema: &'request Schema,
    document: &'request ExecutableDocument,
    variables: &'request JsonMap,
    /// The fragments visited so far. A fragment has the same arguments wherever it is spread.
    visited_fragments: HashSet<&'request Name>,
}

struct ArgumentError {
    message: String,
    location: Option<SourceSpan>,
}

/// A value from the document or from a variable.
#[derive(Clone, Copy)]
enum ArgumentValue<'request> {
    Literal(&'request Value),
    Json(&'request JsonValue),
}

impl<'request> ArgumentVisitor<'request> {
    fn check_selections(&mut self, set: &'request SelectionSet) -> Result<(), ArgumentError> {
        for selection in &set.selections {
            if !self.is_included(selection.directives()) {
                continue;
            }
            match selection {
                Selection::Field(field) => self.check_field(field)?,
                Selection::InlineFragment(fragment) => self.check_selections(&fragment.selection_set)?,
                Selection::FragmentSpread(spread) => {
                    let fragment = self.document.fragments.get(&spread.fragment_name);
                    if let Some(fragment) =
                        fragment.filter(|_| self.visited_fragments.insert(&spread.fragment_name))
                    {
                        self.check_selections(&fragment.selection_set)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn check_field(&mut self, field: &'request Field) -> Result<(), ArgumentError> {
        // An error in a nullable field sets only this field to null.
        let ty = &field.definition.ty;
        if !ty.is_non_null() || field.name.starts_with("__") {
            return Ok(());
        }
        self.check_page(field)?;
        let argument_value = |name: &str| {
            let argument = field.arguments.iter().find(|argument| argument.name == name)?;
            Some((ArgumentValue::Literal(&argument.value), argument.value.location()))
        };
        for (from, to) in ranges(&field.definition.arguments) {
            if let (Some((first, location)), Some((last, _))) = (argument_value(from), argument_value(to))
                && self.is_out_of_order(first, last)
            {
                let message = format!("argument '{from}': must not be later than '{to}'");
                return Err(ArgumentError { message, location });
            }
        }
        for argument in &field.arguments {
            let definition =
                field.definition.arguments.iter().find(|definition| definition.name == argument.name);
            let inverted_range = definition.and_then(|definition| {
                self.find_inverted_range(&definition.ty, ArgumentValue::Literal(&argument.value))
            });
            if let Some((from, to)) = inverted_range {
                let message = format!("argument '{}': '{from}' must not be later than '{to}'", argument.name);
                return Err(ArgumentError { message, location: argument.value.location() });
            }
        }
        if propagates_null(ty) { self.check_selections(&field.selection_set) } else { Ok(()) }
    }

    fn check_page(&self, field: &'request Field) -> Result<(), ArgumentError> {
        let Some((_, max_page_size)) = cost::page_bounds(self.document, field) else { return Ok(()) };
        let number = |name: &str| {
            let argument = field.arguments.iter().find(|argument| argument.name == name)?;
            self.resolve(ArgumentValue::Literal(&argument.value))?.number()
        };
        parse_page_limit(number("first"), number("last"), max_page_size).map(drop).map_err(
            |(name, reason)| {
                let argument = field.arguments.iter().find(|argument| argument.name == name);
                let location = argument.and_then(|argument| argument.value.location());
                ArgumentError { message: format!("argument '{name}': {reason}"), location }
            },
        )
    }

    /// Returns the first time range that is out of order in this value or within it.
    fn find_inverted_range(
        &self,
        ty: &Type,
        value: ArgumentValue<'request>,
    ) -> Option<(&'static str, &'static str)> {
        let ExtendedType::InputObject(object) = self.schema.types.get(ty.inner_named_type())? else {
            return None;
        };
        let value = self.resolve(value)?;
        let definitions: Vec<Node<InputValueDefinition>> =
            object.fields.values().map(|field| field.node.clone()).collect();
        let direct_range = ranges(&definitions).find(|(from, to)| {
            value.field(from).zip(value.field(to)).is_some_and(|(from, to)| self.is_out_of_order(from, to))
        });
        direct_range.or_else(|| {
            let mut fields = object.fields.iter();
            fields.find_map(|(name, field)| self.find_inverted_range(&field.ty, value.field(name)?))
        })
    }

    fn is_out_of_order(&self, from: ArgumentValue<'request>, to: ArgumentValue<'request>) -> bool {
        let time = |value| parse_time(self.resolve(value)?.text()?);
        time(from).zip(time(to)).is_some_and(|(from, to)| from > to)
    }

    /// Returns the value, with a variable replaced by its value. Returns `None` if the variable is absent.
    fn resolve(&self, value: ArgumentValue<'request>) -> Option<ArgumentValue<'request>> {
        match value {
            ArgumentValue::Literal(Value::Variable(name)) => {
                self.variables.get(name.as_str()).map(ArgumentValue::Json)
            }
            other => Some(other),
        }
    }

    fn is_included(&self, directives: &'request DirectiveList) -> bool {
        let evaluate_condition = |directive: &str, default: bool| {
            let condition =
                directives.get(directive).and_then(|directive| directive.specified_argument_by_name("if"));
            let condition = condition.and_then(|value| self.resolve(ArgumentValue::Literal(value)));
            condition.and_then(ArgumentValue::boolean).unwrap_or(default)
        };
        evaluate_condition("include", true) && !evaluate_condition("skip", false)
    }
}

impl<'request> ArgumentValue<'request> {
    fn number(self) -> Option<i64> {
        match self {
            Self::Literal(Value::Int(number)) => number.as_str().parse().ok(),
            Self::Json(value) => value.as_i64(),
            Self::Literal(_) => None,
        }
    }

    fn text(self) -> Option<&'request str> {
        match self {
            Self::Literal(value) => value.as_str(),
            Self::Json(value) => value.as_str(),
        }
    }

    fn boolean(self) -> Option<bool> {
        match self {
            Self::Literal(value) => value.to_bool(),
            Self::Json(value) => value.as_bool(),
        }
    }

    fn field(self, name: &str) -> Option<Self> {
        match self {
            Self::Literal(value) => {
                let (_, value) = value.as_object()?.iter().find(|(field_name, _)| *field_name == name)?;
                Some(Self::Literal(value))
            }
            Self::Json(value) => value.as_object()?.get(name).map(Self::Json),
        }
    }
}

/// Returns the time ranges among these definitions.
fn ranges(
    definitions: &[Node<InputValueDefinition>],
) -> impl Iterator<Item = (&'static str, &'static str)> + use<'_> {
    let has_time_argument = |name: &str| {
        let mut matching = definitions.iter().filter(|definition| definition.name == name);
        matching.any(|definition| TIME_SCALARS.contains(&definition.ty.inner_named_type().as_str()))
    };
    RANGES.into_iter().filter(move |(from, to)| has_time_argument(from) && has_time_argument(to))
}

/// Returns the time of a date or of a timestamp. A date stands for its midnight in UTC.
fn parse_time(text: &str) -> Option<DateTime<Utc>> {
    let day = || NaiveDate::parse_from_str(text, "%Y-%m-%d").ok();
    time::parse(text).ok().or_else(|| Some(day()?.and_time(NaiveTime::MIN).and_utc()))
}

/// Returns true if an error below a field of this type also sets the field above it to null: the type is
/// non-null, and so are the items of a list.
fn propagates_null(ty: &Type) -> bool {
    match ty {
        Type::NonNullNamed(_) => true,
        Type::NonNullList(item) => propagates_null(item),
        Type::Named(_) | Type::List(_) => false,
    }
}
