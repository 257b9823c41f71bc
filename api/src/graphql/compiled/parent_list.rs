//! Lists that each parent of one kind has, to any depth: one statement reads the same page of all parents.

use async_graphql::parser::types::Field;
use entity::{
    Row,
    ids::{ClusterId, ComputationId},
};
use futures::{FutureExt, future::BoxFuture};

use super::{Failure, ReadContext, arguments::ListArguments, connection::ConnectionTemplate};
use crate::{
    graphql::{
        computations::{computation::ComputationFields, task_group::TaskGroupFields},
        engine::{connection::MAX_PAGE_SIZE, object_template::Compilation, row_fields::FindField},
        errors::error_occurrence::ErrorOccurrenceFields,
    },
    store::{
        ComputationParent, ComputationSort, ErrorParent, ErrorSort, ParentSort, TaskGroupParent,
        TaskGroupSort,
        core::page::{Key, KeyPart, Sort},
    },
};

/// A plan that reads the same page of a list of several parents.
pub(super) trait ReadLists<Parent>: Send + Sync {
    /// Returns the connection of each parent as JSON.
    fn read<'a>(
        &'a self,
        context: ReadContext<'a>,
        parents: &'a [Parent],
    ) -> BoxFuture<'a, Result<Vec<Vec<u8>>, Failure>>;
}

type Entity<L> = <<L as RowList>::Sort as Sort>::Entity;

/// A list whose nodes follow from their rows.
trait RowList: 'static {
    /// The parent of a list.
    type Parent: Copy + Send + Sync;
    type Sort: ParentSort;

    const SORT: Self::Sort;
    /// The name of the type of the nodes.
    const NODE_TYPE: &'static str;
    /// The arguments besides those of the page.
    const OTHER_ARGUMENTS: &'static [&'static str];
    /// The fields of the nodes.
    const FIND_FIELD: FindField<Entity<Self>>;

    /// Returns the parent of the rows.
    fn row_parent(parent: Self::Parent) -> <Self::Sort as ParentSort>::Parent;

    /// Returns the node with this position in the list of a parent; `None` if nodes have no lists.
    fn node(_: Self::Parent, _: &Key) -> Option<ComputationKey> {
        None
    }

    /// Compiles a list of each node. Returns `None` if the executor has to resolve it.
    fn compile_list(_: &Field, _: &Compilation<'_>) -> Option<Box<dyn ReadLists<ComputationKey>>> {
        None
    }
}

struct ListPlan<L: RowList> {
    arguments: ListArguments,
    connection: ConnectionTemplate<Entity<L>>,
    /// The lists of each node.
    lists: Vec<Box<dyn ReadLists<ComputationKey>>>,
}

/// The share of a list in the size of a document's templates. The statements of at most 15 lists run at once.
const LIST_SIZE: usize = 4_096;

/// Compiles a list. Returns `None` if the executor has to resolve it.
fn compile<L: RowList>(list: &Field, compilation: &Compilation<'_>) -> Option<Box<dyn ReadLists<L::Parent>>> {
    compilation.charge(LIST_SIZE)?;
    let mut lists = Vec::new();
    let add_list = |field: &Field| {
        lists.push(L::compile_list(field, compilation)?);
        Some(())
    };
    let selection = &list.selection_set.node;
    let connection =
        ConnectionTemplate::compile(selection, compilation, L::NODE_TYPE, L::FIND_FIELD, add_list)?;
    if connection.has_total_count() {
        return None;
    }
    let arguments = ListArguments::compile(list, L::OTHER_ARGUMENTS)?;
    Some(Box::new(ListPlan::<L> { arguments, connection, lists }))
}

impl<L: RowList> ListPlan<L> {
    async fn read_lists(
        &self,
        context: ReadContext<'_>,
        parents: &[L::Parent],
    ) -> Result<Vec<Vec<u8>>, Failure> {
        let request = self.arguments.request(context.variables, MAX_PAGE_SIZE, L::SORT)?;
        let (columns, decode) = (self.connection.columns(), |row: &Row<'_>| self.connection.write_node(row));
        let row_parents: Vec<_> = parents.iter().map(|parent| L::row_parent(*parent)).collect();
        let pages = context.store.parent_page_rows(&row_parents, L::SORT, &request, columns, decode);
        let pages = pages.await.map_err(|_| Failure::NeedsExecutor)?;
        let nodes = parents.iter().zip(&pages).flat_map(|(parent, page)| {
            let has_lists = !self.lists.is_empty();
            let keys = page.rows.iter().filter(move |_| has_lists).map(|(key, _)| key);
            keys.map(|key| L::node(*parent, key).ok_or(Failure::NeedsExecutor))
        });
        let lists = read_lists(&self.lists, context, &nodes.collect::<Result<Vec<_>, _>>()?).await?;
        let mut first_node = 0;
        let connections = pages.iter().map(|page| {
            let size = page.rows.iter().map(|(_, node)| node.len() + 64).sum::<usize>();
            let list = |node: usize, number: usize| &lists[number][first_node + node][..];
            let mut json = Vec::with_capacity(size + 256);
            self.connection.write(page, L::SORT, None, list, &mut json)?;
            first_node += page.rows.len();
            Ok(json)
        });
        connections.collect()
    }
}

impl<L: RowList> ReadLists<L::Parent> for ListPlan<L> {
    fn read<'a>(
        &'a self,
        context: ReadContext<'a>,
        parents: &'a [L::Parent],
    ) -> BoxFuture<'a, Result<Vec<Vec<u8>>, Failure>> {
        self.read_lists(context, parents).boxed()
    }
}

/// Reads several lists of the same parents. Returns the connections of each list as JSON, in the order of the
/// parents.
pub(super) async fn read_lists<Parent>(
    lists: &[Box<dyn ReadLists<Parent>>],
    context: ReadContext<'_>,
    parents: &[Parent],
) -> Result<Vec<Vec<Vec<u8>>>, Failure> {
    futures::future::try_join_all(lists.iter().map(|list| list.read(context, parents))).await
}

/// Compiles a list of a cluster.
pub(super) fn compile_cluster_list(
    field: &Field,
    compilation: &Compilation<'_>,
) -> Option<Box<dyn ReadLists<ClusterId>>> {
    match field.name.node.as_str() {
        "computations" => compile::<ClusterComputations>(field, compilation),
        "taskGroups" => compile::<ClusterTaskGroups>(field, compilation),
        "errors" => compile::<ClusterErrors>(field, compilation),
        _ => None,
    }
}

type ComputationKey = (ClusterId, ComputationId);

struct ClusterComputations;

impl RowList for ClusterComputations {
    type Parent = ClusterId;
    type Sort = ComputationSort;

    const FIND_FIELD: FindField<Entity<Self>> = ComputationFields::find_field;
    const NODE_TYPE: &'static str = "Computation";
    const OTHER_ARGUMENTS: &'static [&'static str] = &["during"];
    const SORT: ComputationSort = ComputationSort::NewestFirst;

    fn row_parent(cluster: ClusterId) -> ComputationParent {
        ComputationParent { cluster, during: (None, None) }
    }

    fn node(cluster: ClusterId, key: &Key) -> Option<ComputationKey> {
        let Some(KeyPart::Uuid(id)) = key.0.last() else { return None };
        Some((cluster, ComputationId(*id)))
    }

    fn compile_list(
        field: &Field,
        compilation: &Compilation<'_>,
    ) -> Option<Box<dyn ReadLists<ComputationKey>>> {
        match field.name.node.as_str() {
            "taskGroups" => compile::<ComputationTaskGroups>(field, compilation),
            "errors" => compile::<ComputationErrors>(field, compilation),
            _ => None,
        }
    }
}

/// Declares lists of task groups and of errors, whose nodes have no lists.
macro_rules! leaf_lists {
    ($($list:ident of $parent:ty: $fields:ident of $node_type:literal, $sort_type:ident::$sort:ident,
        $other_arguments:expr, $row_parent_type:ty, $row_parent:expr;)+) => {$(
        struct $list;

        impl RowList for $list {
            type Parent = $parent;
            type Sort = $sort_type;

            const FIND_FIELD: FindField<Entity<Self>> = $fields::find_field;
            const NODE_TYPE: &'static str = $node_type;
            const OTHER_ARGUMENTS: &'static [&'static str] = $other_arguments;
            const SORT: $sort_type = $sort_type::$sort;

            fn row_parent(parent: $parent) -> $row_parent_type {
                $row_parent(parent)
            }
        }
    )+};
}

const TASK_GROUP_ARGUMENTS: &[&str] = &["filter", "orderBy"];

leaf_lists! {
    ClusterTaskGroups of ClusterId: TaskGroupFields of "TaskGroup", TaskGroupSort::OldestFirst,
        TASK_GROUP_ARGUMENTS, TaskGroupParent, TaskGroupParent::Cluster;
    ComputationTaskGroups of ComputationKey: TaskGroupFields of "TaskGroup", TaskGroupSort::OldestFirst,
        TASK_GROUP_ARGUMENTS, TaskGroupParent, |(cluster, id)| TaskGroupParent::Computation(cluster, id);
    ClusterErrors of ClusterId: ErrorOccurrenceFields of "ErrorOccurrence", ErrorSort::NewestFirst,
        &["at"], ErrorParent, |cluster| ErrorParent::Cluster(cluster, (None, None));
    ComputationErrors of ComputationKey: ErrorOccurrenceFields of "ErrorOccurrence", ErrorSort::NewestFirst,
        &[], ErrorParent, |(cluster, id)| ErrorParent::Computation(cluster, id);
}
