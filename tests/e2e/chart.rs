//! The Helm chart: as Helm itself renders it, all objects are some by Kubernetes' own schemas, nobody has other rights than the page about security lists, and gwp-race takes what they say. On a cluster
//! it is not tried.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write as _,
    path::PathBuf,
    process::{Command, Stdio},
    sync::LazyLock,
};

use gwp_race_tests::binary::{gwp_race, root};
use serde_json::{Value, json};

/// Renders the chart with each of the values that it is given; an object of YAML is one of JSON afterwards.
const RENDER: &str = r"
import json, sys
tools, chart = sys.argv[1:]
sys.path.insert(0, tools)
import helm_python

def objects(rendered):
    for name, text in rendered.items():
        if name.endswith('.yaml'):
            for part in text.split('\n---\n'):
                if part.strip():
                    yield helm_python.values_from_yaml(part)

def render(loaded, values):
    try:
        loaded.validate_schema(values)
        rendered = loaded.render(values, name='races', namespace='watched')
        lint = helm_python.lint(chart, values, strict=True)
        return {'objects': list(objects(rendered)), 'lint': lint}
    except helm_python.HelmError as error:
        return {'refused': str(error)}

with helm_python.Chart.load(chart) as loaded:
    done = [render(loaded, values) for values in json.load(sys.stdin)]
    json.dump({'values': loaded.values, 'done': done}, sys.stdout)
";

/// The users, and groups, of the agent and of the collector.
const AGENT: i64 = 65532;
const AGENTS_GROUP: i64 = 60717;
const COLLECTOR: i64 = 65533;

fn tools() -> PathBuf {
    let tools = root().join("target/tools/charts");
    assert!(
        tools.join("wheels.txt").is_file(),
        "there is no Helm in {}: run the tests by `cargo xtask test`, which gets it",
        tools.display()
    );
    tools
}

fn chart() -> PathBuf {
    root().join("sanitizer/deploy/chart")
}

/// What Helm makes of these values, and the chart's own.
fn helm(cases: &[Value]) -> (Value, Vec<Value>) {
    let mut child = Command::new("python3")
        .args(["-c", RENDER])
        .args([tools(), chart()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input
        .write_all(Value::from(cases).to_string().as_bytes())
        .unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let mut said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let Value::Array(done) = said["done"].take() else {
        panic!("{said}");
    };
    (said["values"].take(), done)
}

/// The objects that Helm makes of values which it takes without a complaint.
fn objects(values: &Value) -> Vec<Value> {
    let (_, done) = helm(std::slice::from_ref(values));
    let done = &done[0];
    let complaints = done["lint"]["messages"].as_array();
    let complaints = complaints.into_iter().flatten();
    // 2 is a warning.
    let complaints: Vec<_> = complaints
        .filter(|said| said["severity"].as_i64() >= Some(2))
        .collect();
    assert!(complaints.is_empty(), "{complaints:?}");
    let objects = done["objects"].as_array();
    objects.unwrap_or_else(|| panic!("{done}")).clone()
}

/// All that can be said.
fn everything() -> Value {
    let secret = |name: &str| json!({ "secretName": name });
    json!({
        "image": { "digest": format!("sha256:{}", "0".repeat(64)) },
        "imagePullSecrets": [{ "name": "registry" }],
        "config": "rollout = \"5%\"\n[limits]\nspool = \"1GiB\"\n[[rule]]\nwatch = true\ncgroup = \"*kubepods*\"\n",
        "tolerations": [{ "operator": "Exists" }],
        "priorityClassName": "low",
        "podAnnotations": { "a": "b" },
        "podLabels": { "c": "d" },
        "serviceAccountName": "races",
        "daemon": { "extraArgs": ["--log", "json"], "seLinuxOptions": { "type": "spc_t" }, "machineId": "" },
        "agent": {
            "token": secret("token"), "ca": secret("ca"), "certificate": secret("agent"), "outboxDir": "", "extraArgs": ["-v"], "seLinuxOptions": { "type": "agent_t" },
            "otlp": {
                "endpoint": "http://otel.example.org:4318/below", "insecure": true, "interval": "30s", "headers": secret("otlp"), "ca": secret("otlp-ca"),
                "certificate": secret("otlp-agent"),
            },
            "metrics": { "port": 9464, "address": "[::]", "from": [{ "namespaceSelector": { "matchLabels": { "g": "h" } } }] },
        },
        "collector": {
            "enabled": true, "tag": "next", "replicas": 2, "store": secret("database"), "password": secret("database"), "databaseCa": secret("database"),
            "tokens": secret("tokens"), "tls": secret("tls"), "clientCa": secret("ca"), "serviceAnnotations": { "e": "f" },
            "extraArgs": ["--queue", "256"], "priorityClassName": "usual", "startupSeconds": 7201, "keepDays": "120d",
        },
    })
}

/// Values that make sense, from the least to all that there are.
fn cases() -> [Value; 5] {
    [
        json!({}),
        json!({ "agent": { "otlp": { "endpoint": "https://otel.example.org:4318" }, "metrics": { "port": 9464 } } }),
        json!({ "agent": { "collector": "https://races.example.org:7174", "token": { "secretName": "token" } } }),
        json!({
            "agent": { "insecure": true },
            "collector": { "enabled": true, "insecure": true, "store": { "secretName": "database" }, "tokens": { "secretName": "tokens" } },
        }),
        everything(),
    ]
}

fn only<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    let mut all = objects.iter().filter(|object| object["kind"] == kind);
    let one = all.next().unwrap_or_else(|| panic!("no {kind}"));
    assert!(all.next().is_none());
    one
}

fn spec(object: &Value) -> &Value {
    &object["spec"]["template"]["spec"]
}

fn containers<'a>(object: &'a Value, kind: &str) -> Vec<&'a Value> {
    let containers = spec(object)[kind].as_array();
    containers.into_iter().flatten().collect()
}

fn texts(value: &Value) -> Vec<&str> {
    let all = value.as_array().into_iter().flatten();
    all.map(|text| text.as_str().unwrap()).collect()
}

/// Kubernetes' schema of a kind of objects, in its strict form: what it does not know is wrong.
fn schema(object: &Value) -> jsonschema::Validator {
    static DEFINITIONS: LazyLock<Value> = LazyLock::new(|| {
        let folder = "kubernetes_validate/kubernetes-json-schema/v1.37.0-local-strict";
        let file = tools().join(folder).join("_definitions.json");
        serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
    });
    let version = object["apiVersion"].as_str().unwrap();
    let group = match version {
        "v1" => "core.v1",
        "apps/v1" => "apps.v1",
        "networking.k8s.io/v1" => "networking.v1",
        other => panic!("{other}"),
    };
    let kind = object["kind"].as_str().unwrap();
    let name = format!("io.k8s.api.{group}.{kind}");
    assert!(DEFINITIONS["$defs"].get(&name).is_some(), "{name}");
    let schema = json!({ "$ref": format!("#/$defs/{name}"), "$defs": DEFINITIONS["$defs"] });
    jsonschema::validator_for(&schema).unwrap()
}

/// Check that every object is one by Kubernetes' schemas, whatever is said, and that these would find a word that is none; that gwp-race takes the configuration and the arguments of each container.
#[test]
fn all_is_what_kubernetes_and_gwp_race_take() {
    let scratch = tempfile::tempdir().unwrap();
    let config = scratch.path().join("fleet.toml");
    let mut kinds = BTreeSet::new();
    for values in cases() {
        for object in objects(&values) {
            let schema = schema(&object);
            let errors: Vec<_> = schema.iter_errors(&object).collect();
            assert!(errors.is_empty(), "{object}: {errors:?}");
            let mut wrong = object.clone();
            wrong["metadata"]["lables"] = json!({});
            assert!(!schema.is_valid(&wrong), "{object}");
            kinds.insert(object["kind"].as_str().unwrap().to_owned());
            if let Some(text) = object["data"]["fleet.toml"].as_str() {
                fs::write(&config, text).unwrap();
                let mut check = Command::new(gwp_race());
                check.args(["fleet", "--check", "--config"]).arg(&config);
                let output = check.output().unwrap();
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{text}: {said}");
            }
            let all = containers(&object, "containers");
            for container in all.into_iter().chain(containers(&object, "initContainers")) {
                let args = texts(&container["args"]).into_iter();
                let args = args.map(|arg| arg.replace("$(STORE)", "postgres://app@db/races"));
                let mut help = Command::new(gwp_race());
                let output = help.args(args).arg("--help").output().unwrap();
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{container}: {said}");
            }
        }
    }
    let wanted = [
        "ConfigMap",
        "DaemonSet",
        "Deployment",
        "NetworkPolicy",
        "Service",
    ];
    assert_eq!(kinds, wanted.map(str::to_owned).into());
}

/// Check what is so of each container.
fn is_confined(container: &Value) {
    let security = &container["securityContext"];
    assert_eq!(security["privileged"], false);
    assert_eq!(security["allowPrivilegeEscalation"], false);
    assert_eq!(security["readOnlyRootFilesystem"], true);
    assert_eq!(security["capabilities"]["drop"], json!(["ALL"]));
    assert_eq!(security["seccompProfile"]["type"], "RuntimeDefault");
    let limits = &container["resources"]["limits"];
    assert!(limits["memory"].is_string() && limits["cpu"].is_null());
}

/// Check that the daemon has the rights of systemd's unit and no others, also where nothing is said, and that all other containers have none; that nobody's processor is limited, and that the file that tells the daemon what to do is
/// in no folder that others may write to.
#[test]
fn rights_are_those_of_the_unit() {
    let [unit, agents_unit] = ["fleet", "agent"].map(|name| {
        let unit = format!("sanitizer/debian/gwp-race-{name}.service");
        fs::read_to_string(root().join(unit)).unwrap()
    });
    let wanted = unit
        .lines()
        .find_map(|line| line.strip_prefix("CapabilityBoundingSet="));
    let wanted = wanted.unwrap().split(' ');
    let wanted: BTreeSet<_> = wanted
        .map(|name| name.strip_prefix("CAP_").unwrap())
        .collect();
    assert_eq!(wanted.len(), 9);
    for values in &cases() {
        let objects = objects(values);
        let set = only(&objects, "DaemonSet");
        let pod = spec(set);
        assert_eq!(pod["hostPID"], true);
        for forbidden in ["hostNetwork", "hostIPC", "shareProcessNamespace"] {
            assert_eq!(pod[forbidden], Value::Null, "{forbidden}");
        }
        assert_eq!(pod["automountServiceAccountToken"], false);
        let [daemon] = containers(set, "containers")[..] else {
            panic!("{pod}");
        };
        let has = texts(&daemon["securityContext"]["capabilities"]["add"]);
        assert_eq!(has.into_iter().collect::<BTreeSet<_>>(), wanted);
        is_confined(daemon);
        // The usual values have no agent, and the daemon alone.
        if *values == json!({}) {
            assert!(containers(set, "initContainers").is_empty(), "{pod}");
            assert!(pod["securityContext"].is_null(), "{pod}");
            continue;
        }
        // The folder of the outbox is made the agent's, wherever it is; then the agent begins, before the daemon, and it ends after that: as long as the daemon may take in the unit, and its own time.
        let [outbox, agent] = containers(set, "initContainers")[..] else {
            panic!("{pod}");
        };
        assert_eq!(agent["restartPolicy"], "Always");
        assert_eq!(outbox["restartPolicy"], Value::Null);
        let stop = |unit: &str| {
            let mut lines = unit.lines();
            let time = lines.find_map(|line| line.strip_prefix("TimeoutStopSec="));
            time.unwrap().parse::<i64>().unwrap()
        };
        let grace = pod["terminationGracePeriodSeconds"].as_i64().unwrap();
        assert!(grace >= stop(&unit) + stop(&agents_unit), "{grace}");
        let collector = objects.iter().find(|object| object["kind"] == "Deployment");
        let collectors = collector.map_or(Vec::new(), |it| containers(it, "containers"));
        let collectors = collectors.into_iter();
        let mut without: Vec<_> = collectors.map(|it| (it, COLLECTOR, COLLECTOR)).collect();
        without.push((agent, AGENT, AGENTS_GROUP));
        // Files of Secrets are for the group of their pod alone, and the agent's is the way by which the daemon comes to its socket.
        let group = |object: &Value| spec(object)["securityContext"]["fsGroup"].clone();
        assert_eq!(group(set), AGENTS_GROUP);
        assert!(collector.is_none_or(|it| group(it) == COLLECTOR));
        for object in &objects {
            let volumes = spec(object)["volumes"].as_array();
            for volume in volumes.into_iter().flatten() {
                let mode = &volume["secret"]["defaultMode"];
                assert!(volume["secret"].is_null() || *mode == 0o440, "{volume}");
            }
        }
        for (container, user, group) in without {
            is_confined(container);
            let security = &container["securityContext"];
            assert!(security["capabilities"]["add"].is_null());
            assert_eq!(security["runAsNonRoot"], true);
            assert_eq!(
                (&security["runAsUser"], &security["runAsGroup"]),
                (&json!(user), &json!(group))
            );
        }
        let has = &outbox["securityContext"]["capabilities"]["add"];
        assert_eq!(*has, json!(["CHOWN"]));
        assert_eq!(
            texts(&outbox["args"]).last(),
            Some(&&*AGENT.to_string()),
            "{outbox}"
        );
        let mounts = |container: &Value| container["volumeMounts"].as_array().unwrap().clone();
        let named = |container: &Value, name: &str| {
            let mounts = mounts(container).into_iter();
            mounts
                .filter(|mount| mount["name"] == name)
                .collect::<Vec<_>>()
        };
        for container in [daemon, agent] {
            let config = &named(container, "config")[0];
            assert_eq!(config["mountPath"], "/etc/gwp-race/fleet.toml");
            assert_eq!(config["subPath"], "fleet.toml");
            let socket = &named(container, "agent")[0];
            assert_eq!(socket["mountPath"], "/run/gwp-race-agent");
        }
        // The agent gets nothing of the daemon's, nor the daemon anything secret.
        for (container, others) in [
            (agent, &["state", "run", "machine-id"][..]),
            (
                daemon,
                &[
                    "outbox",
                    "token",
                    "ca",
                    "certificate",
                    "otlp-headers",
                    "otlp-ca",
                    "otlp-certificate",
                ],
            ),
        ] {
            for name in others {
                assert!(named(container, name).is_empty(), "{name}");
            }
        }
        let volumes = pod["volumes"].as_array().unwrap();
        let kept = volumes.iter().find(|volume| volume["name"] == "state");
        assert_eq!(kept.unwrap()["hostPath"]["path"], "/var/lib/gwp-race");
        let socket = volumes.iter().find(|volume| volume["name"] == "agent");
        assert!(socket.unwrap()["emptyDir"].is_object());
        let kept = volumes.iter().find(|volume| volume["name"] == "outbox");
        let is_in_pod = values["agent"]["outboxDir"] == "";
        assert_eq!(kept.unwrap()["emptyDir"].is_object(), is_in_pod);
        for container in [outbox, agent] {
            let label = &container["securityContext"]["seLinuxOptions"];
            assert_eq!(*label, values["agent"]["seLinuxOptions"], "{container}");
        }
    }
}

/// Check that what would be dangerous or cannot work is refused with the value to mend.
#[test]
fn wrong_values_are_refused() {
    let secret = json!({ "secretName": "x" });
    let (values, whys): (Vec<_>, Vec<_>) = [
        (json!({ "daemon": { "resources": { "limits": { "cpu": "1" } } } }), "cpu"),
        (json!({ "deamon": {} }), "deamon"),
        (json!({ "agent": { "user": 0 } }), "user"),
        (json!({ "agent": { "metrics": { "port": 80 } } }), "port"),
        (json!({ "agent": { "metrics": { "port": 9464 } } }), "agent.metrics.port: there is no agent"),
        (json!({ "agent": { "otlp": { "endpoint": "otel.example.org" } } }), "endpoint"),
        (json!({ "agent": { "otlp": { "interval": "often" } } }), "interval"),
        (json!({ "agent": { "otlp": { "interval": "0s" } } }), "interval"),
        (json!({ "agent": { "otlp": { "interval": "500ms" } } }), "interval"),
        (json!({ "agent": { "otlp": { "interval": "48h" } } }), "interval"),
        (json!({ "agent": { "otlp": { "endpoint": "http://otel.example.org:4318" } } }), "agent.otlp.insecure"),
        (json!({ "terminationGracePeriodSeconds": 5 }), "terminationGracePeriodSeconds"),
        (
            json!({ "collector": { "enabled": true, "user": AGENT, "insecure": true, "store": secret, "tokens": secret } }),
            "collector.user",
        ),
        (json!({ "agent": { "collector": "races.example.org" } }), "collector"),
        (json!({ "daemon": { "stateDir": "races" } }), "stateDir"),
        (json!({ "config": "[export]\nstore = \"sqlite:/x\"" }), "leave [export]"),
        (json!({ "config": "[ agent ]\n" }), "leave [export]"),
        (json!({ "collector": { "keepDays": "59d" } }), "keepDays"),
        (json!({ "collector": { "keepDays": "8w" } }), "keepDays"),
        (json!({ "collector": { "enabled": true } }), "collector.store.secretName"),
        (json!({ "collector": { "enabled": true, "store": secret } }), "collector.tokens.secretName"),
        (json!({ "collector": { "enabled": true, "store": secret, "tokens": secret } }), "collector.tls.secretName"),
        (
            json!({ "collector": { "enabled": true, "insecure": true, "store": secret, "clientCa": secret } }),
            "collector.clientCa",
        ),
    ]
    .into_iter()
    .unzip();
    let (_, done) = helm(&values);
    for ((values, why), done) in values.iter().zip(whys).zip(&done) {
        let refused = done["refused"].as_str();
        let refused = refused.unwrap_or_else(|| panic!("{values}: {done}"));
        assert!(refused.contains(why), "{values}: {refused}");
    }
}

/// What a table of the configuration says: the chart writes texts and truths, which are as in JSON.
fn table(toml: &str, name: &str) -> BTreeMap<String, Value> {
    let lines = toml.lines().skip_while(|line| *line != format!("[{name}]"));
    let lines = lines.skip(1).take_while(|line| !line.starts_with('['));
    let keys = lines.filter_map(|line| {
        let (key, value) = line.split_once(" = ")?;
        Some((key.to_owned(), serde_json::from_str(value).unwrap()))
    });
    keys.collect()
}

/// Check that figures are told to whom the values name: the page has an address that Prometheus is told and let to, a collector of OpenTelemetry is sent them with the headers of a Secret, and each port that is sent to is let out.
#[test]
fn figures_are_told() {
    let [_, only_otlp, .., everything] = &cases();
    let both = [only_otlp, everything].map(objects);
    let [least, all] = both.each_ref().map(|objects| {
        let toml = only(objects, "ConfigMap")["data"]["fleet.toml"].as_str();
        let toml = toml.unwrap();
        (table(toml, "agent"), table(toml, "agent.otlp"), &**objects)
    });
    let (agent, otlp, objects) = least;
    assert!(!agent.contains_key("collector"), "{agent:?}");
    assert_eq!(agent["metrics"], "0.0.0.0:9464");
    assert_eq!(otlp["endpoint"], "https://otel.example.org:4318");
    assert_eq!(otlp.keys().collect::<Vec<_>>(), ["endpoint", "interval"]);
    let policy = &only(objects, "NetworkPolicy")["spec"];
    assert_eq!(
        policy["ingress"],
        json!([{ "ports": [{ "port": 9464, "protocol": "TCP" }] }])
    );
    let ports = |policy: &Value| {
        let ports = policy["egress"][0]["ports"].as_array().unwrap().clone();
        ports
            .into_iter()
            .map(|port| port["port"].as_i64().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(ports(policy), [53, 53, 4318]);
    let pod = &only(objects, "DaemonSet")["spec"]["template"];
    let annotations = &pod["metadata"]["annotations"];
    for (key, value) in [("scrape", "true"), ("port", "9464"), ("path", "/metrics")] {
        assert_eq!(
            annotations[format!("prometheus.io/{key}")],
            value,
            "{annotations}"
        );
    }

    let (agent, otlp, objects) = all;
    assert_eq!(agent["metrics"], "[::]:9464");
    let set = only(objects, "DaemonSet");
    let container = containers(set, "initContainers")[1];
    let volumes = spec(set)["volumes"].as_array().unwrap();
    // Each file that the configuration names is one of the Secret that the values name.
    for (file, secret) in [
        (&agent["token"], "token"),
        (&agent["key"], "agent"),
        (&otlp["headers"], "otlp"),
        (&otlp["ca"], "otlp-ca"),
        (&otlp["key"], "otlp-agent"),
    ] {
        let (folder, _) = file.as_str().unwrap().rsplit_once('/').unwrap();
        let mut mounts = container["volumeMounts"].as_array().unwrap().iter();
        let mount = mounts.find(|mount| mount["mountPath"] == folder).unwrap();
        let volume = volumes
            .iter()
            .find(|volume| volume["name"] == mount["name"]);
        assert_eq!(volume.unwrap()["secret"]["secretName"], secret);
    }
    assert_eq!(otlp["insecure"], true);
    let policies: Vec<_> = objects
        .iter()
        .filter(|object| object["kind"] == "NetworkPolicy")
        .collect();
    let policy = &policies[0]["spec"];
    assert_eq!(ports(policy), [53, 53, 7174, 4318]);
    assert_eq!(
        policy["ingress"][0]["from"][0]["namespaceSelector"]["matchLabels"]["g"],
        "h"
    );
}

/// Check that a collector may take as long as the values say until it listens, and that nothing ends it before that.
#[test]
fn migrations_have_their_time() {
    for (seconds, bound) in [(None, 3600), (Some(30), 30), (Some(7201), 7205)] {
        let mut values = cases()[3].clone();
        if let Some(seconds) = seconds {
            values["collector"]["startupSeconds"] = json!(seconds);
        }
        let objects = objects(&values);
        let deployment = only(&objects, "Deployment");
        let [container] = containers(deployment, "containers")[..] else {
            panic!("{deployment}");
        };
        let probe = &container["startupProbe"];
        let number = |key: &str| probe[key].as_i64().unwrap();
        assert_eq!(number("periodSeconds") * number("failureThreshold"), bound);
        assert_eq!(probe["tcpSocket"], container["livenessProbe"]["tcpSocket"]);
        let patience = deployment["spec"]["progressDeadlineSeconds"].as_i64();
        assert!(patience > Some(bound), "{deployment}");
    }
}

/// Check that a collector is told for how long days are kept where the values say so, and nothing where they do not: one of before would not know what it is told.
#[test]
fn days_are_kept_as_values_say() {
    for (days, wanted) in [("", None), ("120d", Some("--keep-days=120d"))] {
        let mut values = cases()[3].clone();
        values["collector"]["keepDays"] = json!(days);
        let objects = objects(&values);
        let deployment = only(&objects, "Deployment");
        let [container] = containers(deployment, "containers")[..] else {
            panic!("{deployment}");
        };
        let args = container["args"].as_array().unwrap().iter();
        let found = args
            .filter_map(Value::as_str)
            .find(|arg| arg.starts_with("--keep-days"));
        assert_eq!(found, wanted);
    }
}

/// The names of values, each with its default, as far as the schema says what is in them.
fn leaves(values: &Value, schema: &Value, above: &str, all: &mut Vec<(String, Value)>) {
    let properties = schema["properties"].as_object().unwrap();
    let values = values.as_object().unwrap();
    let known: BTreeSet<_> = properties.keys().filter(|name| *name != "global").collect();
    assert_eq!(values.keys().collect::<BTreeSet<_>>(), known, "{above}");
    for (name, value) in values {
        let schema = &properties[name];
        let name = format!("{above}{name}");
        let is_closed = schema["properties"].is_object() && !name.ends_with("resources");
        if is_closed {
            leaves(value, schema, &format!("{name}."), all);
        } else {
            all.push((name, value.clone()));
        }
    }
}

/// Check that each value is in the schema and in the documentation's table, there with its default, and that the table has no others.
#[test]
fn values_are_documented() {
    let (values, _) = helm(&[]);
    let schema = fs::read(chart().join("values.schema.json")).unwrap();
    let schema: Value = serde_json::from_slice(&schema).unwrap();
    let mut all = Vec::new();
    leaves(&values, &schema, "", &mut all);
    assert!(all.len() > 40, "{all:?}");
    let page = fs::read_to_string(root().join("docs/kubernetes.md")).unwrap();
    let (_, section) = page.split_once("\n## Values\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
        Some((name.to_owned(), rest.split_once(" | ")?.0.to_owned()))
    });
    let rows: BTreeMap<_, _> = rows.collect();
    let wanted = all.into_iter().map(|(name, value)| {
        let default = match value {
            Value::String(text) if text.contains('\n') => "in the file".to_owned(),
            Value::Object(all) if all.len() > 1 => "in the file".to_owned(),
            value => format!("`{value}`"),
        };
        (name, default)
    });
    assert_eq!(rows, wanted.collect::<BTreeMap<_, _>>());
}
