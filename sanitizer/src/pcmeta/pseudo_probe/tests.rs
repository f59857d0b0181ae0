//! Probes with inlining of any depth, written here and read back, and bytes that no compiler
//! would write.

use proptest::prelude::*;

use super::*;
use crate::image::Encoding;
use crate::pcmeta::testing::{put_sleb128, put_uleb128};

#[derive(Clone, Debug)]
struct Written {
    /// Where it was inlined; without meaning for a function by itself.
    site: u32,
    number: u64,
    probes: Vec<(u32, u8, i32, u32)>,
    inlined: Vec<Written>,
}

type Expected = (PseudoProbe, Vec<InlineSite>);

impl Written {
    fn write(
        &self,
        out: &mut Vec<u8>,
        sites: &[InlineSite],
        address: &mut Option<LinkAddr>,
        expected: &mut Vec<Expected>,
    ) {
        out.extend(self.number.to_le_bytes());
        put_uleb128(out, self.probes.len() as u64);
        put_uleb128(out, self.inlined.len() as u64);
        for &(index, kind, distance, discriminator) in &self.probes {
            put_uleb128(out, index.into());
            let attributes = if discriminator > 0 {
                HAS_DISCRIMINATOR
            } else {
                0
            };
            out.push(IS_DISTANCE | attributes << 4 | kind);
            put_sleb128(out, distance.into());
            if discriminator > 0 {
                put_uleb128(out, discriminator.into());
            }
            *address = address.map(|address| address.offset(distance.into()));
            let probe = PseudoProbe {
                address: *address,
                function: self.number,
                index,
                kind: [
                    ProbeKind::Block,
                    ProbeKind::IndirectCall,
                    ProbeKind::DirectCall,
                ][usize::from(kind)],
                discriminator,
            };
            expected.push((probe, sites.to_vec()));
        }
        for inlined in &self.inlined {
            put_uleb128(out, inlined.site.into());
            let site = InlineSite {
                caller: self.number,
                index: inlined.site,
            };
            let sites = [sites, &[site]].concat();
            inlined.write(out, &sites, address, expected);
        }
    }
}

fn function() -> impl Strategy<Value = Written> {
    let probe = (
        any::<u32>(),
        0u8..3,
        any::<i32>(),
        prop_oneof![Just(0), 1u32..300],
    );
    let probes = || prop::collection::vec(probe.clone(), 0..4);
    let leaf = (any::<u32>(), any::<u64>(), probes()).prop_map(|(site, number, probes)| Written {
        site,
        number,
        probes,
        inlined: Vec::new(),
    });
    leaf.prop_recursive(4, 20, 3, move |inner| {
        let probe = (any::<u32>(), 0u8..3, any::<i32>(), Just(0u32));
        let probes = prop::collection::vec(probe, 0..3);
        (
            any::<u32>(),
            any::<u64>(),
            probes,
            prop::collection::vec(inner, 0..4),
        )
            .prop_map(|(site, number, probes, inlined)| Written {
                site,
                number,
                probes,
                inlined,
            })
    })
}

fn decode(
    data: &[u8],
    starts: &HashMap<u64, LinkAddr>,
) -> Result<(usize, Vec<Expected>), TableError> {
    let section = RawSection {
        name: PROBES,
        address: LinkAddr(0),
        data,
        encoding: Encoding::default(),
    };
    let mut found = Vec::new();
    let count = PseudoProbes::decode(&section, starts, Path::new("the-file"), |probe, sites| {
        found.push((*probe, sites.to_vec()));
    })?;
    Ok((count, found))
}

proptest! {
    /// Check that probes are read as they were written, with their inlining; with addresses where the
    /// function is known, without where it is not.
    #[test]
    fn what_is_written_is_read_back(functions in prop::collection::vec((function(), any::<bool>()), 0..4)) {
        let mut starts = HashMap::new();
        for (place, (function, is_known)) in functions.iter().enumerate() {
            if *is_known {
                starts.entry(function.number).or_insert(LinkAddr(0x1000 * (place as u64 + 1)));
            }
        }
        let (mut bytes, mut expected) = (Vec::new(), Vec::new());
        for (function, _) in &functions {
            let mut address = starts.get(&function.number).copied();
            function.write(&mut bytes, &[], &mut address, &mut expected);
        }
        let (count, found) = decode(&bytes, &starts).unwrap();
        prop_assert_eq!(count, functions.len());
        prop_assert_eq!(found, expected);
    }

    /// Check that any bytes give probes or an error with its place.
    #[test]
    fn any_bytes_give_probes_or_an_error(
        functions in prop::collection::vec(function(), 0..3),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = Vec::new();
        for function in &functions {
            function.write(&mut bytes, &[], &mut None, &mut Vec::new());
        }
        bytes.push(0);
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        match decode(&bytes, &HashMap::new()) {
            Ok((_, found)) => prop_assert!(found.len() * PROBE_SIZE <= bytes.len()),
            Err(error) => {
                let message = error.to_string();
                prop_assert!(message.contains("section .pseudo_probe at offset 0x"), "{}", message);
            }
        }
    }
}

/// Check the forms that compilers of today do not write: whole addresses, after which functions do
/// not start anew, and a sentinel for a part of a function elsewhere.
#[test]
fn whole_addresses_and_sentinels() {
    let number = |number: u64| number.to_le_bytes();
    let head = |function: u64, probes: u8| [&number(function)[..], &[probes, 0]].concat();
    let starts = HashMap::from([(7, LinkAddr(0x7000)), (8, LinkAddr(0x8000))]);
    let addresses = |bytes: Vec<u8>| -> Vec<Option<u64>> {
        let (_, found) = decode(&bytes, &starts).unwrap();
        (found.iter())
            .map(|(probe, _)| probe.address.map(|address| address.0))
            .collect()
    };
    let whole = [
        head(7, 2),
        [&[1, 0][..], &number(0x1234), &[2, 0x80, 4]].concat(),
        head(8, 1),
        vec![1, 0x80, 8],
    ];
    assert_eq!(
        addresses(whole.concat()),
        [Some(0x1234), Some(0x1238), Some(0x1240)]
    );
    let sentinel = [
        head(7, 2),
        [&[0, SENTINEL << 4][..], &number(8), &[2, 0x80, 4]].concat(),
        head(9, 1),
        vec![1, 0x80, 8],
    ];
    assert_eq!(addresses(sentinel.concat()), [Some(0x8004), None]);
}

/// Check that inlining of a depth that only an attacker would write is read, and takes no stack.
#[test]
fn inlining_of_any_depth() {
    let depth = 200_000;
    let mut bytes = Vec::new();
    for level in 0..depth {
        if level > 0 {
            bytes.push(1);
        }
        bytes.extend(7u64.to_le_bytes());
        bytes.extend([0, u8::from(level + 1 < depth)]);
    }
    assert_eq!(decode(&bytes, &HashMap::new()).unwrap(), (1, Vec::new()));
}

/// Check the examples of RFC 1321, A.5, as far as eight bytes go.
#[test]
fn examples_of_the_standard() {
    for (text, digest) in [
        ("", 0xd41d_8cd9_8f00_b204u64),
        ("a", 0x0cc1_75b9_c0f1_b6a8),
        ("abc", 0x9001_5098_3cd2_4fb0),
        ("message digest", 0xf96b_697d_7cb7_938d),
        ("abcdefghijklmnopqrstuvwxyz", 0xc3fc_d3d7_6192_e400),
        (
            "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
            0x57ed_f4a2_2be3_c955,
        ),
    ] {
        assert_eq!(
            function_guid(text.as_bytes()).swap_bytes(),
            digest,
            "{text}"
        );
    }
}
