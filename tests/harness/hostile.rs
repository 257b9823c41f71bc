//! Malicious requests with their expected responses. Independent of the server, so that the benchmarks
//! can send the same ones.

/// A request that no client sends by mistake.
pub struct HostileRequest {
    /// The attack it attempts.
    pub name: &'static str,
    /// GET or POST.
    pub method: &'static str,
    /// The path with its query.
    pub target: String,
    /// The declared content type.
    pub content_type: &'static str,
    /// The body.
    pub body: Vec<u8>,
    /// The status of the response in `application/graphql-response+json`.
    pub status: u16,
    /// The code of the first error.
    pub code: &'static str,
}

const JSON: &str = "application/json";
const PARSE: &str = "GRAPHQL_PARSE_FAILED";
const VALIDATION: &str = "GRAPHQL_VALIDATION_FAILED";
const INPUT: &str = "BAD_USER_INPUT";
const DOCUMENT: &str = "DOCUMENT_LIMIT_EXCEEDED";
const DEPTH: &str = "DEPTH_LIMIT_EXCEEDED";
const COST: &str = "COST_LIMIT_EXCEEDED";

/// Returns all malicious requests.
#[must_use]
pub fn hostile_requests() -> Vec<HostileRequest> {
    let mut all = Vec::new();
    for (name, document, code) in documents() {
        all.push(post(name, json(&document), 400, code));
    }
    all.extend(with_variables());
    all.extend(transports());
    all
}

fn post(name: &'static str, body: String, status: u16, code: &'static str) -> HostileRequest {
    let target = "/graphql".to_owned();
    HostileRequest { name, method: "POST", target, content_type: JSON, body: body.into_bytes(), status, code }
}

fn json(document: &str) -> String {
    format!(r#"{{"query":{}}}"#, quoted(document))
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

/// Concatenates `times` pieces, each made from its number.
fn repeat(times: usize, piece: impl Fn(usize) -> String) -> String {
    (0..times).map(piece).collect()
}

/// Fragments that each spread the next one `spreads` times.
fn bomb(levels: usize, spreads: usize, leaf: &str) -> String {
    let fragments = repeat(levels, |level| {
        format!("fragment F{level} on Account {{ {} }} ", format!("...F{} ", level + 1).repeat(spreads))
    });
    format!("{{ viewer {{ account {{ ...F0 }} }} }} {fragments} fragment F{levels} on Account {{ {leaf} }}")
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn documents() -> Vec<(&'static str, String, &'static str)> {
    let account = |selection: &str| format!("{{ viewer {{ account {{ {selection} }} }} }}");
    let deep = format!(
        "{{ {}id{} }}",
        "viewer { account { clusters(first: 100) { nodes { ".repeat(5),
        "}".repeat(20)
    );
    let wide = "clusters(first: 100) { nodes { computations(first: 100) { nodes { errors(first: 100) { \
                nodes { id } } } } } }";
    let large = repeat(2_000, |_| "user { id } ".to_owned());
    let lists = repeat(4, |_| "fields { type { ".to_owned()) + "name" + &"} }".repeat(4);
    let circle = repeat(900, |n| format!("fragment F{n} on Query {{ ...F{} }} ", (n + 1) % 900));
    vec![
        ("1,000 aliases", format!("{{ {} }}", repeat(1_000, |n| format!("a{n}: __typename "))), DOCUMENT),
        ("1,000 directives", format!("{{ __typename {} }}", "@include(if: true) ".repeat(1_000)), DOCUMENT),
        ("99 unknown directives", format!("{{ __typename {} }}", "@a ".repeat(99)), VALIDATION),
        (
            "100 repeated directives",
            format!("{{ __typename {} }}", "@skip(if: true) ".repeat(100)),
            VALIDATION,
        ),
        ("60 fields of the root", format!("{{ {} }}", "viewer { scopes } ".repeat(60)), DOCUMENT),
        ("1,000 operations", repeat(1_000, |n| format!("query Q{n} {{ __typename }} ")), DOCUMENT),
        ("60 operations of one name", "query A { __typename } ".repeat(60), DOCUMENT),
        (
            "50 operations of one large fragment",
            repeat(50, |n| format!("query Q{n} {{ viewer {{ ...F }} }} "))
                + &format!("fragment F on Viewer {{ {large} nonsense }}"),
            VALIDATION,
        ),
        ("20,000 unknown fields", account(&"b ".repeat(20_000)), DOCUMENT),
        ("9,900 unknown fields", account(&"b ".repeat(9_900)), VALIDATION),
        ("5,000 different unknown fields", account(&repeat(5_000, |n| format!("b{n} "))), VALIDATION),
        ("one field 9,900 times, once unknown", account(&("slug ".repeat(9_900) + "b")), VALIDATION),
        (
            "900 fields that conflict",
            account(&repeat(900, |n| format!("clusters(first: {n}) {{ totalCount }} "))),
            VALIDATION,
        ),
        (
            "90 fragments that conflict",
            format!("{} {}", account(&repeat(90, |n| format!("...F{n} "))), {
                let clusters = |n| format!("clusters(first: {n}) {{ nodes {{ id state name }} }} ");
                repeat(90, |n| format!("fragment F{n} on Account {{ {} }} ", repeat(7, |_| clusters(n))))
            }),
            VALIDATION,
        ),
        (
            "1,500 variables that are not used",
            format!("query({}) {{ __typename }}", repeat(1_500, |n| format!("$v{n}: Int "))),
            VALIDATION,
        ),
        (
            "700 variables that are not defined",
            account(&repeat(700, |n| format!("clusters(first: $v{n}) {{ totalCount }} "))),
            VALIDATION,
        ),
        (
            "an input of 3,000 fields",
            account(&format!("clusters(filter: {{ {} }}) {{ id }}", repeat(3_000, |n| format!("f{n}: 1 ")))),
            VALIDATION,
        ),
        (
            "one field of an input 3,000 times",
            account(&format!("clusters(filter: {{ {} }}) {{ totalCount }}", "search: null ".repeat(3_000))),
            VALIDATION,
        ),
        (
            "a list of 9,000 wrong words",
            account(&format!("clusters(filter: {{ states: [{}] }}) {{ totalCount }}", "A ".repeat(9_000))),
            VALIDATION,
        ),
        ("a deep selection", "{a".repeat(20_000), DOCUMENT),
        ("a deep list", format!("{{ a(b: {}", "[".repeat(50_000)), DOCUMENT),
        ("a deep object", format!("{{ a(b: {}", "{c:".repeat(20_000)), DOCUMENT),
        ("a deep type", format!("query($a: {}", "[".repeat(50_000)), DOCUMENT),
        ("deep fields", deep, DEPTH),
        (
            "a chain of fragments",
            "{ ...F0 } ".to_owned()
                + &repeat(900, |n| format!("fragment F{n} on Query {{ ...F{} }} ", n + 1)),
            DEPTH,
        ),
        ("a fragment in itself", "{ ...A } fragment A on Query { ...A }".to_owned(), VALIDATION),
        (
            "two fragments in each other",
            "{ ...A } fragment A on Query { ...B } fragment B on Query { ...A }".to_owned(),
            VALIDATION,
        ),
        (
            "a circle that is not used",
            "{ __typename } fragment A on Query { ...B } fragment B on Query { ...A }".to_owned(),
            VALIDATION,
        ),
        ("a circle of 900 fragments", format!("{{ ...F0 }} {circle}"), DEPTH),
        ("a fragment bomb of 2^28", bomb(28, 2, "slug"), DEPTH),
        ("a fragment bomb of 2^24", bomb(24, 2, "slug"), COST),
        ("a fragment bomb of 2^24 of nothing", bomb(24, 2, "__typename"), COST),
        ("a fragment bomb of 100^3", bomb(3, 100, "slug"), COST),
        (
            "1,000 spreads of a list",
            bomb(1, 1_000, "clusters(first: 100) { nodes { id errors { nodes { id } } } }"),
            COST,
        ),
        ("first: 100, three lists deep", account(wide), COST),
        (
            "five questions for the schema",
            format!("{{ {} }}", repeat(5, |n| format!("s{n}: __schema {{ queryType {{ name }} }} "))),
            DOCUMENT,
        ),
        ("the schema in itself", format!("{{ __schema {{ types {{ {lists} }} }} }}"), DEPTH),
        ("a name of 60,000 letters", format!("{{ {} }}", "a".repeat(60_000)), VALIDATION),
        (
            "a text of 60,000 letters",
            account(&format!("clusters(first: \"{}\") {{ id }}", "x".repeat(60_000))),
            VALIDATION,
        ),
        (
            "a number of 60,000 digits",
            account(&format!("clusters(first: {}) {{ id }}", "9".repeat(60_000))),
            VALIDATION,
        ),
        ("60,000 quotes", "\"".repeat(60_000), PARSE),
        ("a text that does not end", format!("{{ a(b: \"{}", "x".repeat(60_000)), PARSE),
        ("60,000 characters nobody knows", "?".repeat(9_000), PARSE),
        ("nothing but a comment", format!("#{}", "x".repeat(60_000)), PARSE),
        ("no document", String::new(), PARSE),
        ("100,000 bytes", format!("{{ a(b: \"{}\") }}", "x".repeat(100_000)), DOCUMENT),
    ]
}

fn with_variables() -> Vec<HostileRequest> {
    let page = "query($n: Int!) { viewer { account { clusters(first: $n) { totalCount } } } }";
    let filter = "query($f: ClusterFilter) { viewer { account { clusters(filter: $f) { totalCount } } } }";
    let request = |name, document: &str, variables: &str, status, code| {
        post(name, format!(r#"{{"query":{},"variables":{variables}}}"#, quoted(document)), status, code)
    };
    vec![
        request("first: 1000000", page, r#"{"n":1000000}"#, 400, INPUT),
        request(
            "a million letters for a number",
            page,
            &format!(r#"{{"n":"{}"}}"#, "x".repeat(1_000_000)),
            400,
            INPUT,
        ),
        request(
            "300,000 numbers for words",
            filter,
            &format!(r#"{{"f":{{"states":[{}1]}}}}"#, "1,".repeat(300_000)),
            400,
            INPUT,
        ),
        request(
            "60,000 unknown fields of a variable",
            filter,
            &format!(r#"{{"f":{{{}"a":1}}}}"#, repeat(60_000, |n| format!("\"a{n}\":1,"))),
            400,
            INPUT,
        ),
        request(
            "a variable that nests",
            filter,
            &format!(r#"{{"f":{}"#, "[".repeat(400_000)),
            400,
            "MALFORMED_BODY",
        ),
        request(
            "a variable that nests and ends",
            filter,
            &format!(r#"{{"f":{}{}}}"#, "[".repeat(400_000), "]".repeat(400_000)),
            400,
            "INVALID_BODY",
        ),
    ]
}

fn transports() -> Vec<HostileRequest> {
    let mutation = "mutation%7BdeleteCostRate(validFrom:%222026-11-01%22)%7Baccount%7Bslug%7D%7D%7D";
    let batch = format!("[{}]", vec![json("{ __typename }"); 1_000].join(","));
    let form = "query=%7B__typename%7D".to_owned();
    let multipart = "--x\r\nContent-Disposition: form-data; name=\"operations\"\r\n\r\n{\"query\":\"{__typename}\"}\r\n--x--";
    let unsupported = "UNSUPPORTED_MEDIA_TYPE";
    let typed =
        |name, content_type, body| HostileRequest { content_type, ..post(name, body, 415, unsupported) };
    vec![
        post("a batch of 1,000", batch, 400, "MALFORMED_BODY"),
        post("a query of 10 MB", json(&"x".repeat(10_000_000)), 413, "PAYLOAD_TOO_LARGE"),
        typed("a form", "application/x-www-form-urlencoded", form),
        typed("a form of several parts", "multipart/form-data; boundary=x", multipart.to_owned()),
        typed("plain text", "text/plain", json("{ __typename }")),
        HostileRequest {
            body: b"{\"query\":\"{ \xff\xfe }\"}".to_vec(),
            ..post("no UTF-8", String::new(), 400, "MALFORMED_BODY")
        },
        HostileRequest {
            method: "GET",
            target: format!("/graphql?query={mutation}"),
            ..post("a mutation by GET", String::new(), 405, "METHOD_NOT_ALLOWED")
        },
    ]
}
