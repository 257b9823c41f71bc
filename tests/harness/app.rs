//! A running server and its users.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use chrono::{DateTime, TimeDelta, Utc};
use entity::{api_token::Scope, cluster_counter, ids::ClusterId, membership::Role};
use galvo::{
    app::{
        SignInLinks,
        account::Accounts,
        usage::{RollupRound, Rollups},
    },
    auth::{Authenticator, PresentedCredentials},
    clock::{Clock, ManualClock},
    config::{AlertConfig, CommonConfig, DashboardSource, LogFormat, NetworkConfig, ServeConfig, Timeouts},
    domain::{access::Grant, quota::Limits, role::scopes_of, session::SessionLifetimes, slug::Slug},
    encryption::Keys,
    key_ring::KeySource,
    server::Server,
    store::AccountStore,
};
use reqwest::{Client, Method, RequestBuilder, StatusCode, header};
use sea_orm::{ActiveModelTrait, EntityTrait, IntoActiveModel, PaginatorTrait};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{Browser, Database, ISSUER};

/// The client opens connections in advance, and the server closes those without a request after 8 seconds. A
/// request at that moment would fail.
const MAX_UNUSED_CONNECTION: Duration = Duration::from_secs(5);

/// A running server with its own database and a clock that only tests move.
pub struct TestApp {
    server: Server,
    clock: Arc<ManualClock>,
    /// Its database.
    pub database: Database,
    client: Client,
}

impl TestApp {
    /// Starts a server with the default settings.
    pub async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// Starts a server on a database that is not distributed, for tests of query plans. Citus plans no
    /// statement without parameter values, and each node plans its own tables.
    pub async fn start_on_one_machine() -> Self {
        Self::start_on(Database::on_one_machine().await, KeySource::Ring(Keys::generate()), |_| {}).await
    }

    /// Starts a server with changed settings.
    pub async fn start_with(settings: impl FnOnce(&mut ServeConfig)) -> Self {
        Self::start_on(Database::migrated().await, KeySource::Ring(Keys::generate()), settings).await
    }

    /// Starts a server on an existing database, with existing keys.
    pub async fn start_on(
        database: Database,
        keys: KeySource,
        settings: impl FnOnce(&mut ServeConfig),
    ) -> Self {
        let clock = Arc::new(ManualClock::at(at("2026-11-20T12:00:00Z")));
        Self::start_at(database, keys, clock, settings).await
    }

    async fn start_at(
        database: Database,
        keys: KeySource,
        clock: Arc<ManualClock>,
        settings: impl FnOnce(&mut ServeConfig),
    ) -> Self {
        let common = CommonConfig {
            database: database.store_url(),
            connections: 8,
            keys: Some(keys),
            log: "off".to_owned(),
            log_format: LogFormat::Text,
        };
        let mut serve = ServeConfig {
            listen: ([127, 0, 0, 1], 0).into(),
            metrics_listen: None,
            min_report_interval: Duration::from_secs(1),
            reports_per_second: 1_000_000,
            max_connections: 900,
            max_query_cost: 500_000,
            persisted_documents: None,
            persisted_documents_only: false,
            query_cost_per_minute: 1_000_000_000,
            query_timeout: Duration::from_secs(30),
            public_url: None,
            reports_url: None,
            redis: None,
            session_lifetimes: SessionLifetimes { absolute: TimeDelta::days(30), idle: TimeDelta::days(7) },
            // Tests that stop a server usually do not answer its close frame. On a busy machine a test
            // may not read its socket for half a minute.
            timeouts: Timeouts {
                close_timeout: Duration::from_millis(500),
                response_timeout: Duration::from_mins(5),
                heartbeat_interval: Duration::from_mins(2),
                ..Timeouts::default()
            },
            jwt: None,
            oidc: None,
            alerts: AlertConfig::default(),
            network: NetworkConfig::default(),
            quotas: Limits::default(),
            tls: None,
            traces: None,
            bootstrap: false,
            sign_in_link: false,
            // Tests bring their own, whatever the program was built with.
            dashboard: DashboardSource::Absent,
            jobs: false,
        };
        settings(&mut serve);
        let server = Server::start(&common, &serve, Arc::clone(&clock) as _).await.unwrap();
        let client = Client::builder().pool_idle_timeout(MAX_UNUSED_CONNECTION).build().unwrap();
        Self { server, clock, database, client }
    }

    /// The address on which it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// The address of the metrics endpoint, if it is separate.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.server.metrics_address()
    }

    /// The URL of a path.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.server.address())
    }

    /// Moves the server's clock.
    pub fn set_clock(&self, now: &str) {
        self.clock.set(at(now));
    }

    /// Sets the server's clock to a wrong time.
    pub fn set_clock_wrong(&self, now: &str) {
        self.clock.set_without_elapsing(at(now));
    }

    /// The number of statements that the server has sent to its database.
    #[must_use]
    pub fn statements(&self) -> u64 {
        self.server.store().statements()
    }

    /// The store as seen by a member's account, for data that no route returns.
    pub async fn store_of(&self, member: &Member) -> AccountStore {
        let authenticator = Authenticator::new(self.server.store().system(), Arc::clone(&self.clock) as _);
        let credentials = format!("Bearer {}", member.secret());
        let viewer = authenticator
            .viewer(PresentedCredentials { authorization: Some(credentials.as_bytes()), account: None })
            .await
            .unwrap();
        self.server.store().for_viewer(&viewer)
    }

    /// A request without credentials.
    pub fn anonymous(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, self.url(path))
    }

    /// Creates an account with an owner of the same name, whose token has all scopes. Its clusters have
    /// numbers that those of no other account have, so that none is found by the number of another.
    pub async fn account(&self, slug: &str) -> Member {
        let account = self.accounts().create_account(&slug.parse().unwrap()).await.unwrap();
        let database = self.database.connection().await;
        let others = cluster_counter::Entity::find().count(&database).await.unwrap();
        let last = ClusterId(1_000_000 * (i64::try_from(others).unwrap() + 1));
        let counter = cluster_counter::Model { account_id: account, last };
        counter.into_active_model().reset_all().insert(&database).await.unwrap();
        self.member(slug, slug).await
    }

    /// The same, for an account whose clusters are counted as usual: from 1.
    pub async fn plain_account(&self, slug: &str) -> Member {
        self.accounts().create_account(&slug.parse().unwrap()).await.unwrap();
        self.member(slug, slug).await
    }

    /// Creates a user of an account with a role. The token has all scopes of that role.
    pub async fn member_with(&self, user: &str, account: &str, role: Role) -> Member {
        let (user, account): (Slug, Slug) = (user.parse().unwrap(), account.parse().unwrap());
        self.accounts().create_user(&user, &account, Grant { role, ends_at: None }).await.unwrap();
        let mut member = Member {
            token: String::new(),
            user,
            account,
            asks_for: None,
            client: self.client.clone(),
            accounts: self.accounts(),
            address: self.url(""),
        };
        member.token = member.token(&scopes_of(role), None).await;
        member
    }

    /// Creates an owner of an account, whose token has all scopes.
    pub async fn member(&self, user: &str, account: &str) -> Member {
        self.member_with(user, account, Role::Owner).await
    }

    /// A browser of a member who has set a password and signed in with it.
    pub async fn browser(&self, member: &Member) -> Browser {
        let password = format!("password of {}", member.user);
        self.accounts().set_password(&member.user, password.clone()).await.unwrap();
        let browser = Browser::new(self);
        browser.sign_in(member.user.as_str(), &password).await;
        browser
    }

    /// The operations of the operator's command line.
    #[must_use]
    pub fn accounts(&self) -> Accounts {
        Accounts::new(self.server.store().system(), Arc::clone(&self.clock) as _)
    }

    /// The links with which users sign in once.
    #[must_use]
    pub fn sign_in_links(&self) -> SignInLinks {
        SignInLinks::new(self.server.store().system(), Arc::clone(&self.clock) as _)
    }

    /// Updates the daily usage sums, as the server does periodically.
    pub async fn fold_usage(&self) -> RollupRound {
        let (rollups, mut folded) = (Rollups::new(self.server.store().system()), RollupRound::default());
        loop {
            let round = rollups
                .run_round(self.clock.timestamp(), Instant::now() + Duration::from_secs(10))
                .await
                .unwrap();
            folded.days += round.days;
            folded.failed += round.failed;
            if !round.has_more {
                return folded;
            }
        }
    }

    /// Stores when tokens were last used, as the server does every minute.
    pub async fn write_down_token_uses(&self) {
        self.server.token_uses().flush_uses().await.unwrap();
    }

    /// Links a user to a subject of the token issuer.
    pub async fn link(&self, user: &str, subject: &str) {
        self.accounts().link_user(&user.parse().unwrap(), ISSUER, subject).await.unwrap();
    }

    /// Creates a user of an account, without a token.
    pub async fn join(&self, user: &str, account: &str, role: Role, until: Option<&str>) {
        let grant = Grant { role, ends_at: until.map(|until| at(until).into()) };
        self.accounts().create_user(&user.parse().unwrap(), &account.parse().unwrap(), grant).await.unwrap();
    }

    /// Creates a token for a user of an account, as an operator does.
    pub async fn token_of(&self, user: &str, account: &str, scopes: &[Scope]) -> String {
        let (user, account): (Slug, Slug) = (user.parse().unwrap(), account.parse().unwrap());
        let made = self.accounts().create_token(&user, &account, scopes, String::new(), None).await;
        made.unwrap().reveal()
    }

    /// A caller with any token, who may name an account.
    #[must_use]
    pub fn bearer(&self, token: String, account: Option<&str>) -> Member {
        Member {
            token,
            user: "nobody".parse().unwrap(),
            account: "nobody".parse().unwrap(),
            asks_for: account.map(str::to_owned),
            client: self.client.clone(),
            accounts: self.accounts(),
            address: self.url(""),
        }
    }

    /// Starts another server on the same database, with the same clock.
    pub async fn start_beside(other: &Self, keys: KeySource) -> Self {
        Self::start_beside_with(other, keys, |_| {}).await
    }

    /// Starts another server on the same database and clock, with changed settings.
    pub async fn start_beside_with(
        other: &Self,
        keys: KeySource,
        settings: impl FnOnce(&mut ServeConfig),
    ) -> Self {
        let clock = Arc::clone(&other.clock);
        Self::start_at(other.database.again(), keys, clock, settings).await
    }

    /// A member as seen by this server.
    #[must_use]
    pub fn here(&self, member: &Member) -> Member {
        Member { accounts: self.accounts(), address: self.url(""), ..member.clone() }
    }

    /// Runs the background jobs until nothing is left to do, and returns their counts.
    pub async fn run_jobs(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        loop {
            let (done, more) = self.run_jobs_once().await;
            for (kind, count) in done {
                *counts.entry(kind).or_default() += count;
            }
            if !more {
                return counts;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Runs one round of the background jobs, and returns their counts and true if there is more to do.
    pub async fn run_jobs_once(&self) -> (BTreeMap<String, u64>, bool) {
        let round = self.server.jobs().run_once().await;
        assert_eq!(round.failed, Vec::<&str>::new(), "the log says why");
        let counts = round.progress.iter().flat_map(|(job, progress)| {
            progress.counts.iter().map(move |(kind, count)| (format!("{job}.{kind}"), *count))
        });
        (counts.collect(), round.is_on_other_server || round.has_more())
    }

    /// Stops the server, and fails if it did not end cleanly.
    pub async fn stop(self) {
        self.stop_keeping().await;
    }

    /// Stops the server, and keeps its database for another one.
    pub async fn stop_keeping(self) -> Database {
        self.server.stop().await.unwrap();
        self.database
    }
}

/// A member of an account, with a token.
#[derive(Clone)]
pub struct Member {
    token: String,
    user: Slug,
    account: Slug,
    /// The account named in requests, if any.
    asks_for: Option<String>,
    client: Client,
    accounts: Accounts,
    address: String,
}

impl Member {
    /// Creates another token of this member.
    pub async fn token(&self, scopes: &[Scope], expires_at: Option<DateTime<Utc>>) -> String {
        let expires_at = expires_at.map(Into::into);
        let made =
            self.accounts.create_token(&self.user, &self.account, scopes, String::new(), expires_at).await;
        made.unwrap().reveal()
    }

    /// The same member with another token.
    #[must_use]
    pub fn with_token(&self, token: String) -> Self {
        Self { token, ..self.clone() }
    }

    /// The same member at another address of the server.
    #[must_use]
    pub fn at(&self, address: String) -> Self {
        Self { address, ..self.clone() }
    }

    /// The member's account.
    #[must_use]
    pub fn slug(&self) -> &str {
        self.account.as_str()
    }

    /// The member's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.user.as_str()
    }

    /// The member's token.
    #[must_use]
    pub fn secret(&self) -> &str {
        &self.token
    }

    /// A request with the member's token.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.address)).bearer_auth(&self.token);
        match &self.asks_for {
            Some(account) => request.header("Galvo-Account", account),
            None => request,
        }
    }

    /// Sends a report and returns what came back.
    pub async fn report(&self, report: &Value) -> (StatusCode, Value) {
        let response = self.request(Method::POST, "/api/v1/reports").json(report).send().await.unwrap();
        (response.status(), response.json().await.unwrap())
    }

    /// Sends a report that must be accepted, and returns the cluster's number.
    pub async fn reported(&self, report: &Value) -> i64 {
        let (status, body) = self.report(report).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        if body["stale"] == true {
            // A newer report arrived before this one.
            assert!(body["acknowledged"].as_i64() > report["sequence"].as_i64(), "{body}");
        } else {
            assert_eq!(body["acknowledged"], report["sequence"]);
        }
        body["cluster_id"].as_i64().unwrap()
    }

    /// A request that stores a performance report as the published client does. The client sends the
    /// file name twice, the second time in an invalid form.
    pub fn performance_report(&self, kind: &str, name: &str, html: &str) -> RequestBuilder {
        let part = format!(
            "--boundary\r\nContent-Type: text/html\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"; \
             filename*=\"{name}\"\r\n\r\n{html}\r\n--boundary--\r\n"
        );
        self.request(Method::POST, &format!("/api/v1/{}/performance_reports/{kind}/", self.account.as_str()))
            .header(header::CONTENT_TYPE, "multipart/form-data; boundary=boundary")
            .body(part)
    }

    /// Stores a performance report that must be accepted, and returns its identifier.
    pub async fn stored_report(&self, kind: &str, name: &str, html: &str) -> String {
        let answer = self.performance_report(kind, name, html).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::CREATED);
        let url = answer.json::<Value>().await.unwrap()["url"].as_str().unwrap().to_owned();
        let (_, id) = url.split_once("/reports/").unwrap();
        id.split('?').next().unwrap().to_owned()
    }

    /// The status and the error code of a request; the code is empty on success.
    pub async fn status(&self) -> (u16, String) {
        let ask = self.request(Method::POST, "/graphql").json(&json!({ "query": "{ __typename }" }));
        let answer = ask.send().await.unwrap();
        let status = answer.status().as_u16();
        let body: Value = answer.json().await.unwrap();
        (status, body["errors"][0]["extensions"]["code"].as_str().unwrap_or_default().to_owned())
    }

    /// Sends a query, and returns the whole response.
    pub async fn ask(&self, query: &str, variables: Value) -> Value {
        let body = json!({ "query": query, "variables": variables });
        let request = self.request(Method::POST, "/graphql").header(header::ACCEPT, "application/json");
        request.json(&body).send().await.unwrap().json().await.unwrap()
    }

    /// Sends a query, and returns the data of a response without errors.
    pub async fn query(&self, query: &str, variables: Value) -> Value {
        let mut answer = self.ask(query, variables).await;
        assert_eq!(answer.get("errors"), None, "{query}: {answer}");
        answer["data"].take()
    }
}

fn at(time: &str) -> DateTime<Utc> {
    time.parse().unwrap()
}
