//! Files of hints, as collectors make them, and as nobody but an attacker does.

use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::*;
use crate::learned::{KnownFunction, Module, Raced};

fn function(at: u64) -> KnownFunction {
    KnownFunction {
        at,
        fingerprint: u64::MAX - at,
        sites: vec![(4, vec![(0, 3.0), (2, 0.25)])],
        raced: vec![Raced {
            at: 4,
            with: (u64::MAX, 8),
        }],
    }
}

fn file(functions: Vec<KnownFunction>) -> HintFile {
    let [name, build] = ["app", "aa11"].map(str::to_owned);
    HintFile {
        module: Module { name, build },
        functions,
    }
}

/// Check that what was written is read, that a file has a megabyte at most, and the first functions of those that have more.
#[test]
fn what_was_written_is_read() {
    for functions in [
        vec![],
        vec![function(16)],
        (0..1000).map(function).collect(),
    ] {
        let file = file(functions);
        assert_eq!(HintFile::decode(&file.encode()).unwrap(), file);
    }
    let random = &mut fastrand::Rng::with_seed(1);
    let mut many: Vec<_> = (0..60_000).map(function).collect();
    for function in &mut many {
        function.fingerprint = random.u64(..);
    }
    let whole = file(many);
    let body = whole.encode();
    assert!(body.len() <= LONGEST, "{}", body.len());
    let read = HintFile::decode(&body).unwrap().functions;
    assert!(read.len() > 10_000 && whole.functions.starts_with(&read));
}

/// Check that the form stays what it is: other versions read it.
#[test]
fn the_form_stays() {
    let bytes = b"gwp-race hints 1\n\x03app\x04aa11\
        \x13\0\0\0\x10\x07\x01\x04\x02\0\0\0@@\x02\0\0\x80>\x01\x04\x07\x08\
        \x12\0\0\0 \x09\x02\0\x01\x01\0\0\xc0?\x08\x01\0\0\0\x80?\0";
    let first = KnownFunction {
        at: 16,
        fingerprint: 7,
        sites: vec![(4, vec![(0, 3.0), (2, 0.25)])],
        raced: vec![Raced {
            at: 4,
            with: (7, 8),
        }],
    };
    let second = KnownFunction {
        at: 32,
        fingerprint: 9,
        sites: vec![(0, vec![(1, 1.5)]), (8, vec![(0, 1.0)])],
        raced: Vec::new(),
    };
    let read = HintFile::of_bytes(bytes).unwrap();
    assert_eq!(read, file(vec![first, second]));
}

/// Check that what is no whole file, or has what cannot be, is refused.
#[test]
fn garbage_is_refused() {
    let packed = |bytes: &[u8]| compress_to_vec(bytes, CompressionLevel::Fastest);
    let body = file(vec![function(16), function(32)]).encode();
    for wrong in [
        b"".to_vec(),
        b"{}".to_vec(),
        vec![0xff; 100],
        body[..body.len() - 1].to_vec(),
        [&body[..], &body].concat(),
        packed(b""),
        packed(b"gwp-race hints 2\n\0\0"),
        packed(b"gwp-race hints 1\n"),
        packed(b"gwp-race hints 1\n\x03app\0"),
        packed(b"gwp-race hints 1\n\x03app\x02aa\xff\xff\xff\x7f"),
        packed(b"gwp-race hints 1\n\x03app\x02aa\x05\0\0\0"),
        packed(b"gwp-race hints 1\n\x03app\x02aa\x01"),
        packed(&vec![b' '; 64 << 20]),
        vec![0; LONGEST + 1],
    ] {
        assert!(HintFile::decode(&wrong).is_err(), "{wrong:?}");
    }
    let mut twice = file(vec![function(16), function(16)]);
    assert!(HintFile::decode(&twice.encode()).is_err());
    twice.functions.truncate(1);
    twice.functions[0].sites[0].1[0].1 = f32::NAN;
    assert!(HintFile::decode(&twice.encode()).is_err());
    twice.functions = vec![KnownFunction::default()];
    assert!(HintFile::decode(&twice.encode()).is_err());
    twice.functions.clear();
    assert!(HintFile::decode(&twice.encode()).is_ok());
    twice.module.name = "../app".to_owned();
    assert!(HintFile::decode(&twice.encode()).is_err());
}

/// Check that a file which was changed anywhere is refused, or is one: nothing else comes of it.
#[test]
fn changed_files_are_no_crash() {
    let bytes: Vec<u8> = {
        let body = file((0..50).map(function).collect()).encode();
        let mut unpacked = Vec::new();
        let mut frame = ruzstd::decoding::StreamingDecoder::new(&body[..]).unwrap();
        std::io::Read::read_to_end(&mut frame, &mut unpacked).unwrap();
        unpacked
    };
    let mut random = fastrand::Rng::with_seed(7);
    let mut read = 0;
    for _ in 0..2000 {
        let mut changed = bytes.clone();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(..changed.len());
            changed[at] = random.u8(..);
        }
        if let Ok(file) = HintFile::of_bytes(&changed) {
            read += 1;
            assert!(file.functions.iter().all(KnownFunction::is_sound));
        }
    }
    println!("{read} of 2000 are files");
    assert!(read > 0 && read < 2000);
}
