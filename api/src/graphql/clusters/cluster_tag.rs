//! The GraphQL types and the mutation of cluster tags, and the filters by tag.

use async_graphql::{InputObject, SimpleObject};
use entity::{audit_entry::Action, cluster::Model, ids::ClusterId, json_columns};

use super::cluster::Cluster;
use crate::{
    domain::{
        audit::Target,
        permission::Denial,
        tag::{self, MAX_PATTERNS},
    },
    graphql::engine::{
        error::ApiError, loaders::TagsKey, projection::inline_members, scope::AccountScope,
        user_error::UserError,
    },
    store::{ChangeOutcome, TagFilter},
};

/// A tag of a cluster, for searches and sums: a word, or a key with a value.
#[derive(Clone, Debug, SimpleObject, InputObject)]
#[graphql(input_name = "TagInput")]
pub(crate) struct Tag {
    /// The word or key, 1 to 100 characters, case-sensitive. A cluster has at most one tag of a key.
    key: String,
    /// The value, at most 200 characters. Null for a word. An empty value equals null.
    value: Option<String>,
}

inline_members! { Tag: key, value }

impl From<&tag::Tag> for Tag {
    fn from(tag: &tag::Tag) -> Self {
        Self { key: tag.key().to_owned(), value: tag.value().map(str::to_owned) }
    }
}

/// A pattern for tags: all tags of a key, or the tag of a key with one value.
#[derive(Clone, Debug, SimpleObject, InputObject)]
#[graphql(input_name = "TagPatternInput")]
pub(crate) struct TagPattern {
    /// The key, 1 to 100 characters, case-sensitive.
    key: String,
    /// The value, at most 200 characters. Null for any value or none. An empty value matches tags
    /// without a value.
    value: Option<String>,
}

impl TagPattern {
    pub(crate) fn check(&self) -> Result<json_columns::TagPattern, tag::TagError> {
        tag::pattern(&self.key, self.value.as_deref())
    }
}

impl From<json_columns::TagPattern> for TagPattern {
    fn from(pattern: json_columns::TagPattern) -> Self {
        Self { key: pattern.key, value: pattern.value }
    }
}

/// Conditions on the tags of clusters. A cluster has to meet all given conditions.
#[derive(Debug, Default, InputObject)]
pub(crate) struct ClusterTagFilter {
    /// At least one of these patterns, at most 20.
    any: Option<Vec<TagPattern>>,
    /// All of these patterns, at most 20.
    all: Option<Vec<TagPattern>>,
    /// None of these patterns, at most 20.
    none: Option<Vec<TagPattern>>,
}

impl ClusterTagFilter {
    pub(crate) fn check(self) -> Result<TagFilter, ApiError> {
        Ok(TagFilter {
            any: self.any.map(|patterns| check_patterns("any", &patterns)).transpose()?,
            all: check_patterns("all", &self.all.unwrap_or_default())?,
            none: check_patterns("none", &self.none.unwrap_or_default())?,
        })
    }
}

pub(crate) fn check_patterns(
    argument: &'static str,
    patterns: &[TagPattern],
) -> Result<Vec<json_columns::TagPattern>, ApiError> {
    let invalid = |reason: String| ApiError::InvalidArgument { argument, reason };
    if patterns.len() > MAX_PATTERNS {
        return Err(invalid(format!("must be at most {MAX_PATTERNS}")));
    }
    patterns.iter().map(|pattern| pattern.check().map_err(|error| invalid(error.to_string()))).collect()
}

/// Returns the tags of a cluster, ordered by key.
pub(crate) async fn load_tags(scope: &AccountScope, cluster: ClusterId) -> Result<Vec<Tag>, ApiError> {
    let found = scope.loader.load_one(TagsKey(cluster)).await?.unwrap_or_default();
    Ok(found.iter().map(Tag::from).collect())
}

/// The outcome of a change of a cluster's tags, notes or owner.
#[derive(SimpleObject)]
pub(crate) struct ClusterPayload {
    /// The cluster after the change.
    pub(crate) cluster: Cluster,
    /// The errors in the input. If there are any, nothing was changed.
    pub(crate) user_errors: Vec<UserError>,
}

impl ClusterPayload {
    /// Returns the outcome of a change that was made.
    pub(crate) fn changed(scope: &AccountScope, row: Model) -> Self {
        Self { cluster: Cluster::new(&scope.with_empty_caches(), row), user_errors: Vec::new() }
    }

    /// Returns the outcome of a change that the store made or refused.
    pub(crate) async fn from_outcome(
        scope: &AccountScope,
        (action, cluster): (Action, ClusterId),
        outcome: ChangeOutcome<Model>,
    ) -> Result<Self, ApiError> {
        match outcome {
            ChangeOutcome::Done(row) => Ok(Self::changed(scope, *row)),
            ChangeOutcome::NotOwner => Self::not_owner(scope, action, cluster).await,
            ChangeOutcome::Missing => Err(ApiError::NotFound("cluster")),
        }
    }

    /// Returns the outcome of a change of another user's cluster, and records the attempt. Other changes of
    /// the same request keep their outcomes.
    pub(crate) async fn not_owner(
        scope: &AccountScope,
        action: Action,
        cluster: ClusterId,
    ) -> Result<Self, ApiError> {
        scope.record_denial(action, Target::Cluster(cluster), Denial::NotOwner).await?;
        Self::refused(scope, cluster, UserError::not_owner("cluster")).await
    }

    /// Returns the outcome of a change whose input has an error.
    pub(crate) async fn refused(
        scope: &AccountScope,
        cluster: ClusterId,
        error: UserError,
    ) -> Result<Self, ApiError> {
        Ok(Self { cluster: Cluster::load_existing(scope, cluster).await?, user_errors: vec![error] })
    }
}

pub(crate) async fn set_cluster_tags(
    scope: &AccountScope,
    cluster: ClusterId,
    tags: &[Tag],
) -> Result<ClusterPayload, ApiError> {
    match tag::check(tags.iter().map(|tag| (tag.key.as_str(), tag.value.as_deref()))) {
        Ok(tags) => {
            let (action, now) = (Action::SetClusterTags, scope.now.into());
            let owner = scope.required_owner(action);
            let outcome = scope.store.set_cluster_tags(cluster, owner, tags, now).await?;
            ClusterPayload::from_outcome(scope, (action, cluster), outcome).await
        }
        Err(errors) => {
            let user_errors = errors.iter().map(|error| UserError::from_rule("tags", error)).collect();
            Ok(ClusterPayload { cluster: Cluster::load_existing(scope, cluster).await?, user_errors })
        }
    }
}
