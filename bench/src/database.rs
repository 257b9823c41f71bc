//! Temporary databases: on the PostgreSQL server that `GALVO_TEST_DATABASE_URL` names, or as SQLite
//! files.

use std::{
    error::Error,
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
};

use clap::ValueEnum;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};
use tempfile::TempDir;

use crate::server::Server;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The kind of database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Store {
    Postgres,
    Sqlite,
}

impl Store {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Postgres => "PostgreSQL",
            Self::Sqlite => "SQLite",
        }
    }
}

/// A factory of identical databases with the schema, one account and a token.
pub(crate) struct Databases {
    pub(crate) store: Store,
    pub(crate) token: String,
    template: String,
    directory: TempDir,
}

impl Databases {
    /// Creates the template of the databases.
    pub(crate) async fn prepare(store: Store) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let template = match store {
            Store::Postgres => create_postgres(None).await?,
            Store::Sqlite => sqlite_url(&directory.path().join("template.db")),
        };
        let server = Server::start(&template, 4).await?;
        let token = server.token.clone().ok_or("the server printed no token")?;
        server.stop().await?;
        Ok(Self { store, token, template, directory })
    }

    /// Creates a copy of the template.
    pub(crate) async fn create_copy(&self) -> Result<Database> {
        let (url, path) = match self.store {
            Store::Postgres => {
                let name = self.template.rsplit('/').next().unwrap_or_default();
                (create_postgres(Some(name)).await?, None)
            }
            Store::Sqlite => {
                let path = self.directory.path().join(format!("{}.db", next_number()));
                std::fs::copy(self.directory.path().join("template.db"), &path)?;
                (sqlite_url(&path), Some(path))
            }
        };
        Ok(Database { url, path })
    }
}

/// A database with the schema and one account.
pub(crate) struct Database {
    pub(crate) url: String,
    pub(crate) path: Option<PathBuf>,
}

impl Database {
    /// Deletes the database.
    pub(crate) async fn drop(self) -> Result<()> {
        if let Some(path) = self.path {
            for suffix in ["", "-wal", "-shm"] {
                let mut name = path.clone().into_os_string();
                name.push(suffix);
                let _ = std::fs::remove_file(name); // not all of these files exist
            }
            return Ok(());
        }
        let name = self.url.rsplit('/').next().unwrap_or_default();
        let mut admin = PgConnection::connect(&server_url()?).await?;
        admin.execute(AssertSqlSafe(format!("DROP DATABASE {name} WITH (FORCE)"))).await?;
        Ok(())
    }
}

fn sqlite_url(path: &std::path::Path) -> String {
    format!("sqlite://{}?mode=rwc", path.display())
}

fn next_number() -> u32 {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

fn server_url() -> Result<String> {
    let missing =
        "GALVO_TEST_DATABASE_URL must name a PostgreSQL server: run this by scripts/with-services.sh";
    std::env::var("GALVO_TEST_DATABASE_URL").map_err(|_| missing.into())
}

async fn create_postgres(template: Option<&str>) -> Result<String> {
    let server = server_url()?;
    let name = format!("galvo_bench_{}_{}", std::process::id(), next_number());
    let template = template.map(|template| format!(" TEMPLATE {template}")).unwrap_or_default();
    let mut admin = PgConnection::connect(&server).await?;
    admin.execute(AssertSqlSafe(format!("CREATE DATABASE {name}{template}"))).await?;
    let (address, _) = server.rsplit_once('/').ok_or("the server's URL names no database")?;
    Ok(format!("{address}/{name}"))
}
