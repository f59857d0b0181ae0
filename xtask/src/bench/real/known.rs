//! How soon gwp-race knows which access sites use what others use as well, read off a decision log as `gwp-race decisions` prints it.

use std::collections::BTreeMap;

/// What stands between the words of a line and the sites that others were seen to use the same bytes from.
const OTHERS: [&str; 2] = [": used by ", ": caught "];
/// Where two threads came to use the same bytes one after the other, in a profile.
const MET: &str = " met at ";

/// The access sites of which it is known that another one uses the same bytes, and since when: seconds from the first decision.
pub fn contended(decisions: &str) -> BTreeMap<String, f64> {
    let mut known = BTreeMap::new();
    for line in decisions.lines() {
        let mut words = line.split_whitespace();
        let Some(after) = words.next().and_then(|after| after.parse().ok()) else {
            continue;
        };
        for site in in_line(line) {
            known.entry(site.to_owned()).or_insert(after);
        }
    }
    known
}

/// Those of one line: its own site and those of its partners.
fn in_line(line: &str) -> Vec<&str> {
    let mut sites = Vec::new();
    if let Some((own, others)) = OTHERS.iter().find_map(|words| line.split_once(words)) {
        let others: Vec<&str> = others.split(", ").filter_map(with_time).collect();
        if !others.is_empty() {
            // `looked at SITE for ...`, `held at SITE for ...`, `watched ADDRESS at SITE for ...`.
            let own = own.rsplit_once(" at ").map_or("", |(_, own)| own);
            sites.extend(own.split_whitespace().next());
            sites.extend(others);
        }
    }
    if line.contains(MET) {
        // `...; SITE and SITE met at ADDRESS, TIME apart, SITE and SITE met at ...`.
        let met = line
            .split([',', ';'])
            .filter_map(|part| part.split_once(MET));
        sites.extend(met.flat_map(|(both, _)| both.trim().split(" and ")));
    }
    sites.retain(|site| site.starts_with("0x"));
    sites
}

/// The site of `SITE after TIME`, as what was seen of others is told.
fn with_time(partner: &str) -> Option<&str> {
    partner.split_once(" after ").map(|(site, _)| site)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that both sides are known from looks, stalls and profiles, once and for the first time, and nobody who met none.
    #[test]
    fn who_is_known() {
        let log = "                7  begins: seed 1, the present priors (0000000000000001)\n\
            0.500000000  7  #1: looked at 0x10 for 1 ms: used by nobody\n\
            1.000000000  7  #2: looked at 0x10 for 1 ms: used by 0x20 after 0.5 ms, 0x30 after 0.7 ms\n\
            2.000000000  7  #3: held at 0x20 for 1 ms: nobody came\n\
            3.000000000  7  #4: held at 0x40 for 1 ms: caught 0x20 after 0.5 ms\n\
            4.000000000  7  #5: profiled 2 sites for 2 ms, for 0.1 ms: 3 came, to 2 of them; 0x50 and 0x60 met at 0x7f00, 1 ms apart, \
            0x50 and 0x70 met at 0x7f08, 2 ms apart\n\
            5.000000000  7  #6: watched 0x7f00 at 0x80 for 1 ms: used by 0x90 after 0.1 ms\n";
        let known = contended(log);
        let expected = [
            ("0x10", 1.0),
            ("0x20", 1.0),
            ("0x30", 1.0),
            ("0x40", 3.0),
            ("0x50", 4.0),
            ("0x60", 4.0),
            ("0x70", 4.0),
            ("0x80", 5.0),
            ("0x90", 5.0),
        ];
        assert_eq!(
            known,
            expected
                .map(|(site, after)| (site.to_owned(), after))
                .into()
        );
    }
}
