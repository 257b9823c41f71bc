//! Lists are resolved differently from single objects, with identical responses.

use std::collections::HashMap;

use harness::{
    Member, ReportBuilder, TestApp, activity, computation, error, event, log_line, span, task_group, threads,
    usage, uuid, worker,
};
use proptest::{
    collection::vec,
    prelude::any,
    strategy::{Strategy, ValueTree},
    test_runner::TestRunner,
};
use reqwest::{Method, header};
use serde_json::{Value, json, value::RawValue};

use crate::sdl::{Sdl, innermost, required};

/// The fields of a type without required arguments, each with its innermost type.
fn bare_fields<'a>(sdl: &'a Sdl, of: &str) -> Vec<(&'a str, &'a str)> {
    let fields = sdl.fields(of).filter(|field| required(field).next().is_none());
    fields.map(|field| (field.name.node.as_str(), innermost(&field.ty.node))).collect()
}

/// Generates selections from random choices.
struct Selections<'a> {
    sdl: &'a Sdl,
    choices: Vec<usize>,
}

impl Selections<'_> {
    fn choose(&mut self, below: usize) -> usize {
        self.choices.pop().unwrap_or_default() % below
    }

    /// A selection of a type, with fields that may be repeated, aliased or skipped.
    fn of(&mut self, name: &str, depth: usize) -> String {
        let mut selection = Vec::new();
        for _ in 0..=self.choose(5) {
            let directive =
                ["", "", "", " @include(if: $yes)", " @skip(if: $no)", " @skip(if: $yes)"][self.choose(6)];
            let kind = self.choose(10);
            selection.push(match kind {
                0 => format!(" __typename{directive}"),
                1 => format!(" called: __typename{directive}"),
                2 if depth > 0 => format!(" ...{directive} {{{} }}", self.of(name, depth - 1)),
                3 if depth > 0 => format!(" ... on {name}{directive} {{{} }}", self.of(name, depth - 1)),
                4 if self.sdl.implements_node(name) => {
                    format!(" ... on Node{directive} {{ id other: id }}")
                }
                _ => self.field(name, depth, directive),
            });
        }
        // The selection must not be empty after skipping.
        selection.push(" __typename".to_owned());
        selection.concat()
    }

    fn field(&mut self, name: &str, depth: usize, directive: &str) -> String {
        let mut fields = bare_fields(self.sdl, name);
        // Whole lists of lists exceed the cost limit of a query.
        fields.retain(|(_, ty)| {
            !self.sdl.is_composite(ty) || (depth > 0 && !ty.ends_with("Connection") && *ty != "Account")
        });
        if fields.is_empty() {
            return " __typename".to_owned();
        }
        let (field, ty) = fields.swap_remove(self.choose(fields.len()));
        let alias = if self.choose(4) == 0 { format!("my_{field}: ") } else { String::new() };
        let inside = if self.sdl.is_composite(ty) {
            format!(" {{{} }}", self.of(ty, depth - 1))
        } else {
            String::new()
        };
        format!(" {alias}{field}{directive}{inside}")
    }
}

/// Creates clusters with several objects of every kind.
async fn fill(member: &Member) -> i64 {
    let mut number = 0;
    for cluster in 0..5 {
        let spans: Vec<Value> =
            (0..5).map(|n| span(50 + n, None, &["etl", "load"], 1.0, Some(2.0))).collect();
        let mut groups: Vec<Value> = (10..15).map(|n| task_group(n, "load", 4)).collect();
        for group in &mut groups {
            (group["span_id"], group["dependencies"]) = (json!(uuid(50)), json!([uuid(10)]));
        }
        let errors = (0..5).map(|n| {
            let mut error = error(20 + n, 10 + n, 1 + n);
            error["type"] = json!(["ZeroDivisionError", "KeyError"][usize::try_from(n).unwrap() % 2]);
            error["worker_id"] = json!(uuid(30));
            error
        });
        let cells = json!([["execute", "load", "thread-cpu", "seconds", 2]]);
        let report = ReportBuilder::new(&format!("Scheduler-{cluster}"), 1)
            .with("/cluster/name", "etl")
            .with("/computations", (1..=5).map(|n| computation(n, &[9 + n, 10])).collect::<Vec<_>>())
            .with("/task_groups", groups)
            .with("/errors", errors.collect::<Vec<_>>())
            .with("/workers", (30..35).map(worker).collect::<Vec<_>>())
            .with("/spans", spans)
            .with("/fine_metrics", json!([{ "span_id": uuid(50), "cells": cells }]))
            .with(
                "/clients",
                (0..5)
                    .map(|n| json!({ "id": format!("Client-{n}"), "connected_at": 1_795_172_400 + n }))
                    .collect::<Vec<_>>(),
            )
            .with("/thread_history", (0..5).map(|n| threads(n.into(), 4)).collect::<Vec<_>>())
            .with("/events", (0..5).map(|n| event(n, "mine", json!({ "n": n }))).collect::<Vec<_>>())
            .with("/logs", (0..5).map(|n| log_line(n, "line")).collect::<Vec<_>>())
            .with("/usage", (0..5).map(|n| usage(-24 * n, 2)).collect::<Vec<_>>())
            .with(
                "/function_activity",
                (0..5).map(|n| activity(7 * n, &[("load", [1.5; 4]), ("sum", [0.5; 4])])).collect::<Vec<_>>(),
            );
        number = member.reported(&report.build()).await;
    }
    number
}

type Object = HashMap<String, Box<RawValue>>;

/// The unparsed JSON of a response at a path.
fn written(answer: &RawValue, path: &str) -> Box<RawValue> {
    path.split('.').fold(answer.to_owned(), |value, field| {
        let mut object: Object = serde_json::from_str(value.get()).unwrap();
        object.remove(field).unwrap_or_else(|| panic!("no {field} in {value}"))
    })
}

async fn ask(member: &Member, query: &str) -> Result<Box<RawValue>, String> {
    let body = json!({ "query": query, "variables": { "yes": true, "no": false } });
    let request = member.request(Method::POST, "/graphql").header(header::ACCEPT, "application/json");
    let text = request.json(&body).send().await.unwrap().text().await.unwrap();
    let mut answer: Object = serde_json::from_str(&text).unwrap();
    match answer.remove("errors") {
        None => Ok(answer.remove("data").unwrap()),
        Some(errors) => Err(errors.get().to_owned()),
    }
}

#[tokio::test]
async fn things_in_lists_are_written_as_they_are_alone() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let number = fill(&ada).await;
    let lists = [
        ("Cluster", "viewer { account { ".to_owned(), "clusters", "viewer.account"),
        ("ErrorGroup", "viewer { account { ".to_owned(), "errorGroups", "viewer.account"),
        ("Computation", format!("cluster(id: \"{number}\") {{ list: id "), "computations", "cluster"),
        ("TaskGroup", format!("cluster(id: \"{number}\") {{ list: id "), "taskGroups", "cluster"),
        ("ErrorOccurrence", format!("cluster(id: \"{number}\") {{ list: id "), "errors", "cluster"),
        ("Worker", format!("cluster(id: \"{number}\") {{ list: id "), "workers", "cluster"),
        ("Span", format!("cluster(id: \"{number}\") {{ list: id "), "spans", "cluster"),
    ];
    let sdl = Sdl::read();
    let (mut runner, choices) = (TestRunner::deterministic(), vec(any::<u16>(), 0..120));
    let mut compared = 0;
    for (noun, open, list, path) in lists {
        let close = " }".repeat(open.matches('{').count());
        let ids =
            ask(&ada, &format!("{{ {open} {list}(first: 3) {{ nodes {{ id }} }} {close} }}")).await.unwrap();
        let ids: Value = serde_json::from_str(written(&ids, &format!("{path}.{list}.nodes")).get()).unwrap();
        let ids: Vec<&str> =
            ids.as_array().unwrap().iter().map(|node| node["id"].as_str().unwrap()).collect();
        for _ in 0..40 {
            let choices = choices.new_tree(&mut runner).unwrap().current();
            let choices = choices.into_iter().map(usize::from).collect();
            let selection = Selections { sdl: &sdl, choices }.of(noun, 3);
            let alone: Vec<String> = ids
                .iter()
                .enumerate()
                .map(|(n, id)| format!("n{n}: node(id: \"{id}\") {{ ...S }}"))
                .collect();
            let query = format!(
                "query($yes: Boolean!, $no: Boolean!) {{ {open} {list}(first: 3) {{
                   nodes {{ ...S }} edges {{ node {{ ...S }} }} }} {close} {}
                   used: __typename @include(if: $yes) @skip(if: $no) }}
                 fragment S on {noun} {{{selection} }}",
                alone.join(" ")
            );
            let answer = match ask(&ada, &query).await {
                Ok(answer) => answer,
                Err(errors) => {
                    assert!(errors.contains("LIMIT"), "{query}\n{errors}");
                    continue;
                }
            };
            let nodes: Vec<Box<RawValue>> =
                serde_json::from_str(written(&answer, &format!("{path}.{list}.nodes")).get()).unwrap();
            let edges: Vec<Object> =
                serde_json::from_str(written(&answer, &format!("{path}.{list}.edges")).get()).unwrap();
            assert_eq!(nodes.len(), 3.min(ids.len()), "{query}");
            for (n, node) in nodes.iter().enumerate() {
                let alone = written(&answer, &format!("n{n}"));
                assert_eq!(node.get(), alone.get(), "{query}");
                assert_eq!(edges[n]["node"].get(), alone.get(), "{query}");
            }
            compared += 1;
        }
    }
    assert!(compared >= 200, "{compared}");
    app.stop().await;
}

#[tokio::test]
async fn no_field_of_a_list_costs_statements_by_its_rows() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let number = fill(&ada).await;
    // Clusters with flags and alerts of several rules.
    for cluster in 0..5 {
        let idle =
            ReportBuilder::new(&format!("Idle-{cluster}"), 1).with("/cluster/idle_since", 1_795_000_000.0);
        ada.reported(&idle.build()).await;
        let rule =
            "mutation($name: String!) { createAlertRule(input: { name: $name, condition: { flags: [IDLE] },
            emails: [\"ada@example.com\"] }) { userErrors { message } } }";
        ada.query(rule, json!({ "name": format!("rule {cluster}") })).await;
    }
    app.run_jobs().await;
    app.fold_usage().await;
    let sdl = Sdl::read();
    let of_cluster =
        |list: &str| format!("cluster(id: \"{number}\") {{ {list}(first: N) {{ nodes {{ FIELD }} }} }}");
    let of_account =
        |list: &str| format!("viewer {{ account {{ {list}(first: N) {{ nodes {{ FIELD }} }} }} }}");
    let lists = [
        ("Cluster", of_account("clusters")),
        ("Flag", of_account("flags")),
        ("Alert", of_account("alerts")),
        ("AlertRule", of_account("alertRules")),
        ("AlertDelivery", of_account("alertDeliveries")),
        ("ErrorGroup", of_account("errorGroups")),
        ("Computation", of_cluster("computations")),
        ("TaskGroup", of_cluster("taskGroups")),
        ("ErrorOccurrence", of_cluster("errors")),
        ("Worker", of_cluster("workers")),
        ("Span", of_cluster("spans")),
        ("Client", of_cluster("clients")),
        ("ThreadChange", of_cluster("threadHistory")),
        ("Event", of_cluster("events")),
        ("LogLine", of_cluster("logs")),
    ];
    for (noun, list) in lists {
        for (field, ty) in bare_fields(&sdl, noun) {
            let inside = if sdl.is_composite(ty) { " { __typename }" } else { "" };
            let mut costs = Vec::new();
            for rows in ["1", "5"] {
                let query = list.replace('N', rows).replace("FIELD", &format!("{field}{inside}"));
                let before = app.statements();
                ada.query(&format!("{{ {query} }}"), json!({})).await;
                costs.push(app.statements() - before);
            }
            // Profiles are merged one by one, and bounded by their windows.
            let bounded = (noun, field) == ("Cluster", "profile");
            assert!(bounded || costs[1] <= costs[0] + 1, "{noun}.{field}: {costs:?}");
        }
    }
    app.stop().await;
}
