//! The profile of a cluster as a file of a profile viewer. It is read by a query, as the rows of other exports
//! are.

mod pprof;
mod speedscope;

use async_graphql::{Request, from_value};
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use super::page_reader::{ReadError, Source};
use crate::{
    auth::Viewer,
    blocking_work::run_blocking,
    domain::audit::Origin,
    graphql::{Caller, RateLimit},
    guard::Price,
};

/// The query for a profile. Lines of code are not part of the files.
const DOCUMENT: &str = "query ProfileFile($_of: ID!, $from: DateTime, $to: DateTime, $minShare: Float!) {
  of: cluster(id: $_of) { number name profile(from: $from, to: $to, minShare: $minShare) {
    from to samples frames { file function line } columns { parents frames self totals } } } }";

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
    /// Checks the parameters. `of` identifies the cluster.
    ///
    /// # Errors
    /// Returns the errors of invalid parameters.
    pub(crate) async fn new(
        source: &Source,
        of: String,
        mut parameters: Map<String, Json>,
    ) -> Result<Self, ReadError> {
        parameters.insert("_of".to_owned(), of.into());
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
        let caller = Caller { viewer, origin, rate_limit, now: source.clock.now() };
        let run = source.schema.execute_pages(self.request, caller, &source.store, 1);
        let response = tokio::time::timeout(source.timeout, run).await;
        let response = response.map_err(|_| ReadError::Timeout(source.timeout))?;
        if !response.errors.is_empty() {
            return Err(ReadError::Refused(response.errors));
        }
        let answer: Answer =
            run_blocking(move || from_value(response.data).expect("the query selects these fields")).await;
        let ClusterAnswer { number, name, profile } = answer.of.ok_or(ReadError::NotFound)?;
        Ok(profile.map(|tree| ProfileFile { number, name, tree }))
    }
}

#[derive(Deserialize)]
struct Answer {
    of: Option<ClusterAnswer>,
}

#[derive(Deserialize)]
struct ClusterAnswer {
    number: i64,
    name: Option<String>,
    profile: Option<Tree>,
}

/// The call tree of a profile, with the fields of the API.
#[derive(Deserialize)]
struct Tree {
    from: chrono::DateTime<chrono::Utc>,
    to: chrono::DateTime<chrono::Utc>,
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

/// The nodes of the tree, parents before their children.
#[derive(Deserialize)]
struct Columns {
    parents: Vec<Option<usize>>,
    frames: Vec<usize>,
    #[serde(rename = "self")]
    own: Vec<i64>,
}

/// The profile of a cluster.
pub(crate) struct ProfileFile {
    number: i64,
    name: Option<String>,
    tree: Tree,
}

/// A call stack and the number of samples in which it was taken.
struct Stack {
    /// The indexes of frames, the outermost first.
    frames: Vec<usize>,
    samples: i64,
}

impl ProfileFile {
    /// Returns the file and its name.
    pub(crate) async fn encode(mut self, format: ProfileFormat) -> (Vec<u8>, String) {
        let name = format!("cluster-{}.{}", self.number, format.extension());
        let file = run_blocking(move || {
            let stacks = self.stacks();
            match format {
                ProfileFormat::Speedscope => speedscope::encode(&self, &stacks),
                ProfileFormat::Pprof => pprof::encode(&self, &stacks),
            }
        });
        (file.await, name)
    }

    /// Returns the name of the cluster with its number.
    fn title(&self) -> String {
        match &self.name {
            Some(name) => format!("{name} #{}", self.number),
            None => format!("#{}", self.number),
        }
    }

    /// Returns the stacks of the innermost frames. The samples in nodes that are left out have a stack of their
    /// own, so that the sum is the number of all samples.
    fn stacks(&mut self) -> Vec<Stack> {
        let Tree { samples, frames, columns, .. } = &mut self.tree;
        let mut stacks = Vec::new();
        for (node, own) in columns.own.iter().enumerate().filter(|(_, own)| **own > 0) {
            let mut stack = Vec::new();
            let mut next = Some(node);
            while let Some(node) = next {
                stack.push(columns.frames[node]);
                next = columns.parents[node];
            }
            stack.reverse();
            stacks.push(Stack { frames: stack, samples: *own });
        }
        let shown: i64 = columns.own.iter().sum();
        if shown < *samples {
            stacks.push(Stack { frames: vec![frames.len()], samples: *samples - shown });
            frames.push(Frame { file: String::new(), function: OMITTED.to_owned(), line: 0 });
        }
        stacks
    }
}
