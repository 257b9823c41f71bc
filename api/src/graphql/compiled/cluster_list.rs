//! The account's clusters in the default order: `viewer { account { clusters { … } } }`.

use std::sync::OnceLock;

use async_graphql::{PathSegment, Pos, ServerError, parser::types::SelectionSet};
use entity::cluster::Entity;

use super::{
    Failure, ReadContext, arguments::ListArguments, connection::ConnectionTemplate, find_only_field,
};
use crate::{
    graphql::{
        clusters::cluster_fields::ClusterFields,
        engine::{
            connection::{LONG_PAGE_FIELDS, MAX_LONG_PAGE_SIZE, MAX_PAGE_SIZE},
            error::ApiError,
            object_template::Compilation,
        },
    },
    store::{ClusterFilter, ClusterPageStatement, ClusterSort},
};

/// The plan of a page of the list.
pub(super) struct ClusterList {
    /// The response keys of the fields from the root to the list.
    keys: [String; 3],
    /// The position of the list in the document.
    position: Pos,
    arguments: ListArguments,
    /// The largest page with the selected fields.
    max_page: u64,
    connection: ConnectionTemplate<Entity>,
    /// The statements, see [`AccountStore::compose_cluster_page`].
    statements: [OnceLock<Option<ClusterPageStatement>>; 8],
}

impl ClusterList {
    pub(super) fn compile(selection: &SelectionSet, compilation: &Compilation<'_>) -> Option<Self> {
        let (viewer_key, viewer) = find_only_field(selection, compilation, ("Query", "viewer"))?;
        let selection = &viewer.selection_set.node;
        let (account_key, account) = find_only_field(selection, compilation, ("Viewer", "account"))?;
        let selection = &account.selection_set.node;
        let (list_key, list) = find_only_field(selection, compilation, ("Account", "clusters"))?;
        let arguments = ListArguments::compile(list, &["filter"])?;
        let connection = ConnectionTemplate::compile(
            &list.selection_set.node,
            compilation,
            "Cluster",
            ClusterFields::find_field,
            |_| None,
        )?;
        let has_only_long_page_fields = connection.nodes_have_only(&LONG_PAGE_FIELDS);
        Some(Self {
            keys: [viewer_key, account_key, list_key].map(str::to_owned),
            position: list.alias.as_ref().unwrap_or(&list.name).pos,
            arguments,
            max_page: if has_only_long_page_fields { MAX_LONG_PAGE_SIZE } else { MAX_PAGE_SIZE },
            connection,
            statements: Default::default(),
        })
    }

    /// Returns the data of the response as JSON.
    pub(super) async fn run(&self, context: ReadContext<'_>) -> Result<Vec<u8>, Failure> {
        let ReadContext { store, variables } = context;
        let request = self.arguments.request(variables, self.max_page, ClusterSort::NEWEST_FIRST)?;
        let columns = self.connection.columns();
        let statement = self.statements[ClusterPageStatement::variant(&request)]
            .get_or_init(|| store.compose_cluster_page(columns, &request));
        let statement = statement.as_ref().ok_or(Failure::NeedsExecutor)?;
        let page =
            store.cluster_page_rows(statement, &request, |row| self.connection.write_node(row)).await?;
        let total_count = if self.connection.has_total_count() {
            // The executor reports an error at the count and not at the list.
            let count = store.cluster_count(&ClusterFilter::default()).await;
            Some(i64::try_from(count.map_err(|_| Failure::NeedsExecutor)?).unwrap_or(i64::MAX))
        } else {
            None
        };
        let mut json =
            Vec::with_capacity(512 + page.rows.iter().map(|(_, node)| node.len() + 64).sum::<usize>());
        for key in &self.keys {
            json.extend_from_slice(format!("{{\"{key}\":").as_bytes());
        }
        self.connection.write(&page, ClusterSort::NEWEST_FIRST, total_count, |_, _| &[], &mut json)?;
        json.extend_from_slice(b"}}}");
        Ok(json)
    }

    /// Returns the error at the place of the list in the response.
    pub(super) fn locate_error(&self, error: ApiError) -> ServerError {
        let path = self.keys.iter().cloned().map(PathSegment::Field).collect();
        ServerError { locations: vec![self.position], path, ..error.into_response_error() }
    }
}
