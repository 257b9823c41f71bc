//! Arguments of compiled fields.

use async_graphql::{ID, Variables, parser::types::Field};
use async_graphql_value::{ConstValue, Value};

use super::Failure;
use crate::{
    graphql::engine::connection::PageArguments,
    store::core::page::{PageRequest, Sort},
};

/// The value of an argument in the document.
pub(super) enum Argument {
    /// A literal, or `None` for null and for an argument that is not given.
    Literal(Option<ConstValue>),
    /// A variable of this name.
    Variable(String),
}

impl Argument {
    /// Compiles the argument of a field with this name. Returns `None` for a value that contains variables.
    pub(super) fn of(field: &Field, name: &str) -> Option<Self> {
        Self::compile(field.get_argument(name).map(|value| &value.node))
    }

    fn compile(value: Option<&Value>) -> Option<Self> {
        Some(match value {
            None => Self::Literal(None),
            Some(Value::Variable(name)) => Self::Variable(name.to_string()),
            Some(value) => {
                Self::Literal(Some(value.clone().into_const()?).filter(|value| *value != ConstValue::Null))
            }
        })
    }

    /// Returns the value, or `None` for null and for a variable that is not given.
    pub(super) fn value<'a>(&'a self, variables: &'a Variables) -> Option<&'a ConstValue> {
        match self {
            Self::Literal(value) => value.as_ref(),
            Self::Variable(name) => variables.get(name.as_str()).filter(|value| **value != ConstValue::Null),
        }
    }

    /// Returns an integer of 32 bits.
    fn integer(&self, variables: &Variables) -> Result<Option<i32>, Failure> {
        let Some(value) = self.value(variables) else { return Ok(None) };
        let ConstValue::Number(number) = value else { return Err(Failure::NeedsExecutor) };
        let number = number.as_i64().and_then(|number| number.try_into().ok());
        number.map(Some).ok_or(Failure::NeedsExecutor)
    }

    fn text(&self, variables: &Variables) -> Result<Option<String>, Failure> {
        match self.value(variables) {
            None => Ok(None),
            Some(ConstValue::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(Failure::NeedsExecutor),
        }
    }

    /// Returns an identifier, which may be given as an integer.
    pub(super) fn id(&self, variables: &Variables) -> Result<ID, Failure> {
        match self.value(variables) {
            Some(ConstValue::String(text)) => Ok(text.into()),
            Some(ConstValue::Number(number)) if number.is_i64() => Ok(number.to_string().into()),
            _ => Err(Failure::NeedsExecutor),
        }
    }
}

/// The arguments of a list.
pub(super) struct ListArguments {
    first: Argument,
    after: Argument,
    last: Argument,
    before: Argument,
    /// The arguments that must be null.
    others: Vec<Argument>,
}

impl ListArguments {
    /// Compiles the arguments of a list. Returns `None` if there is one that is neither an argument of the
    /// page, nor null, nor a variable for one of `others`.
    pub(super) fn compile(list: &Field, others: &[&str]) -> Option<Self> {
        let mut compiled = Self {
            first: Argument::of(list, "first")?,
            after: Argument::of(list, "after")?,
            last: Argument::of(list, "last")?,
            before: Argument::of(list, "before")?,
            others: Vec::new(),
        };
        for (name, value) in &list.arguments {
            let name = name.node.as_str();
            if ["first", "after", "last", "before"].contains(&name) {
                continue;
            }
            match Argument::compile(Some(&value.node))? {
                Argument::Literal(None) => {}
                variable @ Argument::Variable(_) if others.contains(&name) => compiled.others.push(variable),
                _ => return None,
            }
        }
        Some(compiled)
    }

    /// Returns the request for the page, which has at most `max_page` items.
    pub(super) fn request(
        &self,
        variables: &Variables,
        max_page: u64,
        sort: impl Sort,
    ) -> Result<PageRequest, Failure> {
        if self.others.iter().any(|argument| argument.value(variables).is_some()) {
            return Err(Failure::NeedsExecutor);
        }
        let page = PageArguments {
            first: self.first.integer(variables)?,
            after: self.after.text(variables)?,
            last: self.last.integer(variables)?,
            before: self.before.text(variables)?,
        };
        page.request_up_to(max_page, sort).map_err(|_| Failure::NeedsExecutor)
    }
}
