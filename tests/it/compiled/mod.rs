//! Compiled reads give the same responses as the executor, to the byte.

mod cluster;
mod cluster_list;

use harness::Member;
use proptest::{
    collection::vec,
    prelude::any,
    strategy::{Strategy, ValueTree},
    test_runner::TestRunner,
};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::sdl::{Sdl, innermost, required};

/// Draws documents from random choices.
struct Documents<'a> {
    sdl: &'a Sdl,
    choices: Vec<usize>,
    cursors: &'a [String],
    /// True if the whole document can be compiled: it has no directives, invalid pages, counts of nested
    /// lists or two selections of the same nodes.
    is_plain: bool,
}

impl<'a> Documents<'a> {
    /// Three of four documents are plain.
    fn new(sdl: &'a Sdl, mut choices: Vec<usize>, cursors: &'a [String]) -> Self {
        let is_plain = choices.pop().is_some_and(|choice| choice % 4 > 0);
        Self { sdl, choices, cursors, is_plain }
    }

    fn choose(&mut self, below: usize) -> usize {
        self.choices.pop().unwrap_or_default() % below
    }

    /// A selection of a type. `fields` draws one of its fields.
    fn selection(&mut self, ty: &str, depth: usize, field: &dyn Fn(&mut Self) -> String) -> String {
        let count = 1 + self.choose(6);
        let selected = (0..count).map(|_| match self.choose(12) {
            0 => " __typename".to_owned(),
            1 => " its_type: __typename".to_owned(),
            2 if depth > 0 => format!(" ... on {ty} {{{} }}", self.selection(ty, depth - 1, field)),
            3 if depth > 0 => format!(" ... {{{} }}", self.selection(ty, depth - 1, field)),
            4 if depth > 0 && !self.is_plain => {
                format!(" ... @include(if: $yes) {{{} }}", self.selection(ty, depth - 1, field))
            }
            _ => format!(" {}", field(self)),
        });
        selected.collect()
    }

    /// A field without sub-fields, which may have another name.
    fn leaf(&mut self, name: &str) -> String {
        match self.choose(8) {
            0 => format!("my_{name}: {name}"),
            1 if !self.is_plain => format!("{name} @include(if: $yes)"),
            2 if !self.is_plain => format!("{name} @skip(if: $no)"),
            _ => name.to_owned(),
        }
    }

    /// Objects that are selected twice have different names.
    fn object(&mut self, name: &str, inside: &str) -> String {
        let number = self.choices.len();
        format!("{name}_{number}: {name} {{ __typename {inside} }}")
    }

    /// One of a type's fields without sub-fields and arguments.
    fn any_leaf(&mut self, ty: &str) -> String {
        let fields = self.sdl.fields(ty).filter(|field| required(field).next().is_none());
        let leaves = fields.filter(|field| !self.sdl.is_composite(innermost(&field.ty.node)));
        let names: Vec<String> = leaves.map(|field| field.name.node.to_string()).collect();
        let choice = self.choose(names.len());
        self.leaf(&names[choice])
    }

    fn totals(&mut self) -> String {
        let inside = self.selection("ClusterTotals", 1, &|documents| documents.any_leaf("ClusterTotals"));
        self.object("totals", &inside)
    }

    fn page_info(&mut self) -> String {
        self.selection("PageInfo", 1, &|documents| {
            let fields = ["hasNextPage", "hasPreviousPage", "startCursor", "endCursor"];
            let choice = documents.choose(4);
            documents.leaf(fields[choice])
        })
    }

    /// A connection with nodes of a type. `node` draws the selection of a node.
    fn connection(&mut self, ty: &str, node: &dyn Fn(&mut Self) -> String) -> String {
        if self.is_plain {
            return self.plain_connection(ty, node);
        }
        self.selection(&format!("{ty}Connection"), 1, &|documents| match documents.choose(8) {
            0 => "totalCount".to_owned(),
            1 | 2 => {
                let inside = documents.page_info();
                documents.object("pageInfo", &inside)
            }
            3 | 4 => {
                let node = node(documents);
                let node = documents.object("node", &node);
                let edge = if documents.choose(2) == 0 { format!("cursor {node}") } else { node };
                documents.object("edges", &edge)
            }
            _ => {
                let node = node(documents);
                documents.object("nodes", &node)
            }
        })
    }

    /// A connection that selects its nodes once.
    fn plain_connection(&mut self, ty: &str, node: &dyn Fn(&mut Self) -> String) -> String {
        let mut fields = vec![" __typename".to_owned()];
        if self.choose(2) == 0 {
            let inside = self.page_info();
            fields.push(self.object("pageInfo", &inside));
        }
        if ty == "Cluster" && self.choose(4) == 0 {
            fields.push("totalCount".to_owned());
        }
        let node = node(self);
        fields.push(match self.choose(3) {
            0 => format!("edges {{ {} cursor }}", self.object("node", &node)),
            _ => self.object("nodes", &node),
        });
        let first = self.choose(fields.len());
        fields.rotate_left(first);
        let fields = fields.join(" ");
        if self.choose(4) == 0 { format!("... on {ty}Connection {{ {fields} }}") } else { fields }
    }

    /// A cursor of the list, or an invalid one.
    fn cursor(&mut self) -> Value {
        if self.is_plain {
            return json!(self.cursors[self.choose(self.cursors.len())]);
        }
        match self.choose(self.cursors.len() + 2) {
            choice if choice < self.cursors.len() => json!(self.cursors[choice]),
            choice if choice == self.cursors.len() => Value::Null,
            _ => json!("bm9uZQ"),
        }
    }

    /// The arguments of a page, with their values.
    fn page(&mut self, numbers: &[Value]) -> Vec<(&'static str, Value)> {
        let is_valid = |number: &&Value| number.as_i64().is_none_or(|number| (1..=100).contains(&number));
        let numbers: Vec<&Value> =
            numbers.iter().filter(|number| !self.is_plain || is_valid(number)).collect();
        let mut given = Vec::new();
        if self.choose(4) > 0 {
            let end = ["first", "first", "last"][self.choose(3)];
            given.push((end, numbers[self.choose(numbers.len())].clone()));
            if self.choose(20) == 0 && !self.is_plain {
                given.push((if end == "last" { "first" } else { "last" }, json!(2)));
            }
        }
        for name in ["after", "before"] {
            if self.choose(3) == 0 {
                given.push((name, self.cursor()));
            }
        }
        given
    }
}

/// Draws `count` times some choices.
fn draw_choices(count: usize) -> impl Iterator<Item = Vec<usize>> {
    let (mut runner, choices) = (TestRunner::deterministic(), vec(any::<u16>(), 20..140));
    (0..count)
        .map(move |_| choices.new_tree(&mut runner).unwrap().current().into_iter().map(usize::from).collect())
}

/// Returns the status and the text of a response, without the cost that is added for a slow database.
async fn send(member: &Member, query: &str, variables: &Value) -> (StatusCode, String) {
    let body = json!({ "query": query, "variables": variables });
    let answer = member.request(Method::POST, "/graphql").json(&body).send().await.unwrap();
    (answer.status(), without_added_cost(answer.text().await.unwrap()))
}

fn without_added_cost(text: String) -> String {
    let Some((start, rest)) = text.split_once(r#","added":"#) else { return text };
    assert!(start.contains(r#""cost":{"requested":"#), "{text}");
    format!("{start}{}", rest.trim_start_matches(|digit: char| digit.is_ascii_digit()))
}
