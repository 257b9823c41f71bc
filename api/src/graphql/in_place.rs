//! Lists that are written as JSON where they stand.
//!
//! The executor makes a future, a name and a value of its own for each field of each item of a list, and turns them
//! into JSON in the end. Only what waits for something has a use for that. Here, what is selected of an item is
//! looked up once for the whole list, fields that are at hand are written one after the other, and the others are
//! resolved as the executor does, all at once, so that they still share their statements. The resolvers are the
//! same, and so is the answer: where a field turns out not to be at hand, the whole list is resolved by the executor.

use std::borrow::Cow;

use async_graphql::{
    Context, ContextSelectionSet, ObjectType, OutputType, Positioned, ServerError, ServerResult, Value,
    parser::types::{Field, Selection, SelectionSet},
    registry::Registry,
};
use futures::{FutureExt, future::try_join_all};

use super::json::{self, NotAtHand};

/// Set with a request whose document selects something with fields more than once under one name. Their values have
/// to be merged, which only the executor's can be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Merged(pub(crate) bool);

/// Writes one field of an object.
pub(super) type Step<T> = Box<dyn Fn(&T, &Context<'_>, &mut Vec<u8>) -> Result<(), NotAtHand> + Send + Sync>;

/// A field that was selected.
pub(super) struct Asked<'a, 'context> {
    context: &'a ContextSelectionSet<'context>,
    field: &'context Positioned<Field>,
}

/// An object that knows which of its fields are at hand.
pub(super) trait InPlace: ObjectType {
    /// How a field is written; none if it has to be waited for, or something that is selected of it has.
    fn step(asked: &Asked<'_, '_>) -> Option<Step<Self>>;
}

impl<T: InPlace + 'static> InPlace for &T {
    fn step(asked: &Asked<'_, '_>) -> Option<Step<Self>> {
        let step = T::step(asked)?;
        Some(Box::new(move |object, context, json| step(object, context, json)))
    }
}

/// A value with fields that can be written.
pub(super) trait Whole {
    /// The object whose fields are selected of it.
    type Object: InPlace;

    /// Writes what `plan` selects.
    fn put_selected(
        &self,
        plan: &Plan<Self::Object>,
        context: &Context<'_>,
        json: &mut Vec<u8>,
    ) -> Result<(), NotAtHand>;
}

impl<T: InPlace> Whole for Placed<T> {
    type Object = T;

    fn put_selected(
        &self,
        plan: &Plan<T>,
        context: &Context<'_>,
        json: &mut Vec<u8>,
    ) -> Result<(), NotAtHand> {
        plan.write(&self.0, context, json)
    }
}

impl<T: Whole> Whole for Option<T> {
    type Object = T::Object;

    fn put_selected(
        &self,
        plan: &Plan<T::Object>,
        context: &Context<'_>,
        json: &mut Vec<u8>,
    ) -> Result<(), NotAtHand> {
        if let Some(value) = self {
            return value.put_selected(plan, context, json);
        }
        json.extend_from_slice(b"null");
        Ok(())
    }
}

impl Asked<'_, '_> {
    /// Whether it is the field that Rust calls `name`.
    pub(super) fn is(&self, name: &str) -> bool {
        let mut letters = self.field.node.name.node.bytes();
        let mut of_word = false;
        for letter in name.bytes() {
            if letter == b'_' {
                of_word = true;
                continue;
            }
            let expected = if of_word { letter.to_ascii_uppercase() } else { letter };
            if letters.next() != Some(expected) {
                return false;
            }
            of_word = false;
        }
        letters.next().is_none()
    }

    /// What is selected of the field, whose values are objects; none if not all of it is at hand.
    pub(super) fn inside<T: InPlace>(&self) -> Option<Plan<T>> {
        let inside = self.context.with_selection_set(&self.field.node.selection_set);
        let (plan, later) = Plan::of(&inside).ok()?;
        later.is_empty().then_some(plan)
    }
}

/// What is selected of the objects of one type, without fragments.
pub(super) struct Plan<T> {
    slots: Vec<Slot<T>>,
}

struct Slot<T> {
    /// `,"name":`.
    key: String,
    /// None for a field that is not at hand.
    step: Option<Step<T>>,
}

/// The fields that have to be waited for.
type Later<'a> = Vec<&'a Positioned<Field>>;

impl<T: InPlace> Plan<T> {
    fn of<'a>(context: &ContextSelectionSet<'a>) -> ServerResult<(Self, Later<'a>)> {
        let set = context.item;
        let mut plan = Self { slots: Vec::with_capacity(set.node.items.len()) };
        let (mut later, type_name) = (Vec::new(), T::type_name());
        plan.add(context, set, &type_name, &mut later)?;
        Ok((plan, later))
    }

    fn add<'a>(
        &mut self,
        context: &ContextSelectionSet<'a>,
        set: &'a Positioned<SelectionSet>,
        type_name: &str,
        later: &mut Later<'a>,
    ) -> ServerResult<()> {
        for selection in &set.node.items {
            let (condition, set) = match &selection.node {
                Selection::Field(field) => {
                    self.add_field(&Asked { context, field }, type_name, later);
                    continue;
                }
                Selection::InlineFragment(fragment) => {
                    (fragment.node.type_condition.as_ref(), &fragment.node.selection_set)
                }
                Selection::FragmentSpread(spread) => {
                    let name = &spread.node.fragment_name.node;
                    let Some(fragment) = context.query_env.fragments.get(name) else {
                        let message = format!(r#"Unknown fragment "{name}"."#);
                        return Err(ServerError::new(message, Some(spread.pos)));
                    };
                    (Some(&fragment.node.type_condition), &fragment.node.selection_set)
                }
            };
            let implements = |interface: &str| {
                let implemented = context.schema_env.registry.implements.get(type_name);
                implemented.is_some_and(|interfaces| interfaces.contains(interface))
            };
            let condition = condition.map(|condition| condition.node.on.node.as_str());
            if condition.is_none_or(|condition| condition == type_name || implements(condition)) {
                self.add(context, set, type_name, later)?;
            }
        }
        Ok(())
    }

    /// A field that is there already is the same: what has fields of its own is not selected twice here.
    fn add_field<'a>(&mut self, asked: &Asked<'_, 'a>, type_name: &str, later: &mut Later<'a>) {
        let key = format!(",\"{}\":", asked.field.node.response_key().node);
        if self.slots.iter().any(|slot| slot.key == key) {
            return;
        }
        let step = if asked.field.node.name.node == "__typename" {
            let name = format!("\"{type_name}\"");
            let step: Step<T> = Box::new(move |_, _, json| {
                json.extend_from_slice(name.as_bytes());
                Ok(())
            });
            Some(step)
        } else {
            T::step(asked)
        };
        if step.is_none() {
            later.push(asked.field);
        }
        self.slots.push(Slot { key, step });
    }

    /// Writes an object of which all that is selected is at hand.
    pub(super) fn write(
        &self,
        object: &T,
        context: &Context<'_>,
        json: &mut Vec<u8>,
    ) -> Result<(), NotAtHand> {
        self.write_around(object, context, json, &mut Vec::new())
    }

    /// Writes an object; `gaps` are where fields are missing that are not at hand.
    fn write_around(
        &self,
        object: &T,
        context: &Context<'_>,
        json: &mut Vec<u8>,
        gaps: &mut Vec<usize>,
    ) -> Result<(), NotAtHand> {
        json.push(b'{');
        for (index, slot) in self.slots.iter().enumerate() {
            let key = if index == 0 { &slot.key[1..] } else { &slot.key };
            json.extend_from_slice(key.as_bytes());
            match &slot.step {
                Some(step) => step(object, context, json)?,
                None => gaps.push(json.len()),
            }
        }
        json.push(b'}');
        Ok(())
    }
}

/// Bytes of an object that are made room for at first.
const USUAL_SIZE: usize = 512;

/// The objects as JSON, in a list or as the only one; none where only the executor can resolve them.
async fn write<T: InPlace>(
    context: &ContextSelectionSet<'_>,
    objects: &[T],
    list: bool,
) -> ServerResult<Option<Value>> {
    if context.data_opt::<Merged>().is_none_or(|merged| merged.0) {
        return Ok(None);
    }
    let (plan, later) = Plan::<T>::of(context)?;
    let Some(any) = any_field(context, context.item) else { return Ok(None) };
    let any = context.with_field(any);
    let (mut json, mut gaps) = (Vec::with_capacity(objects.len() * USUAL_SIZE), Vec::new());
    if list {
        json.push(b'[');
    }
    for (index, object) in objects.iter().enumerate() {
        if index > 0 {
            json.push(b',');
        }
        if plan.write_around(object, &any, &mut json, &mut gaps).is_err() {
            return Ok(None);
        }
    }
    if list {
        json.push(b']');
    }
    if !gaps.is_empty() {
        let objects = objects.iter().enumerate().map(async |(index, object)| {
            let context = if list { &context.with_index(index) } else { context };
            let fields = later.iter().map(|field| async {
                // In a box, since what is in it may have such lists itself.
                object.resolve_field(&context.with_field(field)).boxed().await
            });
            try_join_all(fields).await.map_err(|error| placed(context, error))
        });
        json = filled(&json, &gaps, try_join_all(objects).await?.iter().flatten());
    }
    Ok(Some(Value::Binary(json.into())))
}

/// Resolvers of fields at hand take a context, and do not look at it.
fn any_field<'a>(
    context: &ContextSelectionSet<'a>,
    set: &'a Positioned<SelectionSet>,
) -> Option<&'a Positioned<Field>> {
    set.node.items.iter().find_map(|selection| match &selection.node {
        Selection::Field(field) => Some(field),
        Selection::InlineFragment(fragment) => any_field(context, &fragment.node.selection_set),
        Selection::FragmentSpread(spread) => {
            let fragment = context.query_env.fragments.get(&spread.node.fragment_name.node)?;
            any_field(context, &fragment.node.selection_set)
        }
    })
}

/// The text with values in its gaps.
fn filled<'a>(json: &[u8], gaps: &[usize], values: impl Iterator<Item = &'a Option<Value>>) -> Vec<u8> {
    let (mut whole, mut from) = (Vec::with_capacity(2 * json.len()), 0);
    for (gap, value) in gaps.iter().zip(values) {
        whole.extend_from_slice(&json[from..*gap]);
        json::write(value.as_ref().unwrap_or(&Value::Null), &mut whole);
        from = *gap;
    }
    whole.extend_from_slice(&json[from..]);
    whole
}

/// An error that has no place yet gets the one where it happened.
fn placed(context: &ContextSelectionSet<'_>, error: ServerError) -> ServerError {
    if error.path.is_empty() { context.set_error_path(error) } else { error }
}

/// An object that is written where it stands.
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

    async fn resolve(
        &self,
        context: &ContextSelectionSet<'_>,
        field: &Positioned<Field>,
    ) -> ServerResult<Value> {
        match write(context, std::slice::from_ref(&self.0), false).await? {
            Some(written) => Ok(written),
            None => self.0.resolve(context, field).await,
        }
    }
}

/// A list as the schema has it, in which an error keeps its whole path. The executor's own lists end the path of an
/// error at themselves, so that nobody can tell which field of an item it belongs to.
pub(super) struct Items<T>(pub(super) Vec<T>);

impl<T: InPlace> OutputType for Items<T> {
    fn type_name() -> Cow<'static, str> {
        Vec::<T>::type_name()
    }

    fn qualified_type_name() -> String {
        Vec::<T>::qualified_type_name()
    }

    fn create_type_info(registry: &mut Registry) -> String {
        Vec::<T>::create_type_info(registry)
    }

    async fn resolve(
        &self,
        context: &ContextSelectionSet<'_>,
        field: &Positioned<Field>,
    ) -> ServerResult<Value> {
        if let Some(written) = write(context, &self.0, true).await? {
            return Ok(written);
        }
        let items = self.0.iter().enumerate().map(async |(index, item)| {
            let context = context.with_index(index);
            item.resolve(&context, field).boxed().await.map_err(|error| placed(&context, error))
        });
        try_join_all(items).await.map(Value::List)
    }
}

impl<T: InPlace> Whole for Items<T> {
    type Object = T;

    fn put_selected(
        &self,
        plan: &Plan<T>,
        context: &Context<'_>,
        json: &mut Vec<u8>,
    ) -> Result<(), NotAtHand> {
        json.push(b'[');
        for (index, item) in self.0.iter().enumerate() {
            if index > 0 {
                json.push(b',');
            }
            plan.write(item, context, json)?;
        }
        json.push(b']');
        Ok(())
    }
}

/// Says which fields of an object are at hand, by the names of their resolvers: values, which stand after `as` if the
/// schema calls them otherwise, and objects with their types.
macro_rules! in_place {
    ($noun:ty: $($value:ident $(as $name:literal)?),* $(; $($object:ident: $of:ty),+)? $(,)?) => {
        impl $crate::graphql::in_place::InPlace for $noun {
            fn step(
                asked: &$crate::graphql::in_place::Asked<'_, '_>,
            ) -> Option<$crate::graphql::in_place::Step<Self>> {
                use futures::FutureExt as _;
                use $crate::graphql::json::{Leaf as _, NotAtHand};
                $(if asked.is($crate::graphql::in_place::named!($value $(, $name)?)) {
                    return Some(Box::new(|object: &Self, context: &async_graphql::Context<'_>, json| {
                        object.$value(context).now_or_never().ok_or(NotAtHand)?.put(json)
                    }));
                })*
                $($(if asked.is(stringify!($object)) {
                    use $crate::graphql::in_place::Whole;
                    let plan = asked.inside::<<$of as Whole>::Object>()?;
                    return Some(Box::new(move |object: &Self, context: &async_graphql::Context<'_>, json| {
                        let found = object.$object(context).now_or_never().ok_or(NotAtHand)?;
                        found.map_err(|_| NotAtHand)?.put_selected(&plan, context, json)
                    }));
                })+)?
                None
            }
        }
    };
}

/// The same of an object without resolvers, by the names of its members.
macro_rules! in_place_members {
    ($noun:ty: $($value:ident $(as $name:literal)?),* $(; $($object:ident: $of:ty),+)? $(,)?) => {
        impl $crate::graphql::in_place::InPlace for $noun {
            fn step(
                asked: &$crate::graphql::in_place::Asked<'_, '_>,
            ) -> Option<$crate::graphql::in_place::Step<Self>> {
                use $crate::graphql::json::Leaf as _;
                $(if asked.is($crate::graphql::in_place::named!($value $(, $name)?)) {
                    return Some(Box::new(|object: &Self, _, json| object.$value.put(json)));
                })*
                $($(if asked.is(stringify!($object)) {
                    use $crate::graphql::in_place::Whole;
                    let plan = asked.inside::<<$of as Whole>::Object>()?;
                    return Some(Box::new(move |object: &Self, context, json| {
                        object.$object.put_selected(&plan, context, json)
                    }));
                })+)?
                None
            }
        }
    };
}

/// What the schema calls a field, as far as Rust can tell.
macro_rules! named {
    ($value:ident) => {
        stringify!($value)
    };
    ($value:ident, $name:literal) => {
        $name
    };
}

pub(super) use {in_place, in_place_members, named};
