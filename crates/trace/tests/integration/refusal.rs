//! Timelines that cannot be.

use std::io::{self, ErrorKind};

use phalanx_trace::{Format, Slice, Writer};

fn refused<T>(result: io::Result<T>) -> String {
    let Err(error) = result else { panic!("not refused") };
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    error.to_string()
}

#[test]
fn trc_6_impossible_slices_are_refused_and_leave_no_trace() {
    for format in [Format::Perfetto, Format::Chrome] {
        let write = |impossible: &[(u64, u64)]| {
            let mut writer = Writer::new(Vec::new(), format).unwrap();
            let (track, name) = (writer.track("vector", None).unwrap(), writer.name("add"));
            writer.slice(&Slice::new(track, name, 10, 20)).unwrap();
            for (start_ps, end_ps) in impossible {
                refused(writer.slice(&Slice::new(track, name, *start_ps, *end_ps)));
            }
            writer.slice(&Slice::new(track, name, 12, 20)).unwrap();
            writer.finish().unwrap()
        };
        assert_eq!(write(&[(15, 21), (9, 12), (30, 29), (0, u64::MAX)]), write(&[]));
    }
}

#[test]
fn trc_6_a_refusal_says_why() {
    let mut writer = Writer::new(Vec::new(), Format::Perfetto).unwrap();
    let (track, name) = (writer.track("vector", None).unwrap(), writer.name("add"));
    let counter = writer.counter_track("tcm", Some(track), "bytes").unwrap();
    writer.slice(&Slice::new(track, name, 10, 20)).unwrap();
    let mut why = |track, start, end| refused(writer.slice(&Slice::new(track, name, start, end)));
    let all = [why(track, 15, 21), why(track, 9, 12), why(track, 30, 29), why(counter, 0, 1)];
    insta::assert_snapshot!(all.join("\n"), @"
    a slice of track `vector` is impossible, one that ends at 20 ps overlaps it: 15..21 ps
    a slice of track `vector` is impossible, the one before it starts later, at 10 ps: 9..12 ps
    a slice of track `vector` is impossible, it ends before it starts: 30..29 ps
    a slice of track `tcm` is impossible, its track is a counter: 0..1 ps
    ");
    insta::assert_snapshot!(refused(writer.counter(track, 0, 0)), @"a track of slices has no value: vector");
    insta::assert_snapshot!(refused(writer.track("x", Some(counter))), @"a counter has no tracks below it: tcm");
}

#[test]
fn trc_6_what_another_writer_made_is_refused() {
    let mut other = Writer::new(Vec::new(), Format::Chrome).unwrap();
    let (track, name) = (other.track("vector", None).unwrap(), other.name("add"));
    let mut writer = Writer::new(Vec::new(), Format::Chrome).unwrap();
    refused(writer.track("child", Some(track)));
    refused(writer.counter(track, 0, 0));
    refused(writer.slice(&Slice::new(track, name, 0, 1)));
    let own = writer.track("vector", None).unwrap();
    refused(writer.slice(&Slice::new(own, name, 0, 1)));
}
