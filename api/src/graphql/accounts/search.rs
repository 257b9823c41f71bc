//! One search by text over the objects of an account that have names.

use async_graphql::{Enum, SimpleObject, Union};
use entity::ids::ClusterId;

use super::account_list::SpanTag;
use crate::{
    graphql::{
        access::user::User,
        clusters::{cluster::Cluster, cluster_list::check_search_text},
        engine::{
            error::ApiError,
            scalar::Date,
            scope::{AccountScope, QuotaKind},
        },
        errors::error_group::ErrorGroup,
    },
    store::{
        ClusterFilter, ClusterSort, ErrorGroupFilter, ErrorGroupSort, TagText,
        core::page::{End, PageRequest},
    },
};

/// The maximum number of results of each type.
const MAX_RESULTS: u64 = 20;

/// The number of error groups of which one search reads the title.
const GROUPS_PER_SEARCH: u64 = 500;

/// A type of objects to search for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Enum)]
pub(crate) enum SearchType {
    /// Clusters, by their number, `name` and `schedulerId`, the newest first.
    Cluster,
    /// Error groups, by `type` and `title`, the one with the newest error first. Searches the 500 groups
    /// with the newest errors.
    ErrorGroup,
    /// Functions and operations, by their name, the most recently used first. Searches the newest 50,000
    /// combinations of day, user and function.
    Function,
    /// Tags of spans, the most recently used first. Searches the newest 50,000 spans.
    SpanTag,
    /// Users who have clusters, by their name, in the order of names.
    User,
}

impl SearchType {
    const ALL: [Self; 5] = [Self::Cluster, Self::ErrorGroup, Self::Function, Self::SpanTag, Self::User];
}

/// A property that contains the searched text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(crate) enum SearchField {
    /// The number of a cluster, which equals the text.
    Number,
    /// The name of a cluster, a function or a user, or a tag of spans.
    Name,
    /// The `schedulerId` of a cluster, and not its name.
    SchedulerId,
    /// The class of the exceptions of an error group.
    Type,
    /// The title of an error group, and not its class.
    Title,
}

/// An object that a search found.
#[derive(SimpleObject)]
pub(crate) struct SearchResult {
    /// The property that contains the text.
    matched: SearchField,
    /// The object.
    item: SearchItem,
}

/// An object that can be searched for.
#[derive(Union)]
enum SearchItem {
    Cluster(Box<Cluster>),
    ErrorGroup(Box<ErrorGroup>),
    Function(FunctionUse),
    SpanTag(SpanTag),
    User(User),
}

/// The use of a function or operation.
#[derive(SimpleObject)]
struct FunctionUse {
    /// The name: the prefix of its task groups.
    prefix: String,
    /// The last day on which its tasks ran, in UTC.
    last_used_on: Date,
}

/// Returns the objects of some types that a text is found in, at most `first` of each type, in the order
/// of the types.
pub(crate) async fn search(
    scope: &AccountScope,
    text: &str,
    types: Option<Vec<SearchType>>,
    first: i32,
) -> Result<Vec<SearchResult>, ApiError> {
    check_search_text("text", text)?;
    let limit = u64::try_from(first).ok().filter(|limit| (1..=MAX_RESULTS).contains(limit));
    let limit =
        limit.ok_or_else(|| ApiError::invalid("first", format!("must be from 1 to {MAX_RESULTS}")))?;
    let is_searched =
        |search_type: &SearchType| types.as_ref().is_none_or(|types| types.contains(search_type));
    let mut results = Vec::new();
    for search_type in SearchType::ALL.into_iter().filter(is_searched) {
        scope.charge(QuotaKind::Searches, 1)?;
        match search_type {
            SearchType::Cluster => find_clusters(scope, text, limit, &mut results).await?,
            SearchType::ErrorGroup => find_error_groups(scope, text, limit, &mut results).await?,
            SearchType::Function => {
                let functions = scope.store.find_functions(text, limit).await?;
                results.extend(functions.into_iter().map(|(prefix, day)| {
                    let item = FunctionUse { prefix, last_used_on: Date::from_number(day) };
                    SearchResult { matched: SearchField::Name, item: SearchItem::Function(item) }
                }));
            }
            SearchType::SpanTag => {
                let tag = TagText::Contains(text);
                let tags = scope.store.span_tags(&ClusterFilter::default(), (None, None), tag, limit).await?;
                let item = |tag| SearchItem::SpanTag(SpanTag(tag));
                results.extend(
                    tags.into_iter().map(|tag| SearchResult { matched: SearchField::Name, item: item(tag) }),
                );
            }
            SearchType::User => {
                let item = |user| SearchItem::User(User::new(scope, user));
                let users = scope.store.find_users_with_clusters(text, limit).await?.into_iter();
                results
                    .extend(users.map(|user| SearchResult { matched: SearchField::Name, item: item(user) }));
            }
        }
    }
    Ok(results)
}

async fn find_clusters(
    scope: &AccountScope,
    text: &str,
    limit: u64,
    results: &mut Vec<SearchResult>,
) -> Result<(), ApiError> {
    let number = text.parse().ok().map(ClusterId);
    let cluster_with_number = match number {
        Some(number) => Cluster::find(scope, number).await?,
        None => None,
    };
    let filter = ClusterFilter { search: Some(text.to_owned()), ..ClusterFilter::default() };
    let (sort, request) = (ClusterSort::NEWEST_FIRST, PageRequest::from(End::First, limit));
    let page = scope.store.cluster_page(&filter, sort, &request).await?;
    let has_number = cluster_with_number.is_some();
    let others =
        page.rows.into_iter().map(|(_, row)| row).filter(|row| !has_number || Some(row.id) != number);
    let others = others.map(|row| {
        let is_name = row.name.as_deref().is_some_and(|name| contains(name, text));
        let matched = if is_name { SearchField::Name } else { SearchField::SchedulerId };
        (matched, Cluster::new(scope, row))
    });
    let found = cluster_with_number.into_iter().map(|cluster| (SearchField::Number, cluster)).chain(others);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    results.extend(
        found
            .take(limit)
            .map(|(matched, cluster)| SearchResult { matched, item: SearchItem::Cluster(Box::new(cluster)) }),
    );
    Ok(())
}

async fn find_error_groups(
    scope: &AccountScope,
    text: &str,
    limit: u64,
    results: &mut Vec<SearchResult>,
) -> Result<(), ApiError> {
    let request = PageRequest::from(End::First, GROUPS_PER_SEARCH);
    let (filter, sort) = (ErrorGroupFilter::default(), ErrorGroupSort::LastSeenFirst);
    let page = scope.store.error_group_page(&filter, sort, &request).await?;
    let matched_field = |row: &entity::error_group::Model| {
        if row.exception_type.as_deref().is_some_and(|class| contains(class, text)) {
            return Some(SearchField::Type);
        }
        // A title that cannot be decrypted contains no text.
        let title = scope.store.error_group_title(row).ok()?;
        contains(&title, text).then_some(SearchField::Title)
    };
    let found = page.rows.into_iter().filter_map(|(_, row)| matched_field(&row).map(|field| (field, row)));
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    results.extend(found.take(limit).map(|(matched, row)| SearchResult {
        matched,
        item: SearchItem::ErrorGroup(Box::new(ErrorGroup::new(scope, row))),
    }));
    Ok(())
}

/// Returns true if `text` contains `pattern`. Ignores the case of ASCII letters, as the database does.
fn contains(text: &str, pattern: &str) -> bool {
    text.to_ascii_lowercase().contains(&pattern.to_ascii_lowercase())
}
