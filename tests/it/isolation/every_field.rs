//! Every field of the schema, queried by a member with a neighbor account: the responses are the same as
//! without the neighbor.
//!
//! The fields come from the schema's SDL, so that new ones are covered. Each must return data for the
//! neighbor, because a field that is empty for everybody proves nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use async_graphql_parser::types::{BaseType, FieldDefinition, Type};
use harness::{Member, TestApp, shared_jwt_config};
use serde_json::{Value, json};

use super::{
    life::Life,
    node::{found_by_their_own_account_alone, node_ids, of_nothing},
};
use crate::sdl::{Sdl, innermost, path, required};

/// Arguments for fields that require them, or return little without; some fields have several variants.
const ARGUMENTS: [(&str, Arguments); 23] = [
    ("Account.alertRules", &[("first", "5")]),
    ("Account.alerts", &[("active", "null"), ("first", "30")]),
    // This test reads code, which adds audit entries.
    ("Account.auditLog", &[("filter", r#"{ until: "2026-11-20T12:02:00Z" }"#)]),
    ("Account.clusters", &[("first", "4")]),
    (
        "Account.compare",
        &[("base", "{ clusters: { states: [CLOSED] } }"), ("head", "{ clusters: { states: [CLOSING] } }")],
    ),
    ("Account.fineMetrics", &[("by", "[FUNCTION, ACTIVITY, CONTEXT, SPAN, CLUSTER, USER]"), ("first", "20")]),
    ("Account.fineMetrics", &[("by", "[TAG]")]),
    ("Account.flags", &[("active", "null"), ("first", "30")]),
    ("Account.idleBacktest", &[("timeoutSeconds", "60")]),
    ("Account.search", &[("text", r#""load""#), ("types", "[FUNCTION, SPAN_TAG]")]),
    ("Account.search", &[("text", r#""ada""#), ("types", "[CLUSTER, ERROR_GROUP, USER]")]),
    ("Account.search", &[("text", r#""bob""#), ("types", "[CLUSTER, ERROR_GROUP, USER]")]),
    ("Account.series", &[("metrics", "[WORKERS, CPU]")]),
    (
        "Account.usageTable",
        &[("from", r#""2026-11-01""#), ("to", r#""2026-12-01""#), ("by", "[DAY, USER, TAG, VERSION]")],
    ),
    ("Account.usageTable", &[("from", r#""2026-11-01""#), ("to", r#""2026-12-01""#), ("by", "[FUNCTION]")]),
    ("Cluster.fineMetrics", &[("unit", r#""seconds""#)]),
    ("Cluster.flags", &[("active", "null"), ("first", "30")]),
    ("Cluster.latestValues", &[("metrics", "[WORKERS, CPU]")]),
    ("Cluster.workerQuantiles", &[("metrics", "[CPU]")]),
    ("Cluster.series", &[("metrics", "[WORKERS, CPU]")]),
    ("ErrorGroup.trend", &[("bucket", "HOUR")]),
    ("Worker.latestValues", &[("metrics", "[CPU]")]),
    ("Worker.series", &[("metrics", "[CPU]")]),
];

/// Fields that look up one object: separate cases in the other tests cover them.
const BY_NAME: [&str; 4] = ["Query.account", "Query.cluster", "Query.node", "Query.numbered"];

/// This field changes with the queries of the test itself.
const COUNTING: &str = "Query.rateLimit";

/// API tokens do not see browser sessions; `session.rs` has their case.
const BROWSERS: [&str; 4] = ["Viewer.sessions", "Session.", "EndSessionPayload.", "Mutation.endSession"];

/// Filters the cluster's own lines by one of its own workers.
const BY_UUID: &str = "Cluster.logs";

/// These paths lead to less data than other paths to the same type.
const DETOURS: [&str; 1] = ["Flag.worker"];

/// The queries that cover the whole schema.
pub(super) struct Walk {
    sdl: Sdl,
    /// The shortest path to each reachable type: fields with their arguments, and members of unions.
    ways: BTreeMap<String, Vec<String>>,
}

impl Walk {
    pub(super) fn new() -> Self {
        let mut walk = Self { sdl: Sdl::read(), ways: BTreeMap::from([("Query".to_owned(), Vec::new())]) };
        let mut open = VecDeque::from(["Query".to_owned()]);
        while let Some(of) = open.pop_front() {
            let way = walk.ways[&of].clone();
            let fields =
                walk.queried_fields(&of).filter(|field| !DETOURS.contains(&path(&of, field).as_str()));
            let fields =
                fields.map(|field| (innermost(&field.ty.node), selections(&of, field).swap_remove(0)));
            let members = walk.sdl.members(&of).map(|member| (member, format!("... on {member}")));
            for (to, step) in
                fields.chain(members).map(|(to, step)| (to.to_owned(), step)).collect::<Vec<_>>()
            {
                if walk.sdl.is_composite(&to) && !walk.ways.contains_key(&to) {
                    walk.ways.insert(to.clone(), [way.as_slice(), &[step]].concat());
                    open.push_back(to);
                }
            }
        }
        walk
    }

    /// The queried fields of a type.
    fn queried_fields(&self, of: &str) -> impl Iterator<Item = &FieldDefinition> {
        self.sdl.fields(of).filter(move |field| {
            let path = path(of, field);
            !BY_NAME.contains(&path.as_str()) && path != COUNTING && path != BROWSERS[0]
        })
    }

    /// All fields of all objects that may contain an account's data.
    fn fields(&self) -> impl Iterator<Item = String> {
        // Error objects only contain the request's own data.
        let objects = self.sdl.objects().filter(|(of, _)| !of.ends_with("Error"));
        let fields =
            objects.flat_map(|(of, object)| object.fields.iter().map(move |field| path(of, &field.node)));
        let fields = fields.filter(|path| !BROWSERS.iter().any(|prefix| path.starts_with(prefix)));
        fields.filter(|path| !BY_NAME.contains(&path.as_str()) && !path.ends_with(".userErrors"))
    }

    /// The selection for a root field.
    pub(super) fn whole_of(&self, root: &str, field: &str) -> String {
        let field = self.sdl.fields(root).find(|known| known.name.node == field).unwrap();
        self.contents(innermost(&field.ty.node))
    }

    /// All fields of a type.
    fn whole(&self, of: &str) -> String {
        self.select(of, |_| true)
    }

    /// The selection for a nested object: all fields, but only scalar ones of a node, because its own
    /// query covers the others.
    fn contents(&self, of: &str) -> String {
        let is_node = self.sdl.implements_node(of);
        self.select(of, |field| {
            let is_value = !self.sdl.is_composite(innermost(&field.ty.node));
            // The edges contain the same rows.
            required(field).next().is_none() && field.name.node != "edges" && (is_value || !is_node)
        })
    }

    fn select(&self, of: &str, is_selected: impl Fn(&FieldDefinition) -> bool) -> String {
        if !self.sdl.is_composite(of) {
            return String::new();
        }
        let fields = self.queried_fields(of).filter(|field| is_selected(field));
        let fields = fields.flat_map(|field| {
            let inside = self.contents(innermost(&field.ty.node));
            selections(of, field).into_iter().map(move |selection| format!(" {selection} {inside}"))
        });
        format!("{{ __typename{} }}", fields.collect::<String>())
    }

    /// A query for objects of a type.
    fn query(&self, of: &str, selection: &str) -> String {
        self.ways[of].iter().rev().fold(selection.to_owned(), |inside, step| format!("{{ {step} {inside} }}"))
    }

    /// Values for an argument that takes global identifiers, with `<ID>` in place of one.
    fn places(&self, ty: &Type) -> Vec<String> {
        let name = innermost(ty);
        let places = if name == "ID" {
            vec!["<ID>".to_owned()]
        } else {
            let fields = self.sdl.input_fields(name).flat_map(|field| {
                let places = self.places(&field.ty.node).into_iter();
                places.map(move |place| format!("{{ {}: {place} }}", field.name.node))
            });
            fields.collect()
        };
        let is_list = matches!(ty.base, BaseType::List(_));
        places.into_iter().map(|place| if is_list { format!("[{place}]") } else { place }).collect()
    }

    /// Queries for all lookups by global identifiers below the root, with `<ID>` in place of one.
    fn lookups(&self) -> BTreeMap<String, String> {
        let mut lookups = BTreeMap::new();
        for of in self.ways.keys() {
            for field in self.queried_fields(of).filter(|field| path(of, field) != BY_UUID) {
                for argument in &field.arguments {
                    let name = argument.node.name.node.as_str();
                    for place in self.places(&argument.node.ty.node) {
                        let usual = usual(of, field).next().unwrap();
                        let arguments = arguments(of, field, usual, Some((name, &place)));
                        let call = format!("{}{arguments}", field.name.node);
                        let selection = format!("{{ {call} {} }}", self.contents(innermost(&field.ty.node)));
                        lookups.insert(format!("{of}.{call}"), self.query(of, &selection));
                    }
                }
            }
        }
        lookups
    }

    /// All data that a member can query, by type.
    async fn everything(&self, member: &Member) -> BTreeMap<String, Value> {
        let mut answers = BTreeMap::new();
        for of in self.ways.keys().filter(|of| self.sdl.fields(of).next().is_some()) {
            let query = self.query(of, &self.whole(of));
            answers.insert(of.clone(), member.query(&query, json!({})).await);
        }
        answers
    }
}

type Arguments = &'static [(&'static str, &'static str)];

/// A field with its arguments, under an alias for each variant.
fn selections(of: &str, field: &FieldDefinition) -> Vec<String> {
    let ways: Vec<String> = usual(of, field).map(|usual| arguments(of, field, usual, None)).collect();
    let name = &field.name.node;
    let names = ways.into_iter().enumerate().map(|(number, arguments)| match number {
        0 => format!("{name}{arguments}"),
        _ => format!("{name}{number}: {name}{arguments}"),
    });
    names.collect()
}

/// The usual arguments of a field, for each variant.
fn usual(of: &str, field: &FieldDefinition) -> impl Iterator<Item = Arguments> {
    let path = path(of, field);
    let mut ways =
        ARGUMENTS.iter().filter(move |(known, _)| *known == path).map(|(_, usual)| *usual).peekable();
    let bare = ways.peek().is_none().then_some(&[][..]);
    ways.chain(bare)
}

/// The arguments of a field: the usual ones, an override, and the size of a list.
fn arguments(of: &str, field: &FieldDefinition, usual: Arguments, given: Option<(&str, &str)>) -> String {
    let mut arguments: BTreeMap<&str, &str> = usual.iter().copied().chain(given).collect();
    for argument in &field.arguments {
        // Larger nested lists would exceed the cost limit.
        if argument.node.name.node == "first" && argument.node.default_value.is_none() {
            arguments.entry("first").or_insert("3");
        }
    }
    for name in required(field) {
        assert!(arguments.contains_key(name), "{} has no value for its argument {name}", path(of, field));
    }
    let arguments: Vec<String> = arguments.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    if arguments.is_empty() { String::new() } else { format!("({})", arguments.join(", ")) }
}

/// The fields of objects in a response that have a value.
fn shown(answer: &Value) -> BTreeSet<String> {
    match answer {
        Value::Array(items) => items.iter().flat_map(shown).collect(),
        Value::Object(fields) => {
            let holds = |value: &Value| !value.is_null() && *value != json!([]);
            let of = fields.get("__typename").and_then(Value::as_str).unwrap_or_default();
            let own = fields.iter().filter(|(_, value)| holds(value)).map(|(name, _)| format!("{of}.{name}"));
            own.chain(fields.values().flat_map(shown)).collect()
        }
        _ => BTreeSet::new(),
    }
}

#[tokio::test]
async fn every_field_answers_as_if_there_were_no_other_account() {
    let walk = Walk::new();
    let app = TestApp::start_with(|serve| serve.jwt = Some(shared_jwt_config())).await;
    let bob = app.account("bob").await;
    Life::of(&app, &walk, &bob).await;
    let alone = walk.everything(&bob).await;
    let ada = app.account("ada").await;
    let life = Life::of(&app, &walk, &ada).await;
    let of_ada = walk.everything(&ada).await;

    let shown: BTreeSet<String> = of_ada.values().chain(&life.answers).flat_map(shown).collect();
    let silent: BTreeSet<String> = walk.fields().filter(|field| !shown.contains(field)).collect();
    assert_eq!(silent, BTreeSet::new());
    for answer in of_ada.values().chain(&life.answers) {
        assert!(!answer.to_string().contains("bob"), "{answer}");
    }
    let beside = walk.everything(&bob).await;
    for (of, answer) in &alone {
        assert_eq!(answer.to_string(), beside[of].to_string(), "{of}");
    }

    let (hers, own) = (node_ids(&ada).await, node_ids(&bob).await);
    for (what, query) in walk.lookups() {
        let look_up = async |id: &Value| {
            let id = id.as_str().unwrap();
            bob.ask(&query.replace("<ID>", &format!("{id:?}")), json!({})).await.to_string()
        };
        let mut found = 0;
        for ((noun, id), (_, own)) in hers.iter().zip(&own) {
            let nobodys = look_up(&of_nothing(id)).await;
            assert_eq!(look_up(id).await, nobodys, "{what}: {noun}");
            found += i32::from(look_up(own).await != look_up(&of_nothing(own)).await);
        }
        assert!(found > 0, "{what} finds nothing of one's own either");
    }
    found_by_their_own_account_alone(of_ada.values(), &ada, &bob).await;
    app.stop().await;
}
