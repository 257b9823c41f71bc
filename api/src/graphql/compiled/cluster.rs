//! A cluster with its lists: `cluster(id: …) { … }`.

use async_graphql::parser::types::{Field, SelectionSet};
use entity::{cluster::Entity, ids::ClusterId};

use super::{
    Failure, ReadContext,
    arguments::Argument,
    find_only_field,
    parent_list::{ReadLists, compile_cluster_list, read_lists},
};
use crate::graphql::{
    clusters::{cluster::Cluster, cluster_fields::ClusterFields},
    engine::{object_template::Compilation, row_fields::RowProjection},
};

/// The plan of a cluster.
pub(super) struct ClusterRead {
    /// The response key of the cluster.
    key: String,
    id: Argument,
    object: RowProjection<Entity>,
    lists: Vec<Box<dyn ReadLists<ClusterId>>>,
}

impl ClusterRead {
    pub(super) fn compile(selection: &SelectionSet, compilation: &Compilation<'_>) -> Option<Self> {
        let (key, cluster) = find_only_field(selection, compilation, ("Query", "cluster"))?;
        let id = Argument::of(cluster, "id")?;
        let mut lists = Vec::new();
        let add_list = |field: &Field| {
            lists.push(compile_cluster_list(field, compilation)?);
            Some(())
        };
        let selection = &cluster.selection_set.node;
        let object =
            RowProjection::compile(selection, compilation, "Cluster", ClusterFields::find_field, add_list)?;
        Some(Self { key: key.to_owned(), id, object, lists })
    }

    /// Returns the data of the response as JSON.
    pub(super) async fn run(&self, context: ReadContext<'_>) -> Result<Vec<u8>, Failure> {
        let ReadContext { store, variables } = context;
        let id = Cluster::parse_id_of_account(store.account_id(), &self.id.id(variables)?);
        let cluster = match id {
            None => None,
            Some(id) => {
                let row = store.cluster_row(id, self.object.columns(), |row| self.object.write_row(row));
                // The lists of a cluster that does not exist are not written.
                let row = async { row.await.map_err(|_| Failure::NeedsExecutor) };
                let parents = [id];
                let (row, lists) =
                    futures::future::try_join(row, read_lists(&self.lists, context, &parents)).await?;
                row.map(|row| (row, lists))
            }
        };
        let mut json = format!("{{\"{}\":", self.key).into_bytes();
        match cluster {
            Some((row, lists)) => {
                json.reserve(row.len() + lists.iter().flatten().map(Vec::len).sum::<usize>() + 1);
                row.write(&mut json, |list| &lists[list][0]);
            }
            None => json.extend_from_slice(b"null"),
        }
        json.push(b'}');
        Ok(json)
    }
}
