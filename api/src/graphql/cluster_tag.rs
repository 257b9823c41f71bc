//! Tags of clusters, and what is found by them.

use async_graphql::{InputObject, SimpleObject};
use entity::{cluster::Model, ids::ClusterId, list};

use super::{
    cluster::Cluster, error::ApiError, in_place::in_place_members, loaders::TagsOf, scope::AccountScope,
    user_error::UserError,
};
use crate::{
    domain::tag::{self, MAX_PATTERNS},
    store::TagFilter,
};

/// What a cluster is called, to be found and summed up by: a word, or a key with a value.
#[derive(Clone, Debug, SimpleObject, InputObject)]
#[graphql(input_name = "TagInput")]
pub(super) struct Tag {
    /// The word or key, 1 to 100 characters, told apart by upper and lower case. A cluster has each once.
    key: String,
    /// The value, at most 200 characters; null for a word alone, which is the same as an empty one.
    value: Option<String>,
}

in_place_members! { Tag: key, value }

impl From<&tag::Tag> for Tag {
    fn from(tag: &tag::Tag) -> Self {
        Self { key: tag.key().to_owned(), value: tag.value().map(str::to_owned) }
    }
}

/// Which tags are meant: all with this key, or of these the one with a value.
#[derive(Clone, Debug, SimpleObject, InputObject)]
#[graphql(input_name = "TagPatternInput")]
pub(super) struct TagPattern {
    /// The key, 1 to 100 characters, told apart by upper and lower case.
    key: String,
    /// Only with this value, at most 200 characters; with any, or none, if null. An empty one means a tag without.
    value: Option<String>,
}

impl TagPattern {
    pub(super) fn check(&self) -> Result<list::TagPattern, tag::TagError> {
        tag::pattern(&self.key, self.value.as_deref())
    }
}

impl From<list::TagPattern> for TagPattern {
    fn from(pattern: list::TagPattern) -> Self {
        Self { key: pattern.key, value: pattern.value }
    }
}

/// Which tags clusters have to have: every condition that is given has to hold.
#[derive(Debug, Default, InputObject)]
pub(super) struct ClusterTagFilter {
    /// At least one of these, at most 20.
    any: Option<Vec<TagPattern>>,
    /// Each of these, at most 20.
    all: Option<Vec<TagPattern>>,
    /// None of these, at most 20.
    none: Option<Vec<TagPattern>>,
}

impl ClusterTagFilter {
    pub(super) fn check(self) -> Result<TagFilter, ApiError> {
        Ok(TagFilter {
            any: self.any.map(|any| patterns("any", &any)).transpose()?,
            all: patterns("all", &self.all.unwrap_or_default())?,
            none: patterns("none", &self.none.unwrap_or_default())?,
        })
    }
}

pub(super) fn patterns(
    argument: &'static str,
    given: &[TagPattern],
) -> Result<Vec<list::TagPattern>, ApiError> {
    let invalid = |reason: String| ApiError::InvalidArgument { argument, reason };
    if given.len() > MAX_PATTERNS {
        return Err(invalid(format!("must be at most {MAX_PATTERNS}")));
    }
    given.iter().map(|pattern| pattern.check().map_err(|error| invalid(error.to_string()))).collect()
}

/// The tags of a cluster, by key.
pub(super) async fn tags(scope: &AccountScope, cluster: ClusterId) -> Result<Vec<Tag>, ApiError> {
    let found = scope.loader.load_one(TagsOf(cluster)).await?.unwrap_or_default();
    Ok(found.iter().map(Tag::from).collect())
}

/// The outcome of what was written on a cluster.
#[derive(SimpleObject)]
pub(super) struct ClusterPayload {
    /// The cluster as it is now.
    pub(super) cluster: Cluster,
    /// What was wrong with the input; nothing is changed unless it is empty.
    pub(super) user_errors: Vec<UserError>,
}

impl ClusterPayload {
    /// What was wanted is written.
    pub(super) fn done(scope: &AccountScope, row: Model) -> Self {
        Self { cluster: Cluster::new(&scope.after_change(), row), user_errors: Vec::new() }
    }

    /// Nothing is changed.
    pub(super) async fn refused(
        scope: &AccountScope,
        cluster: ClusterId,
        error: UserError,
    ) -> Result<Self, ApiError> {
        Ok(Self { cluster: Cluster::of(scope, cluster).await?, user_errors: vec![error] })
    }
}

pub(super) async fn set_cluster_tags(
    scope: &AccountScope,
    cluster: ClusterId,
    tags: &[Tag],
) -> Result<ClusterPayload, ApiError> {
    match tag::check(tags.iter().map(|tag| (tag.key.as_str(), tag.value.as_deref()))) {
        Ok(tags) => {
            let row = scope.store.set_cluster_tags(cluster, tags, scope.now.into()).await?;
            Ok(ClusterPayload::done(scope, row.ok_or(ApiError::NotFound("cluster"))?))
        }
        Err(errors) => {
            let user_errors = errors.iter().map(|error| UserError::of("tags", error)).collect();
            Ok(ClusterPayload { cluster: Cluster::of(scope, cluster).await?, user_errors })
        }
    }
}
