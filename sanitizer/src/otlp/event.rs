//! A race as an event: a record of a log that has a name.

use std::time::UNIX_EPOCH;

use serde_json::{Value, json};

use super::value::{Attributes, nanoseconds, resource, scope, shown};
use crate::{
    report::{Access, StackFrame, own_frame, sentence, variable_of},
    store::Caught,
    tracee::container::pod,
};

/// What the event is called.
pub const EVENT: &str = "gwp_race.race";
/// `SEVERITY_NUMBER_WARN` of `opentelemetry/proto/logs/v1/logs.proto`.
const WARNING: u8 = 13;

/// The event that a race was caught, as a part of [`events`]. `uid`: whoever hears of it twice knows it by that. `observed`: when the agent heard of it, milliseconds since 1970.
#[must_use]
pub fn event(caught: &Caught, uid: &str, observed: i64) -> String {
    let (race, place) = (&caught.race, &caught.place);
    let resource = resource(&place.host)
        .text("container.id", &place.container)
        .text("k8s.pod.uid", &pod(&place.cgroup).unwrap_or_default())
        .text("process.executable.path", &race.exe)
        .text(
            "process.executable.build_id.gnu",
            race.build_id.as_deref().unwrap_or_default(),
        );
    let [stalled, racing] = race.accesses.each_ref().map(code);
    let verdict = serde_json::to_value(race.verdict).unwrap_or_default();
    let attributes = Attributes::default()
        .text("log.record.uid", uid)
        .text("gwp_race.race.id", &race.identity.race)
        .text("gwp_race.issue.id", &race.identity.issue)
        .text(
            "gwp_race.pair.id",
            race.identity.pair.as_deref().unwrap_or_default(),
        )
        .text("gwp_race.verdict", verdict.as_str().unwrap_or_default())
        .text("gwp_race.variable", &variable_of(race))
        .number("process.pid", Some(race.pid.into()))
        .number("thread.id", Some(race.stalled().tid.into()))
        .text("thread.name", &race.stalled().thread_name);
    let attributes = place_of(attributes, "", stalled);
    let attributes = place_of(attributes, "gwp_race.racing.", racing);
    let record = json!({
        "timeUnixNano": time(&race.time).unwrap_or_else(|| nanoseconds(observed)),
        "observedTimeUnixNano": nanoseconds(observed),
        "severityNumber": WARNING,
        "severityText": "WARN",
        "eventName": EVENT,
        "body": { "stringValue": shown(&sentence(race)) },
        "attributes": attributes.json(),
    });
    let logs = json!({
        "resource": { "attributes": resource.json() },
        "scopeLogs": [{ "scope": scope(), "logRecords": [record] }],
    });
    logs.to_string()
}

/// A request with such events.
#[must_use]
pub fn events(events: &[String]) -> String {
    format!("{{\"resourceLogs\":[{}]}}", events.join(","))
}

/// Where a programmer would look.
fn code(access: &Access) -> Option<&StackFrame> {
    access.stack.get(own_frame(access)?)
}

fn place_of(attributes: Attributes, prefix: &str, frame: Option<&StackFrame>) -> Attributes {
    let Some(frame) = frame else {
        return attributes;
    };
    let name = |name: &str| format!("{prefix}code.{name}");
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    attributes
        .text(&name("function.name"), &text(&frame.function))
        .text(&name("file.path"), &text(&frame.file))
        .number(&name("line.number"), frame.line.map(u64::from))
}

/// A time by RFC 3339 in nanoseconds since 1970.
fn time(text: &str) -> Option<String> {
    let time = humantime::parse_rfc3339(text).ok()?;
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    Some(since.as_nanos().to_string())
}

/// Whether a text is a part of a request. What was damaged would have the whole request refused.
#[must_use]
pub fn is_event(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok_and(|value| value.is_object())
}
