//! Whether something is missing in front of a payload.

use std::borrow::Cow;

use async_graphql::{
    ContextSelectionSet, OutputType, Positioned, ServerResult, Value, parser::types::Field,
    registry::Registry,
};

/// Whether something is missing in front of a payload, which is written once for many readers and may be missing for some
/// of them. It is written so that it can be found again in the payload: behind a tabulator, which JSON allows between
/// values and which stands nowhere else, since nothing else is written with space around it, and a tabulator within a text
/// is written as `\t`.
pub(in crate::graphql) struct Gap;

const NOT_MISSING: &[u8] = b"\tfalse";
const MISSING: &[u8] = b"\ttrue";

impl OutputType for Gap {
    fn type_name() -> Cow<'static, str> {
        bool::type_name()
    }

    fn qualified_type_name() -> String {
        <bool as OutputType>::qualified_type_name()
    }

    fn create_type_info(registry: &mut Registry) -> String {
        <bool as OutputType>::create_type_info(registry)
    }

    async fn resolve(&self, _: &ContextSelectionSet<'_>, _: &Positioned<Field>) -> ServerResult<Value> {
        Ok(Value::Binary(NOT_MISSING.into()))
    }
}

/// The payload for somebody who misses something in front of it.
pub(crate) fn with_gap(payload: &[u8]) -> Vec<u8> {
    let (mut marked, mut rest) = (Vec::with_capacity(payload.len()), payload);
    while let Some(at) = rest.windows(NOT_MISSING.len()).position(|window| window == NOT_MISSING) {
        marked.extend_from_slice(&rest[..at]);
        marked.extend_from_slice(MISSING);
        rest = &rest[at + NOT_MISSING.len()..];
    }
    marked.extend_from_slice(rest);
    marked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_written_so_is_marked() {
        let payload = b"{\"a\":\tfalse,\"b\":false,\"c\":\"\\tfalse\",\"d\":\tfalse}";
        let marked = b"{\"a\":\ttrue,\"b\":false,\"c\":\"\\tfalse\",\"d\":\ttrue}";
        assert_eq!(with_gap(payload), marked);
    }
}
