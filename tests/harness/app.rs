//! A running server and the people who use it.

use std::{sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use entity::{api_token::Scope, membership::Role};
use galvo::{
    app::account::Accounts,
    clock::ManualClock,
    config::{CommonConfig, LogFormat, ServeConfig},
    domain::slug::Slug,
    server::Server,
};
use reqwest::{Client, Method, RequestBuilder, StatusCode, header};
use serde_json::{Value, json};

use crate::Database;

/// A running server with a database of its own and a clock that stands still.
pub struct TestApp {
    server: Server,
    clock: Arc<ManualClock>,
    /// Its database.
    pub database: Database,
    client: Client,
}

impl TestApp {
    /// Starts a server with the usual settings.
    pub async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// Starts a server with settings of its own.
    pub async fn start_with(settings: impl FnOnce(&mut ServeConfig)) -> Self {
        let database = Database::migrated().await;
        let common = CommonConfig {
            database: database.store_url(),
            connections: 8,
            log: "off".to_owned(),
            log_format: LogFormat::Text,
        };
        let mut serve = ServeConfig {
            listen: ([127, 0, 0, 1], 0).into(),
            min_report_interval: Duration::from_secs(1),
            reports_per_second: 1_000_000,
            bootstrap: false,
        };
        settings(&mut serve);
        let clock = Arc::new(ManualClock::at(at("2026-11-20T12:00:00Z")));
        let server = Server::start(&common, &serve, Arc::clone(&clock) as _).await.unwrap();
        Self { server, clock, database, client: Client::new() }
    }

    /// The address of a path.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.server.address())
    }

    /// Moves the server's clock.
    pub fn set_clock(&self, now: &str) {
        self.clock.set(at(now));
    }

    /// Statements the server sent to its database.
    #[must_use]
    pub fn statements(&self) -> u64 {
        self.server.store().statements()
    }

    /// A request without credentials.
    pub fn anonymous(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, self.url(path))
    }

    /// Makes an account with an owner of the same name, whose token may do everything.
    pub async fn account(&self, slug: &str) -> Member {
        self.accounts().create_account(&slug.parse().unwrap()).await.unwrap();
        self.member(slug, slug).await
    }

    /// Makes a user of an account, whose token may do everything.
    pub async fn member(&self, user: &str, account: &str) -> Member {
        let (user, account): (Slug, Slug) = (user.parse().unwrap(), account.parse().unwrap());
        self.accounts().create_user(&user, &account, Role::Owner).await.unwrap();
        let mut member = Member {
            token: String::new(),
            user,
            account,
            client: self.client.clone(),
            accounts: self.accounts(),
            address: self.url(""),
        };
        member.token = member.token(&[Scope::Ingest, Scope::Read, Scope::Admin], None).await;
        member
    }

    /// What an operator has on the command line.
    #[must_use]
    pub fn accounts(&self) -> Accounts {
        Accounts::new(self.server.store().system(), Arc::clone(&self.clock) as _)
    }

    /// Stops the server and looks whether it ended well.
    pub async fn stop(self) {
        self.server.stop().await.unwrap();
    }
}

/// A member of an account, with a token.
#[derive(Clone)]
pub struct Member {
    token: String,
    user: Slug,
    account: Slug,
    client: Client,
    accounts: Accounts,
    address: String,
}

impl Member {
    /// Another token of this member.
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

    /// The member's account.
    #[must_use]
    pub fn slug(&self) -> &str {
        self.account.as_str()
    }

    /// The member's token.
    #[must_use]
    pub fn secret(&self) -> &str {
        &self.token
    }

    /// A request with the member's token.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.address)).bearer_auth(&self.token)
    }

    /// Sends a report and returns what came back.
    pub async fn report(&self, report: &Value) -> (StatusCode, Value) {
        let response = self.request(Method::POST, "/api/v1/reports").json(report).send().await.unwrap();
        (response.status(), response.json().await.unwrap())
    }

    /// Sends a report that has to be taken, and returns the cluster's number.
    pub async fn reported(&self, report: &Value) -> i64 {
        let (status, body) = self.report(report).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        assert_eq!(body["acknowledged"], report["sequence"]);
        body["cluster_id"].as_i64().unwrap()
    }

    /// Asks and returns the whole answer.
    pub async fn ask(&self, query: &str, variables: Value) -> Value {
        let body = json!({ "query": query, "variables": variables });
        let request = self.request(Method::POST, "/graphql").header(header::ACCEPT, "application/json");
        request.json(&body).send().await.unwrap().json().await.unwrap()
    }

    /// Asks and returns the data of an answer without errors.
    pub async fn query(&self, query: &str, variables: Value) -> Value {
        let mut answer = self.ask(query, variables).await;
        assert_eq!(answer.get("errors"), None, "{query}: {answer}");
        answer["data"].take()
    }
}

fn at(time: &str) -> DateTime<Utc> {
    time.parse().unwrap()
}
