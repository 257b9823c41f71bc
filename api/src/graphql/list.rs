//! Lists whose items may fail.

use std::borrow::Cow;

use async_graphql::{
    ContextSelectionSet, OutputType, Positioned, ServerResult, Value, parser::types::Field,
    registry::Registry,
};
use futures::future::try_join_all;

/// A list as the schema has it, in which an error keeps its whole path. The executor's own lists end the path of an
/// error at themselves, so that nobody can tell which field of an item it belongs to.
pub(super) struct Items<T>(pub(super) Vec<T>);

impl<T: OutputType> OutputType for Items<T> {
    fn type_name() -> Cow<'static, str> {
        Vec::<T>::type_name()
    }

    fn qualified_type_name() -> String {
        Vec::<T>::qualified_type_name()
    }

    fn create_type_info(registry: &mut Registry) -> String {
        Vec::<T>::create_type_info(registry)
    }

    async fn resolve(
        &self,
        context: &ContextSelectionSet<'_>,
        field: &Positioned<Field>,
    ) -> ServerResult<Value> {
        let mut items = Vec::with_capacity(self.0.len());
        for (index, item) in self.0.iter().enumerate() {
            let context = context.with_index(index);
            items.push(async move {
                let resolved = item.resolve(&context, field).await;
                resolved.map_err(
                    |error| {
                        if error.path.is_empty() { context.set_error_path(error) } else { error }
                    },
                )
            });
        }
        Ok(Value::List(try_join_all(items).await?))
    }
}
