"""The changes of the APIs since the previous release, as a release lists them."""

import json
import os
import subprocess

import pytest
from conftest import REPOSITORY, VERSION

FIRST = "There is no earlier release: this is the first release.\n"
SCHEMA = "# Changes of the GraphQL schema\n\n"
REST = "# Changes of the REST API\n\n"
REPORTS = "POST /api/v1/reports"
BODY = "Request Body content (application/json)"
ANSWER = "Response 200 content (application/json)"


class History:
    """A repository with earlier documents of the APIs, and this version's tag at its end."""

    def __init__(self, directory):
        self.directory = directory
        self.environment = {
            **os.environ,
            "GIT_DIR": str(directory / ".git"),
            "GIT_WORK_TREE": str(directory),
            "GIT_CONFIG_GLOBAL": os.devnull,
            **{f"GIT_{who}_NAME": "test" for who in ("AUTHOR", "COMMITTER")},
            **{f"GIT_{who}_EMAIL": "test@example.com" for who in ("AUTHOR", "COMMITTER")},
        }
        self.git("init", "--quiet")

    def git(self, *arguments):
        subprocess.run(["git", *arguments], cwd=self.directory, env=self.environment, check=True)

    def commit(self, schema, openapi, tag):
        (self.directory / "schema.graphql").write_text(schema, encoding="utf-8")
        (self.directory / "openapi.json").write_text(json.dumps(openapi), encoding="utf-8")
        self.git("add", "schema.graphql", "openapi.json")
        self.git("commit", "--quiet", "--allow-empty", "--message", tag)
        self.git("tag", tag)

    def changes(self):
        """Returns what the script writes about both APIs."""
        out = self.directory / "out"
        out.mkdir()
        script = REPOSITORY / "scripts" / "api-changes.sh"
        # The script reads the documents of its own repository, and the history of this one.
        environment = {**self.environment}
        del environment["GIT_WORK_TREE"]
        done = subprocess.run(
            [script, VERSION, out], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        names = [f"galvo-{VERSION}-{api}-changes.md" for api in ("schema", "openapi")]
        assert sorted(path.name for path in out.iterdir()) == sorted(names)
        return [(out / name).read_text(encoding="utf-8") for name in names]


@pytest.fixture
def history(tmp_path):
    return History(tmp_path)


@pytest.fixture
def schema():
    return (REPOSITORY / "schema.graphql").read_text(encoding="utf-8")


@pytest.fixture
def openapi():
    return json.loads((REPOSITORY / "openapi.json").read_bytes())


def test_without_an_earlier_release_it_is_the_first_one(history, schema, openapi):
    history.commit("type Query { other: Int }", openapi, f"v{VERSION}")
    assert history.changes() == [SCHEMA + FIRST, REST + FIRST]


def test_breaking_changes_are_listed_apart_from_safe_ones(history, schema, openapi):
    history.commit("type Query { other: Int }", {"openapi": "3.1.0"}, "v0.0.1")
    # The previous release lacked a field and a value, and had a field that is not there any more.
    before = schema.replace("\tnumber: BigInt!\n", "\tnumber: BigInt!\n\tordinal: Int\n", 1)
    before = before.replace("enum UsageCause {", "enum UsageCause {\n\tUNUSED", 1)
    assert before.count("ordinal") == before.count("UNUSED") == 1
    without = '\t"""\n\tThe name the user signs in with.\n\t"""\n\tname: String!\n'
    assert before.count(without) == 1
    history.commit(before.replace(without, ""), earlier(openapi), "v0.0.2")
    history.commit(schema, openapi, f"v{VERSION}")
    assert history.changes() == [
        SCHEMA + "Since v0.0.2: 2 breaking, 0 dangerous, 1 safe.\n\n"
        "## Breaking\n\n"
        "- Enum value 'UNUSED' was removed from enum 'UsageCause'\n"
        "- Field 'ordinal' was removed from object type 'Cluster'\n\n"
        "## Safe\n\n"
        "- Field 'name' was added to object type 'User'\n",
        REST + "Since v0.0.2: 4 breaking, 0 dangerous, 4 safe.\n\n"
        "## Breaking\n\n"
        "- GET /api/v1/old: Removed operation GET /api/v1/old\n"
        f"- {REPORTS}: Added required status to `sequence` in {BODY}\n"
        f"- {REPORTS}: Removed property `old` in {ANSWER}\n"
        f"- {REPORTS}: Removed required status from `old` in {ANSWER}\n\n"
        "## Safe\n\n"
        "- GET /api/v1/api-tokens/: Added optional query parameter `page`\n"
        "- GET /healthz: Added operation GET /healthz\n"
        f"- {REPORTS}: Added property `cluster_id` in {ANSWER}\n"
        f"- {REPORTS}: Added required status to `cluster_id` in {ANSWER}\n",
    ]


def earlier(openapi):
    """Returns the description of a server before some of its routes changed."""
    before = json.loads(json.dumps(openapi))
    paths, schemas = before["paths"], before["components"]["schemas"]
    paths["/api/v1/old"] = {"get": paths.pop("/healthz")["get"]}
    parameters = paths["/api/v1/api-tokens/"]["get"]["parameters"]
    parameters[:] = [one for one in parameters if one["name"] != "page"]
    schemas["Report"]["required"].remove("sequence")
    acknowledgement = schemas["Acknowledgement"]
    acknowledgement["properties"]["old"] = acknowledgement["properties"].pop("cluster_id")
    acknowledgement["required"][acknowledgement["required"].index("cluster_id")] = "old"
    # A description is no part of the API.
    paths["/readyz"]["get"]["description"] = "Other words."
    return before


def test_a_schema_that_is_not_valid_is_an_error(tmp_path):
    (tmp_path / "schema.graphql").write_text("type Query { other: Missing }")
    script = REPOSITORY / "scripts" / "api-changes" / "changes.js"
    command = ["node", script, "graphql", tmp_path / "schema.graphql"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert 'Unknown type "Missing"' in done.stderr
    assert done.stdout == ""
