//! The field `gap` of a payload: true if items before the payload are missing.

use std::borrow::Cow;

use async_graphql::{
    ContextSelectionSet, OutputType, Positioned, ServerResult, Value, parser::types::Field,
    registry::Registry,
};

/// The field `gap`. A payload is written once for many subscribers, but items may be missing for some of
/// them only, so [`mark_gap`] must find the field in the written payload. It is therefore written after a
/// tab. JSON allows a tab between values, and no other tab occurs: nothing else is written with
/// whitespace around it, and a tab within a text is written as `\t`.
pub(in crate::graphql) struct Gap;

const NO_GAP: &[u8] = b"\tfalse";
const GAP: &[u8] = b"\ttrue";

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
        Ok(Value::Binary(NO_GAP.into()))
    }
}

/// Returns the payload with `gap` set to true, for a subscriber that misses items before it.
pub(crate) fn mark_gap(payload: &[u8]) -> Vec<u8> {
    let (mut marked, mut remaining) = (Vec::with_capacity(payload.len()), payload);
    while let Some(offset) = remaining.windows(NO_GAP.len()).position(|window| window == NO_GAP) {
        marked.extend_from_slice(&remaining[..offset]);
        marked.extend_from_slice(GAP);
        remaining = &remaining[offset + NO_GAP.len()..];
    }
    marked.extend_from_slice(remaining);
    marked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_written_so_is_marked() {
        let payload = b"{\"a\":\tfalse,\"b\":false,\"c\":\"\\tfalse\",\"d\":\tfalse}";
        let marked = b"{\"a\":\ttrue,\"b\":false,\"c\":\"\\tfalse\",\"d\":\ttrue}";
        assert_eq!(mark_gap(payload), marked);
    }
}
