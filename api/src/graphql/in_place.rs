//! Objects whose fields are resolved where they stand.
//!
//! The executor makes a future of its own for each field of each item of a list, as large as the largest of the
//! type's resolvers, and polls all of them together. Only what waits for something has a use for that. Here, fields
//! that are said to be at hand are awaited one after the other in one future, and the others as the executor does,
//! all at once, so that they still share their statements. The resolvers are the same, and so is the answer: a
//! field that is said to be at hand and is not would only be waited for alone.

use std::borrow::Cow;

use async_graphql::{
    ContextSelectionSet, Name, ObjectType, OutputType, Positioned, ServerError, ServerResult, Value,
    indexmap::IndexMap,
    parser::types::{Field, Selection, SelectionSet},
    registry::Registry,
};
use futures::{FutureExt, future::try_join_all};

/// Fields of an object.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fields {
    /// All that it has.
    All,
    /// Those with these names.
    Only(&'static [&'static str]),
}

/// A field, and whether what is selected inside of it is at hand.
pub(super) type Inside = (&'static str, fn(&ContextSelectionSet<'_>) -> bool);

/// An object that knows which of its fields are at hand.
pub(super) trait InPlace: ObjectType {
    /// Fields that wait for nothing, nor does what is in them.
    const AT_HAND: Fields = Fields::Only(&[]);

    /// Fields that wait for nothing themselves.
    const BY_WHAT_IS_IN_THEM: &'static [Inside] = &[];
}

impl<T: InPlace> InPlace for &T {
    const AT_HAND: Fields = T::AT_HAND;
    const BY_WHAT_IS_IN_THEM: &'static [Inside] = T::BY_WHAT_IS_IN_THEM;
}

/// Whether all that is selected of an object is at hand.
pub(super) fn at_hand<T: InPlace>(context: &ContextSelectionSet<'_>) -> bool {
    Selected::of::<T>(context).is_ok_and(|selected| selected.at_hand())
}

/// An object whose fields are resolved where they stand.
pub(super) struct Placed<T>(pub(super) T);

impl<T: InPlace> OutputType for Placed<T> {
    fn type_name() -> Cow<'static, str> {
        T::type_name()
    }

    fn qualified_type_name() -> String {
        T::qualified_type_name()
    }

    fn introspection_type_name(&self) -> Cow<'static, str> {
        self.0.introspection_type_name()
    }

    fn create_type_info(registry: &mut Registry) -> String {
        T::create_type_info(registry)
    }

    async fn resolve(&self, context: &ContextSelectionSet<'_>, _: &Positioned<Field>) -> ServerResult<Value> {
        Selected::of::<T>(context)?.resolve(context, &self.0).await
    }
}

/// What is selected of the objects of one type, without fragments.
pub(super) struct Selected<'a> {
    fields: Vec<(&'a Positioned<Field>, bool)>,
    type_name: Cow<'static, str>,
}

impl<'a> Selected<'a> {
    /// What `context` selects of a type.
    pub(super) fn of<T: InPlace>(context: &ContextSelectionSet<'a>) -> ServerResult<Self> {
        let set = context.item;
        let mut selected =
            Self { fields: Vec::with_capacity(set.node.items.len()), type_name: T::type_name() };
        selected.add::<T>(context, set)?;
        Ok(selected)
    }

    fn add<T: InPlace>(
        &mut self,
        context: &ContextSelectionSet<'a>,
        set: &'a Positioned<SelectionSet>,
    ) -> ServerResult<()> {
        for selection in &set.node.items {
            let (condition, set) = match &selection.node {
                Selection::Field(field) => {
                    self.fields.push((field, Self::is_at_hand::<T>(context, field)));
                    continue;
                }
                Selection::InlineFragment(fragment) => {
                    (fragment.node.type_condition.as_ref(), &fragment.node.selection_set)
                }
                Selection::FragmentSpread(spread) => {
                    let name = &spread.node.fragment_name.node;
                    let Some(fragment) = context.query_env.fragments.get(name) else {
                        return Err(ServerError::new(
                            format!(r#"Unknown fragment "{name}"."#),
                            Some(spread.pos),
                        ));
                    };
                    (Some(&fragment.node.type_condition), &fragment.node.selection_set)
                }
            };
            let implements = |interface: &str| {
                let implemented = context.schema_env.registry.implements.get(&*self.type_name);
                implemented.is_some_and(|interfaces| interfaces.contains(interface))
            };
            let condition = condition.map(|condition| condition.node.on.node.as_str());
            if condition.is_none_or(|condition| condition == self.type_name || implements(condition)) {
                self.add::<T>(context, set)?;
            }
        }
        Ok(())
    }

    fn is_at_hand<T: InPlace>(context: &ContextSelectionSet<'a>, field: &'a Positioned<Field>) -> bool {
        let name = field.node.name.node.as_str();
        let inside = || {
            let (_, at_hand) = T::BY_WHAT_IS_IN_THEM.iter().find(|(field, _)| *field == name)?;
            Some(at_hand(&context.with_selection_set(&field.node.selection_set)))
        };
        match T::AT_HAND {
            Fields::All => true,
            Fields::Only(names) => names.contains(&name) || name == TYPENAME || inside().unwrap_or(false),
        }
    }

    /// Whether all of it is at hand.
    pub(super) fn at_hand(&self) -> bool {
        self.fields.iter().all(|(_, at_hand)| *at_hand)
    }

    /// The object as it was selected.
    pub(super) async fn resolve<T: ObjectType>(
        &self,
        context: &ContextSelectionSet<'_>,
        object: &T,
    ) -> ServerResult<Value> {
        let mut later = Vec::new();
        for (field, at_hand) in &self.fields {
            if !at_hand {
                later.push(async move { object.resolve_field(&context.with_field(field)).await }.boxed());
            }
        }
        let mut values = Vec::with_capacity(self.fields.len());
        for (field, at_hand) in &self.fields {
            values.push(if !at_hand {
                None
            } else if field.node.name.node == TYPENAME {
                Some(Value::String(self.type_name.clone().into_owned()))
            } else {
                object.resolve_field(&context.with_field(field)).await?
            });
        }
        let mut later = try_join_all(later).await?.into_iter();
        let mut map = IndexMap::with_capacity(values.len());
        for ((field, at_hand), value) in self.fields.iter().zip(values) {
            let value = if *at_hand { value } else { later.next().flatten() };
            merge(&mut map, &field.node.response_key().node, value.unwrap_or_default());
        }
        Ok(Value::Object(map))
    }
}

const TYPENAME: &str = "__typename";

/// Adds a field. One that was selected more than once has the fields of all its selections.
fn merge(object: &mut IndexMap<Name, Value>, key: &Name, value: Value) {
    match object.get_mut(key) {
        None => {
            object.insert(key.clone(), value);
        }
        Some(before) => merge_values(before, value),
    }
}

fn merge_values(before: &mut Value, value: Value) {
    match (before, value) {
        (Value::Object(before), Value::Object(fields)) => {
            for (key, value) in fields {
                merge(before, &key, value);
            }
        }
        (Value::List(before), Value::List(items)) => {
            for (before, item) in before.iter_mut().zip(items) {
                merge_values(before, item);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use async_graphql::parser::{
        parse_schema,
        types::{TypeKind, TypeSystemDefinition},
    };

    use super::super::{
        client::Client, cluster::Cluster, computation::Computation, connection::Edge,
        error_group::ErrorGroup, error_occurrence::ErrorOccurrence, schema::Schema, span::Span,
        task_group::TaskGroup, usage::Usage, usage::UsageHour, usage_table::UsageRow, worker::Worker,
    };
    use super::*;

    /// The names an object gives.
    fn named<T: InPlace>() -> (String, Vec<&'static str>) {
        let Fields::Only(names) = T::AT_HAND else { panic!("all fields of {} are at hand", T::type_name()) };
        let inside = T::BY_WHAT_IS_IN_THEM.iter().map(|(name, _)| *name);
        (T::type_name().into_owned(), names.iter().copied().chain(inside).collect())
    }

    #[test]
    fn fields_at_hand_are_fields_without_arguments() {
        let document = parse_schema(Schema::build().sdl()).expect("it is our own");
        for (noun, names) in [
            named::<Client>(),
            named::<Cluster>(),
            named::<Computation>(),
            named::<Edge<Cluster>>(),
            named::<ErrorGroup>(),
            named::<ErrorOccurrence>(),
            named::<Span>(),
            named::<TaskGroup>(),
            named::<Usage>(),
            named::<UsageHour>(),
            named::<UsageRow>(),
            named::<Worker>(),
        ] {
            let fields = document.definitions.iter().find_map(|definition| match definition {
                TypeSystemDefinition::Type(ty) if ty.node.name.node == noun => match &ty.node.kind {
                    TypeKind::Object(object) => Some(&object.fields),
                    _ => None,
                },
                _ => None,
            });
            for name in names {
                let field =
                    fields.and_then(|fields| fields.iter().find(|field| field.node.name.node == name));
                let field = field.unwrap_or_else(|| panic!("{noun} has no field {name}"));
                assert!(field.node.arguments.is_empty(), "{noun}.{name}");
            }
        }
    }
}
