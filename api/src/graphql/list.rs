//! Lists whose items may fail, or wait, or are all at hand.

use std::borrow::Cow;

use async_graphql::{
    ContextSelectionSet, OutputType, Positioned, ServerResult, Value, parser::types::Field,
    registry::Registry,
};
use futures::{FutureExt, future::try_join_all};

use super::in_place::{InPlace, Selected};

/// A list as the schema has it, in which an error keeps its whole path. The executor's own lists end the path of an
/// error at themselves, so that nobody can tell which field of an item it belongs to.
pub(super) struct Items<T>(pub(super) Vec<T>);

impl<T: InPlace> OutputType for Items<T> {
    fn type_name() -> Cow<'static, str> {
        Vec::<T>::type_name()
    }

    fn qualified_type_name() -> String {
        Vec::<T>::qualified_type_name()
    }

    fn create_type_info(registry: &mut Registry) -> String {
        Vec::<T>::create_type_info(registry)
    }

    async fn resolve(&self, context: &ContextSelectionSet<'_>, _: &Positioned<Field>) -> ServerResult<Value> {
        // In a box, since the items may have such lists themselves.
        self.resolve_items(context).boxed().await
    }
}

impl<T: InPlace> Items<T> {
    async fn resolve_items(&self, context: &ContextSelectionSet<'_>) -> ServerResult<Value> {
        let selected = &Selected::of::<T>(context)?;
        let item = async |index: usize, item: &T| {
            let context = context.with_index(index);
            selected
                .resolve(&context, item)
                .await
                .map_err(|error| if error.path.is_empty() { context.set_error_path(error) } else { error })
        };
        if !selected.at_hand() {
            let items = self.0.iter().enumerate().map(|(index, one)| item(index, one));
            return Ok(Value::List(try_join_all(items).await?));
        }
        let mut values = Vec::with_capacity(self.0.len());
        for (index, one) in self.0.iter().enumerate() {
            values.push(item(index, one).await?);
        }
        Ok(Value::List(values))
    }
}
