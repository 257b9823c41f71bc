//! Lists over all clusters of an account: their rows, their order, and their query plans.

use entity::ids::{ClusterId, ComputationId};
use harness::{Member, ReportBuilder, TestApp, computation, error, event, log_line, span, uuid};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, EntityTrait, IntoActiveModel, PaginatorTrait};
use serde_json::{Value, json};

use crate::{plan, statements::statements_of};

/// The start time of all schedulers: 2026-11-20T11:00:00Z.
const STARTED_AT: u32 = 1_795_172_400;

/// Every request has one statement that looks up the token.
const SIGN_IN: u64 = 1;

/// An item that every cluster has under the same numbers: twelve of each kind, some of them at the same
/// time.
struct Item {
    /// 0 and 1 are ada's, 2 is bob's.
    cluster: usize,
    number: u32,
    /// Seconds after the start.
    at: u32,
}

fn items() -> Vec<Item> {
    let of = |cluster: usize, offset: u32| {
        (1..=12).map(move |number| Item { cluster, number, at: (number * 7 + offset) % 20 })
    };
    of(0, 0).chain(of(1, 5)).chain(of(2, 10)).collect()
}

impl Item {
    fn state(&self) -> &'static str {
        ["running", "finished", "erred", "cancelled"][self.number as usize % 4]
    }

    fn path(&self) -> &'static [&'static str] {
        [&["etl", "load"][..], &["etl"], &["train", "load", "etl"]][self.number as usize % 3]
    }

    fn exception(&self) -> &'static str {
        ["ValueError", "KeyError", "KilledWorker"][self.number as usize % 3]
    }

    fn origin(&self) -> &'static str {
        if self.exception() == "KilledWorker" { "dask" } else { "user" }
    }

    fn topic(&self) -> &'static str {
        ["mine", "theirs"][self.number as usize % 2]
    }

    fn level(&self) -> &'static str {
        ["INFO", "WARNING", "ERROR"][self.number as usize % 3]
    }

    fn source(&self) -> &'static str {
        ["worker", "scheduler"][self.number as usize % 2]
    }

    fn text(&self) -> &'static str {
        ["Straße", "needle", "hay"][self.number as usize % 3]
    }

    fn dated(&self, mut item: Value, field: &str) -> Value {
        item["id"] = json!(uuid(self.number.into()));
        item[field] = json!(STARTED_AT + self.at);
        item
    }
}

/// Creates three clusters, of which the first has closed, and returns their numbers.
async fn three(app: &TestApp) -> (Member, Member, [i64; 3]) {
    let (ada, bob) = (app.account("ada").await, app.member("bob", "ada").await);
    let items = items();
    let mut numbers = [0; 3];
    for (cluster, number) in numbers.iter_mut().enumerate() {
        let of: Vec<&Item> = items.iter().filter(|item| item.cluster == cluster).collect();
        let all = |each: &dyn Fn(&Item) -> Value| of.iter().map(|item| each(item)).collect::<Vec<_>>();
        let report = ReportBuilder::new(&format!("Scheduler-{cluster}"), 1)
            .with("/sent_at", STARTED_AT + 30)
            .with("/final", cluster == 0)
            .with("/cluster/name", ["nightly", "etl of ada", "etl of bob"][cluster])
            .with(
                "/computations",
                all(&|item| {
                    let mut work = item.dated(computation(0, &[]), "started_at");
                    (work["state"], work["stopped_at"]) = (json!(item.state()), Value::Null);
                    work
                }),
            )
            .with("/spans", all(&|item| span(item.number.into(), None, item.path(), item.at.into(), None)))
            .with(
                "/errors",
                all(&|item| {
                    let mut error = item.dated(error(0, 1, 1), "at");
                    (error["type"], error["origin"]) = (json!(item.exception()), json!(item.origin()));
                    (error["message"], error["traceback"]) = (json!("no"), json!(item.text()));
                    error["key"] = json!(item.number.to_string());
                    error
                }),
            )
            .with("/events", all(&|item| item.dated(event(0, item.topic(), item.number), "at")))
            .with(
                "/logs",
                all(&|item| {
                    let mut line = item.dated(log_line(0, item.text()), "at");
                    (line["level"], line["source"]) = (json!(item.level()), json!(item.source()));
                    line["repeated"] = json!(item.number);
                    line
                }),
            );
        let member = if cluster == 2 { &bob } else { &ada };
        *number = member.reported(&report.build()).await;
    }
    (ada, bob, numbers)
}

/// The field of an item that contains its number.
fn number_of(field: &str) -> &'static str {
    match field {
        "computations" | "spans" => "number: daskId",
        "errors" => "number: key",
        "events" => "number: data",
        "logs" => "number: repeated",
        _ => panic!("{field}"),
    }
}

/// Pages through a list, and returns the clusters and numbers of its items.
async fn walk(member: &Member, field: &str, arguments: &str) -> Vec<(usize, u32)> {
    let number = number_of(field);
    let query = format!(
        "query($after: String) {{ viewer {{ account {{ {field}({arguments} first: 5, after: $after) {{ totalCount
            nodes {{ cluster {{ schedulerId }} {number} }} pageInfo {{ hasNextPage endCursor }} }} }} }} }}"
    );
    let (mut after, mut found, mut total) = (Value::Null, Vec::new(), Value::Null);
    loop {
        let page = member.query(&query, json!({ "after": after })).await["viewer"]["account"][field].take();
        for node in page["nodes"].as_array().unwrap() {
            let scheduler = node["cluster"]["schedulerId"].as_str().unwrap();
            let number = match &node["number"] {
                Value::String(uuid) if uuid.contains('-') => {
                    u32::try_from(uuid.parse::<uuid::Uuid>().unwrap().as_u128()).unwrap()
                }
                Value::String(text) => text.parse().unwrap(),
                number => u32::try_from(number.as_u64().unwrap()).unwrap(),
            };
            found.push((scheduler.rsplit('-').next().unwrap().parse().unwrap(), number));
        }
        total = if total.is_null() { page["totalCount"].clone() } else { total };
        if page["pageInfo"]["hasNextPage"] == false {
            break;
        }
        after = page["pageInfo"]["endCursor"].clone();
    }
    assert!(arguments.contains("match") || total == found.len(), "{field}({arguments}): {total} {found:?}");
    found
}

const NEWEST: [&str; 3] = ["computations", "spans", "errors"];

/// The matching items, in the order of the list.
fn expected(field: &str, clusters: [i64; 3], passes: impl Fn(&Item) -> bool) -> Vec<(usize, u32)> {
    let mut items: Vec<Item> = items().into_iter().filter(passes).collect();
    items.sort_by_key(|item| (item.at, clusters[item.cluster], item.number));
    if NEWEST.contains(&field) {
        items.reverse();
    }
    items.iter().map(|item| (item.cluster, item.number)).collect()
}

type Passes = Box<dyn Fn(&Item) -> bool>;

fn case(field: &str, arguments: &str, passes: impl Fn(&Item) -> bool + 'static) -> (String, String, Passes) {
    (field.to_owned(), arguments.to_owned(), Box::new(passes))
}

#[tokio::test]
async fn lists_have_what_passes_in_the_order_of_time() {
    let app = TestApp::start().await;
    let (ada, bob, numbers) = three(&app).await;
    let user = bob.query("{ viewer { user { id } } }", json!({})).await["viewer"]["user"]["id"].clone();
    let mut cases = Vec::new();
    for (field, time) in [
        ("computations", "startedIn"),
        ("spans", "enqueuedIn"),
        ("errors", "at"),
        ("events", "at"),
        ("logs", "at"),
    ] {
        let range = "{ from: \"2026-11-20T11:00:05Z\", to: \"2026-11-20T11:00:15Z\" }";
        let during = |item: &Item| (5..15).contains(&item.at);
        cases.extend([
            case(field, "", |_| true),
            case(field, &format!("{time}: {range},"), during),
            case(field, &format!("{time}: {{ from: \"2026-11-20T11:00:14.5Z\" }},"), |item| item.at >= 15),
            case(field, &format!("{time}: {{ to: \"2026-11-20T11:00:05Z\" }},"), |item| item.at < 5),
            case(field, "clusters: { states: [STARTING, RUNNING] },", |item| item.cluster != 0),
            case(field, &format!("clusters: {{ users: [{user}] }},"), |item| item.cluster == 2),
            case(field, "clusters: { search: \"ETL\", states: [CLOSED] },", |_| false),
            case(field, &format!("clusters: {{ search: \"ada\" }}, {time}: {range},"), move |item| {
                item.cluster == 1 && during(item)
            }),
        ]);
    }
    cases.extend([
        case("computations", "states: [ERRED, CANCELLED],", |item| item.number % 4 >= 2),
        case("computations", "states: [],", |_| false),
        case("errors", "origin: DASK,", |item| item.origin() == "dask"),
        case("errors", "types: [\"KeyError\", \"KilledWorker\"], origin: USER,", |item| {
            item.exception() == "KeyError"
        }),
        // In the traceback, ignoring case.
        case("errors", "match: \"NEEDLE\",", |item| item.text() == "needle"),
        case("errors", "match: \"NO\", clusters: { users: [] },", |_| false),
        case("events", "topics: [\"mine\"],", |item| item.topic() == "mine"),
        case("events", "topics: [\"mine\", \"theirs\", \"'\"],", |_| true),
        case("events", "topics: [],", |_| false),
        case("logs", "levels: [\"INFO\", \"ERROR\"],", |item| item.level() != "WARNING"),
        case("logs", "sources: [WORKER], levels: [\"WARNING\"],", |item| {
            item.source() == "worker" && item.level() == "WARNING"
        }),
        case("logs", "match: \"straße\",", |item| item.text() == "Straße"),
        case("logs", "match: \"straße\", sources: [SCHEDULER],", |item| {
            item.text() == "Straße" && item.source() == "scheduler"
        }),
    ]);
    let tagged = |arguments: &str, passes: fn(&[&str]) -> bool| {
        case("spans", &format!("tags: {{ {arguments} }},"), move |item| passes(item.path()))
    };
    cases.extend([
        tagged("any: [\"load\", \"x\"]", |path| path.contains(&"load")),
        tagged("all: [\"load\", \"etl\"]", |path| path.contains(&"load")),
        tagged("all: [\"load\", \"x\"]", |_| false),
        tagged("none: [\"load\"]", |path| path == ["etl"]),
        tagged("none: [\"train\", \"x\"]", |path| path[0] == "etl"),
        tagged("underPath: [\"etl\"]", |path| path[0] == "etl"),
        tagged("underPath: [\"etl\", \"load\"]", |path| path == ["etl", "load"]),
        tagged("underPath: [\"load\"]", |_| false),
        tagged(
            "any: [\"train\", \"etl\"], all: [\"load\"], none: [\"train\"], underPath: [\"etl\"]",
            |path| path == ["etl", "load"],
        ),
        tagged("", |_| true),
    ]);
    for (field, arguments, passes) in cases {
        let found = walk(&ada, &field, &arguments).await;
        assert_eq!(found, expected(&field, numbers, passes), "{field}({arguments})");
    }
    app.stop().await;
}

#[tokio::test]
async fn spans_that_lie_in_others_of_the_list_are_left_out() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    for cluster in 0..2 {
        let spans = json!([
            span(1, None, &["etl"], 1.0, None),
            span(2, Some(1), &["etl", "load"], 2.0, None),
            span(3, Some(2), &["etl", "load", "etl"], 3.0, None),
            span(4, Some(1), &["etl", "train"], 4.0, None),
            span(5, None, &["load"], 5.0, None),
            span(6, Some(5), &["load", "etl"], 6.0, None),
        ]);
        ada.reported(&ReportBuilder::new(&format!("Scheduler-{cluster}"), 1).with("/spans", spans).build())
            .await;
    }
    for (tags, expected) in [
        ("{}", vec![5, 1]),
        ("{ any: [\"etl\"] }", vec![6, 1]),
        ("{ any: [\"load\"] }", vec![5, 2]),
        ("{ all: [\"load\", \"etl\"] }", vec![6, 2]),
        ("{ underPath: [\"etl\", \"load\"] }", vec![2]),
        ("{ underPath: [\"etl\"] }", vec![1]),
        ("{ none: [\"train\"] }", vec![5, 1]),
        ("{ any: [\"etl\"], none: [\"load\"] }", vec![1]),
        ("{ any: [\"train\", \"load\"], none: [\"etl\"] }", vec![5]),
    ] {
        let mut found: Vec<u32> = walk(&ada, "spans", &format!("roots: true, tags: {tags},"))
            .await
            .into_iter()
            .filter_map(|(cluster, number)| (cluster == 1).then_some(number))
            .collect();
        found.sort_unstable();
        let mut expected = expected;
        expected.sort_unstable();
        assert_eq!(found, expected, "{tags}");
    }
    for tags in ["{ any: [] }", "{ none: [\"\\u0000\"] }"] {
        let query = format!("{{ viewer {{ account {{ spans(tags: {tags}) {{ totalCount }} }} }} }}");
        let refused = ada.ask(&query, json!({})).await;
        assert_eq!(refused["errors"][0]["extensions"]["code"], "BAD_USER_INPUT", "{tags}: {refused}");
    }
    app.stop().await;
}

#[tokio::test]
async fn tags_of_spans_are_those_spans_have_of_their_own() {
    let app = TestApp::start().await;
    let (ada, ..) = three(&app).await;
    let tags = async |arguments: &str| {
        let query = format!(
            "{{ viewer {{ account {{ spanTags{arguments} {{ tag spans clusters firstUsedAt lastUsedAt }} }} }} }}"
        );
        ada.query(&query, json!({})).await["viewer"]["account"]["spanTags"].take()
    };
    let of = |clusters: &[usize], tag: &str| {
        let items: Vec<Item> = items()
            .into_iter()
            .filter(|item| clusters.contains(&item.cluster) && item.path().last() == Some(&tag))
            .collect();
        let time = |second: Option<u32>| format!("2026-11-20T11:00:{:02}+00:00", second.unwrap());
        json!({ "tag": tag, "spans": items.len(), "clusters": clusters.len(),
            "firstUsedAt": time(items.iter().map(|item| item.at).min()),
            "lastUsedAt": time(items.iter().map(|item| item.at).max()) })
    };
    let all = tags("").await;
    assert_eq!(all.as_array().unwrap().len(), 2, "{all}");
    for tag in ["etl", "load"] {
        assert!(all.as_array().unwrap().contains(&of(&[0, 1, 2], tag)), "{tag}: {all}");
        assert_eq!(tags(&format!("(prefix: \"{}\")", &tag[..2])).await, json!([of(&[0, 1, 2], tag)]));
    }
    assert_eq!(tags("(first: 1)").await, json!([all[0]]));
    assert_eq!(tags("(prefix: \"E\")").await, json!([]));
    assert_eq!(
        tags("(prefix: \"load\", clusters: { states: [STARTING, RUNNING] })").await,
        json!([of(&[1, 2], "load")])
    );
    assert_eq!(tags("(enqueuedIn: { from: \"2026-11-20T11:00:20Z\" })").await, json!([]));
    app.stop().await;
}

#[tokio::test]
async fn a_list_costs_a_statement_and_one_for_its_length() {
    let app = TestApp::start().await;
    let (ada, ..) = three(&app).await;
    let filter = "clusters: { states: [STARTING, RUNNING], search: \"etl\" }";
    let cases = [
        (
            format!(
                "computations({filter}, states: [ERRED], first: 100) {{ totalCount nodes {{ daskId }} }}"
            ),
            2,
        ),
        (
            format!(
                "spans({filter}, tags: {{ any: [\"etl\"] }}, first: 100) {{ totalCount nodes {{ tag }} }}"
            ),
            2,
        ),
        (format!("errors({filter}, match: \"no\", first: 100) {{ totalCount nodes {{ message }} }}"), 2),
        (format!("logs({filter}, match: \"a\", first: 100) {{ totalCount nodes {{ message }} }}"), 2),
        // The number of clusters determines how many events of each are examined.
        (format!("events({filter}, topics: [\"mine\"], first: 100) {{ totalCount nodes {{ data }} }}"), 3),
        (format!("spanTags({filter}) {{ tag spans clusters }}"), 1),
        // All clusters of the page are one more statement.
        ("logs(first: 100) { nodes { cluster { schedulerId } } }".to_owned(), 2),
        ("errorGroups(first: 100) { nodes { trend { start occurrences } title } }".to_owned(), 2),
    ];
    // The clusters are counted once a minute, because query costs depend on their number.
    ada.query("{ viewer { account { clusters { totalCount } } } }", json!({})).await;
    for (field, statements) in cases {
        let before = app.statements();
        ada.query(&format!("{{ viewer {{ account {{ {field} }} }} }}"), json!({})).await;
        assert_eq!(app.statements() - before, SIGN_IN + statements, "{field}");
    }
    app.stop().await;
}

/// Pages through a list whose pages may end early, and returns the numbers of its items and the number
/// of pages.
async fn search(member: &Member, field: &str, node: &str, forward: bool) -> (Vec<Value>, usize) {
    let (size, position, more, next) = if forward {
        ("first: 2", "after", "hasNextPage", "endCursor")
    } else {
        ("last: 2", "before", "hasPreviousPage", "startCursor")
    };
    let field = field.replace("PAGE", &format!("{size}, {position}: $cursor"));
    let query = format!(
        "query($cursor: String) {{ viewer {{ account {{ list: {field} {{ nodes {{ value: {node} }}
            pageInfo {{ {more} {next} }} }} }} }} }}"
    );
    let (mut cursor, mut found, mut pages) = (Value::Null, Vec::new(), 0);
    loop {
        let page =
            member.query(&query, json!({ "cursor": cursor })).await["viewer"]["account"]["list"].take();
        let mut values: Vec<Value> =
            page["nodes"].as_array().unwrap().iter().map(|node| node["value"].clone()).collect();
        if !forward {
            values.reverse();
        }
        found.extend(values);
        pages += 1;
        if page["pageInfo"][more] == false {
            return (found, pages);
        }
        assert_ne!(page["pageInfo"][next], cursor);
        cursor = page["pageInfo"][next].clone();
    }
}

#[tokio::test]
async fn a_page_looks_at_a_bounded_number_of_rows_and_returns_how_far_it_came() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let database = app.database.connection().await;
    let mut work = computation(1, &[]);
    work["state"] = json!("running");
    ada.reported(&ReportBuilder::new("Scheduler-1", 1).with("/computations", json!([work])).build()).await;
    let row = entity::computation::Entity::find().one(&database).await.unwrap().unwrap();
    // Inserted directly: 25,000 computations, of which three erred: the oldest and two adjacent ones.
    let rows: Vec<_> = (2..=25_000_u32)
        .map(|number| {
            let mut row = row.clone().into_active_model().reset_all();
            row.id = Set(ComputationId(uuid::Uuid::from_u128(number.into())));
            row.started_at =
                Set((row.started_at.clone().unwrap().0 + chrono::TimeDelta::seconds(number.into())).into());
            row.state = Set(match number {
                2 | 12_000 | 12_001 => entity::computation::State::Erred,
                _ => entity::computation::State::Finished,
            });
            row
        })
        .collect();
    for rows in rows.chunks(1_000) {
        entity::computation::Entity::insert_many(rows.to_vec())
            .exec_without_returning(&database)
            .await
            .unwrap();
    }
    let erred = |numbers: [u128; 3]| numbers.map(|number| json!(uuid(number))).to_vec();
    let list = "computations(PAGE, states: [ERRED])";
    // From the newest: 25,000 to 15,001 with none, to 5,001 with two, and the rest.
    assert_eq!(search(&ada, list, "daskId", true).await, (erred([12_001, 12_000, 2]), 3));
    assert_eq!(search(&ada, list, "daskId", false).await, (erred([2, 12_000, 12_001]), 3));
    // After a full page, the list continues behind its last row.
    let all = "computations(PAGE, states: [RUNNING, ERRED], startedIn: { to: \"2026-11-20T15:00:00Z\" })";
    let expected = [12_001_u128, 12_000, 2, 1].map(|number| json!(uuid(number)));
    assert_eq!(search(&ada, all, "daskId", true).await, (expected.to_vec(), 2));
    app.stop().await;
}

#[tokio::test]
async fn a_page_of_events_looks_at_a_share_of_each_clusters() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    // A page examines 1,000 events of each cluster.
    let topic = |cluster, number| match (cluster, number) {
        (_, 3 | 1_111) => "rare",
        (4, 1_150) => "rarest",
        _ => "usual",
    };
    for cluster in 0..10_u32 {
        let events: Vec<Value> =
            (1..=1_200).map(|n| event(n, topic(cluster, n), cluster * 10_000 + n)).collect();
        let report = ReportBuilder::new(&format!("Scheduler-{cluster}"), 1)
            .with("/sent_at", STARTED_AT + 1_300)
            .with("/events", events);
        ada.reported(&report.build()).await;
    }
    let list = "events(PAGE, topics: [\"rare\"])";
    let (forward, _) = search(&ada, list, "data", true).await;
    let (backward, _) = search(&ada, list, "data", false).await;
    assert_eq!(backward.iter().rev().cloned().collect::<Vec<_>>(), forward);
    let at = |value: &Value| value.as_i64().unwrap() % 10_000;
    assert!(forward.iter().take(10).all(|value| at(value) == 3), "{forward:?}");
    assert!(forward.iter().skip(10).all(|value| at(value) == 1_111), "{forward:?}");
    let mut sorted: Vec<i64> = forward.iter().map(|value| value.as_i64().unwrap()).collect();
    sorted.sort_unstable();
    let expected: Vec<i64> =
        (0..10).flat_map(|cluster| [10_000 * cluster + 3, 10_000 * cluster + 1_111]).collect();
    assert_eq!(sorted, expected);
    for forward in [true, false] {
        let rarest = search(&ada, "events(PAGE, topics: [\"rarest\"])", "data", forward).await;
        assert_eq!(rarest, (vec![json!(41_150)], 2), "forward: {forward}");
    }
    let count = "{ viewer { account { events(topics: [\"rare\"], first: 1) { totalCount } } } }";
    assert_eq!(ada.query(count, json!({})).await["viewer"]["account"]["events"]["totalCount"], 20);
    app.stop().await;
}

#[tokio::test]
async fn events_of_too_many_clusters_are_refused_unless_few_were_there() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let report = ReportBuilder::new("Scheduler", 1)
        .with("/sent_at", STARTED_AT + 60)
        .with("/events", json!([event(1, "mine", 7)]));
    ada.reported(&report.build()).await;
    let database = app.database.connection().await;
    let cluster = entity::cluster::Entity::find().one(&database).await.unwrap().unwrap();
    // Other clusters started an hour later, and have not reported since.
    let rows = (1..=500_i64).map(|number| {
        let mut row = cluster.clone().into_active_model().reset_all();
        row.id = Set(ClusterId(cluster.id.0 + number));
        row.scheduler_id = Set(format!("Scheduler-{number}"));
        let later = |time: entity::Timestamp| (time.0 + chrono::TimeDelta::hours(1)).into();
        row.started_at = Set(later(cluster.started_at));
        row.reported_at = Set(later(cluster.reported_at));
        row
    });
    entity::cluster::Entity::insert_many(rows).exec_without_returning(&database).await.unwrap();
    let list_events = async |arguments: &str| {
        let query = format!(
            "{{ viewer {{ account {{ events(last: 5{arguments}) {{ totalCount nodes {{ data }} }} }} }} }}"
        );
        ada.ask(&query, json!({})).await
    };
    let refused = list_events("").await;
    assert_eq!(refused["errors"][0]["extensions"]["code"], "BAD_USER_INPUT", "{refused}");
    assert_eq!(
        refused["data"],
        json!({ "viewer": { "account": { "events": null } } }),
        "the rest is returned"
    );
    let query = "query($clusters: ClusterFilter) { viewer { account { slug
        errorGroups(clusters: $clusters) { totalCount } flags(clusters: $clusters) { totalCount } } } }";
    let answer = ada.ask(query, json!({ "clusters": { "search": "Scheduler" } })).await;
    let expected = json!({ "slug": "ada", "errorGroups": null, "flags": null });
    assert_eq!(answer["data"]["viewer"]["account"], expected, "{answer}");
    let codes = answer["errors"].as_array().unwrap().iter().map(|error| error["extensions"]["code"].clone());
    assert_eq!(codes.collect::<Vec<_>>(), ["BAD_USER_INPUT", "BAD_USER_INPUT"], "{answer}");
    // One cluster less is exactly the limit.
    let answer = ada.query(query, json!({ "clusters": { "search": "Scheduler-" } })).await;
    let expected = json!({ "slug": "ada", "errorGroups": { "totalCount": 0 }, "flags": { "totalCount": 0 } });
    assert_eq!(answer["viewer"]["account"], expected);
    assert!(refused["errors"][0]["message"].as_str().unwrap().contains("'at'"), "{refused}");
    let found = json!({ "totalCount": 1, "nodes": [{ "data": 7 }] });
    for (arguments, expected) in [
        (", at: { to: \"2026-11-20T12:00:00Z\" }", &found),
        (", clusters: { startedIn: { to: \"2026-11-20T11:00:00.001Z\" } }", &found),
        // The first cluster had ended, and the others had not started yet.
        (
            ", at: { from: \"2026-11-20T11:01:00.001Z\", to: \"2026-11-20T12:00:00Z\" }",
            &json!({ "totalCount": 0, "nodes": [] }),
        ),
    ] {
        let answer = list_events(arguments).await;
        assert_eq!(&answer["data"]["viewer"]["account"]["events"], expected, "{arguments}: {answer}");
    }
    app.stop().await;
}

#[tokio::test]
async fn errors_of_a_group_are_counted_by_hours_days_and_weeks() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    // Two groups; that of `no` is on two clusters. Fridays, and the Monday between them.
    let times = [
        ("2026-11-13T23:59:59.999Z", "no"),
        ("2026-11-14T00:00:00Z", "no"),
        ("2026-11-15T23:30:00Z", "no"),
        ("2026-11-16T00:00:00Z", "no"),
        ("2026-11-16T00:59:59Z", "yes"),
        ("2026-11-20T11:30:00Z", "no"),
        ("2026-11-20T12:00:00Z", "no"),
    ];
    for cluster in 0..2 {
        let errors =
            (1..).zip(times).filter(|(number, _)| number % 2 == cluster).map(|(number, (at, message))| {
                let mut error = error(number, 1, 1);
                let at: chrono::DateTime<chrono::Utc> = at.parse().unwrap();
                error["at"] = json!(at.timestamp_millis() / 1_000);
                if at.timestamp_subsec_millis() > 0 {
                    error["at"] = json!(1_794_614_399.999);
                }
                error["message"] = json!(message);
                error
            });
        let report = ReportBuilder::new(&format!("Scheduler-{cluster}"), 1);
        ada.reported(&report.with("/errors", errors.collect::<Vec<_>>()).build()).await;
    }
    let trend = async |arguments: &str| -> Vec<(String, Vec<(String, i64)>)> {
        let query = format!(
            "{{ viewer {{ account {{ errorGroups {{ nodes {{ title trend{arguments} {{ start occurrences }} }} }} }} }} }}"
        );
        let answer = ada.query(&query, json!({})).await;
        let groups = answer["viewer"]["account"]["errorGroups"]["nodes"].as_array().unwrap().clone();
        let point = |point: &Value| {
            let start = point["start"].as_str().unwrap().replace(":00:00+00:00", "");
            (start, point["occurrences"].as_i64().unwrap())
        };
        let points = |group: &Value| group["trend"].as_array().unwrap().iter().map(point).collect();
        groups.iter().map(|group| (group["title"].as_str().unwrap().to_owned(), points(group))).collect()
    };
    let points = |points: &[(&str, i64)]| -> Vec<(String, i64)> {
        points.iter().map(|(start, count)| ((*start).to_owned(), *count)).collect()
    };
    // The current time is noon, so the present half day is included.
    let days = trend("(from: \"2026-11-13T12:00:00Z\")").await;
    let expected = points(&[
        ("2026-11-13T00", 1),
        ("2026-11-14T00", 1),
        ("2026-11-15T00", 1),
        ("2026-11-16T00", 1),
        ("2026-11-17T00", 0),
        ("2026-11-18T00", 0),
        ("2026-11-19T00", 0),
        ("2026-11-20T00", 2),
    ]);
    assert_eq!(days[0], ("no".to_owned(), expected));
    assert_eq!((days[1].0.as_str(), days[1].1[3].clone()), ("yes", ("2026-11-16T00".to_owned(), 1)));
    let weeks = trend("(from: \"2026-11-09T00:00:00Z\", to: \"2026-11-23T00:00:00Z\", bucket: WEEK)").await;
    assert_eq!(weeks[0].1, points(&[("2026-11-09T00", 3), ("2026-11-16T00", 3)]));
    assert_eq!(weeks[1].1, points(&[("2026-11-09T00", 0), ("2026-11-16T00", 1)]));
    let hours = trend("(from: \"2026-11-15T23:10:00Z\", to: \"2026-11-16T01:00:00Z\", bucket: HOUR)").await;
    assert_eq!(hours[0].1, points(&[("2026-11-15T23", 1), ("2026-11-16T00", 1)]));
    assert_eq!(hours[1].1, points(&[("2026-11-15T23", 0), ("2026-11-16T00", 1)]));
    let usual = trend("").await;
    assert_eq!((usual[0].1.len(), usual[0].1[0].0.as_str()), (30, "2026-10-22T00"));
    assert_eq!(usual[0].1.iter().map(|(_, count)| count).sum::<i64>(), 6);
    let database = app.database.connection().await;
    let stored = entity::error_occurrence::Entity::find().count(&database).await.unwrap();
    assert_eq!(stored, 7);
    let refused =
        "{ viewer { account { errorGroups { nodes { trend(from: \"2026-01-01T00:00:00Z\", bucket: HOUR) {
        start } } } } } }";
    let refused = ada.ask(refused, json!({})).await;
    assert_eq!(refused["errors"][0]["extensions"]["code"], "BAD_USER_INPUT", "{refused}");
    // By the class of the exception, and by the time of the newest occurrence.
    let count = async |arguments: &str| {
        let query = format!(
            "{{ viewer {{ account {{ errorGroups({arguments}) {{ totalCount nodes {{ title }} }} }} }} }}"
        );
        let found = ada.query(&query, json!({})).await["viewer"]["account"]["errorGroups"].take();
        assert_eq!(found["totalCount"], found["nodes"].as_array().unwrap().len(), "{arguments}");
        found["totalCount"].as_i64().unwrap()
    };
    assert_eq!(count("types: [\"ZeroDivisionError\"]").await, 2);
    assert_eq!(count("types: [\"KeyError\"], origin: USER").await, 0);
    assert_eq!(count("lastSeenIn: { to: \"2026-11-20T00:00:00Z\" }").await, 1);
    assert_eq!(count("lastSeenIn: { from: \"2026-11-20T12:00:00Z\" }").await, 1);
    assert_eq!(count("lastSeenIn: { from: \"2026-11-20T12:00:00.001Z\" }").await, 0);
    app.stop().await;
}

#[tokio::test]
async fn pages_of_an_account_are_ranges_of_an_index() {
    let app = TestApp::start_on_one_machine().await;
    let ada = app.account("ada").await;
    plan::fill_clusters(&app, &ada).await;
    let postgres = app.database.url().starts_with("postgres");
    let filter = "clusters: { states: [STARTING, RUNNING] }";
    let within = "{ from: \"2026-11-20T11:00:00Z\", to: \"2026-11-30T11:00:00Z\" }";
    let cases = [
        ("computations", "", "started_at", '<'),
        ("spans", "", "enqueued_at", '<'),
        ("spans", "tags: { any: [\"etl\"] },", "enqueued_at", '<'),
        ("errors", "", "occurred_at", '<'),
        ("errors", "types: [\"ZeroDivisionError\"],", "occurred_at", '<'),
        ("logs", "", "logged_at", '>'),
        ("logs", "levels: [\"INFO\"],", "logged_at", '>'),
    ];
    for (field, arguments, time, behind) in cases {
        for arguments in [arguments.to_owned(), format!("{arguments} {filter},")] {
            let table = match field {
                "errors" => "error_occurrences",
                "logs" => "log_lines",
                other => other,
            };
            let range = match field {
                "computations" => "startedIn",
                "spans" => "enqueuedIn",
                _ => "at",
            };
            let query = format!(
                "query($after: String) {{ viewer {{ account {{ {field}({arguments} {range}: {within}, first: 50,
                    after: $after) {{ nodes {{ cluster {{ id }} }} pageInfo {{ endCursor }} }} }} }} }}"
            );
            let first = ada.query(&query, json!({ "after": null })).await;
            let after = first["viewer"]["account"][field]["pageInfo"]["endCursor"].clone();
            let after = if after.is_null() {
                // This account has none, so any position will do.
                use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
                let key = json!([1, format!("{time},cluster_id:desc"), [1, 1, uuid(1)]]);
                json!(URL_SAFE_NO_PAD.encode(key.to_string()))
            } else {
                after
            };
            let (_, statements) = statements_of(ada.query(&query, json!({ "after": after }))).await;
            let from = format!("FROM \"{table}\"");
            let statement = statements.iter().find(|sql| sql.contains(&from)).unwrap();
            let plan = plan::plan_of(&app, statement).await;
            let index = format!("{table}_account_idx").replace("log_lines_account_idx", "log_lines");
            if postgres {
                // Partitions have indexes with their own names.
                let index =
                    if table == "log_lines" { "log_lines_default_account_id_logged_at_idx" } else { &index };
                assert!(plan.contains(index), "{field}({arguments})\n{statement}\n{plan}");
                // The time is the range. Rows of the same millisecond are sorted.
                let position = format!("({time} {behind}= ");
                let ranges: Vec<&str> = plan.lines().filter(|line| line.contains("Index Cond")).collect();
                assert!(
                    ranges.iter().any(|range| range.contains(&position)),
                    "{field}({arguments})\n{statement}\n{plan}"
                );
                // Few clusters are hidden, if any, and they are looked up once.
                let others = plan.replace("Seq Scan on cluster_removals", "");
                assert!(!others.contains("Seq Scan on"), "{field}({arguments})\n{statement}\n{plan}");
                let sorted = plan.contains("Sort Key") && !plan.contains("Presorted Key");
                // There are no computations here, and an empty set may be sorted directly.
                assert!(
                    field == "computations" || arguments.contains("clusters") || !sorted,
                    "{field}({arguments})\n{plan}"
                );
            } else {
                let expected = format!("SEARCH {table} USING INDEX {table}_account_idx (account_id=? AND ");
                let position = format!("{time}{behind}?");
                let found = plan.lines().any(|line| line.starts_with(&expected) && line.contains(&position));
                assert!(found, "{field}({arguments})\n{statement}\n{plan}");
                let last_terms = plan.contains("USE TEMP B-TREE FOR LAST 2 TERMS OF ORDER BY");
                assert!(last_terms, "{field}({arguments})\n{statement}\n{plan}");
            }
            if !arguments.trim().is_empty() {
                assert!(statement.contains("ROW_NUMBER() OVER"), "{statement}");
            }
        }
    }
    app.stop().await;
}

#[tokio::test]
async fn a_trend_is_a_range_of_an_index() {
    let app = TestApp::start_on_one_machine().await;
    let ada = app.account("ada").await;
    plan::fill_clusters(&app, &ada).await;
    let query = "{ viewer { account { errorGroups { nodes { trend { occurrences } } } } } }";
    let (_, statements) = statements_of(ada.query(query, json!({}))).await;
    let statement = statements.iter().find(|sql| sql.contains("FROM \"error_occurrences\"")).unwrap();
    let plan = plan::plan_of(&app, statement).await;
    // By the groups or by the time. The database estimates better which has fewer rows.
    let found = ["error_occurrences_group_idx", "error_occurrences_account_idx"];
    assert!(found.iter().any(|index| plan.contains(index)), "{statement}\n{plan}");
    assert!(!plan.contains("Seq Scan") && !plan.contains("SCAN"), "{statement}\n{plan}");
    app.stop().await;
}

#[tokio::test]
async fn a_query_requests_a_bounded_number_of_pages() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    for number in 0..60 {
        ada.reported(&ReportBuilder::new(&format!("Scheduler-{number}"), 1).build()).await;
    }
    let query = "query($first: Int) { viewer { account { clusters(first: $first) { nodes { account {
        events(first: 1) { nodes { topic } } } } } } } }";
    ada.query(query, json!({ "first": 50 })).await;
    let refused = ada.ask(query, json!({ "first": 51 })).await;
    assert_eq!(refused["errors"][0]["extensions"]["code"], "BAD_USER_INPUT", "{refused}");
    for field in
        ["events(topics: [\"\\u0000\"])", "logs(levels: [\"\\u0000\"])", "errors(types: [\"\\u0000\"])"]
    {
        let query = format!("{{ viewer {{ account {{ {field} {{ totalCount }} }} }} }}");
        let refused = ada.ask(&query, json!({})).await;
        assert_eq!(refused["errors"][0]["extensions"]["code"], "BAD_USER_INPUT", "{field}: {refused}");
    }
    app.stop().await;
}

#[tokio::test]
async fn events_of_several_clusters_are_ranges_of_their_key() {
    let app = TestApp::start_on_one_machine().await;
    let ada = app.account("ada").await;
    plan::fill_clusters(&app, &ada).await;
    let query =
        "query($after: String) { viewer { account { events(topics: [\"mine\"], first: 50, after: $after,
        at: { from: \"2026-11-20T11:00:00Z\" }) { nodes { topic } pageInfo { endCursor } } } } }";
    let first = ada.query(query, json!({ "after": null })).await;
    let after = first["viewer"]["account"]["events"]["pageInfo"]["endCursor"].clone();
    let (_, statements) = statements_of(ada.query(query, json!({ "after": after }))).await;
    let statement = statements.iter().find(|sql| sql.contains("\"events\"")).unwrap();
    let plan = plan::plan_of(&app, statement).await;
    if app.database.url().starts_with("sqlite") {
        // Rows are found by the key of one cluster, and matching ones are then looked up.
        for part in [
            "SEARCH events USING COVERING INDEX sqlite_autoindex_events_1 (account_id=? AND cluster_id=? AND occurred_at>?)",
            "SEARCH events USING INTEGER PRIMARY KEY (rowid=?)",
        ] {
            assert!(plan.contains(part), "{part}\n{statement}\n{plan}");
        }
    } else {
        assert!(plan.contains("events_default_pkey"), "{statement}\n{plan}");
        assert!(plan.contains("(cluster_id = clusters.id)"), "{statement}\n{plan}");
        assert!(
            plan.contains("(ROW(occurred_at) >= ") || plan.contains("ROW(occurred_at"),
            "{statement}\n{plan}"
        );
    }
    app.stop().await;
}
