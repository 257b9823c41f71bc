//! Lists: every page, every order, every wrong argument.

use harness::{Member, ReportBuilder, TestApp, computation, error, task_group};
use serde_json::{Value, json};

/// Clusters `0..count`; three of them start at the same time each.
async fn clusters(member: &Member, count: i64) {
    for number in 0..count {
        #[expect(clippy::cast_precision_loss, reason = "few clusters")]
        let started_at = 1_795_172_400.0 + (number / 3) as f64;
        let report =
            ReportBuilder::new(&format!("Scheduler-{number}"), 1).with("/cluster/started_at", started_at);
        member.reported(&report.build()).await;
    }
}

const CLUSTERS: &str =
    "query($first: Int, $after: String, $last: Int, $before: String, $direction: OrderDirection = DESC) {
    viewer { account { list: clusters(first: $first, after: $after, last: $last, before: $before,
        orderBy: { direction: $direction }) {
        totalCount nodes { id: schedulerId } edges { cursor }
        pageInfo { hasNextPage hasPreviousPage startCursor endCursor } } } } }";

fn list(answer: &Value) -> &Value {
    &answer["viewer"]["account"]["list"]
}

fn ids(list: &Value) -> Vec<String> {
    list["nodes"].as_array().unwrap().iter().map(|node| node["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn walking_forward_and_backward_visits_every_row_once() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    clusters(&ada, 23).await;
    for direction in ["ASC", "DESC"] {
        let all = ada.query(CLUSTERS, json!({ "first": 100, "direction": direction })).await;
        let all = ids(list(&all));
        assert_eq!(all.len(), 23);
        for size in [1, 2, 7, 22, 23, 24] {
            let (mut forward, mut after) = (Vec::new(), Value::Null);
            loop {
                let page = ada
                    .query(CLUSTERS, json!({ "first": size, "after": after, "direction": direction }))
                    .await;
                let page = list(&page);
                assert_eq!(page["totalCount"], 23);
                assert_eq!(page["pageInfo"]["hasPreviousPage"], !after.is_null());
                assert_eq!(page["edges"].as_array().unwrap().len(), page["nodes"].as_array().unwrap().len());
                forward.extend(ids(page));
                if page["pageInfo"]["hasNextPage"] == false {
                    break;
                }
                after = page["pageInfo"]["endCursor"].clone();
            }
            assert_eq!(forward, all, "forward by {size}");
            let (mut backward, mut before) = (Vec::new(), Value::Null);
            loop {
                let page = ada
                    .query(CLUSTERS, json!({ "last": size, "before": before, "direction": direction }))
                    .await;
                let page = list(&page);
                backward.splice(0..0, ids(page));
                if page["pageInfo"]["hasPreviousPage"] == false {
                    break;
                }
                before = page["pageInfo"]["startCursor"].clone();
            }
            assert_eq!(backward, all, "backward by {size}");
        }
    }
    app.stop().await;
}

#[tokio::test]
async fn after_and_before_bound_a_page_together() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    clusters(&ada, 9).await;
    let all = ada.query(CLUSTERS, json!({ "first": 9 })).await;
    let cursors: Vec<_> =
        list(&all)["edges"].as_array().unwrap().iter().map(|edge| edge["cursor"].clone()).collect();
    for (page, previous, next) in [
        (json!({ "first": 100, "before": cursors[6] }), false, true),
        (json!({ "last": 100, "after": cursors[1] }), true, false),
        (json!({ "first": 100, "after": cursors[1], "before": cursors[6] }), true, true),
    ] {
        let info = list(&ada.query(CLUSTERS, page).await)["pageInfo"].clone();
        assert_eq!((&info["hasPreviousPage"], &info["hasNextPage"]), (&json!(previous), &json!(next)));
    }
    let between = json!({ "first": 100, "after": cursors[1], "before": cursors[6] });
    assert_eq!(ids(list(&ada.query(CLUSTERS, between).await)), ids(list(&all))[2..6]);
    let end = json!({ "last": 2, "after": cursors[1], "before": cursors[6] });
    assert_eq!(ids(list(&ada.query(CLUSTERS, end).await)), ids(list(&all))[4..6]);
    app.stop().await;
}

#[tokio::test]
async fn lists_of_several_parents_are_paged_each_by_itself() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let groups: Vec<u128> = (10..17).collect();
    let report = ReportBuilder::new("Scheduler-1", 1)
        .with(
            "/computations",
            json!([computation(1, &groups[..5]), computation(2, &groups[3..]), computation(3, &[])]),
        )
        .with("/task_groups", groups.iter().map(|n| task_group(*n, &format!("p{n}"), 1)).collect::<Vec<_>>())
        .with("/errors", (20..25).map(|n| error(n, 10, u128::from(n > 21))).collect::<Vec<_>>())
        .build();
    let number = ada.reported(&report).await;
    let query = "query($id: ID!, $first: Int, $after: String) { cluster(id: $id) { computations { nodes {
        taskGroups(first: $first, after: $after) { totalCount nodes { prefix } pageInfo { hasNextPage endCursor } }
        errors(last: 1) { totalCount nodes { id } pageInfo { hasPreviousPage } } } } } }";
    let first = ada.query(query, json!({ "id": number.to_string(), "first": 2 })).await;
    let of = |answer: &Value, computation: usize, field: &str| {
        answer["cluster"]["computations"]["nodes"][computation][field].clone()
    };
    // Computations that start together are listed by descending identifier: 3, 2, 1.
    assert_eq!(of(&first, 0, "taskGroups")["nodes"], json!([]));
    assert_eq!(of(&first, 1, "taskGroups")["nodes"], json!([{ "prefix": "p13" }, { "prefix": "p14" }]));
    assert_eq!(of(&first, 2, "taskGroups")["nodes"], json!([{ "prefix": "p10" }, { "prefix": "p11" }]));
    let totals: Vec<_> =
        (0..3).map(|n| of(&first, n, "taskGroups")["totalCount"].as_i64().unwrap()).collect();
    assert_eq!(totals, [0, 4, 5]);
    assert_eq!(of(&first, 2, "errors")["totalCount"], 3);
    assert_eq!(of(&first, 2, "errors")["pageInfo"]["hasPreviousPage"], true);
    assert_eq!(of(&first, 1, "errors")["totalCount"], 0);
    let after = of(&first, 2, "taskGroups")["pageInfo"]["endCursor"].clone();
    let second = ada.query(query, json!({ "id": number.to_string(), "first": 9, "after": after })).await;
    assert_eq!(
        of(&second, 2, "taskGroups")["nodes"],
        json!([{ "prefix": "p12" }, { "prefix": "p13" }, { "prefix": "p14" }])
    );
    assert_eq!(of(&second, 2, "taskGroups")["pageInfo"]["hasNextPage"], false);
    app.stop().await;
}

#[tokio::test]
async fn wrong_arguments_are_named() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    clusters(&ada, 2).await;
    let cursor = list(&ada.query(CLUSTERS, json!({ "first": 1 })).await)["pageInfo"]["endCursor"].clone();
    let cases = [
        (json!({ "first": 0 }), "argument 'first': must be between 1 and 100, not 0"),
        (json!({ "first": -1 }), "argument 'first': must be between 1 and 100, not -1"),
        (json!({ "first": 1_000_000 }), "argument 'first': must be between 1 and 100, not 1000000"),
        (json!({ "last": 101 }), "argument 'last': must be between 1 and 100, not 101"),
        (json!({ "first": 1, "last": 1 }), "argument 'last': only one of 'first' and 'last' can be given"),
        (json!({ "after": "x" }), "argument 'after': not a cursor of this list in this order"),
        (json!({ "before": "" }), "argument 'before': not a cursor of this list in this order"),
        (
            json!({ "after": cursor, "direction": "ASC" }),
            "argument 'after': not a cursor of this list in this order",
        ),
    ];
    for (variables, message) in cases {
        let answer = ada.ask(CLUSTERS, variables.clone()).await;
        assert_eq!(answer["errors"][0]["message"], message, "{variables}");
        assert_eq!(answer["errors"][0]["extensions"]["code"], "BAD_USER_INPUT", "{variables}");
    }
    app.stop().await;
}
