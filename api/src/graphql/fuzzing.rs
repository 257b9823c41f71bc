//! Checks for the fuzzers: the properties of identifiers and cursors that hold for any input.

use async_graphql::ID;

use super::engine::{
    connection::{cursor_for_key, decode_cursor},
    id::GlobalId,
};
use crate::{
    domain::{
        cost::Currency,
        stream_cursor::{Position, Stream},
    },
    store::{
        AlertDeliverySort, AlertRuleSort, AlertSort, ApiTokenSort, AuditSort, ClientSort, ClusterSort,
        ClusterSortBy, ComputationSort, ErrorGroupSort, ErrorSort, EventSort, FlagSort, InvitationSort,
        LogSort, MemberSort, PerformanceReportSort, SpanSort, TaskGroupSort, ThreadChangeSort, WorkerSort,
        core::page::Sort,
    },
};

/// Checks that a text which parses as a global identifier is its canonical form.
pub(crate) fn check_global_id(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    if let Some(id) = GlobalId::parse(&ID(text.to_owned())) {
        assert_eq!(ID::from(id).as_str(), text, "one thing has one identifier");
    }
}

/// Checks that a text which parses as a cursor of a list or stream survives a round trip.
pub(crate) fn check_cursor(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    check_cursor_in_lists(text);
    let streams = [Stream::Clusters, Stream::Snapshots, Stream::Computations, Stream::Errors];
    let streams = streams.into_iter().chain([Stream::Events, Stream::Logs, Stream::Any]);
    let streams = streams.chain([Stream::Alerts, Stream::ErrorGroups]);
    let matches = streams.filter(|stream| parses_in_stream(text, *stream)).count();
    assert!(matches!(matches, 0 | 1 | 9), "a cursor of one stream is none of another");
}

/// Returns true if the text parses as a cursor of the stream, and checks that it survives a round trip.
fn parses_in_stream(text: &str, stream: Stream) -> bool {
    let Some(position) = Position::parse(text, stream) else { return false };
    let reparsed = Position::parse(&position.cursor(stream), stream);
    assert_eq!(reparsed.as_ref(), Some(&position), "a position is read as it was written");
    let mut raised = position.clone();
    raised.raise_floor(0);
    assert!(raised.floor() >= position.floor(), "what was read stays read");
    true
}

fn check_cursor_in_lists(text: &str) {
    let currency = Currency::parse("EUR").expect("a currency");
    let orders = [
        ClusterSortBy::StartedAt,
        ClusterSortBy::EndedAt,
        ClusterSortBy::Duration,
        ClusterSortBy::ThreadSeconds,
        ClusterSortBy::ComputeSeconds,
        ClusterSortBy::Errors,
        ClusterSortBy::Tasks,
        ClusterSortBy::LastSeenAt,
        ClusterSortBy::Workers,
        ClusterSortBy::PeakWorkers,
        ClusterSortBy::MemoryUsed,
        ClusterSortBy::Name,
        ClusterSortBy::User,
        ClusterSortBy::Utilization,
        ClusterSortBy::IdleTime,
        ClusterSortBy::Cost(currency),
    ];
    for by in orders {
        for descending in [false, true] {
            check_cursor_in_list(text, ClusterSort { by, descending });
        }
    }
    check_cursor_in_orders(text, [EventSort::OldestFirst, EventSort::OldestOfAllFirst, EventSort::AsArrived]);
    check_cursor_in_orders(text, [LogSort::OldestFirst, LogSort::OldestOfAllFirst, LogSort::AsArrived]);
    check_cursor_in_orders(
        text,
        [ComputationSort::NewestFirst, ComputationSort::NewestOfAllFirst, ComputationSort::AsArrived],
    );
    let errors = [ErrorSort::NewestFirst, ErrorSort::NewestOfAllFirst];
    check_cursor_in_orders(text, errors);
    check_cursor_in_orders(text, [ErrorSort::LatestOfAllFirst, ErrorSort::AsArrived]);
    check_cursor_in_orders(text, [SpanSort::OldestFirst, SpanSort::NewestOfAllFirst]);
    check_cursor_in_list(text, AlertDeliverySort::NewestFirst);
    check_cursor_in_list(text, AlertRuleSort::OldestFirst);
    check_cursor_in_list(text, AlertSort::LastingFirst);
    check_cursor_in_list(text, ApiTokenSort::NewestFirst);
    check_cursor_in_list(text, AuditSort::NewestFirst);
    check_cursor_in_list(text, ClientSort::OldestFirst);
    check_cursor_in_list(text, ErrorGroupSort::LastSeenFirst);
    check_cursor_in_list(text, FlagSort::LastingFirst);
    check_cursor_in_list(text, InvitationSort::NewestFirst);
    check_cursor_in_list(text, MemberSort::OldestFirst);
    check_cursor_in_list(text, PerformanceReportSort::NewestFirst);
    check_cursor_in_list(text, TaskGroupSort::OldestFirst);
    check_cursor_in_list(text, ThreadChangeSort::OldestFirst);
    check_cursor_in_list(text, WorkerSort::OldestFirst);
}

fn check_cursor_in_orders<const N: usize>(text: &str, sorts: [impl Sort; N]) {
    for sort in sorts {
        check_cursor_in_list(text, sort);
    }
}

fn check_cursor_in_list(text: &str, sort: impl Sort) {
    let Some(key) = decode_cursor(sort, text) else { return };
    assert!(sort.accepts(&key), "{}", sort.name());
    // The key of an order by cost has a part that is in no column.
    if !sort.name().starts_with("cost:") {
        assert_eq!(key.0.len(), sort.columns().len(), "a key of {} has a part for each column", sort.name());
    }
    assert_eq!(
        decode_cursor(sort, &cursor_for_key(sort, &key)),
        Some(key),
        "a key is read as it was written"
    );
}
