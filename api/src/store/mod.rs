//! SeaORM queries. This is the only module that holds a database connection.
//!
//! Tenant rows are accessed through an [`AccountStore`], which is one account's view and sets or filters
//! the account itself. Data that belongs to no viewer is accessed through a [`SystemStore`] with its own
//! short list of methods.

mod access;
mod accounts;
mod alerts;
mod analysis;
mod clusters;
mod computations;
pub mod core;
mod costs;
mod errors;
pub mod maintenance;
mod telemetry;

pub(crate) use access::api_token::TokenUse;
pub use access::api_token::{ApiTokenSort, Credentials, TokenKind};
pub use access::audit_entry::{AuditFilter, AuditSort};
pub use access::current_membership::{CurrentMembership, UserRef};
pub use access::invitation::InvitationSort;
pub(crate) use access::invitation::OPERATOR;
pub use access::member::{MemberSort, OperatorChange};
pub use access::provisioning::ProvisionedUser;
pub(crate) use access::scheduler_token::BATCH as SCHEDULER_TOKEN_BATCH;
pub use access::user::UserStore;
pub use accounts::account_removal::AccountRemovalStep;
pub use accounts::performance_report::{
    MAX_REPORTS_OF_USER, NewPerformanceReport, PerformanceReportReader, PerformanceReportSort, UploadOutcome,
};
pub use accounts::removal_counts::RemovalCounts;
pub use accounts::saved_view::{SavedViewFilter, SavedViewSort};
pub use alerts::alert::AlertSort;
pub use alerts::alert_delivery::{AlertDeliverySort, DueDelivery};
pub(crate) use alerts::alert_delivery::{MAX_DUE_DELIVERIES, MessageContent, NewDelivery};
pub use alerts::alert_rule::{AlertRuleSort, ChangeAuthor};
pub(crate) use alerts::cluster_flag::MAX_DUE_CLUSTERS;
pub use alerts::cluster_flag::{
    AccountFlagFilter, DueCluster, FlagFilter, FlagParent, FlagSort, FlaggedFilter,
};
pub use alerts::flag_mute::{MAX_MUTES, MuteTarget};
pub use analysis::baseline::RunStart;
pub use analysis::idle_backtest::{BacktestParameters, BacktestScope, IdleStretch};
pub use clusters::client::ClientSort;
pub use clusters::cluster::RunningTotals;
pub(crate) use clusters::cluster::{KnownCluster, NO_REPORTS};
pub use clusters::cluster_control::{DesiredStateRequest, KeepOutcome};
pub use clusters::cluster_filter::{ClusterFilter, ClusterTotals, PackageFilter, VersionFilter};
pub use clusters::cluster_order::{ClusterSort, ClusterSortBy};
pub use clusters::cluster_owner::{ChangeOutcome, HandOverOutcome};
pub use clusters::cluster_removal::{ClusterRemovalStep, DueRemoval};
pub(crate) use clusters::cluster_rows::ClusterPageStatement;
pub use clusters::cluster_tag::TagFilter;
pub use clusters::cross_cluster::TimeRange;
pub use clusters::environment::EnvironmentUse;
pub use clusters::facet::{Facet, FacetRows, ROWS_PER_FACET};
pub(crate) use clusters::life_cycle::BATCH as SILENT_BATCH;
pub use clusters::thread_change::ThreadChangeSort;
pub use clusters::worker::{WorkerParent, WorkerSort};
pub use computations::computation::{
    AccountComputations, ComputationParent, ComputationSort, ComputationTotals,
};
pub(crate) use computations::fine_metric::NO_SPAN;
pub use computations::profile::WindowKey;
pub use computations::span::{AccountSpans, SpanFilter, SpanParent, SpanSort};
pub use computations::span_tag::{SPANS_PER_TAGS, TagMatch, TagText, TagUse};
pub use computations::task_group::{TaskGroupParent, TaskGroupSort, TaskGroupValue};
pub use computations::task_group_filter::TaskGroupFilter;
pub use computations::work::{AnalysisSpan, WorkerSize};
pub use core::change_feed::{AccountTable, ChangedCluster, ChangedRow, PendingChanges};
pub use core::connect::{MigrationError, Store, StoreUrl};
pub use core::error::StoreError;
pub(crate) use core::parent_list::ParentSort;
pub use core::scoped::{AccountStore, Write};
pub use core::search::ROWS_PER_SEARCH;
pub(crate) use core::statement_time::StatementStats;
pub use core::system::SystemStore;
pub use costs::cluster_cost::CostAtLeast;
pub use costs::function_usage::{FunctionUsage, HourRange, PaidResources};
pub use costs::usage_columns::UsageColumns;
pub use costs::usage_day::AccountDay;
pub(crate) use costs::usage_day::MAX_DUE;
pub use costs::usage_filter::{DAY_LIMIT, UsageClusters};
pub use costs::usage_table::{CellKey, FunctionCell, GroupBy, TagGrouping, UsageCell, UsageStep};
pub use errors::error_group::{ErrorGroupCounts, ErrorGroupFilter, ErrorGroupSort};
pub use errors::error_occurrence::{AccountErrors, ErrorParent, ErrorSort, ErrorText, SourceText};
pub(crate) use maintenance::database_diagnostics::{Diagnostics, Migrations};
pub use maintenance::job_lock::JobLock;
pub use maintenance::key::{ENCRYPTED_TABLES, KeyUse};
pub use maintenance::operator::{InstallationTotals, TokenFilter};
pub use telemetry::event::{AccountEvents, EventParent, EventSort};
pub use telemetry::log_line::{AccountLogs, LINES_PER_SEARCH, LogFilter, LogParent, LogSort, Processes};
pub use telemetry::sample_chunk::SeriesParent;
