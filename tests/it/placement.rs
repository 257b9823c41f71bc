//! The placement of rows by Citus. Without Citus, a stand-in enforces the rules that were measured on
//! it.

use std::collections::BTreeMap;

use galvo::store::Store;
use harness::{Database, ReportBuilder, TestApp, error};
use sea_orm::{ConnectionTrait, DatabaseBackend, DatabaseConnection, Statement};
use serde_json::json;

/// The stand-in for Citus: it records the placement of tables, and rejects what Citus rejects. Unique
/// indexes must include the distribution column; rows must refer to rows of the same node, in a table
/// placed earlier; and no other table may refer to the table yet. Tables with references are changed one
/// shard after the other, and a column cannot be added together with a constraint.
const STAND_IN: [&str; 12] = [
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
    // Citus rejects this after a change of a reference table in the same transaction, and a migration is
    // one transaction.
    "CREATE FUNCTION stand_in.refuse_parallel_changes(what regclass) RETURNS void LANGUAGE plpgsql AS $$
     BEGIN
       IF current_setting('citus.multi_shard_modify_mode', true) IS DISTINCT FROM 'sequential'
         AND EXISTS (SELECT FROM pg_constraint WHERE contype = 'f' AND what IN (conrelid, confrelid))
       THEN RAISE EXCEPTION 'cannot execute parallel DDL on %', what; END IF;
     END $$",
    "CREATE FUNCTION create_distributed_table(what regclass, by text, colocate_with text) RETURNS void LANGUAGE plpgsql AS $$
     DECLARE complaint text;
     BEGIN
       PERFORM stand_in.refuse_parallel_changes(what);
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
    // The parts of a table before a statement, and those that a statement added. Citus sees each
    // statement separately, however it is written.
    "CREATE TABLE stand_in.parts (of regclass, kind text, name text)",
    "CREATE FUNCTION stand_in.parts_of_tables() RETURNS SETOF stand_in.parts LANGUAGE sql STABLE AS $$
       SELECT attrelid::regclass, 'column', attname::text FROM pg_attribute JOIN stand_in.placed ON name = attrelid
       WHERE attnum > 0 AND NOT attisdropped
       UNION ALL
       SELECT conrelid::regclass, 'constraint', conname::text FROM pg_constraint JOIN stand_in.placed ON name = conrelid
     $$",
    "CREATE FUNCTION stand_in.remember_parts() RETURNS event_trigger LANGUAGE plpgsql AS $$
     BEGIN
       DELETE FROM stand_in.parts;
       INSERT INTO stand_in.parts SELECT * FROM stand_in.parts_of_tables();
     END $$",
    "CREATE FUNCTION stand_in.refuse_constraints_of_columns() RETURNS event_trigger LANGUAGE plpgsql AS $$
     DECLARE changed regclass;
     BEGIN
       FOR changed IN
         SELECT of FROM (SELECT * FROM stand_in.parts_of_tables() EXCEPT SELECT * FROM stand_in.parts) AS added
         GROUP BY of HAVING count(DISTINCT kind) = 2
       LOOP
         RAISE EXCEPTION 'cannot execute ADD COLUMN command with constraints on %', changed;
       END LOOP;
       FOR changed IN SELECT objid::regclass FROM pg_event_trigger_ddl_commands() JOIN stand_in.placed ON name = objid
       LOOP
         PERFORM stand_in.refuse_parallel_changes(changed);
       END LOOP;
     END $$",
    "CREATE EVENT TRIGGER before_alter_table ON ddl_command_start WHEN TAG IN ('ALTER TABLE')
       EXECUTE FUNCTION stand_in.remember_parts()",
    "CREATE EVENT TRIGGER after_alter_table ON ddl_command_end WHEN TAG IN ('ALTER TABLE')
       EXECUTE FUNCTION stand_in.refuse_constraints_of_columns()",
];

/// Reference tables, of which each node has a copy: identities, access rights, and keys.
const EVERYWHERE: [&str; 15] = [
    "accounts",
    "api_tokens",
    "default_accounts",
    "encryption_keys",
    "identities",
    "invitations",
    "memberships",
    "passwords",
    "removed_members",
    "retention_watch",
    "sessions",
    "sign_in_links",
    "token_policies",
    "token_requests",
    "users",
];

async fn texts(database: &DatabaseConnection, sql: &str) -> Vec<String> {
    let statement = Statement::from_string(database.get_database_backend(), sql);
    let rows = database.query_all_raw(statement).await.unwrap();
    rows.into_iter().map(|row| row.try_get_by_index::<String>(0).unwrap()).collect()
}

/// The queries for the placement of tables: reference tables, the distribution columns, co-location
/// groups, and local tables.
struct Placements {
    everywhere: &'static str,
    spread_by: &'static str,
    groups: &'static str,
    nowhere: &'static str,
}

const STOOD_IN_FOR: Placements = Placements {
    everywhere: "SELECT name::text FROM stand_in.placed WHERE by IS NULL ORDER BY 1",
    spread_by: "SELECT DISTINCT by FROM stand_in.placed WHERE by IS NOT NULL",
    // The stand-in rejects tables that are not co-located with `clusters`.
    groups: "SELECT '1'",
    nowhere: "SELECT relname::text FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
          AND oid NOT IN (SELECT name FROM stand_in.placed) ORDER BY 1",
};

const OF_CITUS: Placements = Placements {
    everywhere: "SELECT table_name::text FROM citus_tables WHERE citus_table_type = 'reference' ORDER BY 1",
    spread_by: "SELECT DISTINCT distribution_column FROM citus_tables WHERE citus_table_type <> 'reference'",
    groups: "SELECT count(DISTINCT colocation_id)::text FROM citus_tables WHERE citus_table_type <> 'reference'",
    nowhere: "SELECT relname::text FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
          AND oid NOT IN (SELECT table_name FROM citus_tables)
          AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = pg_class.oid AND deptype = 'e') ORDER BY 1",
};

#[tokio::test]
async fn every_table_is_placed_with_its_account_or_everywhere() {
    let database = Database::empty().await;
    let connection = database.connection().await;
    if connection.get_database_backend() != DatabaseBackend::Postgres {
        // SQLite has no functions for placement.
        Store::migrate(&database.store_url()).await.unwrap();
        return;
    }
    let is_citus = database.is_citus().await;
    if !is_citus {
        stand_in(&connection).await;
    }
    Store::migrate(&database.store_url()).await.unwrap();
    let Placements { everywhere, spread_by, groups, nowhere } =
        if is_citus { OF_CITUS } else { STOOD_IN_FOR };
    assert_eq!(texts(&connection, everywhere).await, EVERYWHERE);
    assert_eq!(texts(&connection, spread_by).await, ["account_id"]);
    assert_eq!(texts(&connection, groups).await, ["1"]);
    assert_eq!(texts(&connection, nowhere).await, ["seaql_migrations"]);
    if is_citus {
        return;
    }
    // Objects added by later steps obey the rules, too.
    let complaints = "SELECT format('%s: %s', name, stand_in.complain(name)) FROM stand_in.placed
        WHERE stand_in.complain(name) <> ''";
    assert_eq!(texts(&connection, complaints).await, [""; 0]);
}

async fn stand_in(connection: &DatabaseConnection) {
    for statement in STAND_IN {
        connection.execute_unprepared(statement).await.unwrap();
    }
}

/// The stand-in's error for a foreign key that is added together with a column.
const WITH_REFERENCE: &str = "ADD COLUMN command with constraints on clusters";

/// Errors of the stand-in only. Citus accepts some of these, or accepts them on one node, or while
/// nothing else is in the transaction. No step may depend on that.
const STRICTER: [&str; 4] = [
    "others refer to c already",
    "refers to what lies nowhere",
    "cannot execute parallel DDL",
    WITH_REFERENCE,
];

#[tokio::test]
async fn what_citus_refuses_is_refused_in_its_place() {
    let database = Database::empty().await;
    let connection = database.migrating_connection().await;
    if connection.get_database_backend() != DatabaseBackend::Postgres {
        return;
    }
    let is_citus = database.is_citus().await;
    if !is_citus {
        stand_in(&connection).await;
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
        ("CREATE TABLE h (name text PRIMARY KEY)", None),
        ("SELECT create_reference_table('h')", None),
        ("ALTER TABLE clusters ADD COLUMN e bigint NOT NULL DEFAULT 0", None),
        ("ALTER TABLE clusters ADD COLUMN f text DEFAULT 'f' CHECK (f = 'f')", Some("cannot execute ADD COLUMN")),
        ("ALTER TABLE clusters ADD f text UNIQUE", Some("cannot execute ADD COLUMN")),
        ("ALTER TABLE clusters ADD COLUMN f text REFERENCES h", Some(WITH_REFERENCE)),
        ("ALTER TABLE clusters ADD CONSTRAINT clusters_e_check CHECK (e = 0)", None),
        ("ALTER TABLE clusters ADD COLUMN g text", None),
        ("ALTER TABLE clusters ADD CONSTRAINT clusters_g_fkey FOREIGN KEY (g) REFERENCES h", None),
        ("SET citus.multi_shard_modify_mode = 'parallel'", None),
        // Citus rejects only the second one of two in one transaction.
        (
            "DO $$ BEGIN ALTER TABLE h ADD COLUMN i bigint; ALTER TABLE clusters DROP COLUMN e; END $$",
            Some("cannot execute parallel DDL"),
        ),
    ] {
        let outcome = connection.execute_unprepared(statement).await.map_err(|error| error.to_string());
        match (outcome, refusal) {
            (Ok(_), None) => {}
            (_, Some(refusal)) if is_citus && STRICTER.contains(&refusal) => {}
            // Citus has other error messages for the same.
            (Err(_), Some(_)) if is_citus => {}
            (Err(error), Some(refusal)) => assert!(error.contains(refusal), "{statement}: {error}"),
            (outcome, refusal) => panic!("{statement}: {outcome:?}, expected {refusal:?}"),
        }
    }
}

/// The distributed tables that a statement reads without naming the account by a value. A join with
/// another table's account is not sufficient: with an outer join, Citus queries all nodes, or rejects
/// it.
fn without_account(sql: &str, spread: &[String]) -> Vec<String> {
    let read = |table: &String| {
        [format!(r#"FROM "{table}""#), format!(r#"JOIN "{table}""#)]
            .iter()
            .flat_map(|read| sql.match_indices(read.as_str()))
            .map(|(at, read)| {
                let renamed =
                    sql[at + read.len()..].strip_prefix(" AS \"").and_then(|rest| rest.split('"').next());
                renamed.map_or_else(|| table.clone(), str::to_owned)
            })
            .collect::<Vec<String>>()
    };
    let names: Vec<String> = spread.iter().flat_map(read).collect();
    let has_account = |name: &String| {
        let account = format!(r#""{name}"."account_id" = "#);
        let values =
            sql.match_indices(&account).filter(|(at, _)| sql[at + account.len()..].starts_with(['$', '?']));
        values.count() >= names.iter().filter(|other| *other == name).count()
    };
    names.iter().filter(|name| !has_account(name)).cloned().collect()
}

/// Covers all filters: tags, flags, packages and costs of clusters, and empty lists.
#[tokio::test]
async fn a_statement_about_an_account_names_it_for_each_table() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let report = ReportBuilder::new("Scheduler-1", 1)
        .with("/errors", json!([error(1, 11, 1)]))
        .with("/cluster/totals/errors", 1)
        .build();
    let number = ada.reported(&report).await;
    let connection = app.database.connection().await;
    let tables = match connection.get_database_backend() {
        DatabaseBackend::Postgres => "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'",
        _ => "SELECT name FROM sqlite_master WHERE type = 'table'",
    };
    let mut spread = texts(&connection, tables).await;
    spread.retain(|table| !EVERYWHERE.contains(&table.as_str()));
    let tag = json!([{ "key": "team", "value": "red" }]);
    let filters = [
        json!({ "tags": { "any": tag, "all": tag, "none": tag } }),
        json!({ "tags": { "any": [] } }),
        json!({ "flags": ["IDLE"], "everFlagged": ["IDLE"] }),
        json!({ "flags": [] }),
        json!({ "everFlagged": [], "hasErrors": true }),
        json!({ "package": { "name": "dask" }, "search": "s" }),
        json!({ "minCost": { "amount": 1.0, "currency": "EUR" } }),
        json!({ "ids": [], "users": [], "states": [] }),
        json!({ "hasErrors": true }),
    ];
    let lists = [
        "clusters(filter: $clusters) { totalCount nodes { name } }",
        "errorGroups(clusters: $clusters) { totalCount nodes { title } }",
        "errorGroups(clusters: $clusters, types: [], status: []) { totalCount nodes { title } }",
        "errors(clusters: $clusters) { totalCount nodes { message } }",
        "errors(clusters: $clusters, types: []) { totalCount nodes { message } }",
        "logs(clusters: $clusters, levels: []) { totalCount nodes { message } }",
        "flags(clusters: $clusters) { totalCount nodes { kind } }",
        "flags(clusters: $clusters, kinds: []) { totalCount nodes { kind } }",
    ];
    let mut found = BTreeMap::new();
    for list in lists {
        let query = format!("query($clusters: ClusterFilter) {{ viewer {{ account {{ {list} }} }} }}");
        for filter in &filters {
            let work = ada.ask(&query, json!({ "clusters": filter }));
            let (answer, statements) = crate::statements::statements_of(work).await;
            assert_eq!(answer["errors"], json!(null), "{list} {filter}");
            let (field, _) = list.split_once('(').unwrap();
            let passes = *filter == json!({ "hasErrors": true }) && !list.contains("[]") && field != "flags";
            let count = &answer["data"]["viewer"]["account"][field]["totalCount"];
            assert_eq!(count, &json!(i64::from(passes)), "{list} {filter}");
            if filter["ids"] == json!([]) && ["flags", "errorGroups"].contains(&field) {
                let read = [r#"FROM "cluster_flags""#, r#"FROM "error_groups""#];
                let is_read = statements.iter().any(|sql| read.iter().any(|read| sql.contains(read)));
                assert!(!is_read, "{list} {filter}: no statement is needed");
            }
            for sql in statements {
                let lacking = without_account(&sql, &spread);
                if !lacking.is_empty() {
                    found.insert(sql, lacking);
                }
            }
        }
    }
    assert_eq!(found, BTreeMap::new(), "of cluster {number}");
    app.stop().await;
}

#[test]
fn a_table_whose_account_is_only_that_of_another_is_found() {
    let spread = ["clusters", "cluster_tags"].map(str::to_owned);
    let outer = r#"SELECT 1 FROM "clusters" WHERE "clusters"."account_id" = $1"#;
    let inner = r#"SELECT 1 FROM "cluster_tags" WHERE "cluster_tags"."account_id" ="#;
    let same = format!(r#"{outer} AND NOT EXISTS ({inner} "clusters"."account_id")"#);
    assert_eq!(without_account(&same, &spread), ["cluster_tags"]);
    let value = format!("{outer} AND NOT EXISTS ({inner} $2)");
    assert_eq!(without_account(&value, &spread), [""; 0]);
    let once = format!(r#"{value} AND EXISTS (SELECT 1 FROM "cluster_tags")"#);
    assert_eq!(without_account(&once, &spread), ["cluster_tags", "cluster_tags"]);
    let renamed = r#"SELECT 1 FROM "clusters" AS "c" WHERE "c"."account_id" = ?"#;
    assert_eq!(without_account(renamed, &spread), [""; 0]);
}
