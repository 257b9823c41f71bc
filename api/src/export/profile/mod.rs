//! The profile of a cluster as a file of a profile viewer. It is read by a query, as the rows of other
//! exports are.

mod pprof;
mod speedscope;

use async_graphql::{Request, from_value};
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use super::page_reader::{ReadError, Source};
use crate::{
    auth::Viewer,
    blocking_work::run_blocking,
    domain::audit::Origin,
    graphql::{ExecutionContext, RateLimit},
    guard::Price,
};

/// The query for a profile. Texts of lines are not part of the files.
const DOCUMENT: &str = "query ProfileFile(
    $_of: ID!, $from: DateTime, $to: DateTime, $minShare: Float!, $functions: [String!], $workers: [ID!]) {
  of: cluster(id: $_of) { number name
    profile(from: $from, to: $to, minShare: $minShare, functions: $functions, workers: $workers) {
    from to windows complete samples frames { file function line }
    columns { parents frames self totals } } } }";

/// The function of a frame for the samples in nodes that are left out.
const OMITTED: &str = "(omitted)";

/// The formats of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProfileFormat {
    /// JSON for speedscope.
    Speedscope,
    /// Protocol buffers for pprof, compressed with gzip.
    Pprof,
}

impl ProfileFormat {
    /// All formats, the default first.
    pub(crate) const ALL: [Self; 2] = [Self::Speedscope, Self::Pprof];

    /// Returns the value of the parameter that selects the format.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Speedscope => "speedscope",
            Self::Pprof => "pprof",
        }
    }

    /// Returns the media type.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Speedscope => "application/json",
            Self::Pprof => "application/octet-stream",
        }
    }

    /// Returns the end of a file's name.
    pub(crate) fn extension(self) -> &'static str {
        match self {
            Self::Speedscope => "speedscope.json",
            Self::Pprof => "pb.gz",
        }
    }
}

/// A checked request for a profile.
pub(crate) struct ProfileRequest {
    request: Request,
    price: Price,
}

impl ProfileRequest {
    /// Checks the parameters. `cluster` identifies the cluster.
    ///
    /// # Errors
    /// Returns the errors of invalid parameters.
    pub(crate) async fn new(
        source: &Source,
        cluster: String,
        mut parameters: Map<String, Json>,
    ) -> Result<Self, ReadError> {
        parameters.insert("_of".to_owned(), cluster.into());
        let checked = source.guard.check_own(DOCUMENT, parameters).await.map_err(ReadError::Refused)?;
        Ok(Self { request: checked.template.into_request(), price: checked.price })
    }

    /// Returns the cost in points.
    pub(crate) fn cost(&self) -> u64 {
        self.price.points(0)
    }

    /// Reads the profile. Returns `None` if the cluster has none in the period.
    ///
    /// # Errors
    /// Returns [`ReadError`]. A profile that cannot be decrypted is an error.
    pub(crate) async fn read(
        self,
        source: &Source,
        viewer: Viewer,
        origin: Origin,
        rate_limit: RateLimit,
    ) -> Result<Option<ProfileFile>, ReadError> {
        let execution = ExecutionContext { viewer, origin, rate_limit, now: source.clock.now() };
        let run = source.schema.execute_pages(self.request, execution, &source.store, 1);
        let response = tokio::time::timeout(source.timeout, run).await;
        let response = response.map_err(|_| ReadError::Timeout(source.timeout))?;
        if !response.errors.is_empty() {
            return Err(ReadError::Refused(response.errors));
        }
        let data: ResponseData =
            run_blocking(move || from_value(response.data).expect("the query selects these fields")).await;
        let ClusterData { number, name, profile } = data.cluster.ok_or(ReadError::NotFound)?;
        Ok(profile.map(|profile| ProfileFile::new(number, name, profile)))
    }
}

#[derive(Deserialize)]
struct ResponseData {
    #[serde(rename = "of")]
    cluster: Option<ClusterData>,
}

#[derive(Deserialize)]
struct ClusterData {
    number: i64,
    name: Option<String>,
    profile: Option<ProfileData>,
}

#[derive(Deserialize)]
struct ProfileData {
    from: DateTime<Utc>,
    to: DateTime<Utc>,
    windows: i64,
    complete: bool,
    samples: i64,
    frames: Vec<Frame>,
    columns: Columns,
}

/// A line of code.
#[derive(Clone, Deserialize)]
struct Frame {
    file: String,
    function: String,
    line: i64,
}

/// The nodes of the call tree, parents before their children.
#[derive(Deserialize)]
struct Columns {
    parents: Vec<Option<usize>>,
    frames: Vec<usize>,
    #[serde(rename = "self")]
    own: Vec<i64>,
    totals: Vec<i64>,
}

/// A node of the call tree.
struct Node {
    parent: Option<usize>,
    frame: usize,
    /// The number of samples in which it was innermost.
    own: i64,
    /// The number of samples that contain it, at least that of its own and its children's samples.
    total: i64,
}

/// The profile of a cluster. The samples in nodes that are left out are those of nodes with the function
/// [`OMITTED`], so that each node has as many samples as itself and its children.
pub(crate) struct ProfileFile {
    number: i64,
    title: String,
    from: DateTime<Utc>,
    to: DateTime<Utc>,
    samples: i64,
    frames: Vec<Frame>,
    /// The nodes, parents before their children.
    nodes: Vec<Node>,
}

impl ProfileFile {
    fn new(number: i64, name: Option<String>, profile: ProfileData) -> Self {
        let ProfileData { from, to, windows, complete, samples, mut frames, columns } = profile;
        let Columns { parents, frames: lines, own, totals } = columns;
        let nodes = parents.into_iter().zip(lines).zip(own.into_iter().zip(totals));
        let nodes = nodes.map(|((parent, frame), (own, total))| Node { parent, frame, own, total });
        let mut nodes: Vec<Node> = nodes.collect();
        // From the leaves up, so that a node has its children's samples before its parent adds them.
        let mut child_samples = vec![0_i64; nodes.len()];
        let mut root_samples = 0_i64;
        for index in (0..nodes.len()).rev() {
            let node = &mut nodes[index];
            node.total = node.total.max(node.own.saturating_add(child_samples[index]));
            let sum = node.parent.map_or(&mut root_samples, |parent| &mut child_samples[parent]);
            *sum = sum.saturating_add(node.total);
        }
        let omitted_node = |parent, samples: i64| {
            (samples > 0).then_some(Node { parent, frame: frames.len(), own: samples, total: samples })
        };
        let omitted_in_nodes = nodes.iter().enumerate().filter_map(|(index, node)| {
            omitted_node(
                Some(index),
                node.total.saturating_sub(node.own).saturating_sub(child_samples[index]),
            )
        });
        let omitted_nodes: Vec<Node> =
            omitted_in_nodes.chain(omitted_node(None, samples.saturating_sub(root_samples))).collect();
        if !omitted_nodes.is_empty() {
            frames.push(Frame { file: String::new(), function: OMITTED.to_owned(), line: 0 });
        }
        nodes.extend(omitted_nodes);
        let name = name.map_or_else(|| format!("#{number}"), |name| format!("{name} #{number}"));
        let title = if complete { name } else { format!("{name}, incomplete: {windows} windows") };
        Self { number, title, from, to, samples: samples.max(root_samples), frames, nodes }
    }

    /// Returns the file and its name.
    pub(crate) async fn encode(self, format: ProfileFormat) -> (Vec<u8>, String) {
        let name = format!("cluster-{}.{}", self.number, format.extension());
        let file = run_blocking(move || match format {
            ProfileFormat::Speedscope => speedscope::encode(&self),
            ProfileFormat::Pprof => pprof::encode(&self),
        });
        (file.await, name)
    }
}
