//! Messages in pieces, and nonsense in their place.

use super::*;

/// Check that a message survives being cut anywhere, and that nonsense is an error.
#[test]
fn frames_are_reassembled() {
    let frame = encode(&Notice::Warning("7".to_owned())).unwrap();
    let mut buffer = Vec::new();
    for &byte in &frame[..frame.len() - 1] {
        buffer.push(byte);
        assert!(decode::<Notice>(&mut buffer).unwrap().is_none());
    }
    buffer.push(frame[frame.len() - 1]);
    assert!(matches!(
        decode::<Notice>(&mut buffer),
        Ok(Some(Notice::Warning(text))) if text == "7"
    ));
    assert!(buffer.is_empty());
    buffer.extend_from_slice(&[0xff; 16]);
    assert!(decode::<Notice>(&mut buffer).is_err());
}

/// Check that however much there is to warn of, it fills no log.
#[test]
fn warnings_are_bounded() {
    use std::io::Read as _;
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let mut outbox = Outbox::new(ours);
    (0..100).for_each(|number| outbox.warn(number.to_string()));
    drop(outbox);
    let mut buffer = Vec::new();
    theirs.read_to_end(&mut buffer).unwrap();
    let mut notices = Vec::new();
    while let Some(notice) = decode::<Notice>(&mut buffer).unwrap() {
        notices.push(notice);
    }
    let warnings = notices.iter();
    let warnings = warnings.filter(|notice| matches!(notice, Notice::Warning(_)));
    assert_eq!(warnings.count(), Outbox::WARNINGS as usize);
    assert_eq!(notices.len(), 101);
}
