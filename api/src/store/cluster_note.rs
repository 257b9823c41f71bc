//! What people wrote about clusters.

use entity::{
    Timestamp,
    audit_entry::Action,
    cluster,
    cluster_note::{Column, Entity, Model},
    ids::{ClusterId, UserId},
};
use sea_orm::{ColumnTrait, QueryFilter};
use serde_json::json;

use super::{error::StoreError, scoped::AccountStore, sealed::RowName, upsert::replace};
use crate::{
    domain::audit::{Entry, Target},
    seal::SealError,
};

impl AccountStore {
    /// The notes of clusters, in no particular order; clusters without any are missing.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.cluster_note.by_cluster", skip_all)]
    pub async fn cluster_notes(&self, clusters: &[ClusterId]) -> Result<Vec<Model>, StoreError> {
        let select = self.select::<Entity>().filter(Column::ClusterId.is_in(clusters.iter().copied()));
        Ok(select.all(&self.reads()).await?)
    }

    /// The text of notes.
    ///
    /// # Errors
    /// [`StoreError::Sealed`] when it cannot be decrypted.
    pub fn cluster_note_text(&self, row: &Model) -> Result<String, StoreError> {
        let plain = self.unseal(&self.cluster_note_row(row.cluster_id), row.key_id, &row.sealed)?;
        String::from_utf8(plain).map_err(|_| StoreError::Sealed(SealError::Damaged))
    }

    /// Writes the notes of a cluster in place of those it has, or removes them when there is no text; `None` when there is
    /// no such cluster.
    ///
    /// # Errors
    /// When the database does not answer; nothing is changed then.
    #[tracing::instrument(name = "store.cluster_note.set", skip_all)]
    pub async fn set_cluster_notes(
        &self,
        cluster: ClusterId,
        text: String,
        user: UserId,
        now: Timestamp,
    ) -> Result<Option<cluster::Model>, StoreError> {
        self.write(move |store| {
            let text = text.clone();
            Box::pin(async move {
                let Some(row) = store.cluster_to_write_on(cluster).await? else { return Ok(None) };
                // The text is encrypted where it lies, and nowhere else.
                let detail = json!({ "characters": text.chars().count() });
                let entry = Entry::done(Action::SetClusterNotes, Target::Cluster(cluster), detail);
                store.audit(entry).await?;
                if text.is_empty() {
                    let delete = store.delete::<Entity>().filter(Column::ClusterId.eq(cluster));
                    delete.exec(&store.writes()).await?;
                    return Ok(Some(row));
                }
                let sealed = store.seal(&store.cluster_note_row(cluster), text.as_bytes());
                let note = Model {
                    account_id: store.account_id(),
                    cluster_id: cluster,
                    user_id: user,
                    changed_at: now,
                    key_id: sealed.key_id,
                    sealed: sealed.bytes,
                };
                store.insert::<Entity>(vec![note], &replace::<Entity>()).await?;
                Ok(Some(row))
            })
        })
        .await
    }

    fn cluster_note_row(&self, cluster: ClusterId) -> RowName {
        RowName::new("cluster_notes", self.account_id(), &[&cluster.0.to_le_bytes()])
    }
}
