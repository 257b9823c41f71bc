//! Properties that hold for every body.

use std::{fmt, io::Write, time::Duration};

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, header},
};
use flate2::{Compression, write::GzEncoder};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, MapAccess, SeqAccess, Visitor},
};

pub(crate) use super::{coiled::fuzzing::performance_report, graphql::socket::fuzzing::socket};
use super::{
    extract::{body::check_headers, lone_surrogates::replace_lone_surrogates, problem::Problem},
    rest::report::LIMITS,
};
use crate::{
    domain::{
        client_span::ClientSpanReport,
        report::Report,
        validated::{Digest, LocatedError},
    },
    fuzzing::wait,
};

/// The first bytes of gzip.
const GZIP: &[u8] = &[0x1f, 0x8b];

/// Checks the bytes as the body of a report, compressed if they begin like gzip.
pub(crate) fn report(bytes: &[u8]) {
    let read = read::<Report>(bytes, Report::check);
    if let Ok(report) = &read {
        assert!(report.code_hashes().all(|hash| hash.as_str().len() == 64));
        assert!(report.oldest_item_ms().is_none_or(|at| (0..=253_402_300_799_999).contains(&at)));
        assert!(report.count_nested_rows() <= bytes.len().max(LIMITS.inflated), "each takes a byte at least");
    }
}

/// Checks the bytes as the body of a client's span.
pub(crate) fn client_span(bytes: &[u8]) {
    let Ok(span) = read::<ClientSpanReport>(bytes, |_| Ok(())) else { return };
    assert!(span.callstack.len() <= 20);
    assert!(span.texts().all(|(hash, text)| hash.as_str() == Digest::of(text).as_str()));
    assert!(span.stacks().0.concat().len() == span.callstack.len());
}

/// Reads a body as the routes do. Checks that a reported location exists in the body, and that the
/// encoding makes no difference.
fn read<T: DeserializeOwned + fmt::Debug + Send + 'static>(
    bytes: &[u8],
    check: fn(&T) -> Result<(), LocatedError>,
) -> Result<T, Problem> {
    let read = |bytes: Vec<u8>, gzip| {
        wait(async move {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            if gzip {
                headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            }
            let accepted_headers = check_headers(&headers, LIMITS)?;
            accepted_headers
                .receive(Body::from(bytes), Duration::from_mins(1))
                .await?
                .parse_checked::<T>(check)
                .await
        })
    };
    if bytes.starts_with(GZIP) {
        let read = read(bytes.to_vec(), true);
        if let Err(problem) = &read {
            check_problem(problem);
        }
        return read;
    }
    let plain = read(bytes.to_vec(), false);
    let compressed = read(compress(bytes), true);
    match (&plain, &compressed) {
        (Ok(plain), Ok(compressed)) => {
            assert_eq!(format!("{plain:?}"), format!("{compressed:?}"), "the encoding makes no difference");
        }
        (Err(plain), Err(compressed)) => {
            let outcome =
                |problem: &Problem| (problem.message().to_owned(), problem.pointer().map(str::to_owned));
            assert_eq!(outcome(plain), outcome(compressed), "the encoding makes no difference");
            check_problem(plain);
            check_pointer(plain, bytes);
        }
        _ => panic!("the encoding makes a difference"),
    }
    plain
}

fn compress(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("writing to memory succeeds")
}

/// Checks that the error has a bounded message and repeats only a part of the body.
fn check_problem(problem: &Problem) {
    assert!(matches!(problem.status().as_u16(), 400 | 413), "{problem:?}");
    assert!((1..=301).contains(&problem.message().chars().count()), "{problem:?}");
    assert!(problem.pointer().is_none_or(|pointer| pointer.chars().count() <= 301), "{problem:?}");
    assert_eq!(problem.pointer().is_some(), problem.code() == "INVALID_BODY", "{problem:?}");
}

/// Checks that the error's pointer exists in the body, or is missing in an existing object.
fn check_pointer(problem: &Problem, bytes: &[u8]) {
    let json = replace_lone_surrogates(bytes);
    let (Some(pointer), Ok(tree)) = (problem.pointer(), serde_json::from_slice::<Tree>(&json)) else {
        return;
    };
    // A longer pointer is truncated.
    if pointer.ends_with('…') {
        return;
    }
    let steps: Vec<String> =
        pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~")).collect();
    let is_missing = problem.message().starts_with("missing field");
    let (last, parents) = steps.split_last().map_or((None, &[][..]), |(last, parents)| (Some(last), parents));
    let found = if is_missing {
        tree.has(
            parents,
            |tree| matches!(tree, Tree::Object(fields) if fields.iter().all(|(name, _)| Some(name) != last)),
        )
    } else {
        tree.has(&steps, |_| true)
    };
    assert!(found, "{pointer} is not in the body: {problem:?}");
}

/// JSON with all fields, including duplicate ones.
enum Tree {
    Object(Vec<(String, Tree)>),
    Array(Vec<Tree>),
    Leaf,
}

impl Tree {
    /// Returns true if a value at the path satisfies `predicate`.
    fn has(&self, steps: &[String], predicate: impl Fn(&Tree) -> bool + Copy) -> bool {
        let Some((step, remaining_steps)) = steps.split_first() else { return predicate(self) };
        match self {
            Self::Object(fields) => {
                fields.iter().any(|(name, child)| name == step && child.has(remaining_steps, predicate))
            }
            Self::Array(items) => step.parse::<usize>().is_ok_and(|index| {
                items.get(index).is_some_and(|child| child.has(remaining_steps, predicate))
            }),
            Self::Leaf => false,
        }
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Tree;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Tree::Object(fields))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tree, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    items.push(item);
                }
                Ok(Tree::Array(items))
            }

            fn visit_bool<E>(self, _: bool) -> Result<Tree, E> {
                Ok(Tree::Leaf)
            }

            fn visit_i64<E>(self, _: i64) -> Result<Tree, E> {
                Ok(Tree::Leaf)
            }

            fn visit_u64<E>(self, _: u64) -> Result<Tree, E> {
                Ok(Tree::Leaf)
            }

            fn visit_f64<E>(self, _: f64) -> Result<Tree, E> {
                Ok(Tree::Leaf)
            }

            fn visit_str<E>(self, _: &str) -> Result<Tree, E> {
                Ok(Tree::Leaf)
            }

            fn visit_unit<E>(self) -> Result<Tree, E> {
                Ok(Tree::Leaf)
            }
        }

        deserializer.deserialize_any(Any)
    }
}
