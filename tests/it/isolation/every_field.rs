//! Every field of the schema, asked for by somebody who has a neighbour: the answers are those of somebody who
//! has none.
//!
//! The fields are those that the schema's own text names, so that one that is new is asked for as well. It has
//! to show something to the neighbour, since what shows nothing to anybody would hide nothing from anybody.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use async_graphql_parser::types::{BaseType, FieldDefinition, Type};
use harness::{Member, TestApp, shared_jwt_config};
use serde_json::{Value, json};

use super::{life::Life, node_ids, of_nothing};
use crate::sdl::{Sdl, innermost, path, required};

/// What fields are asked for with, where they need something, or show little without; some of them twice.
const ARGUMENTS: [(&str, Arguments); 17] = [
    ("Account.alertRules", &[("first", "4")]),
    ("Account.alerts", &[("active", "null"), ("first", "30")]),
    // Whoever asks for everything reads code, which is written down.
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
    ("Account.series", &[("metrics", "[WORKERS, CPU]")]),
    (
        "Account.usageTable",
        &[("from", r#""2026-11-01""#), ("to", r#""2026-12-01""#), ("by", "[DAY, USER, TAG, VERSION]")],
    ),
    ("Account.usageTable", &[("from", r#""2026-11-01""#), ("to", r#""2026-12-01""#), ("by", "[FUNCTION]")]),
    ("Cluster.fineMetrics", &[("unit", r#""seconds""#)]),
    ("Cluster.flags", &[("active", "null"), ("first", "30")]),
    ("Cluster.series", &[("metrics", "[WORKERS, CPU]")]),
    ("ErrorGroup.trend", &[("bucket", "HOUR")]),
    ("Worker.series", &[("metrics", "[CPU]")]),
];

/// Fields that name one thing: they have cases of their own in the tests beside this one.
const BY_NAME: [&str; 3] = ["Query.account", "Query.cluster", "Query.node"];

/// Counts what the walk itself asks for.
const COUNTING: &str = "Query.rateLimit";

/// Looks for Dask's own identifier of a worker among the lines that are the cluster's anyway.
const BY_UUID: &str = "Cluster.logs";

/// Behind these there is less than behind others that lead to the same type.
const DETOURS: [&str; 1] = ["Flag.worker"];

/// How all of the schema is asked for.
pub(super) struct Walk {
    sdl: Sdl,
    /// For each type that a query can reach the shortest way to it: fields as they are asked for, and members of unions.
    ways: BTreeMap<String, Vec<String>>,
}

impl Walk {
    pub(super) fn new() -> Self {
        let mut walk = Self { sdl: Sdl::read(), ways: BTreeMap::from([("Query".to_owned(), Vec::new())]) };
        let mut open = VecDeque::from(["Query".to_owned()]);
        while let Some(of) = open.pop_front() {
            let way = walk.ways[&of].clone();
            let fields = walk.asked(&of).filter(|field| !DETOURS.contains(&path(&of, field).as_str()));
            let fields = fields.map(|field| (innermost(&field.ty.node), ask_for(&of, field).swap_remove(0)));
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

    /// The fields of a type that are asked for.
    fn asked(&self, of: &str) -> impl Iterator<Item = &FieldDefinition> {
        self.sdl.fields(of).filter(move |field| {
            let path = path(of, field);
            !BY_NAME.contains(&path.as_str()) && path != COUNTING
        })
    }

    /// All fields of all objects that may tell of an account's data.
    fn fields(&self) -> impl Iterator<Item = String> {
        // What is wrong with what was sent tells of that alone.
        let objects = self.sdl.objects().filter(|(of, _)| !of.ends_with("Error"));
        let fields =
            objects.flat_map(|(of, object)| object.fields.iter().map(move |field| path(of, &field.node)));
        fields.filter(|path| !BY_NAME.contains(&path.as_str()) && !path.ends_with(".userErrors"))
    }

    /// What is asked of a field of a root.
    pub(super) fn whole_of(&self, root: &str, field: &str) -> String {
        let field = self.sdl.fields(root).find(|known| known.name.node == field).unwrap();
        self.contents(innermost(&field.ty.node))
    }

    /// All fields of a type.
    fn whole(&self, of: &str) -> String {
        self.select(of, |_| true)
    }

    /// What is told where something of a type is: all of it, but of what has a global identifier only values, since
    /// the rest is asked for where the type itself is.
    fn contents(&self, of: &str) -> String {
        let is_node = self.sdl.implements_node(of);
        self.select(of, |field| {
            let is_value = !self.sdl.is_composite(innermost(&field.ty.node));
            // The edges hold the same rows.
            required(field).next().is_none() && field.name.node != "edges" && (is_value || !is_node)
        })
    }

    fn select(&self, of: &str, is_selected: impl Fn(&FieldDefinition) -> bool) -> String {
        if !self.sdl.is_composite(of) {
            return String::new();
        }
        let fields = self.asked(of).filter(|field| is_selected(field));
        let fields = fields.flat_map(|field| {
            let inside = self.contents(innermost(&field.ty.node));
            ask_for(of, field).into_iter().map(move |asked| format!(" {asked} {inside}"))
        });
        format!("{{ __typename{} }}", fields.collect::<String>())
    }

    /// A query for something of a type.
    fn query(&self, of: &str, selection: &str) -> String {
        self.ways[of].iter().rev().fold(selection.to_owned(), |inside, step| format!("{{ {step} {inside} }}"))
    }

    /// Where an argument takes global identifiers: values for it with `<ID>` in place of one.
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

    /// Queries for everything that is found by global identifiers below the root, with `<ID>` in place of one.
    fn lookups(&self) -> BTreeMap<String, String> {
        let mut lookups = BTreeMap::new();
        for of in self.ways.keys() {
            for field in self.asked(of).filter(|field| path(of, field) != BY_UUID) {
                for argument in &field.arguments {
                    let name = argument.node.name.node.as_str();
                    for place in self.places(&argument.node.ty.node) {
                        let usual = usual(of, field).next().unwrap();
                        let arguments = arguments(of, field, usual, Some((name, &place)));
                        let asked = format!("{}{arguments}", field.name.node);
                        let selection = format!("{{ {asked} {} }}", self.contents(innermost(&field.ty.node)));
                        lookups.insert(format!("{of}.{asked}"), self.query(of, &selection));
                    }
                }
            }
        }
        lookups
    }

    /// Everything that a member can ask for, by the type that was asked for.
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

/// A field with the arguments that it is asked for with, under a name for each way.
fn ask_for(of: &str, field: &FieldDefinition) -> Vec<String> {
    let ways: Vec<String> = usual(of, field).map(|usual| arguments(of, field, usual, None)).collect();
    let name = &field.name.node;
    let names = ways.into_iter().enumerate().map(|(number, arguments)| match number {
        0 => format!("{name}{arguments}"),
        _ => format!("{name}{number}: {name}{arguments}"),
    });
    names.collect()
}

/// What a field is asked for with, for each way.
fn usual(of: &str, field: &FieldDefinition) -> impl Iterator<Item = Arguments> {
    let path = path(of, field);
    let mut ways =
        ARGUMENTS.iter().filter(move |(known, _)| *known == path).map(|(_, usual)| *usual).peekable();
    let bare = ways.peek().is_none().then_some(&[][..]);
    ways.chain(bare)
}

/// The arguments of a field as they are written: usual ones, one in place of a usual one, and how much of a list.
fn arguments(of: &str, field: &FieldDefinition, usual: Arguments, given: Option<(&str, &str)>) -> String {
    let mut arguments: BTreeMap<&str, &str> = usual.iter().copied().chain(given).collect();
    for argument in &field.arguments {
        // Lists of lists of lists would cost more than one query may.
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

/// The fields of objects in an answer that hold something.
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
        let ask = async |id: &Value| {
            let id = id.as_str().unwrap();
            bob.ask(&query.replace("<ID>", &format!("{id:?}")), json!({})).await.to_string()
        };
        let mut found = 0;
        for ((noun, id), (_, own)) in hers.iter().zip(&own) {
            let nobodys = ask(&of_nothing(id)).await;
            assert_eq!(ask(id).await, nobodys, "{what}: {noun}");
            found += i32::from(ask(own).await != ask(&of_nothing(own)).await);
        }
        assert!(found > 0, "{what} finds nothing of one's own either");
    }
    app.stop().await;
}
