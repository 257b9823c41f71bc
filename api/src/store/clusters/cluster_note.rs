//! The notes that people write on clusters, encrypted.

use entity::{
    Timestamp,
    audit_entry::Action,
    cluster,
    cluster_note::{Column, Entity, Model},
    ids::{ClusterId, UserId},
};
use sea_orm::{ColumnTrait, QueryFilter};
use serde_json::json;

use super::cluster_owner::ChangeOutcome;
use crate::{
    domain::audit::{Entry, Target},
    encryption::DecryptError,
    store::core::{
        composite_in::IsOneOf, error::StoreError, read_rows::ReadSelect, row_encryption::AssociatedData,
        scoped::AccountStore, upsert::replace,
    },
};

impl AccountStore {
    /// Returns the notes of clusters, in no particular order. Clusters without any are missing.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.cluster_note.by_cluster", skip_all)]
    pub async fn cluster_notes(&self, clusters: &[ClusterId]) -> Result<Vec<Model>, StoreError> {
        let select = self.select::<Entity>().filter(Column::ClusterId.is_one_of(clusters.iter().copied()));
        Ok(select.read_models(&self.read_executor()).await?)
    }

    /// Decrypts the text of notes.
    ///
    /// # Errors
    /// Returns [`StoreError::Decryption`] if the text cannot be decrypted.
    pub fn cluster_note_text(&self, row: &Model) -> Result<String, StoreError> {
        let plain = self.decrypt_row(&self.cluster_note_row(row.cluster_id), row.key_id, &row.sealed)?;
        String::from_utf8(plain).map_err(|_| StoreError::Decryption(DecryptError::Damaged))
    }

    /// Replaces the notes of a cluster, or removes them if the text is empty. The cluster must belong to
    /// `owner` unless that is `None`.
    ///
    /// # Errors
    /// Returns an error if the database does not answer. Nothing is changed then.
    #[tracing::instrument(name = "store.cluster_note.set", skip_all)]
    pub async fn set_cluster_notes(
        &self,
        cluster: ClusterId,
        owner: Option<UserId>,
        text: String,
        user: UserId,
        now: Timestamp,
    ) -> Result<ChangeOutcome<cluster::Model>, StoreError> {
        self.write(move |store| {
            let text = text.clone();
            Box::pin(async move {
                let row = match store.lock_cluster_of(cluster, owner, now).await? {
                    ChangeOutcome::Done(row) => row,
                    refused => return Ok(refused),
                };
                // The log gets the length only: the text is encrypted in its row and must not be stored
                // elsewhere.
                let detail = json!({ "characters": text.chars().count() });
                let entry = Entry::done(Action::SetClusterNotes, Target::Cluster(cluster), detail);
                store.record_audit_entry(entry).await?;
                if text.is_empty() {
                    let delete = store.delete::<Entity>().filter(Column::ClusterId.eq(cluster));
                    delete.exec(&store.write_executor()).await?;
                    return Ok(ChangeOutcome::Done(row));
                }
                let sealed = store.encrypt_bytes(&store.cluster_note_row(cluster), text.as_bytes());
                let note = Model {
                    account_id: store.account_id(),
                    cluster_id: cluster,
                    user_id: user,
                    changed_at: now,
                    key_id: sealed.key_id,
                    sealed: sealed.bytes,
                };
                store.insert::<Entity>(vec![note], &replace::<Entity>()).await?;
                Ok(ChangeOutcome::Done(row))
            })
        })
        .await
    }

    fn cluster_note_row(&self, cluster: ClusterId) -> AssociatedData {
        AssociatedData::new("cluster_notes", self.account_id(), &[&cluster.0.to_le_bytes()])
    }
}
