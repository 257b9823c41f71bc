//! Performance reports that people stored. They are written and read in pieces, which lie encrypted.

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
    ActiveEnum, ColumnTrait, Condition, PaginatorTrait, QueryFilter, Select,
    sea_query::{ExprTrait, OnConflict},
};
use serde_json::json;

use super::{
    error::StoreError,
    page::{self, Key, KeyPart, Page, PageRequest, Sort},
    scoped::AccountStore,
    sealed::RowName,
};
use crate::{
    domain::audit::{Entry, Target},
    seal::Sealed,
};

/// Reports of one user at the most.
pub const MAX_REPORTS_OF_USER: u64 = 100;

/// The orders reports can be listed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PerformanceReportSort {
    /// The report that was stored last comes first.
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

/// Who looks at reports. What they may not see is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportReader {
    /// Who.
    pub user: UserId,
    /// Whether they see what others stored for themselves, too.
    pub sees_private: bool,
}

/// A report that is to be stored.
#[derive(Clone, Debug)]
pub struct NewPerformanceReport {
    /// What it is to be called.
    pub id: PerformanceReportId,
    /// Who stores it.
    pub user: UserId,
    /// The name of the file.
    pub name: String,
    /// Who may see it.
    pub visibility: Visibility,
    /// How large the file is.
    pub size_bytes: i64,
    /// When.
    pub at: Timestamp,
    /// What stands in it, in order and encrypted for it.
    pub pieces: Arc<[Sealed]>,
}

/// What came of storing a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredReport {
    /// It is there.
    Stored(Model),
    /// The account refuses what stands in such reports.
    Refused,
    /// The user has stored as many as anybody may.
    TooMany,
}

impl AccountStore {
    /// A page of the reports that somebody may see.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.performance_report.page", skip_all)]
    pub async fn performance_report_page(
        &self,
        reader: ReportReader,
        sort: PerformanceReportSort,
        request: &PageRequest,
    ) -> Result<Page<Model>, StoreError> {
        page::fetch(&self.reads(), self.seen_by(reader), sort, request).await
    }

    /// How many reports somebody may see.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.performance_report.count", skip_all)]
    pub async fn performance_report_count(&self, reader: ReportReader) -> Result<u64, StoreError> {
        Ok(self.seen_by(reader).count(&self.reads()).await?)
    }

    /// A report, if somebody may see it.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.performance_report.get", skip_all)]
    pub async fn performance_report(
        &self,
        reader: ReportReader,
        id: PerformanceReportId,
    ) -> Result<Option<Model>, StoreError> {
        Ok(self.seen_by(reader).filter(Column::Id.eq(id)).one(&self.reads()).await?)
    }

    fn seen_by(&self, reader: ReportReader) -> Select<Entity> {
        let ReportReader { user, sees_private } = reader;
        let own = || Column::Visibility.eq(Visibility::Public).or(Column::UserId.eq(user));
        self.select::<Entity>().filter(Condition::all().add_option((!sees_private).then(own)))
    }

    /// A piece of a report; none behind the last one.
    ///
    /// # Errors
    /// When the database does not answer, and [`StoreError::Sealed`] when it cannot be decrypted.
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
        let Some(row) = select.one(&self.reads()).await? else { return Ok(None) };
        self.unseal(&self.piece_row(report, position), row.key_id, &row.sealed).map(Some)
    }

    /// Encrypts a piece of a report that is to be stored.
    #[must_use]
    pub fn seal_performance_report_piece(
        &self,
        report: PerformanceReportId,
        position: i64,
        bytes: &[u8],
    ) -> Sealed {
        self.seal(&self.piece_row(report, position), bytes)
    }

    fn piece_row(&self, report: PerformanceReportId, position: i64) -> RowName {
        let key: [&[u8]; 2] = [report.0.as_bytes(), &position.to_le_bytes()];
        RowName::new("performance_report_pieces", self.account_id(), &key)
    }

    /// Stores a report, unless the account or the number of the user's reports speaks against it.
    ///
    /// # Errors
    /// When the database does not answer; nothing is stored then.
    #[tracing::instrument(name = "store.performance_report.add", skip_all)]
    pub async fn add_performance_report(
        &self,
        new: NewPerformanceReport,
    ) -> Result<StoredReport, StoreError> {
        self.write(move |store| {
            let new = new.clone();
            Box::pin(async move {
                // Whoever stores two at once waits for themselves.
                store.lock_members(&[new.user]).await?;
                if !store.accepted().await?.accepts(DataClass::Profiles) {
                    return Ok(StoredReport::Refused);
                }
                let own = store.select::<Entity>().filter(Column::UserId.eq(new.user));
                if own.count(&store.writes()).await? >= MAX_REPORTS_OF_USER {
                    return Ok(StoredReport::TooMany);
                }
                let row = Model {
                    account_id: store.account_id(),
                    id: new.id,
                    user_id: new.user,
                    name: new.name,
                    visibility: new.visibility,
                    size_bytes: new.size_bytes,
                    created_at: new.at,
                };
                let add = OnConflict::new().do_nothing().to_owned();
                store.insert::<Entity>(vec![row.clone()], &add).await?;
                // One by one: a statement holds all that it inserts, some times over.
                for (position, sealed) in (0..).zip(new.pieces.iter()) {
                    let piece = piece::Model {
                        account_id: store.account_id(),
                        report_id: new.id,
                        position,
                        key_id: sealed.key_id,
                        sealed: sealed.bytes.clone(),
                    };
                    store.insert::<piece::Entity>(vec![piece], &add).await?;
                }
                let detail = json!({
                    "name": row.name,
                    "visibility": row.visibility.to_value(),
                    "bytes": row.size_bytes,
                });
                let target = Target::PerformanceReport(row.id);
                store.audit(Entry::done(Action::StorePerformanceReport, target, detail)).await?;
                Ok(StoredReport::Stored(row))
            })
        })
        .await
    }

    /// Removes a report. Returns whether there was one.
    ///
    /// # Errors
    /// When the database does not answer; nothing is changed then.
    #[tracing::instrument(name = "store.performance_report.delete", skip_all)]
    pub async fn delete_performance_report(&self, id: PerformanceReportId) -> Result<bool, StoreError> {
        self.write(move |store| {
            Box::pin(async move {
                let select = store.select::<Entity>().filter(Column::Id.eq(id));
                let Some(row) = select.one(&store.writes()).await? else { return Ok(false) };
                store.delete::<Entity>().filter(Column::Id.eq(id)).exec(&store.writes()).await?;
                let detail = json!({ "name": row.name });
                let target = Target::PerformanceReport(id);
                store.audit(Entry::done(Action::DeletePerformanceReport, target, detail)).await?;
                Ok(true)
            })
        })
        .await
    }
}
