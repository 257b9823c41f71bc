//! The JSON of a connection whose nodes follow from their rows.

use async_graphql::parser::types::{Field, SelectionSet};
use entity::Row;
use sea_orm::{DbErr, EntityTrait};

use crate::{
    graphql::engine::{
        connection::cursor_for_key,
        json::WriteJson,
        row_fields::{FindField, Fragments, RowProjection, expand},
    },
    store::core::page::{Key, Page, Sort},
};

/// The selected fields of a connection, in order.
pub(super) struct ConnectionTemplate<E: EntityTrait> {
    parts: Vec<Part>,
    nodes: Option<RowProjection<E>>,
    /// The fields that are selected of the nodes themselves.
    node_fields: Vec<String>,
}

/// A part of a connection's JSON.
enum Part {
    Literal(Vec<u8>),
    Nodes,
    Edges(Vec<EdgePart>),
    HasNextPage,
    HasPreviousPage,
    StartCursor,
    EndCursor,
    TotalCount,
}

/// A part of an edge's JSON.
enum EdgePart {
    Literal(Vec<u8>),
    Cursor,
    Node,
}

/// The fields of an object with the JSON between them.
struct ObjectWriter<Part> {
    parts: Vec<Part>,
    literal: Vec<u8>,
    into_literal: fn(Vec<u8>) -> Part,
}

impl<Part> ObjectWriter<Part> {
    fn new(into_literal: fn(Vec<u8>) -> Part) -> Self {
        Self { parts: Vec::new(), literal: Vec::new(), into_literal }
    }

    fn push(&mut self, part: Part) {
        self.parts.push((self.into_literal)(std::mem::take(&mut self.literal)));
        self.parts.push(part);
    }

    /// Writes the braces and the keys of an object. `write_field` writes the values, except `__typename`.
    fn push_object(
        &mut self,
        selection: &SelectionSet,
        fragments: &Fragments,
        type_name: &str,
        mut write_field: impl FnMut(&mut Self, &Field) -> Option<()>,
    ) -> Option<()> {
        self.literal.push(b'{');
        for (index, (key, field)) in expand(selection, fragments, type_name)?.into_iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            self.literal.extend_from_slice(format!("{comma}\"{key}\":").as_bytes());
            if field.name.node == "__typename" {
                self.literal.extend_from_slice(format!("\"{type_name}\"").as_bytes());
            } else {
                write_field(self, field)?;
            }
        }
        self.literal.push(b'}');
        Some(())
    }

    fn finish(mut self) -> Vec<Part> {
        self.parts.push((self.into_literal)(self.literal));
        self.parts
    }
}

impl<E: EntityTrait> ConnectionTemplate<E> {
    /// Compiles the selection of a connection with nodes of a type. Returns `None` if the executor has to
    /// resolve it.
    pub(super) fn compile(
        selection: &SelectionSet,
        fragments: &Fragments,
        node_type: &str,
        find_field: FindField<E>,
    ) -> Option<Self> {
        let (mut nodes, mut node_fields) = (None, Vec::new());
        let mut compile_node = |field: &Field| {
            let selection = &field.selection_set.node;
            let projection = RowProjection::compile(selection, fragments, node_type, find_field)?;
            for (_, field) in expand(selection, fragments, node_type)? {
                node_fields.push(field.name.node.to_string());
            }
            // The nodes are written once.
            nodes.replace(projection).is_none().then_some(())
        };
        let mut writer = ObjectWriter::new(Part::Literal);
        writer.push_object(selection, fragments, &format!("{node_type}Connection"), |writer, field| {
            let selection = &field.selection_set.node;
            match field.name.node.as_str() {
                "nodes" => {
                    compile_node(field)?;
                    writer.push(Part::Nodes);
                }
                "edges" => {
                    let mut edge = ObjectWriter::new(EdgePart::Literal);
                    edge.push_object(selection, fragments, &format!("{node_type}Edge"), |edge, field| {
                        match field.name.node.as_str() {
                            "cursor" => edge.push(EdgePart::Cursor),
                            "node" => {
                                compile_node(field)?;
                                edge.push(EdgePart::Node);
                            }
                            _ => return None,
                        }
                        Some(())
                    })?;
                    writer.push(Part::Edges(edge.finish()));
                }
                "pageInfo" => writer.push_object(selection, fragments, "PageInfo", |writer, field| {
                    writer.push(match field.name.node.as_str() {
                        "hasNextPage" => Part::HasNextPage,
                        "hasPreviousPage" => Part::HasPreviousPage,
                        "startCursor" => Part::StartCursor,
                        "endCursor" => Part::EndCursor,
                        _ => return None,
                    });
                    Some(())
                })?,
                "totalCount" => writer.push(Part::TotalCount),
                _ => return None,
            }
            Some(())
        })?;
        let parts = writer.finish();
        // Without nodes, there are no columns to select.
        nodes.as_ref().filter(|nodes| !nodes.columns().is_empty())?;
        Some(Self { parts, nodes, node_fields })
    }

    /// Returns true if only these fields of the nodes are selected.
    pub(super) fn nodes_have_only(&self, fields: &[&str]) -> bool {
        self.node_fields.iter().all(|field| fields.contains(&field.as_str()))
    }

    /// Returns true if the number of items of the whole list is selected.
    pub(super) fn has_total_count(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::TotalCount))
    }

    /// Returns the columns of the nodes' fields.
    pub(super) fn columns(&self) -> &[E::Column] {
        self.nodes.as_ref().map_or(&[], RowProjection::columns)
    }

    /// Returns the JSON of the node of a row, whose first columns are [`Self::columns`].
    pub(super) fn write_node(&self, row: &Row<'_>) -> Result<Vec<u8>, DbErr> {
        let mut json = Vec::with_capacity(512);
        if let Some(nodes) = &self.nodes {
            nodes.write_row(row, &mut json)?;
        }
        Ok(json)
    }

    /// Writes a page of nodes.
    pub(super) fn write<S: Sort>(
        &self,
        page: &Page<Vec<u8>>,
        sort: S,
        total_count: Option<u64>,
        json: &mut Vec<u8>,
    ) {
        for part in &self.parts {
            match part {
                Part::Literal(literal) => json.extend_from_slice(literal),
                Part::Nodes => write_list(&page.rows, json, |(_, node), json| json.extend_from_slice(node)),
                Part::Edges(parts) => write_list(&page.rows, json, |(key, node), json| {
                    for part in parts {
                        match part {
                            EdgePart::Literal(literal) => json.extend_from_slice(literal),
                            EdgePart::Cursor => write_cursor(sort, Some(key), json),
                            EdgePart::Node => json.extend_from_slice(node),
                        }
                    }
                }),
                Part::HasNextPage => json.extend_from_slice(page.has_next.to_string().as_bytes()),
                Part::HasPreviousPage => json.extend_from_slice(page.has_previous.to_string().as_bytes()),
                Part::StartCursor => write_cursor(sort, page.rows.first().map(|(key, _)| key), json),
                Part::EndCursor => write_cursor(sort, page.rows.last().map(|(key, _)| key), json),
                Part::TotalCount => {
                    json.extend_from_slice(total_count.unwrap_or_default().to_string().as_bytes());
                }
            }
        }
    }
}

fn write_list<T>(items: &[T], json: &mut Vec<u8>, write_item: impl Fn(&T, &mut Vec<u8>)) {
    json.push(b'[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            json.push(b',');
        }
        write_item(item, json);
    }
    json.push(b']');
}

fn write_cursor(sort: impl Sort, key: Option<&Key>, json: &mut Vec<u8>) {
    // Writing a text or null does not fail.
    let _ = key.map(|key| cursor_for_key(sort, key)).write_json(json);
}
