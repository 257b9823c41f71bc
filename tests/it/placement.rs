//! Where Citus is told that rows lie. It is not there to ask, so something in its place keeps the rules that were measured on it.

use galvo::store::Store;
use harness::Database;
use migration::{Migrator, MigratorTrait};
use sea_orm::{ConnectionTrait, DatabaseBackend, DatabaseConnection, Statement};

/// Stands for Citus: takes down where tables lie, and refuses what Citus refuses. Unique indexes have the column by which rows
/// are spread; rows refer to rows that lie on the same machine, which was known before; nothing else refers to the table yet.
const STAND_IN: [&str; 5] = [
    "CREATE SCHEMA stand_in",
    "CREATE TABLE stand_in.placed (name regclass PRIMARY KEY, by text)",
    "CREATE FUNCTION stand_in.complain(what regclass) RETURNS text LANGUAGE sql STABLE AS $$
       WITH self AS (SELECT by FROM stand_in.placed WHERE name = what),
       foreign_keys AS (
         SELECT c.conname, c.confdeltype, c.confupdtype, other.name IS NOT NULL AS known, other.by,
                EXISTS (SELECT FROM unnest(c.conkey, c.confkey) AS pair(here, there)
                        JOIN pg_attribute h ON h.attrelid = c.conrelid AND h.attnum = pair.here
                        JOIN pg_attribute t ON t.attrelid = c.confrelid AND t.attnum = pair.there
                        WHERE h.attname = (SELECT by FROM self) AND t.attname = other.by) AS by_place
         FROM pg_constraint c LEFT JOIN stand_in.placed other ON other.name = c.confrelid
         WHERE c.contype = 'f' AND c.conrelid = what)
       SELECT concat_ws('; ',
         (SELECT string_agg(format('%s does not have %s', indexrelid::regclass, by), ', ') FROM pg_index, self
          WHERE indrelid = what AND indisunique AND by IS NOT NULL AND NOT EXISTS (
            SELECT FROM pg_attribute WHERE attrelid = what AND attname = by AND attnum = ANY (indkey))),
         (SELECT string_agg(conname || ' refers to what lies nowhere', ', ') FROM foreign_keys WHERE NOT known),
         (SELECT string_agg(conname || ' refers to another machine', ', ') FROM foreign_keys
          WHERE by IS NOT NULL AND NOT by_place),
         (SELECT string_agg(conname || ' changes what refers to it', ', ') FROM foreign_keys
          WHERE by IS NOT NULL AND (confdeltype NOT IN ('a', 'r', 'c') OR confupdtype <> 'a')),
         (SELECT string_agg(tgname || ' is a trigger', ', ') FROM pg_trigger WHERE tgrelid = what AND NOT tgisinternal))
     $$",
    "CREATE FUNCTION create_distributed_table(what regclass, by text, colocate_with text) RETURNS void LANGUAGE plpgsql AS $$
     DECLARE complaint text;
     BEGIN
       IF colocate_with <> 'none' AND NOT EXISTS (
         SELECT FROM stand_in.placed WHERE name = colocate_with::regclass AND placed.by IS NOT NULL)
       THEN RAISE EXCEPTION '% is not distributed', colocate_with; END IF;
       IF EXISTS (SELECT FROM pg_constraint WHERE contype = 'f' AND confrelid = what)
       THEN RAISE EXCEPTION 'others refer to % already', what; END IF;
       INSERT INTO stand_in.placed VALUES (what, by);
       complaint := stand_in.complain(what);
       IF complaint <> '' THEN RAISE EXCEPTION '%', complaint; END IF;
     END $$",
    "CREATE FUNCTION create_reference_table(what regclass) RETURNS void LANGUAGE plpgsql AS $$
     BEGIN
       IF EXISTS (SELECT FROM pg_constraint JOIN stand_in.placed ON placed.name = confrelid
                  WHERE contype = 'f' AND conrelid = what AND placed.by IS NOT NULL)
       THEN RAISE EXCEPTION '% refers to rows that lie on one machine only', what; END IF;
       INSERT INTO stand_in.placed VALUES (what, NULL);
     END $$",
];

/// What each machine has a copy of: what says who somebody is and what they may see, and which keys there are.
const EVERYWHERE: [&str; 12] = [
    "accounts",
    "api_tokens",
    "default_accounts",
    "encryption_keys",
    "identities",
    "invitations",
    "memberships",
    "passwords",
    "removed_members",
    "sessions",
    "token_requests",
    "users",
];

async fn texts(database: &DatabaseConnection, sql: &str) -> Vec<String> {
    let statement = Statement::from_string(database.get_database_backend(), sql);
    let rows = database.query_all_raw(statement).await.unwrap();
    rows.into_iter().map(|row| row.try_get_by_index::<String>(0).unwrap()).collect()
}

#[tokio::test]
async fn every_table_is_placed_with_its_account_or_everywhere() {
    let database = Database::empty().await;
    let connection = database.connection().await;
    if connection.get_database_backend() != DatabaseBackend::Postgres {
        // SQLite is one file, and there is no function it could be told by.
        Store::migrate(&database.store_url()).await.unwrap();
        return;
    }
    for statement in STAND_IN {
        connection.execute_unprepared(statement).await.unwrap();
    }
    Migrator::up(&connection, None).await.unwrap();
    let everywhere = "SELECT name::text FROM stand_in.placed WHERE by IS NULL ORDER BY 1";
    assert_eq!(texts(&connection, everywhere).await, EVERYWHERE);
    let elsewhere = "SELECT name::text FROM stand_in.placed WHERE by <> 'account_id'";
    assert_eq!(texts(&connection, elsewhere).await, [""; 0]);
    let nowhere = "SELECT relname::text FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
          AND oid NOT IN (SELECT name FROM stand_in.placed) ORDER BY 1";
    assert_eq!(texts(&connection, nowhere).await, ["seaql_migrations"]);
    // What later steps added keeps the rules as well.
    let complaints = "SELECT format('%s: %s', name, stand_in.complain(name)) FROM stand_in.placed
        WHERE stand_in.complain(name) <> ''";
    assert_eq!(texts(&connection, complaints).await, [""; 0]);
}

#[tokio::test]
async fn what_citus_refuses_is_refused_in_its_place() {
    let database = Database::empty().await;
    let connection = database.connection().await;
    if connection.get_database_backend() != DatabaseBackend::Postgres {
        return;
    }
    for statement in STAND_IN {
        connection.execute_unprepared(statement).await.unwrap();
    }
    for (statement, refusal) in [
        ("CREATE TABLE clusters (account_id uuid, id bigint, PRIMARY KEY (account_id, id))", None),
        ("SELECT create_distributed_table('clusters', 'account_id', colocate_with => 'none')", None),
        ("CREATE TABLE a (account_id uuid, id bigint PRIMARY KEY)", None),
        ("SELECT create_distributed_table('a', 'account_id', colocate_with => 'clusters')", Some("a_pkey does not have account_id")),
        (
            "CREATE TABLE b (account_id uuid, cluster_id bigint, FOREIGN KEY (account_id, cluster_id) REFERENCES clusters
               ON DELETE SET NULL)",
            None,
        ),
        ("SELECT create_reference_table('b')", Some("b refers to rows that lie on one machine only")),
        (
            "SELECT create_distributed_table('b', 'account_id', colocate_with => 'clusters')",
            Some("b_account_id_cluster_id_fkey changes what refers to it"),
        ),
        ("SELECT create_distributed_table('b', 'account_id', colocate_with => 'a')", Some("a is not distributed")),
        ("CREATE TABLE c (account_id uuid PRIMARY KEY)", None),
        ("CREATE TABLE d (account_id uuid REFERENCES c)", None),
        (
            "SELECT create_distributed_table('c', 'account_id', colocate_with => 'clusters')",
            Some("others refer to c already"),
        ),
        (
            "SELECT create_distributed_table('d', 'account_id', colocate_with => 'clusters')",
            Some("refers to what lies nowhere"),
        ),
    ] {
        let outcome = connection.execute_unprepared(statement).await.map_err(|error| error.to_string());
        match (outcome, refusal) {
            (Ok(_), None) => {}
            (Err(error), Some(refusal)) => assert!(error.contains(refusal), "{statement}: {error}"),
            (outcome, refusal) => panic!("{statement}: {outcome:?}, expected {refusal:?}"),
        }
    }
}
