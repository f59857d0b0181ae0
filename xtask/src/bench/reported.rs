//! What was reported: the functions of each pair, as gwp-race's JSON names them.

use serde_json::Value;

/// The races in a report, in its order.
pub fn races(report: &str) -> impl Iterator<Item = Value> {
    let lines = report.lines();
    let objects = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    objects.filter(|object| object["type"] == "race")
}

/// The pairs of functions in a report, in its order.
pub fn reported(report: &str) -> Vec<[String; 2]> {
    races(report).map(|race| pair(&race)).collect()
}

/// The pair of functions of a race.
pub fn pair(race: &Value) -> [String; 2] {
    [0, 1].map(|index| function(&race["accesses"][index]))
}

/// The last part of the name of an access's innermost function: `increments::add(unsigned)` is `add`.
fn function(access: &Value) -> String {
    let name = access["stack"][0]["function"].as_str().unwrap_or("?");
    let name = name.split(['(', '.']).next().unwrap_or(name);
    name.rsplit("::").next().unwrap_or(name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check names of C, C++ and Rust, lines that are no race, and one that was cut off.
    #[test]
    fn pairs() {
        let side = |name: &str| format!("{{\"stack\":[{{\"function\":\"{name}\"}}]}}");
        let race = |one: &str, other: &str| {
            let (one, other) = (side(one), side(other));
            format!("{{\"type\":\"race\",\"accesses\":[{one},{other}]}}\n")
        };
        let text = race("shop::Basket::add(unsigned int)", "add.llvm.12")
            + &race("increments::increment", "main")
            + "{\"type\":\"summary\"}\n{\"type\":\"race\",";
        assert_eq!(
            reported(&text),
            [["add", "add"], ["increment", "main"]].map(|pair| pair.map(str::to_owned))
        );
    }
}
