//! Which rows of a list the client asks for: by how many lie in front, until it gets an empty page.

use std::iter;

use super::asked::Asked;
use crate::{http::problem::Problem, store::page::Slice};

/// Rows of a page when the client does not say how many.
const ROWS: u64 = 100;

/// Rows of a page at the most.
const MAX_ROWS: u64 = 1_000;

/// Rows in front of a page at the most: they are counted for each.
const MAX_OFFSET: u64 = 1_000_000;

/// Rows in front of a page that are counted for one point.
const COUNTED_FOR_A_POINT: u64 = 100;

/// The slice of a list that a question is about.
pub(super) fn slice(asked: &Asked) -> Result<Slice, Problem> {
    Ok(Slice {
        offset: number(asked, "offset", 0, (0, MAX_OFFSET))?,
        limit: number(asked, "limit", ROWS, (1, u64::MAX))?.min(MAX_ROWS),
    })
}

/// The slices that the client asks for after a full one, as long as they are full.
pub(super) fn behind(slice: Slice) -> impl Iterator<Item = Slice> {
    let next = |slice: &Slice| {
        let offset = slice.offset + slice.limit;
        (offset <= MAX_OFFSET).then_some(Slice { offset, ..*slice })
    };
    iter::successors(next(&slice), next)
}

/// What it costs to count the rows in front of a slice, in points.
pub(super) fn cost(slice: Slice) -> u64 {
    slice.offset / COUNTED_FOR_A_POINT
}

fn number(asked: &Asked, name: &str, default: u64, (least, most): (u64, u64)) -> Result<u64, Problem> {
    let Some(text) = asked.parameter(name) else { return Ok(default) };
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| {
        let range = if most == u64::MAX { String::new() } else { format!(" to {most}") };
        Problem::parameter(name, &format!("must be a whole number from {least}{range}"))
    })
}
