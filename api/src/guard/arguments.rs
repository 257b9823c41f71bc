//! Arguments that are invalid whatever is stored: page sizes beyond the limit, and time ranges that end
//! before they start.
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
const TIMES: [&str; 2] = ["Date", "DateTime"];

/// Returns an error for arguments that would make the whole result null.
pub(super) fn check(
    schema: &Schema,
    document: &ExecutableDocument,
    operation: &Operation,
    variables: &JsonMap,
    places: &LineIndex,
) -> Result<(), ServerError> {
    let mut walk = ArgumentVisitor { schema, document, variables, seen: HashSet::new() };
    let checked = walk.selections(&operation.selection_set);
    checked.map_err(|ArgumentError { message, place }| {
        refusal::at(Code::Input, message, places.position_of(place))
    })
}

struct ArgumentVisitor<'request> {
    schema: &'request Schema,
    document: &'request ExecutableDocument,
    variables: &'request JsonMap,
    /// The fragments visited so far. A fragment has the same arguments wherever it is spread.
    seen: HashSet<&'request Name>,
}

struct ArgumentError {
    message: String,
    place: Option<SourceSpan>,
}

/// A value from the document or from a variable.
#[derive(Clone, Copy)]
enum GivenValue<'request> {
    Literal(&'request Value),
    Json(&'request JsonValue),
}

impl<'request> ArgumentVisitor<'request> {
    fn selections(&mut self, set: &'request SelectionSet) -> Result<(), ArgumentError> {
        for selection in &set.selections {
            if !self.is_included(selection.directives()) {
                continue;
            }
            match selection {
                Selection::Field(field) => self.field(field)?,
                Selection::InlineFragment(fragment) => self.selections(&fragment.selection_set)?,
                Selection::FragmentSpread(spread) => {
                    let fragment = self.document.fragments.get(&spread.fragment_name);
                    if let Some(fragment) = fragment.filter(|_| self.seen.insert(&spread.fragment_name)) {
                        self.selections(&fragment.selection_set)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn field(&mut self, field: &'request Field) -> Result<(), ArgumentError> {
        // A nullable field contains the error.
        let ty = &field.definition.ty;
        if !ty.is_non_null() || field.name.starts_with("__") {
            return Ok(());
        }
        self.check_page(field)?;
        let given = |name: &str| {
            let argument = field.arguments.iter().find(|given| given.name == name)?;
            Some((GivenValue::Literal(&argument.value), argument.value.location()))
        };
        for (from, to) in ranges(&field.definition.arguments) {
            if let (Some((first, place)), Some((last, _))) = (given(from), given(to))
                && self.is_out_of_order(first, last)
            {
                let message = format!("argument '{from}': must not be later than '{to}'");
                return Err(ArgumentError { message, place });
            }
        }
        for argument in &field.arguments {
            let known = field.definition.arguments.iter().find(|known| known.name == argument.name);
            let wrong =
                known.and_then(|known| self.inverted_range(&known.ty, GivenValue::Literal(&argument.value)));
            if let Some((from, to)) = wrong {
                let message = format!("argument '{}': '{from}' must not be later than '{to}'", argument.name);
                return Err(ArgumentError { message, place: argument.value.location() });
            }
        }
        if has_items(ty) { self.selections(&field.selection_set) } else { Ok(()) }
    }

    fn check_page(&self, field: &'request Field) -> Result<(), ArgumentError> {
        let Some((_, most)) = cost::page_bounds(self.document, field) else { return Ok(()) };
        let number = |name: &str| {
            let argument = field.arguments.iter().find(|given| given.name == name)?;
            self.resolve(GivenValue::Literal(&argument.value))?.number()
        };
        parse_page_limit(number("first"), number("last"), most).map(drop).map_err(|(argument, reason)| {
            let place = field.arguments.iter().find(|given| given.name == argument);
            let place = place.and_then(|given| given.value.location());
            ArgumentError { message: format!("argument '{argument}': {reason}"), place }
        })
    }

    /// Returns the first time range that is out of order in this value or within it.
    fn inverted_range(&self, ty: &Type, value: GivenValue<'request>) -> Option<(&'static str, &'static str)> {
        let ExtendedType::InputObject(object) = self.schema.types.get(ty.inner_named_type())? else {
            return None;
        };
        let value = self.resolve(value)?;
        let definitions: Vec<Node<InputValueDefinition>> =
            object.fields.values().map(|field| field.node.clone()).collect();
        let own = ranges(&definitions).find(|(from, to)| {
            value.field(from).zip(value.field(to)).is_some_and(|(from, to)| self.is_out_of_order(from, to))
        });
        own.or_else(|| {
            let mut inside = object.fields.iter();
            inside.find_map(|(name, field)| self.inverted_range(&field.ty, value.field(name)?))
        })
    }

    fn is_out_of_order(&self, from: GivenValue<'request>, to: GivenValue<'request>) -> bool {
        let time = |value| moment(self.resolve(value)?.text()?);
        time(from).zip(time(to)).is_some_and(|(from, to)| from > to)
    }

    /// Returns the value, with a variable replaced by its value. Returns None if the variable is absent.
    fn resolve(&self, value: GivenValue<'request>) -> Option<GivenValue<'request>> {
        match value {
            GivenValue::Literal(Value::Variable(name)) => {
                self.variables.get(name.as_str()).map(GivenValue::Json)
            }
            given => Some(given),
        }
    }

    fn is_included(&self, directives: &'request DirectiveList) -> bool {
        let is = |directive: &str, otherwise: bool| {
            let condition =
                directives.get(directive).and_then(|given| given.specified_argument_by_name("if"));
            let condition = condition.and_then(|value| self.resolve(GivenValue::Literal(value)));
            condition.and_then(GivenValue::boolean).unwrap_or(otherwise)
        };
        is("include", true) && !is("skip", false)
    }
}

impl<'request> GivenValue<'request> {
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
                let (_, value) = value.as_object()?.iter().find(|(known, _)| *known == name)?;
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
    let has = |name: &str| {
        let mut known = definitions.iter().filter(|known| known.name == name);
        known.any(|known| TIMES.contains(&known.ty.inner_named_type().as_str()))
    };
    RANGES.into_iter().filter(move |(from, to)| has(from) && has(to))
}

/// Returns the time of a date or of a timestamp. A date stands for its midnight in UTC.
fn moment(text: &str) -> Option<DateTime<Utc>> {
    let day = || NaiveDate::parse_from_str(text, "%Y-%m-%d").ok();
    time::parse(text).ok().or_else(|| Some(day()?.and_time(NaiveTime::MIN).and_utc()))
}

/// Returns true if the field is non-null. For a list, returns true if its items are non-null too.
fn has_items(ty: &Type) -> bool {
    match ty {
        Type::NonNullNamed(_) => true,
        Type::NonNullList(item) => has_items(item),
        Type::Named(_) | Type::List(_) => false,
    }
}
