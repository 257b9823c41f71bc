use entity::{Timestamp, ids::ClusterId, json_columns::Names};
use sea_orm::{ConnectionTrait, DatabaseBackend, prelude::ChronoUnixTimestampMillis};
use sqlx::sqlite::SqliteConnectOptions;
use tempfile::TempDir;
use uuid::Uuid;

use super::*;
use crate::{
    metrics::StoreMetrics,
    store::core::{
        connect::sqlite, connection_pool::ConnectionPool, read_rows::ReadRows,
        stale_connections::ConnectionEpoch,
    },
};

/// A statement that executes some millions of instructions.
const LONG: &str = "WITH RECURSIVE numbers(number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM numbers \
                    LIMIT 300000) SELECT COUNT(*) FROM numbers";

/// A database with a table, whose pool has connections for short statements.
struct TestDatabase {
    pool: ConnectionPool,
    metrics: Arc<StoreMetrics>,
    path: PathBuf,
    _directory: TempDir,
}

impl TestDatabase {
    async fn create() -> Self {
        let directory = TempDir::new().expect("a directory");
        let path = directory.path().join("store?.db");
        let options = SqliteConnectOptions::new().filename(&path).create_if_missing(true);
        let (epoch, metrics) = (ConnectionEpoch::default(), Arc::<StoreMetrics>::default());
        let pool = sqlite(&options, 2).await.expect("a pool");
        let pool = ConnectionPool::from_sqlite(pool, epoch, Arc::clone(&metrics));
        let pool = pool.with_short_reads(ShortReads::new(&path, 2, 10));
        pool.execute_unprepared("CREATE TABLE numbers (number BIGINT)").await.expect("a table");
        Self { pool, metrics, path, _directory: directory }
    }

    async fn integers(&self, sql: &str) -> Result<Vec<i64>, DbErr> {
        self.pool.read_rows(statement(sql), |row| row.get(0)).await
    }
}

fn statement(sql: &str) -> Statement {
    Statement::from_string(DatabaseBackend::Sqlite, sql)
}

fn short(reads: &ShortReads, sql: &str) -> Option<Vec<i64>> {
    reads.read(&statement(sql), |row| row.get(0))
}

type EachType = (
    (i64, i32, bool, f64, String),
    (Vec<u8>, Uuid, Names, Timestamp, ClusterId),
    (Option<i64>, Option<i32>, Option<bool>, Option<f64>, Option<String>),
    (Option<Vec<u8>>, Option<Uuid>, Option<Names>, Option<Timestamp>, Option<ClusterId>),
);

/// Decodes ten columns that are not null, and the same types from the columns that begin at `nullable`.
fn decode_each_type(row: &Row<'_>, nullable: usize) -> Result<EachType, DbErr> {
    let column = |column: usize| nullable + column;
    Ok((
        (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?),
        (row.get(5)?, row.get(6)?, row.get(7)?, row.get(8)?, row.get(9)?),
        (
            row.get(column(0))?,
            row.get(column(1))?,
            row.get(column(2))?,
            row.get(column(3))?,
            row.get(column(4))?,
        ),
        (
            row.get(column(5))?,
            row.get(column(6))?,
            row.get(column(7))?,
            row.get(column(8))?,
            row.get(column(9))?,
        ),
    ))
}

#[tokio::test]
async fn values_are_bound_and_decoded_as_sqlx_does() {
    let test = TestDatabase::create().await;
    let uuid = Uuid::from_u128(0x0193_0000_0000_7000_8000_0000_0000_0001);
    let names = Names(vec!["a".to_owned(), "\u{1f980}".to_owned()]);
    let time = ChronoUnixTimestampMillis(chrono::DateTime::from_timestamp_millis(-1).expect("a time"));
    let values: [Value; 20] = [
        i64::MIN.into(),
        i32::MAX.into(),
        true.into(),
        0.1.into(),
        "quote ' and \0 and ü".into(),
        vec![0_u8, 255].into(),
        uuid.into(),
        r#"["a","🦀"]"#.into(),
        time.into(),
        ClusterId(7).into(),
        Value::BigInt(None),
        Value::Int(None),
        Value::Bool(None),
        Value::Double(None),
        Value::String(None),
        Value::Bytes(None),
        Value::Uuid(None),
        Value::String(None),
        Value::BigInt(None),
        Value::BigInt(None),
    ];
    // The types of the columns are those of the tables, by which sqlx decodes.
    let columns =
        "a BIGINT, b INTEGER, c BOOLEAN, d DOUBLE, e TEXT, f BLOB, g BLOB, h TEXT, i BIGINT, j BIGINT";
    let nullable_columns = columns.replace(' ', "_nullable ").replace(",_nullable", ",");
    let table = format!("CREATE TABLE each_type ({columns}, {nullable_columns})");
    test.pool.execute_unprepared(&table).await.expect("a table");
    let placeholders = ["?"; 20].join(", ");
    let insert = format!("INSERT INTO each_type VALUES ({placeholders})");
    let insert = Statement::from_sql_and_values(DatabaseBackend::Sqlite, insert, values.clone());
    test.pool.execute_raw(insert).await.expect("a row");

    let plain = (i64::MIN, i32::MAX, true, 0.1, "quote ' and \0 and ü".to_owned());
    let others = (vec![0, 255], uuid, names, time, ClusterId(7));
    let nulls = ((None, None, None, None, None), (None, None, None, None, None));
    let expected: EachType = (plain.clone(), others.clone(), nulls.0, nulls.1);
    // The first ten values find the row if they are bound as they were inserted.
    let condition = ('a'..='j').map(|column| format!("{column} = ?")).collect::<Vec<_>>().join(" AND ");
    let select = format!("SELECT * FROM each_type WHERE {condition}");
    let select =
        Statement::from_sql_and_values(DatabaseBackend::Sqlite, select, values[..10].iter().cloned());
    let reads = ShortReads::new(&test.path, 2, 10);
    let short = reads.read(&select, |row| decode_each_type(row, 10));
    assert_eq!(short, Some(vec![expected.clone()]));
    let rows = test.pool.query_all_raw(select).await.expect("rows");
    let rows: Result<Vec<_>, _> = rows.iter().map(|row| decode_each_type(&Row::Sqlx(row), 10)).collect();
    assert_eq!(rows, Ok(vec![expected]));
    // The same columns as `Option`s.
    let optional = (
        (Some(plain.0), Some(plain.1), Some(plain.2), Some(plain.3), Some(plain.4.clone())),
        (Some(others.0.clone()), Some(uuid), Some(others.2.clone()), Some(time), Some(others.4)),
    );
    let expected: EachType = (plain, others, optional.0, optional.1);
    let select = statement("SELECT * FROM each_type");
    assert_eq!(reads.read(&select, |row| decode_each_type(row, 0)), Some(vec![expected]));
}

#[tokio::test]
async fn short_reads_see_each_commit() {
    let test = TestDatabase::create().await;
    let reads = ShortReads::new(&test.path, 2, 10);
    let numbers = || short(&reads, "SELECT number FROM numbers ORDER BY number");
    assert_eq!(numbers(), Some(vec![]));
    for number in 1..=3 {
        let insert = format!("INSERT INTO numbers VALUES ({number})");
        test.pool.execute_unprepared(&insert).await.expect("a row");
        assert_eq!(numbers(), Some((1..=number).collect()));
    }
    test.pool.execute_unprepared("ALTER TABLE numbers ADD COLUMN name TEXT").await.expect("a column");
    assert_eq!(numbers(), Some(vec![1, 2, 3]));
    assert_eq!(reads.lock().unused.len(), 1, "one connection ran them all");
}

#[tokio::test]
async fn long_and_failing_statements_are_left_to_sqlx_and_counted_once() {
    let test = TestDatabase::create().await;
    let reads = ShortReads::new(&test.path, 2, 10);
    assert_eq!(short(&reads, LONG), None);
    assert_eq!(short(&reads, "SELECT 1"), Some(vec![1]));
    // It is not tried again for a while, and then it is.
    assert!(reads.take_reader(LONG).is_none());
    reads.leave_to_sqlx(LONG, Duration::ZERO);
    assert!(reads.take_reader(LONG).is_some());

    let before = test.metrics.statements();
    assert_eq!(test.integers(LONG).await, Ok(vec![300_000]));
    assert_eq!(test.integers(LONG).await, Ok(vec![300_000]));
    assert_eq!(test.metrics.statements(), before + 2);
    let error = test.integers("SELECT missing").await.expect_err("there is no such column");
    assert!(error.to_string().contains("no such column"), "{error}");
    assert_eq!(test.metrics.statements(), before + 3);
    assert_eq!(test.integers("SELECT 2").await, Ok(vec![2]));
}

#[tokio::test]
async fn a_locked_or_missing_database_is_left_to_sqlx() {
    let test = TestDatabase::create().await;
    let reads = ShortReads::new(&test.path, 2, 10);
    assert_eq!(short(&reads, "SELECT COUNT(*) FROM numbers"), Some(vec![0]));
    // A process that switches the file back from the write-ahead log locks it as a whole.
    let other = Connection::open(&test.path).expect("a connection");
    drop(test.pool);
    reads.close();
    let reads = ShortReads::new(&test.path, 2, 10);
    let locked = "PRAGMA locking_mode = EXCLUSIVE; BEGIN IMMEDIATE; INSERT INTO numbers VALUES (1); COMMIT;";
    for attempt in 0.. {
        match other.execute_batch(locked) {
            Ok(()) => break,
            // The connections of the pool are closed in the background.
            Err(error) => assert!(attempt < 100, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let started_at = Instant::now();
    assert_eq!(short(&reads, "SELECT COUNT(*) FROM numbers"), None);
    assert!(started_at.elapsed() < Duration::from_secs(2));
    drop(other);
    assert_eq!(short(&reads, "SELECT COUNT(*) FROM numbers"), Some(vec![1]));
    let missing = ShortReads::new(Path::new("/nonexistent/store.db"), 2, 10);
    assert_eq!(short(&missing, "SELECT 1"), None);
}

#[tokio::test]
async fn unused_and_old_connections_are_closed() {
    let test = TestDatabase::create().await;
    let reads = ShortReads::new(&test.path, 2, 10);
    let minutes_ago = |minutes: u64| {
        Instant::now().checked_sub(Duration::from_mins(minutes)).expect("the machine runs for an hour")
    };
    let taken: Vec<_> = (0..3).map(|_| reads.take_reader("SELECT 1").expect("a connection")).collect();
    for reader in taken {
        reads.put_back(reader);
    }
    assert_eq!(reads.lock().unused.len(), 2);
    reads.lock().unused[0].used_at = minutes_ago(2);
    assert_eq!(short(&reads, "SELECT 1"), Some(vec![1]));
    assert_eq!(reads.lock().unused.len(), 1);
    reads.lock().unused[0].opened_at = minutes_ago(31);
    assert_eq!(short(&reads, "SELECT 2"), Some(vec![2]));
    assert!(reads.lock().unused[0].opened_at > minutes_ago(1));
}

#[tokio::test]
async fn large_values_end_a_short_statement_by_its_time() {
    let test = TestDatabase::create().await;
    let reads = ShortReads::new(&test.path, 2, 10);
    let sql = "WITH RECURSIVE numbers(number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM numbers LIMIT 5) \
               SELECT number FROM numbers";
    let slow = reads.read(&statement(sql), |row| {
        std::thread::sleep(MAX_TIME);
        row.get::<i64>(0)
    });
    assert_eq!(slow, None);
    assert!(reads.take_reader(sql).is_none());
    tokio::time::sleep(UNSUITABLE_FOR).await;
    assert_eq!(short(&reads, sql), Some(vec![1, 2, 3, 4, 5]));
}

#[tokio::test]
async fn a_task_of_many_short_statements_lets_others_run() {
    let test = TestDatabase::create().await;
    let endless = async {
        loop {
            test.integers("SELECT 1").await.expect("a row");
        }
    };
    tokio::time::timeout(Duration::from_millis(20), endless).await.expect_err("it has no end");
}

#[tokio::test]
async fn a_panic_while_decoding_leaves_the_others_alone() {
    let test = Arc::new(TestDatabase::create().await);
    let panicking = Arc::clone(&test);
    let panicked = tokio::spawn(async move {
        let rows: Result<Vec<i64>, _> =
            panicking.pool.read_rows(statement("SELECT 1"), |_| panic!("the decoder")).await;
        rows
    });
    assert!(panicked.await.expect_err("it panics").is_panic());
    assert_eq!(test.integers("SELECT 2").await, Ok(vec![2]));
}

#[tokio::test]
async fn a_closed_pool_reads_nothing() {
    let test = TestDatabase::create().await;
    assert_eq!(test.integers("SELECT 1").await, Ok(vec![1]));
    test.pool.close().await;
    assert!(test.integers("SELECT 1").await.is_err());
}
