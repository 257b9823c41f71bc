//! Offset paging: the client passes the number of rows to skip, until it receives an empty page.

use std::iter;

use super::request::CoiledRequest;
use crate::{http::extract::problem::Problem, store::core::page::Slice};

/// The default page size.
const DEFAULT_ROWS: u64 = 100;

/// The maximum page size.
const MAX_ROWS: u64 = 1_000;

/// The maximum number of skipped rows: the database counts them for each page.
const MAX_OFFSET: u64 = 1_000_000;

/// The number of skipped rows that cost one point.
const SKIPPED_ROWS_PER_POINT: u64 = 100;

/// Returns the slice of a list that a request selects.
pub(super) fn slice(request: &CoiledRequest) -> Result<Slice, Problem> {
    Ok(Slice {
        offset: parse_number(request, "offset", 0, (0, MAX_OFFSET))?,
        limit: parse_number(request, "limit", DEFAULT_ROWS, (1, u64::MAX))?.min(MAX_ROWS),
    })
}

/// Returns the slices after a full one, in the client's order.
pub(super) fn following_slices(slice: Slice) -> impl Iterator<Item = Slice> {
    let next = |slice: &Slice| {
        let offset = slice.offset + slice.limit;
        (offset <= MAX_OFFSET).then_some(Slice { offset, ..*slice })
    };
    iter::successors(next(&slice), next)
}

/// Returns the cost in points of skipping the rows before a slice.
pub(super) fn offset_cost(slice: Slice) -> u64 {
    slice.offset / SKIPPED_ROWS_PER_POINT
}

fn parse_number(
    request: &CoiledRequest,
    name: &str,
    default: u64,
    (min, max): (u64, u64),
) -> Result<u64, Problem> {
    let Some(text) = request.parameter(name) else { return Ok(default) };
    let number = text.parse().ok().filter(|number| (min..=max).contains(number));
    number.ok_or_else(|| {
        let range = if max == u64::MAX { String::new() } else { format!(" to {max}") };
        Problem::parameter(name, &format!("must be a whole number from {min}{range}"))
    })
}
