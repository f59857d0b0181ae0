//! What waits for somebody who is named no more.

use super::*;

/// Check that what waits for somebody who is named no more is let go when the outbox is opened for others, once, and counted by what it was; that whoever is named later is told of it as lost, finds the number of the message missing and hears
/// of a race as of a new one; and that what waits for somebody who is still named stays.
#[test]
fn who_is_named_no_more() {
    let (_folder, path) = scratch();
    let open = |messages, events| {
        let wants = Wants { messages, events };
        Outbox::open(&path, MUCH).unwrap().for_whom(wants)
    };
    let mut outbox = open(true, true);
    fill(&mut outbox, 1, vec![caught(&race("hits", 0))]);
    assert_eq!(outbox.message().unwrap().unwrap().sequence, 1);
    let batches = vec![
        caught(&race("hits", 1)),
        caught(&race("misses", 0)),
        counted("hits", 5, start()),
    ];
    fill(&mut outbox, 2, batches);
    assert_eq!(outbox.let_go().unwrap(), LetGo::default());
    let refused = outbox.events(1).unwrap().unwrap().last;
    outbox.events_refused(refused).unwrap();
    drop(outbox);

    let mut outbox = open(false, true);
    let gone = outbox.let_go().unwrap();
    let wanted = LetGo {
        items: 3,
        messages: 1,
        events: 0,
    };
    assert_eq!(gone, wanted);
    assert_eq!(outbox.let_go().unwrap(), LetGo::default());
    assert_eq!(outbox.message().unwrap(), None);
    let figures = outbox.figures().unwrap();
    let lost = [
        figures.lost_evidence,
        figures.lost_repeats,
        figures.lost_sightings,
        figures.messages_lost,
        figures.let_go,
    ];
    // That the known race was caught once more is a count, which is lost as well.
    assert_eq!(lost, [1, 5 + 1, 1, 1, 4]);
    assert_eq!(
        (figures.bytes, figures.items, figures.sending),
        (0, 0, None)
    );
    assert_eq!((figures.events_waiting, figures.events_lost), (2, 0));
    drop(outbox);

    let mut outbox = open(true, false);
    assert_eq!(outbox.let_go().unwrap().events, 2);
    let figures = outbox.figures().unwrap();
    assert_eq!((figures.events_waiting, figures.events_lost), (0, 2));
    assert_eq!((figures.let_go, figures.oldest_s), (6, None));
    fill(&mut outbox, 9, vec![seen("aa11", start())]);
    let message = sent(&mut outbox).unwrap();
    assert_eq!(message.sequence, 2);
    let lost = message.lost;
    assert_eq!((lost.evidence, lost.repeats, lost.sightings), (1, 6, 1));
    let again = ["hits", "misses"].map(|name| caught(&race(name, 7)));
    fill(&mut outbox, 10, again.to_vec());
    drop(outbox);
    // They were first sightings again.
    let mut outbox = open(false, false);
    assert_eq!(outbox.let_go().unwrap().items, 2);
    let figures = outbox.figures().unwrap();
    assert_eq!((figures.lost_evidence, figures.lost_sightings), (1, 3));
}
