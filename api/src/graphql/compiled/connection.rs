//! The JSON of a connection whose nodes follow from their rows.

use async_graphql::parser::types::{Field, SelectionSet};
use entity::Row;
use sea_orm::{DbErr, EntityTrait};

use crate::{
    graphql::engine::{
        connection::cursor_for_key,
        json::{NeedsExecutor, WriteJson, write_list},
        object_template::{Compilation, ObjectTemplate, expand_fields},
        row_fields::{FindField, RowJson, RowProjection},
        scalar::BigInt,
    },
    store::core::page::{Page, Sort},
};

/// The selected fields of a connection.
pub(super) struct ConnectionTemplate<E: EntityTrait> {
    template: ObjectTemplate<ListValue>,
    nodes: RowProjection<E>,
    /// The names of the fields that are selected of the nodes themselves.
    node_fields: Vec<String>,
}

/// A value of a connection.
enum ListValue {
    Nodes,
    Edges(ObjectTemplate<EdgeValue>),
    HasNextPage,
    HasPreviousPage,
    StartCursor,
    EndCursor,
    TotalCount,
}

/// A value of an edge.
#[derive(Clone, Copy)]
enum EdgeValue {
    Cursor,
    Node,
}

impl<E: EntityTrait> ConnectionTemplate<E> {
    /// Compiles the selection of a connection with nodes of a type. `add_list` accepts a list of each node,
    /// or returns `None`. Returns `None` if the executor has to resolve the selection.
    pub(super) fn compile(
        selection: &SelectionSet,
        compilation: &Compilation<'_>,
        node_type: &str,
        find_field: FindField<E>,
        add_list: impl FnMut(&Field) -> Option<()>,
    ) -> Option<Self> {
        let mut node_field: Option<Field> = None;
        // The nodes are written once.
        let mut set_node = |field: &Field| node_field.replace(field.clone()).is_none().then_some(());
        let (list_type, edge_type) = (format!("{node_type}Connection"), format!("{node_type}Edge"));
        let template = ObjectTemplate::compile(selection, compilation, &list_type, |list, field| {
            let selection = &field.selection_set.node;
            let value = match field.name.node.as_str() {
                "nodes" => {
                    set_node(field)?;
                    ListValue::Nodes
                }
                "edges" => {
                    let edge = ObjectTemplate::compile(selection, compilation, &edge_type, |edge, field| {
                        edge.push(match field.name.node.as_str() {
                            "cursor" => EdgeValue::Cursor,
                            "node" => {
                                set_node(field)?;
                                EdgeValue::Node
                            }
                            _ => return None,
                        });
                        Some(())
                    });
                    ListValue::Edges(edge?)
                }
                "pageInfo" => {
                    return list.add_object(selection, compilation, "PageInfo", |list, field| {
                        list.push(match field.name.node.as_str() {
                            "hasNextPage" => ListValue::HasNextPage,
                            "hasPreviousPage" => ListValue::HasPreviousPage,
                            "startCursor" => ListValue::StartCursor,
                            "endCursor" => ListValue::EndCursor,
                            _ => return None,
                        });
                        Some(())
                    });
                }
                "totalCount" => ListValue::TotalCount,
                _ => return None,
            };
            list.push(value);
            Some(())
        })?;
        let node_field = node_field?;
        let selection = &node_field.selection_set.node;
        let nodes = RowProjection::compile(selection, compilation, node_type, find_field, add_list)?;
        let node_fields = expand_fields(selection, compilation, node_type)?.into_iter();
        let node_fields = node_fields.map(|(_, field)| field.name.node.to_string()).collect();
        Some(Self { template, nodes, node_fields })
    }

    /// Returns true if only these fields of the nodes are selected.
    pub(super) fn nodes_have_only(&self, fields: &[&str]) -> bool {
        self.node_fields.iter().all(|field| fields.contains(&field.as_str()))
    }

    /// Returns true if the number of items of the whole list is selected.
    pub(super) fn has_total_count(&self) -> bool {
        self.template.values.iter().any(|(_, value)| matches!(value, ListValue::TotalCount))
    }

    /// Returns the columns of the nodes' fields.
    pub(super) fn columns(&self) -> &[E::Column] {
        self.nodes.columns()
    }

    /// Returns the node of a row, whose first columns are [`Self::columns`].
    pub(super) fn write_node(&self, row: &Row<'_>) -> Result<RowJson, DbErr> {
        self.nodes.write_row(row)
    }

    /// Writes the connection of a page of nodes. `total_count` is present if it is selected. `list` returns
    /// the JSON of a node's list by the indices of the node and of the list.
    pub(super) fn write<'a, S: Sort>(
        &self,
        page: &Page<RowJson>,
        sort: S,
        total_count: Option<i64>,
        list: impl Fn(usize, usize) -> &'a [u8],
        json: &mut Vec<u8>,
    ) -> Result<(), NeedsExecutor> {
        let nodes = || page.rows.iter().enumerate();
        let write_node = |index: usize, node: &RowJson, json: &mut Vec<u8>| {
            node.write(json, |number| list(index, number));
            Ok(())
        };
        self.template.write(json, |value, json| match value {
            ListValue::Nodes => {
                write_list(nodes(), json, |(index, (_, node)), json| write_node(index, node, json))
            }
            ListValue::Edges(edge) => write_list(nodes(), json, |(index, (key, node)), json| {
                edge.write(json, |value, json| match value {
                    EdgeValue::Cursor => cursor_for_key(sort, key).write_json(json),
                    EdgeValue::Node => write_node(index, node, json),
                })
            }),
            ListValue::HasNextPage => page.has_next.write_json(json),
            ListValue::HasPreviousPage => page.has_previous.write_json(json),
            ListValue::StartCursor => {
                page.rows.first().map(|(key, _)| cursor_for_key(sort, key)).write_json(json)
            }
            ListValue::EndCursor => {
                page.rows.last().map(|(key, _)| cursor_for_key(sort, key)).write_json(json)
            }
            ListValue::TotalCount => BigInt(total_count.ok_or(NeedsExecutor)?).write_json(json),
        })
    }
}
