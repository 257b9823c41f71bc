//! Deletion of a class of an account's data, of a user with their reports, and of the whole account.

use entity::{account, code_snippet, error_group, event, membership::Role, usage_day};
use harness::{Member, Program, ReportBuilder, TestApp, log_line};
use reqwest::StatusCode;
use sea_orm::{EntityTrait, PaginatorTrait};
use serde_json::{Value, json};

use crate::{
    convergence::rows::{Content, Ways},
    isolation::life::cluster,
};

fn everything(scheduler: &str) -> Value {
    cluster("shared", scheduler, "x = 'shared'").build()
}

async fn same_content(app: &TestApp, one: &Member, other: &Member) {
    let (one, other) = (Content::of(app, one, Ways::Same).await, Content::of(app, other, Ways::Same).await);
    assert_eq!(one.differences(&other), "");
}

pub(crate) async fn id_of_member(member: &Member, name: &str) -> Value {
    let query = "{ viewer { account { members(first: 100) { nodes { user { id name } } } } } }";
    let answer = member.query(query, json!({})).await;
    let nodes = answer["viewer"]["account"]["members"]["nodes"].as_array().unwrap().clone();
    nodes.iter().find(|node| node["user"]["name"] == name).unwrap()["user"]["id"].clone()
}

const DELETE_USER: &str =
    "mutation($id: ID!) { deleteUser(input: { userId: $id }) { clusters userErrors { code } } }";

#[tokio::test]
async fn a_user_goes_with_what_they_reported() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    for member in [&ada, &bob] {
        member.reported(&everything("Scheduler-1")).await;
    }
    let by_operator = app.member_with("carl", "ada", Role::Member).await;
    let gone = app.member_with("dora", "ada", Role::Member).await;
    let left = app.member_with("emil", "ada", Role::Member).await;
    for (member, schedulers) in [
        (&by_operator, &["Scheduler-2"][..]),
        (&gone, &["Scheduler-3", "Scheduler-4"]),
        (&left, &["Scheduler-5"]),
    ] {
        for scheduler in schedulers {
            member.reported(&everything(scheduler)).await;
        }
    }
    gone.stored_report("public", "report.html", "<p>").await;
    app.run_jobs().await;

    let answer = ada.query(DELETE_USER, json!({ "id": id_of_member(&ada, "dora").await })).await;
    assert_eq!(answer["deleteUser"], json!({ "clusters": 2, "userErrors": [] }));
    assert_eq!(gone.status().await, (401, "UNAUTHENTICATED".to_owned()));
    let reports = "{ viewer { account { performanceReports { totalCount } } } }";
    let reports = ada.query(reports, json!({})).await;
    assert_eq!(reports["viewer"]["account"]["performanceReports"]["totalCount"], 0);
    // A member who left earlier has left clusters behind.
    let emil = id_of_member(&ada, "emil").await;
    let remove = "mutation($id: ID!) { removeMember(user: $id) { userErrors { code } } }";
    ada.query(remove, json!({ "id": emil })).await;
    let answer = ada.query(DELETE_USER, json!({ "id": emil })).await;
    assert_eq!(answer["deleteUser"], json!({ "clusters": 1, "userErrors": [] }));
    let again = ada.ask(DELETE_USER, json!({ "id": emil })).await;
    assert_eq!(again["errors"][0]["extensions"]["code"], "NOT_FOUND", "{again}");
    let last = ada.query(DELETE_USER, json!({ "id": id_of_member(&ada, "ada").await })).await;
    assert_eq!(last["deleteUser"], json!({ "clusters": null, "userErrors": [{ "code": "LAST_OWNER" }] }));

    let command = ["user", "delete", "carl", "--account", "ada", "--database-url", app.database.url()];
    let (status, output, errors) = Program::run(&command).await;
    assert_eq!((status, output.as_str()), (Some(0), "1 clusters\n"), "{errors}");
    app.run_jobs().await;
    same_content(&app, &ada, &bob).await;
    app.stop().await;
}

#[tokio::test]
async fn a_class_of_data_goes_and_the_others_stay() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let logged = |scheduler: &str| {
        let lines: Vec<Value> = (1..=3).map(|number| log_line(number, "x")).collect();
        ReportBuilder::new(scheduler, 1).with("/logs", lines).build()
    };
    let numbers = [ada.reported(&logged("Scheduler-1")).await, ada.reported(&logged("Scheduler-2")).await];
    ada.reported(&everything("Scheduler-3")).await;
    let query = "query($id: ID!) { cluster(id: $id) { id } }";
    let id = ada.query(query, json!({ "id": numbers[0].to_string() })).await["cluster"]["id"].take();
    let counts = "{ viewer { account { logs(first: 100) { nodes { message } } events { totalCount } errors { totalCount } } } }";
    let counts = async || {
        let answer = ada.query(counts, json!({})).await["viewer"]["account"].take();
        let lines = answer["logs"]["nodes"].as_array().unwrap().len();
        (lines, answer["events"]["totalCount"].clone(), answer["errors"]["totalCount"].clone())
    };
    assert_eq!(counts().await, (7, json!(1), json!(12)));
    let delete =
        "mutation($input: DeleteDataInput!) { deleteData(input: $input) { rows userErrors { code } } }";
    for (input, rows) in [
        (json!({ "class": "LOGS", "clusterId": id }), 3),
        (json!({ "class": "LOGS", "clusterId": id }), 0),
        (json!({ "class": "LOGS" }), 4),
        (json!({ "class": "EVENTS" }), 1),
    ] {
        let answer = ada.query(delete, json!({ "input": input })).await;
        assert_eq!(answer["deleteData"], json!({ "rows": rows, "userErrors": [] }), "{input}");
    }
    assert_eq!(counts().await, (0, json!(0), json!(12)));
    app.stop().await;
}

#[tokio::test]
async fn an_account_goes_with_all_it_has() {
    let app = TestApp::start().await;
    let accounts = [app.account("ada").await, app.account("bob").await, app.account("carl").await];
    let [ada, bob, carl] = &accounts;
    for member in &accounts {
        for scheduler in ["Scheduler-1", "Scheduler-2"] {
            member.reported(&everything(scheduler)).await;
        }
        member.stored_report("public", "report.html", "<p>").await;
    }
    app.run_jobs().await;
    let database = app.database.connection().await;
    macro_rules! counts {
        ($($noun:ident),+) => { [$($noun::Entity::find().count(&database).await.unwrap()),+] };
    }
    let all = counts!(account, event, error_group, code_snippet, usage_day);
    assert_eq!(all[..2], [3, 6]);

    let delete = "mutation($slug: String!) { deleteAccount(input: { confirmSlug: $slug }) { slug userErrors { field code } } }";
    let admin = app.member_with("admin", "ada", Role::Admin).await;
    let refused = admin.ask(delete, json!({ "slug": "ada" })).await;
    assert_eq!(refused["errors"][0]["extensions"]["code"], "FORBIDDEN", "{refused}");
    let answer = ada.query(delete, json!({ "slug": "Ada" })).await;
    let wrong = json!({ "slug": null, "userErrors": [{ "field": "confirmSlug", "code": "INVALID" }] });
    assert_eq!(answer["deleteAccount"], wrong);
    let answer = ada.query(delete, json!({ "slug": "ada" })).await;
    assert_eq!(answer["deleteAccount"], json!({ "slug": "ada", "userErrors": [] }));
    for member in [ada, &admin] {
        assert_eq!(member.status().await, (401, "UNAUTHENTICATED".to_owned()));
    }
    let (status, _) = ada.report(&everything("Scheduler-1")).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);

    let command = async |confirm: &str| {
        let command =
            ["account", "delete", "carl", "--confirm", confirm, "--database-url", app.database.url()];
        Program::run(&command).await
    };
    let (status, _, errors) = command("karl").await;
    assert_eq!(status, Some(1));
    assert!(errors.contains("--confirm must repeat the account's name, 'carl'"), "{errors}");
    let (status, output, errors) = command("carl").await;
    assert_eq!((status, output.as_str()), (Some(0), ""), "{errors}");
    assert_eq!(carl.status().await.0, 401);
    let did = app.run_jobs().await;
    assert_eq!(did.get("removal.accounts"), Some(&2), "{did:?}");
    // A third of everything remains, which is bob's.
    let left = counts!(account, event, error_group, code_snippet, usage_day);
    assert_eq!(left.map(|count| 3 * count), all);
    assert_eq!(bob.status().await.0, 200);
    // The name is available again.
    app.accounts().create_account(&"ada".parse().unwrap()).await.unwrap();
    app.stop().await;
}
