//! The content of the tables, in a form that can be compared between accounts and databases.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
};

use entity::{
    AccountOwned, account, client, client_span, cluster, cluster_sample_chunk, code_snippet, computation,
    computation_share, computation_task_group, data_policy, environment, error_group, error_occurrence,
    event, fine_metric, fine_metric_total, function_activity_chunk, function_usage_day, function_usage_hour,
    ids, log_line, profile, span, task_group, thread_change, usage_day, usage_hour, user, worker,
    worker_sample_chunk,
};
use galvo::{
    domain::{fine_metric::Table, function_activity, metric::Metric, sample_chunk::unpack},
    store::AccountStore,
};
use harness::{Member, TestApp};
use sea_orm::{
    ColumnTrait, DatabaseConnection, EntityName, EntityTrait, IdenStatic, Iterable, ModelTrait, QueryFilter,
    Value as SqlValue, sea_query::sea_value_to_json_value,
};
use serde_json::{Map, Value, json};

/// Tables that are not compared, with the reason.
pub(super) const EXEMPT: [(&str, &str); 35] = [
    ("account_removals", "written by people, never by reports"),
    ("accounts", "made by operators; reports only find them"),
    ("alert_deliveries", "written by a job"),
    ("alert_rules", "written by people, never by reports"),
    ("alerts", "written by a job"),
    ("api_tokens", "made by operators and members; what is in them is random"),
    ("audit_entries", "lists what people and operators did"),
    ("cluster_counters", "numbers clusters in order of arrival"),
    ("cluster_controls", "written by people and policies"),
    ("cluster_flags", "written by a job"),
    ("cluster_notes", "written by people, never by reports"),
    ("cluster_removals", "written by people, never by reports"),
    ("cluster_reporters", "lists which tokens reported, and these are random"),
    ("cluster_tags", "written by people, never by reports"),
    ("cost_rates", "made by operators"),
    ("default_accounts", "chosen by people"),
    ("encryption_keys", "lists which keys there are, and these are random"),
    ("flag_mutes", "written by people, never by reports"),
    ("identities", "made when people sign in"),
    ("idle_policies", "written by people, never by reports"),
    ("ingest_days", "counts what came, also what came twice"),
    ("invitations", "made by members"),
    ("memberships", "made by operators"),
    ("passwords", "of users, who belong to no account"),
    ("performance_report_pieces", "stored by people, never by reports of schedulers"),
    ("performance_reports", "stored by people, never by reports of schedulers"),
    ("quotas", "set by operators"),
    ("retention_watch", "written by a job"),
    ("saved_views", "written by people, never by reports"),
    ("sessions", "of users, who belong to no account"),
    ("sign_in_links", "of users, who belong to no account"),
    ("token_policies", "written by people, never by reports"),
    ("token_requests", "of nobody yet"),
    ("removed_members", "removed by members"),
    ("users", "made by operators; rows that name them are compared by name"),
];

/// The traces of delivery that the comparison includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ways {
    /// All of them: both accounts got the same reports in the same order.
    Same,
    /// Rows come from the same reports in another order.
    Reordered,
    /// Rows have the same content, but may come from other reports.
    Different,
}

/// The table content of an account, without values that must differ between two.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Content {
    /// The rows by table, as JSON.
    pub(super) rows: BTreeMap<&'static str, Vec<String>>,
    /// The columns by table.
    pub(super) columns: BTreeMap<&'static str, Vec<&'static str>>,
}

impl Content {
    /// Reads everything stored for an account.
    pub(crate) async fn of(app: &TestApp, member: &Member, ways: Ways) -> Self {
        let reader = Reader::new(app, member, ways).await;
        let mut content = Self::default();
        macro_rules! read {
            ($($table:ident $(: $show:expr)?),+ $(,)?) => {$(
                let shows: [fn(&Reader, &$table::Model) -> Shown; _] = [$($show,)? |_, _| Vec::new()];
                content.rows.insert($table::Entity.table_name(), reader.rows::<$table::Entity>(shows[0]).await);
                let columns = $table::Column::iter().map(|column| column.as_str()).collect();
                content.columns.insert($table::Entity.table_name(), columns);
            )+};
        }
        read!(
            client,
            client_span,
            cluster,
            cluster_sample_chunk: |_, row| vec![("data", samples(&row.data))],
            code_snippet: |reader, row| vec![("sealed", json!(reader.store.snippet_text(row).unwrap()))],
            computation,
            computation_share,
            computation_task_group,
            data_policy,
            environment,
            error_group: |reader, row| vec![("sealed", json!(reader.store.error_group_title(row).unwrap()))],
            error_occurrence: |reader, row| vec![("sealed", json!(reader.store.decrypt_error_text(row).unwrap()))],
            event,
            fine_metric: |_, row| vec![("cells", cells(&row.cells))],
            fine_metric_total: |_, row| vec![("sums", sums(&row.sums))],
            function_activity_chunk: |_, row| vec![("data", activity(&row.data))],
            function_usage_day,
            function_usage_hour,
            log_line: |reader, row| vec![("sealed", json!(reader.store.log_message(row).unwrap()))],
            profile: |reader, row| vec![("sealed", tree(&reader.store.profile_of(row).unwrap().profile))],
            span,
            task_group,
            thread_change,
            usage_day,
            usage_hour,
            worker,
            worker_sample_chunk: |_, row| vec![("data", samples(&row.data))],
        );
        content
    }

    /// The rows that only one of both has, as text; empty if they are equal.
    pub(crate) fn differences(&self, other: &Self) -> String {
        let only = |one: &Self, other: &Self, sign: &str| {
            let rows = one.rows.iter().flat_map(|(table, rows)| rows.iter().map(move |row| (table, row)));
            let only = rows.filter(|(table, row)| !other.rows[*table].contains(row));
            only.map(|(table, row)| format!("\n{sign} {table} {row}")).collect::<Vec<_>>().concat()
        };
        if self == other {
            return String::new();
        }
        format!("not the same:{}{}", only(self, other, "-"), only(other, self, "+"))
    }

    /// The content without these tables.
    pub(super) fn without(mut self, tables: &[&str]) -> Self {
        self.rows.retain(|table, _| !tables.contains(table));
        self
    }

    /// The content without the clusters' receipts, which show what was refused.
    pub(super) fn without_receipts(mut self) -> Self {
        for row in self.rows.get_mut("clusters").into_iter().flatten() {
            let mut columns: Map<String, Value> = serde_json::from_str(row).unwrap();
            columns.remove("receipt").expect("clusters have a receipt");
            *row = Value::Object(columns).to_string();
        }
        self
    }
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (table, rows) in &self.rows {
            writeln!(f, "{table}")?;
            rows.iter().try_for_each(|row| writeln!(f, "  {row}"))?;
        }
        Ok(())
    }
}

/// Replacements for the values of some columns.
type Shown = Vec<(&'static str, Value)>;

struct Reader {
    database: DatabaseConnection,
    store: AccountStore,
    account: ids::AccountId,
    clusters: HashMap<i64, String>,
    users: HashMap<String, String>,
    ways: Ways,
}

impl Reader {
    async fn new(app: &TestApp, member: &Member, ways: Ways) -> Self {
        let database = app.database.connection().await;
        let account = account::Entity::find().filter(account::Column::Slug.eq(member.slug()));
        let account = account.one(&database).await.unwrap().unwrap().id;
        let clusters = cluster::Entity::find().filter(cluster::Column::AccountId.eq(account));
        let clusters = clusters.all(&database).await.unwrap();
        let users = user::Entity::find().all(&database).await.unwrap();
        // The owner of an account has its name, which differs between accounts.
        let name = |name: String| if name == member.slug() { "owner".to_owned() } else { name };
        Self {
            store: app.store_of(member).await,
            account,
            clusters: clusters.into_iter().map(|row| (row.id.0, row.scheduler_id)).collect(),
            users: users.into_iter().map(|row| (row.id.0.to_string(), name(row.name))).collect(),
            database,
            ways,
        }
    }

    /// The rows of a table as sorted JSON.
    async fn rows<E: AccountOwned>(&self, show: impl Fn(&Self, &E::Model) -> Shown) -> Vec<String> {
        let rows = E::find().filter(E::ACCOUNT_ID.eq(self.account)).all(&self.database).await.unwrap();
        let mut rows: Vec<String> = rows
            .iter()
            .map(|row| {
                let shown: HashMap<&str, Value> = show(self, row).into_iter().collect();
                let columns = E::Column::iter().filter_map(|column| {
                    let name = column.as_str();
                    let value = match shown.get(name) {
                        Some(shown) => shown.clone(),
                        None => self.value(E::default().table_name(), name, &row.get(column))?,
                    };
                    Some((name.to_owned(), value))
                });
                Value::Object(columns.collect::<Map<_, _>>()).to_string()
            })
            .collect();
        rows.sort();
        rows
    }

    /// A value as JSON; `None` for values that differ between any two accounts, or may differ here.
    fn value(&self, table: &str, column: &str, value: &SqlValue) -> Option<Value> {
        let value = match value {
            SqlValue::Bytes(_) => panic!("{table}.{column} has to be shown in a way of its own"),
            other => sea_value_to_json_value(other),
        };
        match (table, column) {
            // The identifiers of account and cluster, which are random, and the arrival order by the
            // server's clock.
            (_, "account_id" | "arrived_at")
            | ("clusters", "id" | "changed_at" | "late_at")
            | ("error_groups", "changed_at") => None,
            (_, "key_id") => Some(json!(value != json!(0))),
            (_, "cluster_id") => Some(json!(self.clusters[&value.as_i64().unwrap()])),
            (_, "user_id") => Some(value.as_str().map_or(Value::Null, |id| json!(self.users[id]))),
            // The server's own record of possible gaps.
            ("clusters", "complete_until") if self.ways != Ways::Same => None,
            // `cut` are the places that were clamped in any report.
            (_, "sequence") | ("clusters", "cut") if self.ways == Ways::Different => None,
            _ => Some(value),
        }
    }
}

/// Packed samples by metric, as pairs of milliseconds and values.
fn samples(packed: &[u8]) -> Value {
    let samples = unpack(packed).unwrap();
    let values = |metric: Metric| samples.values(metric).collect::<Vec<_>>();
    let metrics = Metric::ALL.iter().map(|metric| (metric.name(), values(*metric)));
    json!(metrics.filter(|(_, values)| !values.is_empty()).collect::<BTreeMap<_, _>>())
}

/// The packed activity of functions by name, as pairs of intervals and hundredths of seconds.
fn activity(packed: &[u8]) -> Value {
    let activity = function_activity::unpack(packed).unwrap();
    let active = |values: &[u32]| {
        values.iter().copied().enumerate().filter(|(_, value)| *value > 0).collect::<Vec<_>>()
    };
    json!(activity.functions().map(|(name, values)| (name, active(values))).collect::<BTreeMap<_, _>>())
}

/// Packed fine metrics.
fn cells(packed: &[u8]) -> Value {
    let mut table = Table::default();
    table.add(&galvo::domain::fine_metric::CellReader::default().read(packed, true).unwrap());
    values(&table)
}

/// Packed sums of fine metrics, and whether each belongs to spans.
fn sums(packed: &[u8]) -> Value {
    let table = galvo::domain::fine_metric::CellReader::default().read_table(packed).unwrap();
    let of_spans = table.rows(None).into_iter().map(|row| row.span_attributable);
    json!([values(&table), of_spans.collect::<Vec<_>>()])
}

fn values(table: &Table) -> Value {
    let cell = |row: galvo::domain::fine_metric::Row| {
        json!([row.label.context, row.label.function, row.label.activity, row.label.unit, row.value])
    };
    table.rows(None).into_iter().map(cell).collect()
}

/// A packed profile.
fn tree(profile: &galvo::domain::profile::Profile) -> Value {
    let nodes = profile.nodes.iter().map(|node| json!([node.parent, node.frame, node.own, node.total]));
    json!({ "frames": profile.frames, "nodes": nodes.collect::<Vec<_>>() })
}
