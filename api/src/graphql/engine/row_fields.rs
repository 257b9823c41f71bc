//! Fields that follow from the columns of one row. Each is declared once, by [`row_fields!`]: its
//! description, its columns, and its value. The resolver reads the columns of a model. A compiled read
//! selects only the columns of the selected fields, and writes the values of a row as JSON, without a model.

use async_graphql::parser::types::SelectionSet;
use entity::Row;
use sea_orm::{DbErr, EntityTrait, IdenStatic, Iterable, TryGetable, sea_query::ValueType};

use super::{
    json::NeedsExecutor,
    object_template::{Fragments, ObjectTemplate},
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
}

/// A field without sub-fields.
pub(crate) struct ValueField<E: EntityTrait> {
    /// The names of the columns.
    pub(crate) columns: &'static [&'static str],
    /// Writes the value of a model.
    pub(crate) write_model: fn(&E::Model, &mut Vec<u8>) -> Result<(), NeedsExecutor>,
    /// Writes the value of a row.
    pub(crate) write_row: WriteRowField,
}

/// Writes a field of a row that has the field's columns at these positions.
type WriteRowField = fn(&Row<'_>, &[usize], &mut Vec<u8>) -> Result<(), DbErr>;

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

/// A template whose values have the positions of their columns among the selected columns.
type RowTemplate<E> = ObjectTemplate<(ValueField<E>, Vec<usize>)>;

impl<E: EntityTrait> RowProjection<E> {
    /// Compiles the selection of objects of a type. Returns `None` if a field does not follow from the row
    /// alone. The selection must not select an object field twice under one response key.
    pub(crate) fn compile(
        selection: &SelectionSet,
        fragments: &Fragments,
        type_name: &str,
        find_field: FindField<E>,
    ) -> Option<Self> {
        let mut template = ObjectTemplate::default();
        add_row_object(&mut template, selection, fragments, (type_name, find_field))?;
        let is_used = |column: &E::Column| {
            template.values.iter().any(|(_, (field, _))| field.columns.contains(&column.as_str()))
        };
        // Selections of the same columns share a statement, whatever the order of their fields.
        let columns: Vec<E::Column> = E::Column::iter().filter(is_used).collect();
        for (_, (field, positions)) in &mut template.values {
            let position = |name: &&str| columns.iter().position(|column| column.as_str() == *name);
            *positions = field.columns.iter().map(position).collect::<Option<_>>()?;
        }
        Some(Self { columns, template })
    }

    /// Returns the columns to select, in the order of the table.
    pub(crate) fn columns(&self) -> &[E::Column] {
        &self.columns
    }

    /// Writes the object of a model.
    pub(crate) fn write_model(&self, model: &E::Model, json: &mut Vec<u8>) -> Result<(), NeedsExecutor> {
        self.template.write(json, |(field, _), json| (field.write_model)(model, json))
    }

    /// Writes the object of a row whose first columns are those of [`Self::columns`].
    pub(crate) fn write_row(&self, row: &Row<'_>, json: &mut Vec<u8>) -> Result<(), DbErr> {
        self.template.write(json, |(field, positions), json| (field.write_row)(row, positions, json))
    }
}

fn add_row_object<E: EntityTrait>(
    template: &mut RowTemplate<E>,
    selection: &SelectionSet,
    fragments: &Fragments,
    (type_name, find_field): (&str, FindField<E>),
) -> Option<()> {
    template.add_object(selection, fragments, type_name, |template, field| {
        match find_field(&field.name.node)? {
            RowField::Value(value) => template.push((value, Vec::new())),
            RowField::Object { type_name, find_field } => {
                let selection = &field.selection_set.node;
                add_row_object(template, selection, fragments, (type_name, find_field))?;
            }
        }
        Some(())
    })
}

/// Writes one field of a model.
pub(crate) type ModelFieldWriter<E> =
    Box<dyn Fn(&<E as EntityTrait>::Model, &mut Vec<u8>) -> Result<(), NeedsExecutor> + Send + Sync>;

/// Returns the function that writes a selected field of a model; `None` if the field does not follow from the
/// row alone.
pub(crate) fn model_field_writer<E: EntityTrait + 'static>(
    selected: &SelectedField<'_, '_>,
    find_field: FindField<E>,
) -> Option<ModelFieldWriter<E>> {
    Some(match find_field(selected.name())? {
        RowField::Value(value) => Box::new(value.write_model),
        RowField::Object { type_name, find_field } => {
            let (selection, fragments) = selected.selection();
            let projection = RowProjection::<E>::compile(selection, fragments, type_name, find_field)?;
            Box::new(move |model, json| projection.write_model(model, json))
        }
    })
}

/// Declares an object type whose fields follow from the columns of one row, as a reference to the model:
/// `name(columns): Type = value;`. The value is an expression of references to the columns. The schema's name
/// of a field follows after `as` if it differs. Objects of the same row come last.
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
    ) => {
        $(#[$meta])*
        $visibility struct $noun<'a>(pub(crate) &'a $entity::Model);

        $(#[$meta])*
        #[async_graphql::Object]
        impl $noun<'_> {
            $(
                $(#[$field_meta])*
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
                        write_model: |model, json| {
                            let $entity::Model { $($column,)+ .. } = model;
                            let value: $type = $value;
                            value.write_json(json)
                        },
                        write_row: |row, positions, json| {
                            let mut positions = positions.iter().copied();
                            $(
                                let $column =
                                    &decode_column(|model: &$entity::Model| &model.$column, row, positions.next())?;
                            )+
                            let value: $type = $value;
                            value.write_json(json).map_err(|_| {
                                sea_orm::DbErr::Type(concat!(stringify!($field), " cannot be written as JSON").to_owned())
                            })
                        },
                    }));
                })*
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

pub(crate) use row_fields;
