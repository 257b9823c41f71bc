//! The schema parsed from its SDL, for tests that must cover all of it.

use std::collections::BTreeMap;

use async_graphql_parser::{
    Positioned, parse_schema,
    types::{
        BaseType, FieldDefinition, InputValueDefinition, ObjectType, Type, TypeDefinition, TypeKind,
        TypeSystemDefinition,
    },
};

/// The types of the schema by their names.
pub(crate) struct Sdl(BTreeMap<String, TypeDefinition>);

impl Sdl {
    /// Parses the schema of the server under test.
    pub(crate) fn read() -> Self {
        let document = parse_schema(galvo::graphql::Schema::sdl()).unwrap();
        let types = document.definitions.into_iter().filter_map(|definition| match definition {
            TypeSystemDefinition::Type(ty) => Some((ty.node.name.node.to_string(), ty.node)),
            _ => None,
        });
        Self(types.collect())
    }

    /// All object types with their names.
    pub(crate) fn objects(&self) -> impl Iterator<Item = (&str, &ObjectType)> {
        self.0.iter().filter_map(|(name, ty)| match &ty.kind {
            TypeKind::Object(object) => Some((name.as_str(), object)),
            _ => None,
        })
    }

    /// The fields of an object or interface; empty for other types.
    pub(crate) fn fields(&self, name: &str) -> impl Iterator<Item = &FieldDefinition> {
        let fields = match self.kind(name) {
            Some(TypeKind::Object(object)) => object.fields.as_slice(),
            Some(TypeKind::Interface(interface)) => interface.fields.as_slice(),
            _ => &[],
        };
        fields.iter().map(|field| &field.node)
    }

    /// The fields of an input object; empty for other types.
    pub(crate) fn input_fields(&self, name: &str) -> impl Iterator<Item = &InputValueDefinition> {
        let fields = match self.kind(name) {
            Some(TypeKind::InputObject(input)) => input.fields.as_slice(),
            _ => &[],
        };
        fields.iter().map(|field| &field.node)
    }

    /// The members of a union; empty for other types.
    pub(crate) fn members(&self, name: &str) -> impl Iterator<Item = &str> {
        let members = match self.kind(name) {
            Some(TypeKind::Union(union)) => union.members.as_slice(),
            _ => &[],
        };
        members.iter().map(|member| member.node.as_str())
    }

    /// The values of an enumeration; empty for other types.
    pub(crate) fn values(&self, name: &str) -> impl Iterator<Item = &str> {
        let values = match self.kind(name) {
            Some(TypeKind::Enum(values)) => values.values.as_slice(),
            _ => &[],
        };
        values.iter().map(|value| value.node.value.node.as_str())
    }

    /// True if the type has fields to select.
    pub(crate) fn is_composite(&self, name: &str) -> bool {
        matches!(self.kind(name), Some(TypeKind::Object(_) | TypeKind::Interface(_) | TypeKind::Union(_)))
    }

    /// True if objects of this type have global identifiers.
    pub(crate) fn implements_node(&self, name: &str) -> bool {
        let Some(TypeKind::Object(object)) = self.kind(name) else { return false };
        object.implements.iter().any(|interface| interface.node == "Node")
    }

    fn kind(&self, name: &str) -> Option<&TypeKind> {
        self.0.get(name).map(|ty| &ty.kind)
    }
}

/// A field's name with that of its type.
pub(crate) fn path(of: &str, field: &FieldDefinition) -> String {
    format!("{of}.{}", field.name.node)
}

/// The name of the innermost item type of nested lists.
pub(crate) fn innermost(ty: &Type) -> &str {
    match &ty.base {
        BaseType::Named(name) => name,
        BaseType::List(item) => innermost(item),
    }
}

/// The required arguments of a field.
pub(crate) fn required(field: &FieldDefinition) -> impl Iterator<Item = &str> {
    let required = |argument: &&Positioned<InputValueDefinition>| {
        !argument.node.ty.node.nullable && argument.node.default_value.is_none()
    };
    field.arguments.iter().filter(required).map(|argument| argument.node.name.node.as_str())
}
