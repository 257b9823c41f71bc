//! Lists and objects whose fields are written directly as JSON.
//!
//! The executor creates a future, a name and a value for each field of each item of a list, and converts
//! them to JSON at the end. Only fields that wait for something need that. Here, the selection of an
//! item is resolved once for the whole list. Fields that are ready without waiting are written one after
//! the other. The other fields are resolved as the executor does it, all concurrently, so that they
//! still share their statements. The resolvers are the same, and so is the response: if a field turns
//! out not to be ready, the executor resolves the whole list.

use std::borrow::Cow;

use async_graphql::{
    Context, ContextSelectionSet, ObjectType, OutputType, Positioned, ServerError, ServerResult, Value,
    parser::types::{Field, Selection, SelectionSet},
    registry::Registry,
};
use futures::{FutureExt, future::try_join_all};

use super::{
    error::log_defect,
    json::{self, NeedsExecutor},
    object_template::Compilation,
    row_fields::INITIAL_OBJECT_BYTES,
};

/// True if the request's document selects an object field more than once under one response key. Such
/// selections have to be merged, and only the executor can merge values. Stored in the data of the
/// request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HasOverlappingFields(pub(crate) bool);

/// Writes one field of an object.
pub(crate) type FieldWriter<T> =
    Box<dyn Fn(&T, &Context<'_>, &mut Vec<u8>) -> Result<(), NeedsExecutor> + Send + Sync>;

/// A selected field.
pub(crate) struct SelectedField<'a, 'context> {
    context: &'a ContextSelectionSet<'context>,
    field: &'context Positioned<Field>,
}

/// An object that can write some of its fields without waiting.
pub(crate) trait WriteInline: ObjectType {
    /// Returns the function that writes a field; `None` if the field, or a field selected inside it, has
    /// to wait.
    fn field_writer(selected: &SelectedField<'_, '_>) -> Option<FieldWriter<Self>>;
}

impl<T: WriteInline + 'static> WriteInline for &T {
    fn field_writer(selected: &SelectedField<'_, '_>) -> Option<FieldWriter<Self>> {
        let write_field = T::field_writer(selected)?;
        Some(Box::new(move |object, context, json| write_field(object, context, json)))
    }
}

/// A value whose selected fields can be written.
pub(crate) trait HasSelection {
    /// The object type whose fields are selected.
    type Object: WriteInline;

    /// Writes the fields that `projection` selects.
    fn write_selected(
        &self,
        projection: &Projection<Self::Object>,
        context: &Context<'_>,
        json: &mut Vec<u8>,
    ) -> Result<(), NeedsExecutor>;
}

impl<T: WriteInline> HasSelection for Inline<T> {
    type Object = T;

    fn write_selected(
        &self,
        projection: &Projection<T>,
        context: &Context<'_>,
        json: &mut Vec<u8>,
    ) -> Result<(), NeedsExecutor> {
        projection.write(&self.0, context, json)
    }
}

impl<T: HasSelection> HasSelection for Option<T> {
    type Object = T::Object;

    fn write_selected(
        &self,
        projection: &Projection<T::Object>,
        context: &Context<'_>,
        json: &mut Vec<u8>,
    ) -> Result<(), NeedsExecutor> {
        if let Some(value) = self {
            return value.write_selected(projection, context, json);
        }
        json.extend_from_slice(b"null");
        Ok(())
    }
}

impl SelectedField<'_, '_> {
    /// Returns the name of the field in the schema.
    pub(crate) fn name(&self) -> &str {
        &self.field.node.name.node
    }

    /// Returns true if the field has this name, given in snake case.
    pub(crate) fn has_name(&self, name: &str) -> bool {
        is_schema_name(self.name(), name)
    }

    /// Returns the selection inside this field, to compile templates of it.
    pub(crate) fn selection(&self) -> (&SelectionSet, Compilation<'_>) {
        (&self.field.node.selection_set.node, Compilation::new(&self.context.query_env.fragments))
    }

    /// Returns the projection of the fields that are selected inside this field, whose values are
    /// objects. `None` if one of them has to wait.
    pub(crate) fn project_selection<T: WriteInline>(&self) -> Option<Projection<T>> {
        let sub_selection = self.context.with_selection_set(&self.field.node.selection_set);
        let (projection, waiting_fields) = Projection::from_selection(&sub_selection).ok()?;
        waiting_fields.is_empty().then_some(projection)
    }
}

/// Returns true if a name of the schema is this one, given in snake case.
pub(crate) fn is_schema_name(schema_name: &str, name: &str) -> bool {
    let mut schema_letters = schema_name.bytes();
    let mut starts_word = false;
    for letter in name.bytes() {
        if letter == b'_' {
            starts_word = true;
            continue;
        }
        let expected = if starts_word { letter.to_ascii_uppercase() } else { letter };
        if schema_letters.next() != Some(expected) {
            return false;
        }
        starts_word = false;
    }
    schema_letters.next().is_none()
}

/// The fields that are selected on objects of one type, with the fragments expanded.
pub(crate) struct Projection<T> {
    slots: Vec<Slot<T>>,
}

struct Slot<T> {
    /// The response key as it is written: `,"name":`.
    key: String,
    /// The function that writes the field; `None` if the field has to wait.
    write_field: Option<FieldWriter<T>>,
}

/// The fields that have to wait.
type WaitingFields<'a> = Vec<&'a Positioned<Field>>;

impl<T: WriteInline> Projection<T> {
    /// Returns the projection of a selection, and the selected fields that have to wait.
    fn from_selection<'a>(context: &ContextSelectionSet<'a>) -> ServerResult<(Self, WaitingFields<'a>)> {
        let selection_set = context.item;
        let mut projection = Self { slots: Vec::with_capacity(selection_set.node.items.len()) };
        let (mut waiting_fields, type_name) = (Vec::new(), T::type_name());
        projection.add_selection_set(context, selection_set, &type_name, &mut waiting_fields)?;
        Ok((projection, waiting_fields))
    }

    fn add_selection_set<'a>(
        &mut self,
        context: &ContextSelectionSet<'a>,
        selection_set: &'a Positioned<SelectionSet>,
        type_name: &str,
        waiting_fields: &mut WaitingFields<'a>,
    ) -> ServerResult<()> {
        for selection in &selection_set.node.items {
            let (condition, selection_set) = match &selection.node {
                Selection::Field(field) => {
                    self.add_field(&SelectedField { context, field }, type_name, waiting_fields);
                    continue;
                }
                Selection::InlineFragment(fragment) => {
                    (fragment.node.type_condition.as_ref(), &fragment.node.selection_set)
                }
                Selection::FragmentSpread(spread) => {
                    let name = &spread.node.fragment_name.node;
                    let Some(fragment) = context.query_env.fragments.get(name) else {
                        return Err(log_defect(&format!("there is no fragment '{name}'")));
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
                self.add_selection_set(context, selection_set, type_name, waiting_fields)?;
            }
        }
        Ok(())
    }

    /// Adds a field. A field whose response key is already present is the same field: fields with
    /// sub-selections are not selected twice here, see [`HasOverlappingFields`].
    fn add_field<'a>(
        &mut self,
        selected: &SelectedField<'_, 'a>,
        type_name: &str,
        waiting_fields: &mut WaitingFields<'a>,
    ) {
        let key = format!(",\"{}\":", selected.field.node.response_key().node);
        if self.slots.iter().any(|slot| slot.key == key) {
            return;
        }
        let write_field = if selected.field.node.name.node == "__typename" {
            let name = format!("\"{type_name}\"");
            let write_field: FieldWriter<T> = Box::new(move |_, _, json| {
                json.extend_from_slice(name.as_bytes());
                Ok(())
            });
            Some(write_field)
        } else {
            T::field_writer(selected)
        };
        if write_field.is_none() {
            waiting_fields.push(selected.field);
        }
        self.slots.push(Slot { key, write_field });
    }

    /// Writes an object whose selected fields can all be written without waiting.
    pub(crate) fn write(
        &self,
        object: &T,
        context: &Context<'_>,
        json: &mut Vec<u8>,
    ) -> Result<(), NeedsExecutor> {
        self.write_with_gaps(object, context, json, &mut Vec::new())
    }

    /// Writes an object without the fields that have to wait, and appends their offsets in `json` to
    /// `gaps`.
    fn write_with_gaps(
        &self,
        object: &T,
        context: &Context<'_>,
        json: &mut Vec<u8>,
        gaps: &mut Vec<usize>,
    ) -> Result<(), NeedsExecutor> {
        json.push(b'{');
        for (index, slot) in self.slots.iter().enumerate() {
            let key = if index == 0 { &slot.key[1..] } else { &slot.key };
            json.extend_from_slice(key.as_bytes());
            match &slot.write_field {
                Some(write_field) => write_field(object, context, json)?,
                None => gaps.push(json.len()),
            }
        }
        json.push(b'}');
        Ok(())
    }
}

/// Writes the objects as JSON, as a list or as a single object; returns `None` if only the executor can
/// resolve them.
async fn write<T: WriteInline>(
    context: &ContextSelectionSet<'_>,
    objects: &[T],
    is_list: bool,
) -> ServerResult<Option<Value>> {
    if context.data_opt::<HasOverlappingFields>().is_none_or(|overlapping| overlapping.0) {
        return Ok(None);
    }
    let (projection, waiting_fields) = Projection::<T>::from_selection(context)?;
    let Some(any_field) = find_any_field(context, context.item) else { return Ok(None) };
    let field_context = context.with_field(any_field);
    let (mut json, mut gaps) = (Vec::with_capacity(objects.len() * INITIAL_OBJECT_BYTES), Vec::new());
    if is_list {
        json.push(b'[');
    }
    for (index, object) in objects.iter().enumerate() {
        if index > 0 {
            json.push(b',');
        }
        if projection.write_with_gaps(object, &field_context, &mut json, &mut gaps).is_err() {
            return Ok(None);
        }
    }
    if is_list {
        json.push(b']');
    }
    if !gaps.is_empty() {
        let objects = objects.iter().enumerate().map(async |(index, object)| {
            let context = if is_list { &context.with_index(index) } else { context };
            let fields = waiting_fields.iter().map(|field| async {
                // Boxed, because the fields may contain such lists themselves and the future would be
                // recursive.
                object.resolve_field(&context.with_field(field)).boxed().await
            });
            try_join_all(fields).await.map_err(|error| with_error_path(context, error))
        });
        let values = try_join_all(objects).await?;
        let mut values = values.iter().flatten();
        let mut filled = Vec::with_capacity(2 * json.len());
        json::write_with_gaps(&json, &gaps, &mut filled, |_, json| {
            json::write(values.next().and_then(Option::as_ref).unwrap_or(&Value::Null), json);
        });
        json = filled;
    }
    Ok(Some(Value::Binary(json.into())))
}

/// Returns any selected field. Resolvers of fields that do not wait take a context, but do not read it.
fn find_any_field<'a>(
    context: &ContextSelectionSet<'a>,
    selection_set: &'a Positioned<SelectionSet>,
) -> Option<&'a Positioned<Field>> {
    selection_set.node.items.iter().find_map(|selection| match &selection.node {
        Selection::Field(field) => Some(field),
        Selection::InlineFragment(fragment) => find_any_field(context, &fragment.node.selection_set),
        Selection::FragmentSpread(spread) => {
            let fragment = context.query_env.fragments.get(&spread.node.fragment_name.node)?;
            find_any_field(context, &fragment.node.selection_set)
        }
    })
}

/// Sets the path of an error that has none.
fn with_error_path(context: &ContextSelectionSet<'_>, error: ServerError) -> ServerError {
    if error.path.is_empty() { context.set_error_path(error) } else { error }
}

/// An object that is written directly as JSON.
pub(crate) struct Inline<T>(pub(crate) T);

impl<T: WriteInline> OutputType for Inline<T> {
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
            Some(json) => Ok(json),
            None => self.0.resolve(context, field).await,
        }
    }
}

/// A list in which an error keeps its whole path. The executor's own lists cut the path of an error off
/// at the list, so that the field of the item is lost.
pub(crate) struct InlineList<T>(pub(crate) Vec<T>);

impl<T: WriteInline> OutputType for InlineList<T> {
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
        if let Some(json) = write(context, &self.0, true).await? {
            return Ok(json);
        }
        let items = self.0.iter().enumerate().map(async |(index, item)| {
            let context = context.with_index(index);
            item.resolve(&context, field).boxed().await.map_err(|error| with_error_path(&context, error))
        });
        try_join_all(items).await.map(Value::List)
    }
}

impl<T: WriteInline> HasSelection for InlineList<T> {
    type Object = T;

    fn write_selected(
        &self,
        projection: &Projection<T>,
        context: &Context<'_>,
        json: &mut Vec<u8>,
    ) -> Result<(), NeedsExecutor> {
        json::write_list(&self.0, json, |item, json| projection.write(item, context, json))
    }
}

/// Implements [`WriteInline`] for an object with resolvers, by the names of the resolvers that do not wait.
/// Fields without sub-fields come first, with the schema's name after `as` if it differs; then object
/// fields with their types. The fields of a row, declared by `row_fields!`, are named before them as
/// `, rows member as Type`.
macro_rules! inline_fields {
    (
        $noun:ty $(, rows $member:ident as $rows:ident)?:
        $($value:ident $(as $name:literal)?),* $(; $($object:ident: $object_type:ty),+)? $(,)?
    ) => {
        impl $crate::graphql::engine::projection::WriteInline for $noun {
            fn field_writer(
                selected: &$crate::graphql::engine::projection::SelectedField<'_, '_>,
            ) -> Option<$crate::graphql::engine::projection::FieldWriter<Self>> {
                $(
                    let row_field_writer =
                        $crate::graphql::engine::row_fields::model_field_writer(selected, $rows::find_field);
                    if let Some(write_field) = row_field_writer {
                        return Some(Box::new(move |object: &Self, _, json| write_field(&object.$member, json)));
                    }
                )?
                $(if selected.has_name($crate::graphql::engine::projection::schema_name!($value $(, $name)?)) {
                    return Some(Box::new(|object: &Self, context: &async_graphql::Context<'_>, json| {
                        let resolved = futures::FutureExt::now_or_never(object.$value(context));
                        let value = resolved.ok_or($crate::graphql::engine::json::NeedsExecutor)?;
                        $crate::graphql::engine::json::WriteJson::write_json(&value, json)
                    }));
                })*
                $($(if selected.has_name(stringify!($object)) {
                    use $crate::graphql::engine::{json::NeedsExecutor, projection::HasSelection};
                    let projection = selected.project_selection::<<$object_type as HasSelection>::Object>()?;
                    return Some(Box::new(move |object: &Self, context: &async_graphql::Context<'_>, json| {
                        let resolved = futures::FutureExt::now_or_never(object.$object(context));
                        resolved.ok_or(NeedsExecutor)?.map_err(|_| NeedsExecutor)?.write_selected(&projection, context, json)
                    }));
                })+)?
                None
            }
        }
    };
}

/// Implements [`WriteInline`] for an object without resolvers, by the names of its struct fields.
macro_rules! inline_members {
    ($noun:ty: $($value:ident $(as $name:literal)?),* $(; $($object:ident: $object_type:ty),+)? $(,)?) => {
        impl $crate::graphql::engine::projection::WriteInline for $noun {
            fn field_writer(
                selected: &$crate::graphql::engine::projection::SelectedField<'_, '_>,
            ) -> Option<$crate::graphql::engine::projection::FieldWriter<Self>> {
                use $crate::graphql::engine::json::WriteJson as _;
                $(if selected.has_name($crate::graphql::engine::projection::schema_name!($value $(, $name)?)) {
                    return Some(Box::new(|object: &Self, _, json| object.$value.write_json(json)));
                })*
                $($(if selected.has_name(stringify!($object)) {
                    use $crate::graphql::engine::projection::HasSelection;
                    let projection = selected.project_selection::<<$object_type as HasSelection>::Object>()?;
                    return Some(Box::new(move |object: &Self, context, json| {
                        object.$object.write_selected(&projection, context, json)
                    }));
                })+)?
                None
            }
        }
    };
}

/// Expands to the schema's name of a field: the name after `as`, or else the Rust name.
macro_rules! schema_name {
    ($value:ident) => {
        stringify!($value)
    };
    ($value:ident, $name:literal) => {
        $name
    };
}

pub(crate) use {inline_fields, inline_members, schema_name};
