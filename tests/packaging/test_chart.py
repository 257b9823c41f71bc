"""The Helm chart: valid objects, pods with few rights, and settings that the server accepts."""

import functools
import json
import os
import re
import subprocess

import helm_python as helm
import kubernetes_validate
import pytest
import tomllib
import trustme
import yaml
from cloudcoil.models.prometheus_operator.v1 import ServiceMonitor
from conftest import REPOSITORY, blocks
from manifests import CHART, NAMESPACE, Objects, environment, render, value_sets
from processes import clean_environment

SETS = value_sets()
MINIMUM = SETS["documented for PostgreSQL"]
SQLITE = SETS["documented for SQLite"]
VERSIONS = ["1.25", "1.31", "1.37"]
KEY = "dGhpcyBpcyBhIGtleSBmb3IgdGVzdHMsIG5vIG1vcmU"
# The values of Secrets for the settings that come from them.
SECRETS = {
    "GALVO_DATABASE_URL": "postgres://galvo:swordfish@127.0.0.1:1/galvo",
    "GALVO_REDIS_URL": "redis://:swordfish@127.0.0.1:1/",
    "GALVO_OIDC_CLIENT_SECRET": "swordfish",
    "GALVO_SMTP_URL": "smtps://galvo:swordfish@127.0.0.1:1",
}

# It reads all definitions of a release again for each object, which takes most of the time.
kubernetes_validate.utils.schema_contents = functools.cache(
    kubernetes_validate.utils.schema_contents
)

every_set = pytest.mark.parametrize("values", SETS.values(), ids=SETS.keys())


@pytest.mark.parametrize("version", VERSIONS)
@every_set
def test_objects_are_valid(values, version):
    objects = render(values)
    assert len(objects) >= 4
    for one in objects:
        if one["kind"] == "ServiceMonitor":
            # An unknown field would be missing in the copy.
            model = ServiceMonitor.model_validate(one)
            assert model.model_dump(by_alias=True, exclude_none=True, mode="json") == one
        else:
            # It would otherwise use the schema of an older release.
            assert kubernetes_validate.validate(one, version, strict=True) == version
    names = [(one["kind"], one["metadata"]["name"]) for one in objects]
    assert len(set(names)) == len(names)
    report = helm.lint(os.fspath(CHART), values, strict=True, kube_version=f"v{version}.0")
    assert report["errors"] == []
    assert [found["error"] for found in report["messages"]] == ["icon is recommended"]


def test_a_misspelt_field_would_be_found():
    deployment = Objects(MINIMUM).one("Deployment")
    deployment["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="livenesProbe"):
        kubernetes_validate.validate(deployment, VERSIONS[0], strict=True)


def test_the_chart_is_of_this_release():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    workspace = tomllib.loads((REPOSITORY / "Cargo.toml").read_text())["workspace"]
    assert chart["appVersion"] == workspace["package"]["version"]
    assert chart["kubeVersion"] == f">={VERSIONS[0]}.0-0"


@every_set
def test_pods_have_few_rights(values):
    """The profile "restricted" of Kubernetes' Pod Security Standards, and more."""
    pods = Objects(values).pods()
    for _, spec in pods.values():
        # Variables for a Service called galvo would be taken for settings.
        assert spec["enableServiceLinks"] is False
        assert spec["automountServiceAccountToken"] is False
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
        security = spec["securityContext"]
        assert (security["runAsNonRoot"], security["runAsUser"]) == (True, 10001)
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        for volume in spec.get("volumes") or []:
            assert set(volume) - {"name"} <= {"secret", "persistentVolumeClaim", "configMap"}
        (container,) = spec["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}
        assert "memory" in container["resources"]["limits"]


@every_set
def test_names_lead_somewhere(values):
    objects = Objects(values)
    _, _, container = objects.server()
    deployment = objects.one("Deployment")
    name = deployment["metadata"]["name"]
    assert objects.selected(deployment["spec"]["selector"]) == {name}
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    served = {}
    for service in objects.of("Service"):
        assert objects.selected({"matchLabels": service["spec"]["selector"]}) == {name}
        for port in service["spec"]["ports"]:
            assert port["targetPort"] in ports
            served[service["metadata"]["name"], port["port"]] = port["name"]
    for probe, path in [("startup", "healthz"), ("liveness", "healthz"), ("readiness", "readyz")]:
        request = container[f"{probe}Probe"]["httpGet"]
        assert (request["path"], request["port"]) == (f"/{path}", "http")
    for budget in objects.of("PodDisruptionBudget"):
        assert objects.selected(budget["spec"]["selector"]) == {name}
    for policy in objects.of("NetworkPolicy"):
        jobs = {job["metadata"]["name"] for job in objects.of("Job")}
        assert objects.selected(policy["spec"]["podSelector"]) == {name} | jobs
        assert {rule["ports"][0]["port"] for rule in policy["spec"]["ingress"]} <= set(ports)
    for autoscaler in objects.of("HorizontalPodAutoscaler"):
        target = autoscaler["spec"]["scaleTargetRef"]
        assert (target["kind"], target["name"]) == ("Deployment", name)
        assert "replicas" not in deployment["spec"]
    for ingress in objects.of("Ingress"):
        (rule,) = ingress["spec"]["rules"]
        (path,) = rule["http"]["paths"]
        backend = path["backend"]["service"]
        assert (backend["name"], backend["port"]["number"]) in served
        assert path["pathType"] == "Prefix"
    for monitor in objects.of("ServiceMonitor"):
        (endpoint,) = monitor["spec"]["endpoints"]
        assert endpoint["port"] in served.values()
        selector = monitor["spec"]["selector"]["matchLabels"].items()
        services = [one["metadata"]["labels"] for one in objects.of("Service")]
        assert [one for one in services if selector <= one.items()]
    for _, spec in objects.pods().values():
        volumes = {volume["name"] for volume in spec.get("volumes") or []}
        mounts = {mount["name"] for mount in spec["containers"][0].get("volumeMounts") or []}
        assert volumes == mounts


@every_set
def test_names_fit_in_kubernetes(values):
    values = {name: value for name, value in values.items() if name != "fullnameOverride"}
    for release in ("a" * 53, "galvo-" + "b" * 47):
        for one in render(values, release):
            assert len(one["metadata"]["name"]) <= 63
            assert all(len(value) <= 63 for value in one["metadata"]["labels"].values())


def test_sqlite_has_one_pod_at_a_time():
    objects = Objects(SQLITE)
    deployment = objects.one("Deployment")["spec"]
    assert (deployment["replicas"], deployment["strategy"]) == (1, {"type": "Recreate"})
    kinds = {one["kind"] for one in objects.all}
    assert kinds == {"Deployment", "Service", "Ingress", "PersistentVolumeClaim", "Pod"}
    claim = objects.one("PersistentVolumeClaim")
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    _, spec, container = objects.server()
    keys = {"name": "keys", "mountPath": "/etc/galvo/keys", "readOnly": True}
    assert container["volumeMounts"] == [{"name": "data", "mountPath": "/var/lib/galvo"}, keys]
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "galvo"}}
    assert spec["volumes"][0] == volume
    # More pods are refused even if the values request them.
    more = Objects({**SQLITE, "replicaCount": 5}).one("Deployment")
    assert more["spec"]["replicas"] == 1


def test_migrations_come_before_the_pods():
    objects = Objects(MINIMUM)
    job = objects.one("Job")
    annotations = job["metadata"]["annotations"]
    assert annotations["helm.sh/hook"] == "pre-install,pre-upgrade"
    (container,) = job["spec"]["template"]["spec"]["containers"]
    _, _, server = objects.server()
    assert (container["args"], server["args"]) == (["migrate"], ["serve"])
    assert container["image"] == server["image"]
    # The Secret that the chart creates exists before the job does.
    created = {**SETS["secrets"], "migrate": {"enabled": True}}
    secret = Objects(created).one("Secret")["metadata"]["annotations"]
    assert {"pre-install", "pre-upgrade"} <= set(secret["helm.sh/hook"].split(","))
    assert int(secret["helm.sh/hook-weight"]) < int(annotations["helm.sh/hook-weight"])


def test_the_values_reach_the_server():
    objects = Objects(SETS["ingress"])
    _, _, container = objects.server()
    digest = SETS["ingress"]["image"]["digest"]
    assert container["image"] == f"registry.example.com/galvo@{digest}"
    assert environment(container, SECRETS) == {
        "GALVO_DATABASE_URL": SECRETS["GALVO_DATABASE_URL"],
        "GALVO_DATABASE_CONNECTIONS": "8",
        "GALVO_SECRET_KEY_FILE": "/etc/galvo/keys/galvo.key",
        "GALVO_LOG_FORMAT": "json",
        "GALVO_LISTEN": "0.0.0.0:8000",
        "GALVO_PUBLIC_URL": "https://tools.example.com/galvo",
        "GALVO_TRUSTED_PROXIES": "10.244.0.0/16,fd00::/8",
        "GALVO_REDIS_URL": SECRETS["GALVO_REDIS_URL"],
        "GALVO_METRICS_LISTEN": "0.0.0.0:9000",
        "GALVO_ALERT_PRIVATE_TARGETS": "true",
        "GALVO_OIDC_ISSUER": "https://login.example.com",
        "GALVO_OIDC_CLIENT_ID": "galvo",
        "GALVO_QUERY_TIMEOUT": "20",
        "GALVO_OIDC_CLIENT_SECRET": SECRETS["GALVO_OIDC_CLIENT_SECRET"],
    }
    references = {
        variable["name"]: variable["valueFrom"]["secretKeyRef"]
        for variable in container["env"]
        if "valueFrom" in variable
    }
    assert references == {
        "GALVO_DATABASE_URL": {"name": "galvo-database", "key": "uri"},
        "GALVO_REDIS_URL": {"name": "galvo-redis", "key": "url"},
        "GALVO_OIDC_CLIENT_SECRET": {"name": "galvo-oidc", "key": "secret"},
    }


@every_set
def test_the_server_accepts_its_settings(values, tmp_path, galvo_bin):
    """``galvo doctor`` checks the settings of the pods, without a database."""
    _, _, container = Objects(values).server()
    (tmp_path / "galvo.key").write_text(KEY)
    certificate = trustme.CA().issue_cert("galvo.example.com")
    certificate.private_key_pem.write_to_path(tmp_path / "tls.key")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "tls.crt")
    # The paths of mounted volumes.
    places = {"/etc/galvo/keys", "/etc/galvo/tls", "/var/lib/galvo"}
    variables = {
        name: re.sub("|".join(places), str(tmp_path), value)
        for name, value in environment(container, SECRETS).items()
    }
    done = subprocess.run(
        [galvo_bin, "doctor", "--json"],
        env={**clean_environment(), **variables},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    found = {check["check"]: check for check in json.loads(done.stdout)["checks"]}
    assert found["settings"]["verdict"] == "ok", done.stdout


REFUSED = {
    "no database": ({"encryption": {"existingSecret": "k"}}, r"database\.existingSecret"),
    "no keys": ({"database": {"existingSecret": "d"}}, r"encryption\.existingSecret"),
    "a metrics monitor without metrics": (
        {**MINIMUM, "metrics": {"serviceMonitor": {"enabled": True}}},
        r"metrics\.enabled",
    ),
    "autoscaling of SQLite": ({**SQLITE, "autoscaling": {"enabled": True}}, "one pod"),
    "an unknown value": ({**MINIMUM, "replicas": 3}, "replicas"),
    "an unknown setting": ({**MINIMUM, "settings": {"GALVO_LOGS": "info"}}, "GALVO_LOGS"),
    "a secret among the settings": ({**MINIMUM, "settings": {"GALVO_SMTP_URL": "x"}}, "SMTP_URL"),
    "a setting of the chart": ({**MINIMUM, "settings": {"GALVO_LISTEN": "x"}}, "GALVO_LISTEN"),
    "an unknown database": ({"database": {"kind": "mysql"}}, "kind"),
    "a setting with two values": (
        {
            **SETS["secrets"],
            "secretSettings": {"GALVO_SMTP_URL": {"existingSecret": "m", "key": "url"}},
        },
        "GALVO_SMTP_URL",
    ),
}


@pytest.mark.parametrize(("values", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_wrong_values_are_refused(values, reason):
    with pytest.raises(helm.HelmError, match=reason):
        render(values)


def test_settings_are_those_of_the_server():
    running = (REPOSITORY / "docs" / "running.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| `(GALVO_[A-Z_]+)` \|", running, re.MULTILINE))
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"]
    plain = set(schema["settings"]["propertyNames"]["enum"])
    secret = set(schema["secretSettings"]["propertyNames"]["enum"])
    assert secret == set(schema["secrets"]["properties"]["settings"]["propertyNames"]["enum"])
    templates = "".join(path.read_text() for path in (CHART / "templates").glob("*.*"))
    from_values = set(re.findall(r"GALVO_[A-Z_]+", templates)) - {"GALVO_PORT"}
    log = {"GALVO_LOG", "GALVO_LOG_FORMAT"}
    assert plain & secret == set() and (plain | secret) & from_values == log
    # A file with the keys is mounted instead.
    assert documented == plain | secret | from_values | {"GALVO_SECRET_KEY"}


@every_set
def test_no_secret_is_outside_of_a_secret(values):
    objects = Objects(values)
    assert bool(objects.of("Secret")) == values.get("secrets", {}).get("create", False)
    rest = [one for one in objects.all if one["kind"] != "Secret"]
    assert "swordfish" not in json.dumps(rest) and KEY not in json.dumps(rest)


def test_the_documentation_names_what_the_chart_creates():
    """The commands of the documentation work for the release ``galvo`` in its namespace."""
    commands = "\n".join(blocks("kubernetes.md", "sh"))
    assert f"--namespace {NAMESPACE}" in commands
    objects = Objects(MINIMUM)
    for name in re.findall(r"deployment/(\S+)", commands):
        assert name == objects.one("Deployment")["metadata"]["name"]
    created = set(re.findall(r"create secret generic (\S+)", commands))
    named = json.dumps(objects.all)
    assert {"galvo-database", "galvo-keys", "galvo-redis"} <= created
    for secret in ("galvo-database", "galvo-keys", "galvo-redis"):
        assert f'"{secret}"' in named


def variables_of(container):
    """Returns the plain variables of a container, and the references of the others."""
    plain = {one["name"]: one["value"] for one in container["env"] if "value" in one}
    from_secrets = {
        one["name"]: one["valueFrom"]["secretKeyRef"]
        for one in container["env"]
        if "value" not in one
    }
    return plain, from_secrets


@pytest.mark.parametrize("language", ["scheduler", "dask", "gateway", "jupyterhub"])
def test_dask_clusters_get_server_and_token(language):
    (block,) = blocks("kubernetes.md", f"yaml {language}")
    written = yaml.safe_load(block)
    if language == "jupyterhub":
        variables = written["singleuser"]["extraEnv"]
        # The spawner takes an object for Kubernetes' own.
        assert variables["DASK_GALVO__TOKEN"]["name"] == "DASK_GALVO__TOKEN"
        named = [
            one if isinstance(one, dict) else {"name": name, "value": one}
            for name, one in variables.items()
        ]
        container = {"env": named}
        assert json.loads(variables["DASK_DISTRIBUTED__SCHEDULER__PRELOAD"]) == ["galvo"]
    elif language == "gateway":
        container = written["gateway"]["backend"]["scheduler"]["extraContainerConfig"]
        assert '"--preload", "galvo"' in written["gateway"]["extraConfig"]["galvo"]
    elif language == "dask":
        container = written["scheduler"]
        assert container["extraArgs"] == ["--preload", "galvo"]
    else:
        container = written
        assert container["args"] == ["dask-scheduler", "--preload", "galvo"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "scheduler"}}
    pod["spec"] = {"containers": [{"name": "scheduler", "image": "dask", "env": container["env"]}]}
    kubernetes_validate.validate(pod, VERSIONS[-1], strict=True)
    plain, from_secrets = variables_of(container)
    assert from_secrets == {"DASK_GALVO__TOKEN": {"name": "galvo-token", "key": "token"}}
    (service,) = Objects(MINIMUM).of("Service")
    port = service["spec"]["ports"][0]["port"]
    name = f"{service['metadata']['name']}.{NAMESPACE}.svc"
    assert plain["DASK_GALVO__SERVER"] == f"http://{name}:{port}"
    # The Secret is the one of the page.
    commands = "\n".join(blocks("kubernetes.md", "sh"))
    assert "create secret generic galvo-token --from-literal=token=" in commands
