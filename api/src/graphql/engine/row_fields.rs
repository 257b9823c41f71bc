//! Fields that follow from the columns of one row. Each is declared once, by [`row_fields!`]: its
//! description, its columns, and its value. The resolver reads the columns of a model. A compiled read
//! selects only the columns of the selected fields, and writes the values of a row as JSON, without a model.

use std::sync::Arc;

use async_graphql::{
    OutputType,
    parser::types::{Field, SelectionSet},
};
use entity::Row;
use sea_orm::{DbErr, EntityTrait, IdenStatic, Iterable, TryGetable, sea_query::ValueType};

use super::{
    json::{self, NeedsExecutor},
    object_template::{Compilation, ObjectTemplate},
    projection::SelectedField,
};

/// Returns the field of an object type with this name; `None` if it does not follow from the row alone.
pub(crate) type FindField<E> = fn(&str) -> Option<RowField<E>>;

/// A field that follows from the columns of a row.
pub(crate) enum RowField<E: EntityTrait> {
    /// A field without sub-fields.
    Value(ValueField<E>),
    /// An object, never null, whose fields follow from the same row.
    Object {
        /// The name of the object's type.
        type_name: &'static str,
        /// The fields of the type.
        find_field: FindField<E>,
    },
    /// A list of objects that follow from the same row. The function compiles their selection. It returns
    /// `None` if the executor has to resolve it.
    List(fn(&SelectionSet, &Compilation<'_>) -> Option<ValueField<E>>),
}

/// A field whose value is written as a whole.
pub(crate) struct ValueField<E: EntityTrait> {
    /// The names of the columns.
    pub(crate) columns: &'static [&'static str],
    /// Writes the value of a model.
    pub(crate) write_model: ModelFieldWriter<E>,
    /// Writes the value of a row.
    pub(crate) write_row: RowFieldWriter,
}

/// Writes one field of a model.
pub(crate) type ModelFieldWriter<E> =
    Box<dyn Fn(&<E as EntityTrait>::Model, &mut Vec<u8>) -> Result<(), NeedsExecutor> + Send + Sync>;

/// Writes a field of a row that has the field's columns at these positions.
type RowFieldWriter = Box<dyn Fn(&Row<'_>, &[usize], &mut Vec<u8>) -> Result<(), DbErr> + Send + Sync>;

/// Decodes a column as the type that `_field` returns. `_field` is never called.
pub(crate) fn decode_column<Model, T: TryGetable + ValueType>(
    _field: fn(&Model) -> &T,
    row: &Row<'_>,
    position: Option<usize>,
) -> Result<T, DbErr> {
    row.get(position.unwrap_or(usize::MAX))
}

/// The selected fields of an object whose values follow from a row.
pub(crate) struct RowProjection<E: EntityTrait> {
    /// The columns of the fields, in the order of the table.
    columns: Vec<E::Column>,
    template: RowTemplate<E>,
}

type RowTemplate<E> = ObjectTemplate<RowValue<E>>;

enum RowValue<E: EntityTrait> {
    /// A field, with the positions of its columns among the selected columns.
    Field(ValueField<E>, Vec<usize>),
    /// A field that does not follow from the row. Its value is inserted later.
    Gap,
}

impl<E: EntityTrait> RowProjection<E> {
    /// Compiles the selection of objects of a type. `add_gap` accepts a field that does not follow from the
    /// row alone, or returns `None`. Returns `None` if the executor has to resolve the selection. It must not
    /// select an object field twice under one response key.
    pub(crate) fn compile(
        selection: &SelectionSet,
        compilation: &Compilation<'_>,
        type_name: &str,
        find_field: FindField<E>,
        mut add_gap: impl FnMut(&Field) -> Option<()>,
    ) -> Option<Self> {
        let mut template = ObjectTemplate::default();
        add_row_object(&mut template, selection, compilation, (type_name, find_field), &mut add_gap)?;
        let is_used = |column: &E::Column| {
            template.values.iter().any(|(_, value)| match value {
                RowValue::Field(field, _) => field.columns.contains(&column.as_str()),
                RowValue::Gap => false,
            })
        };
        // Selections of the same columns share a statement, whatever the order of their fields.
        let columns: Vec<E::Column> = E::Column::iter().filter(is_used).collect();
        for (_, value) in &mut template.values {
            if let RowValue::Field(field, positions) = value {
                let position = |name: &&str| columns.iter().position(|column| column.as_str() == *name);
                *positions = field.columns.iter().map(position).collect::<Option<_>>()?;
            }
        }
        Some(Self { columns, template })
    }

    /// Returns the columns to select, in the order of the table.
    pub(crate) fn columns(&self) -> &[E::Column] {
        &self.columns
    }

    /// Writes the object of a model. The selection must have no gaps.
    fn write_model(&self, model: &E::Model, json: &mut Vec<u8>) -> Result<(), NeedsExecutor> {
        self.template.write(json, |value, json| match value {
            RowValue::Field(field, _) => (field.write_model)(model, json),
            RowValue::Gap => Err(NeedsExecutor),
        })
    }

    /// Returns the object of a row whose first columns are those of [`Self::columns`].
    pub(crate) fn write_row(&self, row: &Row<'_>) -> Result<RowJson, DbErr> {
        let (mut json, mut gaps) = (Vec::with_capacity(INITIAL_OBJECT_BYTES), Vec::new());
        self.template.write(&mut json, |value, json| match value {
            RowValue::Field(field, positions) => (field.write_row)(row, positions, json),
            RowValue::Gap => {
                gaps.push(json.len());
                Ok(())
            }
        })?;
        Ok(RowJson { json, gaps })
    }
}

/// The initial capacity for each object, in bytes.
pub(super) const INITIAL_OBJECT_BYTES: usize = 512;

/// An object of a row as JSON.
pub(crate) struct RowJson {
    json: Vec<u8>,
    /// The offsets of the values that do not follow from the row.
    gaps: Vec<usize>,
}

impl RowJson {
    /// Returns the length of the JSON without the values of the gaps.
    pub(crate) fn len(&self) -> usize {
        self.json.len()
    }

    /// Writes the object. `gap_value` returns the JSON of the gap with this index.
    pub(crate) fn write<'a>(&self, json: &mut Vec<u8>, gap_value: impl Fn(usize) -> &'a [u8]) {
        json::write_with_gaps(&self.json, &self.gaps, json, |gap, json| {
            json.extend_from_slice(gap_value(gap));
        });
    }
}

fn add_row_object<E: EntityTrait>(
    template: &mut RowTemplate<E>,
    selection: &SelectionSet,
    compilation: &Compilation<'_>,
    (type_name, find_field): (&str, FindField<E>),
    add_gap: &mut dyn FnMut(&Field) -> Option<()>,
) -> Option<()> {
    template.add_object(selection, compilation, type_name, |template, field| {
        let selection = &field.selection_set.node;
        match find_field(&field.name.node) {
            Some(RowField::Value(value)) => template.push(RowValue::Field(value, Vec::new())),
            Some(RowField::List(compile)) => {
                template.push(RowValue::Field(compile(selection, compilation)?, Vec::new()));
            }
            Some(RowField::Object { type_name, find_field }) => {
                add_row_object(template, selection, compilation, (type_name, find_field), &mut |_| None)?;
            }
            None => {
                add_gap(field)?;
                template.push(RowValue::Gap);
            }
        }
        Some(())
    })
}

/// Returns the function that writes a selected field of a model; `None` if the field does not follow from the
/// row alone.
pub(crate) fn model_field_writer<E: EntityTrait + 'static>(
    selected: &SelectedField<'_, '_>,
    find_field: FindField<E>,
) -> Option<ModelFieldWriter<E>> {
    let (selection, compilation) = selected.selection();
    match find_field(selected.name())? {
        RowField::Value(value) => Some(value.write_model),
        RowField::List(compile) => Some(compile(selection, &compilation)?.write_model),
        RowField::Object { type_name, find_field } => {
            let projection =
                RowProjection::<E>::compile(selection, &compilation, type_name, find_field, |_| None)?;
            Some(Box::new(move |model, json| projection.write_model(model, json)))
        }
    }
}

/// An object of a list that follows from a row.
pub(crate) trait RowItem: OutputType {
    /// Returns the function that writes the field with this name.
    fn find_field(name: &str) -> Option<RowItemWriter<Self>>;
}

/// Writes one field of an object.
type RowItemWriter<T> = fn(&T, &mut Vec<u8>) -> Result<(), NeedsExecutor>;

/// The selected fields of the objects of a list.
pub(crate) struct RowItems<T>(ObjectTemplate<RowItemWriter<T>>);

impl<T: RowItem> RowItems<T> {
    /// Compiles the selection. Returns `None` if the executor has to resolve it.
    pub(crate) fn compile(selection: &SelectionSet, compilation: &Compilation<'_>) -> Option<Arc<Self>> {
        let template = ObjectTemplate::compile(selection, compilation, &T::type_name(), |template, field| {
            template.push(T::find_field(&field.name.node)?);
            Some(())
        });
        Some(Arc::new(Self(template?)))
    }

    /// Writes the list.
    pub(crate) fn write(&self, items: &[T], json: &mut Vec<u8>) -> Result<(), NeedsExecutor> {
        json::write_list(items, json, |item, json| {
            self.0.write(json, |write_field, json| write_field(item, json))
        })
    }
}

/// Declares an object type whose fields follow from the columns of one row, as a reference to the model:
/// `name(columns): Type = value;`. The value is an expression of references to the columns. The schema's name
/// of a field follows after `as` if it differs. Objects of the same row come after the values, then lists of
/// objects, as expressions of the type `Vec`.
macro_rules! row_fields {
    (
        $(#[$meta:meta])*
        $visibility:vis struct $noun:ident of $entity:ident;
        $(
            $(#[$field_meta:meta])*
            $field:ident $(as $name:literal)? ($($column:ident),+ $(,)?): $type:ty = $value:expr;
        )*
        $(@objects {
            $(
                $(#[$object_meta:meta])*
                $object:ident: $object_type:ident;
            )*
        })?
        $(@lists {
            $(
                $(#[$list_meta:meta])*
                $list:ident($($list_column:ident),+ $(,)?): $item:ty = $items:expr;
            )*
        })?
    ) => {
        $(#[$meta])*
        $visibility struct $noun<'a>(pub(crate) &'a $entity::Model);

        $(#[$meta])*
        #[async_graphql::Object]
        impl $noun<'_> {
            $(
                $(#[$field_meta])*
                $(#[graphql(name = $name)])?
                pub(crate) async fn $field(&self) -> $type {
                    let $entity::Model { $($column,)+ .. } = self.0;
                    $value
                }
            )*
            $($(
                $(#[$object_meta])*
                async fn $object(&self) -> $crate::graphql::engine::projection::Inline<$object_type<'_>> {
                    $crate::graphql::engine::projection::Inline($object_type(self.0))
                }
            )*)?
            $($(
                $(#[$list_meta])*
                async fn $list(&self) -> $crate::graphql::engine::projection::InlineList<$item> {
                    let $entity::Model { $($list_column,)+ .. } = self.0;
                    $crate::graphql::engine::projection::InlineList($items)
                }
            )*)?
        }

        impl $noun<'_> {
            /// Returns the field with this name.
            pub(crate) fn find_field(
                name: &str,
            ) -> Option<$crate::graphql::engine::row_fields::RowField<$entity::Entity>> {
                use $crate::graphql::engine::{
                    json::WriteJson as _,
                    projection::{is_schema_name, schema_name},
                    row_fields::{RowField, ValueField, decode_column},
                };
                $(if is_schema_name(name, schema_name!($field $(, $name)?)) {
                    return Some(RowField::Value(ValueField {
                        columns: &[$(stringify!($column)),+],
                        write_model: Box::new(|model, json| {
                            let $entity::Model { $($column,)+ .. } = model;
                            let value: $type = $value;
                            value.write_json(json)
                        }),
                        write_row: Box::new(|row, positions, json| {
                            let mut positions = positions.iter().copied();
                            $(
                                let $column =
                                    &decode_column(|model: &$entity::Model| &model.$column, row, positions.next())?;
                            )+
                            let value: $type = $value;
                            value.write_json(json).map_err(|_| {
                                sea_orm::DbErr::Type(concat!(stringify!($field), " cannot be written as JSON").to_owned())
                            })
                        }),
                    }));
                })*
                $($(if is_schema_name(name, stringify!($list)) {
                    return Some(RowField::List(|selection, compilation| {
                        let of_models = $crate::graphql::engine::row_fields::RowItems::compile(selection, compilation)?;
                        let of_rows = std::sync::Arc::clone(&of_models);
                        Some(ValueField {
                            columns: &[$(stringify!($list_column)),+],
                            write_model: Box::new(move |model, json| {
                                let $entity::Model { $($list_column,)+ .. } = model;
                                let items: Vec<$item> = $items;
                                of_models.write(&items, json)
                            }),
                            write_row: Box::new(move |row, positions, json| {
                                let mut positions = positions.iter().copied();
                                $(
                                    let $list_column = &decode_column(
                                        |model: &$entity::Model| &model.$list_column,
                                        row,
                                        positions.next(),
                                    )?;
                                )+
                                let items: Vec<$item> = $items;
                                of_rows.write(&items, json).map_err(|_| {
                                    sea_orm::DbErr::Type(concat!(stringify!($list), " cannot be written as JSON").to_owned())
                                })
                            }),
                        })
                    }));
                })*)?
                $($(if is_schema_name(name, stringify!($object)) {
                    return Some(RowField::Object {
                        type_name: stringify!($object_type),
                        find_field: $object_type::find_field,
                    });
                })*)?
                None
            }
        }

        impl $crate::graphql::engine::projection::WriteInline for $noun<'_> {
            fn field_writer(
                selected: &$crate::graphql::engine::projection::SelectedField<'_, '_>,
            ) -> Option<$crate::graphql::engine::projection::FieldWriter<Self>> {
                use $crate::graphql::engine::row_fields::model_field_writer;
                let write_field = model_field_writer(selected, Self::find_field)?;
                Some(Box::new(move |object: &Self, _, json| write_field(object.0, json)))
            }
        }
    };
}

/// Implements [`RowItem`] for an object without resolvers, by the names of its struct fields.
macro_rules! row_item {
    ($noun:ty: $($value:ident),+) => {
        impl $crate::graphql::engine::row_fields::RowItem for $noun {
            fn find_field(
                name: &str,
            ) -> Option<fn(&Self, &mut Vec<u8>) -> Result<(), $crate::graphql::engine::json::NeedsExecutor>> {
                use $crate::graphql::engine::{json::WriteJson as _, projection::is_schema_name};
                $(if is_schema_name(name, stringify!($value)) {
                    return Some(|item, json| item.$value.write_json(json));
                })+
                None
            }
        }
        impl $crate::graphql::engine::projection::WriteInline for $noun {
            fn field_writer(
                selected: &$crate::graphql::engine::projection::SelectedField<'_, '_>,
            ) -> Option<$crate::graphql::engine::projection::FieldWriter<Self>> {
                use $crate::graphql::engine::row_fields::RowItem as _;
                let write_field = Self::find_field(selected.name())?;
                Some(Box::new(move |item: &Self, _, json| write_field(item, json)))
            }
        }
    };
}

pub(crate) use {row_fields, row_item};
