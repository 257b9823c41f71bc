//! Objects by their number in a cluster, as the reporter counts them.

use entity::{AccountOwned, error_occurrence, ids::ClusterId, span, worker};
use sea_orm::{ColumnTrait, QueryFilter, QueryOrder};

use super::{error::StoreError, scoped::AccountStore};

/// A table whose rows have a number in their cluster.
pub trait Numbered: AccountOwned {
    /// The column with the number.
    const NUMBER: Self::Column;
    /// The column with the identifier.
    const ID: Self::Column;
}

impl Numbered for worker::Entity {
    const NUMBER: Self::Column = worker::Column::Number;
    const ID: Self::Column = worker::Column::Id;
}

impl Numbered for span::Entity {
    const NUMBER: Self::Column = span::Column::Number;
    const ID: Self::Column = span::Column::Id;
}

impl Numbered for error_occurrence::Entity {
    const NUMBER: Self::Column = error_occurrence::Column::Number;
    const ID: Self::Column = error_occurrence::Column::Id;
}

impl AccountStore {
    /// Returns the object of a cluster with this number. A reporter that lost its state may have given a
    /// number twice; the row with the first identifier is returned then.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[expect(clippy::missing_panics_doc, reason = "each of the tables is one of clusters")]
    #[tracing::instrument(name = "store.numbered.get", skip_all)]
    pub async fn numbered<E: Numbered>(
        &self,
        cluster: ClusterId,
        number: i64,
    ) -> Result<Option<E::Model>, StoreError> {
        let cluster_id = E::CLUSTER_ID.expect("the table is one of clusters");
        let select = self.select::<E>().filter(cluster_id.eq(cluster)).filter(E::NUMBER.eq(number));
        Ok(select.order_by_asc(E::ID).one(&self.read_executor()).await?)
    }
}
