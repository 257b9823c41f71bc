"""The chart, rendered by Helm's own engine, and questions about its objects."""

import os
from pathlib import Path

import helm_python as helm
import yaml
from conftest import REPOSITORY, blocks

CHART = REPOSITORY / "docker" / "helm" / "galvo"
NAMESPACE = "analytics"


def value_sets():
    """Returns the sets of values by name: those of the documentation, and those of ``values/``."""
    documented = [yaml.safe_load(block) for block in blocks("kubernetes.md", "yaml values")]
    team, small = documented
    sets = {"documented for SQLite": small, "documented for PostgreSQL": team}
    for path in sorted((Path(__file__).parent / "values").glob("*.yaml")):
        sets[path.stem] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return sets


def render(values, name="galvo", source=CHART):
    """Returns the objects that an installation of a chart with these values creates."""
    with helm.Chart.load(os.fspath(source)) as chart:
        chart.validate_schema(values)
        texts = chart.render(values, name=name, namespace=NAMESPACE)
    return [
        found
        for path, text in texts.items()
        if path.endswith(".yaml")
        for found in yaml.safe_load_all(text)
        if found is not None
    ]


class Objects:
    """The rendered objects of a set of values."""

    def __init__(self, values, name="galvo"):
        self.all = render(values, name)

    def of(self, kind):
        return [one for one in self.all if one["kind"] == kind]

    def one(self, kind):
        (found,) = self.of(kind)
        return found

    def pods(self):
        """Returns the labels and the specification of each kind of pod, by the object's name."""
        pods = {}
        for one in self.all:
            if one["kind"] == "Pod":
                pods[one["metadata"]["name"]] = (one["metadata"]["labels"], one["spec"])
            elif one["kind"] in ("Deployment", "Job"):
                template = one["spec"]["template"]
                pods[one["metadata"]["name"]] = (template["metadata"]["labels"], template["spec"])
        return pods

    def server(self):
        """Returns the labels, the specification and the container of the server's pods."""
        name = self.one("Deployment")["metadata"]["name"]
        labels, spec = self.pods()[name]
        (container,) = spec["containers"]
        return labels, spec, container

    def selected(self, selector):
        """Returns the names of the kinds of pods that a selector matches."""
        return {name for name, (labels, _) in self.pods().items() if matches(selector, labels)}


def matches(selector, labels):
    if set(selector) - {"matchLabels", "matchExpressions"}:
        raise ValueError(f"not the selector of labels that is known here: {selector}")
    for expression in selector.get("matchExpressions", []):
        assert expression["operator"] == "In"
        if labels.get(expression["key"]) not in expression["values"]:
            return False
    return all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())


def environment(container, secrets):
    """Returns a container's variables. Those of Secrets have the values of ``secrets``."""
    variables = {}
    for variable in container["env"]:
        assert variable["name"] not in variables, f"{variable['name']} is set twice"
        if "value" in variable:
            assert set(variable) == {"name", "value"} and isinstance(variable["value"], str)
            variables[variable["name"]] = variable["value"]
        else:
            reference = variable["valueFrom"]["secretKeyRef"]
            assert set(reference) == {"name", "key"}
            variables[variable["name"]] = secrets[variable["name"]]
    return variables
