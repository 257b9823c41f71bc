//! Performance reports that users uploaded. They are written and read in pieces, which are encrypted.

use std::sync::Arc;

use entity::{
    Timestamp,
    audit_entry::Action,
    data_policy::DataClass,
    ids::{PerformanceReportId, UserId},
    performance_report::{Column, Entity, Model, Visibility},
    performance_report_piece as piece,
};
use sea_orm::{
    ActiveEnum, ColumnTrait, Condition, PaginatorTrait, QueryFilter, QuerySelect, Select,
    sea_query::{ExprTrait, OnConflict},
};
use serde_json::json;

use crate::{
    domain::{
        audit::{Entry, Target},
        section_bytes::SectionBytes,
    },
    encryption::Encrypted,
    store::core::{
        error::StoreError,
        page::{self, Key, KeyPart, Page, PageRequest, Sort},
        row_encryption::AssociatedData,
        scoped::AccountStore,
    },
};

/// The largest number of reports per user.
pub const MAX_REPORTS_OF_USER: u64 = 100;

/// The sort orders of performance reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PerformanceReportSort {
    /// By the time of the upload, the newest first.
    NewestFirst,
}

impl Sort for PerformanceReportSort {
    type Entity = Entity;

    fn name(self) -> &'static str {
        "performance_report:desc"
    }

    fn columns(self) -> Vec<Column> {
        vec![Column::CreatedAt, Column::Id]
    }

    fn descending(self) -> bool {
        true
    }

    fn accepts(self, key: &Key) -> bool {
        matches!(key.0[..], [KeyPart::Integer(_), KeyPart::Uuid(_)])
    }

    fn key(self, row: &Model) -> Key {
        Key(vec![row.created_at.into(), row.id.into()])
    }
}

/// The user who reads reports. Reports that the user may not see are treated as absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerformanceReportReader {
    /// The user.
    pub user: UserId,
    /// True if the user may see the private reports of others.
    pub sees_private: bool,
}

/// A report to store.
#[derive(Clone, Debug)]
pub struct NewPerformanceReport {
    /// The identifier.
    pub id: PerformanceReportId,
    /// The user who uploads it.
    pub user: UserId,
    /// The name of the file.
    pub name: String,
    /// The visibility.
    pub visibility: Visibility,
    /// The size of the file, in bytes.
    pub size_bytes: i64,
    /// The time of the upload.
    pub at: Timestamp,
    /// The pieces of the file, in order, encrypted for this report.
    pub pieces: Arc<[Encrypted]>,
}

/// The outcome of the upload of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UploadOutcome {
    /// The report was stored.
    Stored(Model),
    /// The account's data policy does not accept performance reports.
    Refused,
    /// The user has [`MAX_REPORTS_OF_USER`] reports already.
    TooMany,
}

impl AccountStore {
    /// Returns a page of the reports that the reader may see.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.performance_report.page", skip_all)]
    pub async fn performance_report_page(
        &self,
        reader: PerformanceReportReader,
        sort: PerformanceReportSort,
        request: &PageRequest,
    ) -> Result<Page<Model>, StoreError> {
        page::fetch(&self.read_executor(), self.select_visible(reader), sort, request).await
    }

    /// Returns the number of reports that the reader may see.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.performance_report.count", skip_all)]
    pub async fn performance_report_count(&self, reader: PerformanceReportReader) -> Result<u64, StoreError> {
        Ok(self.select_visible(reader).count(&self.read_executor()).await?)
    }

    /// Returns a report if the reader may see it.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.performance_report.get", skip_all)]
    pub async fn performance_report(
        &self,
        reader: PerformanceReportReader,
        id: PerformanceReportId,
    ) -> Result<Option<Model>, StoreError> {
        Ok(self.select_visible(reader).filter(Column::Id.eq(id)).one(&self.read_executor()).await?)
    }

    fn select_visible(&self, reader: PerformanceReportReader) -> Select<Entity> {
        let PerformanceReportReader { user, sees_private } = reader;
        let is_readable = || Column::Visibility.eq(Visibility::Public).or(Column::UserId.eq(user));
        self.select::<Entity>().filter(Condition::all().add_option((!sees_private).then(is_readable)))
    }

    /// Returns a piece of a report, decrypted. `None` after the last piece.
    ///
    /// # Errors
    /// Returns an error if the database does not answer, or [`StoreError::Decryption`] if the piece cannot
    /// be decrypted.
    #[tracing::instrument(name = "store.performance_report.piece", skip_all)]
    pub async fn performance_report_piece(
        &self,
        report: PerformanceReportId,
        position: i64,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let select = self
            .select::<piece::Entity>()
            .filter(piece::Column::ReportId.eq(report))
            .filter(piece::Column::Position.eq(position));
        let Some(row) = select.one(&self.read_executor()).await? else { return Ok(None) };
        self.decrypt_row(&self.piece_associated_data(report, position), row.key_id, &row.sealed).map(Some)
    }

    /// Encrypts a piece of a report to store.
    #[must_use]
    pub fn seal_performance_report_piece(
        &self,
        report: PerformanceReportId,
        position: i64,
        bytes: &[u8],
    ) -> Encrypted {
        self.encrypt_bytes(&self.piece_associated_data(report, position), bytes)
    }

    fn piece_associated_data(&self, report: PerformanceReportId, position: i64) -> AssociatedData {
        let key: [&[u8]; 2] = [report.0.as_bytes(), &position.to_le_bytes()];
        AssociatedData::new("performance_report_pieces", self.account_id(), &key)
    }

    /// Stores a report, unless the account's data policy or the number of the user's reports forbids it.
    ///
    /// # Errors
    /// Returns an error if the database does not answer. Nothing is stored in that case.
    #[tracing::instrument(name = "store.performance_report.add", skip_all)]
    pub async fn add_performance_report(
        &self,
        report: NewPerformanceReport,
    ) -> Result<UploadOutcome, StoreError> {
        self.write(move |store| {
            let report = report.clone();
            Box::pin(async move {
                // The lock serializes concurrent uploads of the same user, so that none exceeds the limit.
                store.lock_members(&[report.user]).await?;
                if !store.accepted().await?.accepts(DataClass::Profiles) {
                    return Ok(UploadOutcome::Refused);
                }
                let reports_of_user = store.select::<Entity>().filter(Column::UserId.eq(report.user));
                if reports_of_user.count(&store.write_executor()).await? >= MAX_REPORTS_OF_USER {
                    return Ok(UploadOutcome::TooMany);
                }
                let row = Model {
                    account_id: store.account_id(),
                    id: report.id,
                    user_id: report.user,
                    name: report.name,
                    visibility: report.visibility,
                    size_bytes: report.size_bytes,
                    created_at: report.at,
                };
                let do_nothing = OnConflict::new().do_nothing().to_owned();
                store.insert::<Entity>(vec![row.clone()], &do_nothing).await?;
                // One row per statement, since a statement keeps several copies of its values in memory.
                for (position, sealed) in (0..).zip(report.pieces.iter()) {
                    let piece = piece::Model {
                        account_id: store.account_id(),
                        report_id: report.id,
                        position,
                        key_id: sealed.key_id,
                        sealed: sealed.bytes.clone(),
                    };
                    store.insert::<piece::Entity>(vec![piece], &do_nothing).await?;
                }
                let detail = json!({
                    "name": row.name,
                    "visibility": row.visibility.to_value(),
                    "bytes": row.size_bytes,
                });
                let bytes = SectionBytes { profiles: row.size_bytes, ..SectionBytes::default() };
                store.record_ingest(None, report.at, bytes, 0).await?;
                let target = Target::PerformanceReport(row.id);
                store.record_audit_entry(Entry::done(Action::StorePerformanceReport, target, detail)).await?;
                Ok(UploadOutcome::Stored(row))
            })
        })
        .await
    }

    /// Deletes all reports of a user.
    pub(crate) async fn delete_performance_reports_of(&self, user: UserId) -> Result<(), StoreError> {
        let sizes = self.select::<Entity>().select_only().columns([Column::CreatedAt, Column::SizeBytes]);
        let sizes: Vec<(Timestamp, i64)> =
            sizes.filter(Column::UserId.eq(user)).into_tuple().all(&self.write_executor()).await?;
        self.delete::<Entity>().filter(Column::UserId.eq(user)).exec(&self.write_executor()).await?;
        self.delete_ingest_of_performance_reports(&sizes).await
    }

    /// Deletes a report. Returns false if there was none.
    ///
    /// # Errors
    /// Returns an error if the database does not answer. Nothing is changed in that case.
    #[tracing::instrument(name = "store.performance_report.delete", skip_all)]
    pub async fn delete_performance_report(&self, id: PerformanceReportId) -> Result<bool, StoreError> {
        self.write(move |store| {
            Box::pin(async move {
                let select = store.select::<Entity>().filter(Column::Id.eq(id));
                let Some(row) = select.one(&store.write_executor()).await? else { return Ok(false) };
                store.delete::<Entity>().filter(Column::Id.eq(id)).exec(&store.write_executor()).await?;
                store.delete_ingest_of_performance_reports(&[(row.created_at, row.size_bytes)]).await?;
                let detail = json!({ "name": row.name });
                let target = Target::PerformanceReport(id);
                store
                    .record_audit_entry(Entry::done(Action::DeletePerformanceReport, target, detail))
                    .await?;
                Ok(true)
            })
        })
        .await
    }
}
