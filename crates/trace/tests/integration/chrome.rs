//! Chrome traces, parsed as JSON and read as a viewer would.

use std::collections::BTreeMap;

use phalanx_trace::Format;
use serde_json::Value;

use crate::model::{Event, Timeline, small};

/// The rows that a viewer of processes and threads shows, by name, with their slices.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct View {
    /// `process: thread` in order of creation.
    rows: Vec<String>,
    slices: Vec<(String, Event)>,
    /// Title, time, value.
    counts: Vec<(String, u64, i64)>,
}

/// Reads the JSON slowly.
pub(crate) fn decode(bytes: &[u8]) -> View {
    let trace: Value = serde_json::from_slice(bytes).unwrap();
    let (mut view, mut names) = (View::default(), BTreeMap::new());
    for event in trace["traceEvents"].as_array().unwrap() {
        let pid = event["pid"].as_u64().unwrap();
        // Only the events of counters have no thread.
        let tid = event["tid"].as_u64().unwrap_or(pid);
        let name = event["name"].as_str().unwrap().to_owned();
        let row = || format!("{}: {}", names[&("process_name", pid)], names[&("thread_name", tid)]);
        match event["ph"].as_str().unwrap() {
            "M" if name == "process_name" => {
                names.insert(("process_name", pid), label(event));
            }
            "M" if name == "thread_name" => {
                names.insert(("thread_name", tid), label(event));
                view.rows.push(format!("{}: {}", names[&("process_name", pid)], label(event)));
            }
            "M" => assert_eq!(event["args"]["sort_index"], tid - 1, "rank is order of creation"),
            "X" => view.slices.push((row(), slice(event, tid))),
            "s" => last(&mut view, tid).flow_out = Some(flow(event)),
            "f" => {
                assert_eq!(event["bp"], "e");
                last(&mut view, tid).flow_in = Some(flow(event));
            }
            "C" => {
                let title = format!("{}: {name}", names[&("process_name", pid)]);
                let value = event["args"]["value"].as_i64().unwrap();
                view.counts.push((title, picoseconds(&event["ts"]), value));
            }
            other => panic!("unexpected phase {other}"),
        }
    }
    view.slices.sort_by_key(|(_, slice)| slice.track);
    view
}

/// Returns the rows that a viewer ought to show of a timeline.
pub(crate) fn expected(timeline: &Timeline) -> View {
    let track = |index: usize| &timeline.tracks[index];
    let row = |index: usize| {
        let mut path = vec![index];
        while let Some(parent) = track(path[0]).parent {
            path.insert(0, parent);
        }
        // Roots and their children are processes; a counter only where there is nothing above it.
        let is_counter = track(index).unit.is_some();
        let processes = if is_counter { path.len() - 1 } else { path.len() }.clamp(1, 2);
        let words: Vec<&str> = path.iter().map(|each| track(*each).name.as_str()).collect();
        let (above, below) = words.split_at(processes);
        let below = if below.is_empty() { &above[processes - 1..] } else { below };
        let unit = track(index).unit.as_deref().filter(|unit| !unit.is_empty());
        let unit = unit.map(|unit| format!(" ({unit})")).unwrap_or_default();
        format!("{}: {}{unit}", above.join("/"), below.join("/"))
    };
    let threads = (0..timeline.tracks.len()).filter(|index| track(*index).unit.is_none());
    let slices = timeline.slices.iter().map(|slice| (row(slice.track), slice.clone()));
    let counts = timeline.counts.iter().map(|count| (row(count.track), count.at_ps, count.value));
    View { rows: threads.map(row).collect(), slices: slices.collect(), counts: counts.collect() }
}

fn slice(event: &Value, tid: u64) -> Event {
    let start_ps = picoseconds(&event["ts"]);
    Event {
        track: usize::try_from(tid).unwrap() - 1,
        name: event["name"].as_str().unwrap().to_owned(),
        start_ps,
        end_ps: start_ps + picoseconds(&event["dur"]),
        bytes: event["args"]["bytes"].as_u64(),
        flow_out: None,
        flow_in: None,
    }
}

fn label(event: &Value) -> String {
    event["args"]["name"].as_str().unwrap().to_owned()
}

/// The slice an arrow holds to.
fn last(view: &mut View, tid: u64) -> &mut Event {
    let (_, slice) = view.slices.last_mut().unwrap();
    assert_eq!(slice.track as u64 + 1, tid);
    slice
}

fn flow(event: &Value) -> u64 {
    let id = event["id"].as_str().unwrap().strip_prefix("0x").unwrap();
    u64::from_str_radix(id, 16).unwrap()
}

/// Exact as long as 53 bits suffice; the tests stay below.
fn picoseconds(microseconds: &Value) -> u64 {
    let ps = (microseconds.as_f64().unwrap() * 1e6).round();
    assert!((0.0..9e15).contains(&ps));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
    let ps = ps as u64;
    ps
}

#[test]
fn trc_1_a_timeline_reads_back_to_the_picosecond() {
    assert_eq!(decode(&small().write(Format::Chrome)), expected(&small()));
}

#[test]
fn an_empty_timeline_is_json() {
    let view = decode(&Timeline::default().write(Format::Chrome));
    assert_eq!(view, View::default());
}

#[test]
fn trc_3_a_small_trace_reads_well() {
    let json = String::from_utf8(small().write(Format::Chrome)).unwrap();
    insta::assert_snapshot!(json, @r##"
    {"displayTimeUnit":"ns","traceEvents":[
    {"ph":"M","name":"process_name","pid":1,"tid":1,"args":{"name":"machine"}},
    {"ph":"M","name":"process_sort_index","pid":1,"tid":1,"args":{"sort_index":0}},
    {"ph":"M","name":"thread_name","pid":1,"tid":1,"args":{"name":"machine"}},
    {"ph":"M","name":"thread_sort_index","pid":1,"tid":1,"args":{"sort_index":0}},
    {"ph":"M","name":"process_name","pid":2,"tid":2,"args":{"name":"machine/sip0"}},
    {"ph":"M","name":"process_sort_index","pid":2,"tid":2,"args":{"sort_index":1}},
    {"ph":"M","name":"thread_name","pid":2,"tid":2,"args":{"name":"sip0"}},
    {"ph":"M","name":"thread_sort_index","pid":2,"tid":2,"args":{"sort_index":1}},
    {"ph":"M","name":"thread_name","pid":2,"tid":3,"args":{"name":"cube0.pe0"}},
    {"ph":"M","name":"thread_sort_index","pid":2,"tid":3,"args":{"sort_index":2}},
    {"ph":"M","name":"thread_name","pid":2,"tid":4,"args":{"name":"cube0.pe0/vector"}},
    {"ph":"M","name":"thread_sort_index","pid":2,"tid":4,"args":{"sort_index":3}},
    {"ph":"M","name":"thread_name","pid":2,"tid":5,"args":{"name":"cube0.pe0/dma"}},
    {"ph":"M","name":"thread_sort_index","pid":2,"tid":5,"args":{"sort_index":4}},
    {"ph":"X","name":"kernel \"add\"","pid":2,"tid":2,"ts":0.000000,"dur":12.000000},
    {"ph":"X","name":"send","pid":2,"tid":4,"ts":0.001000,"dur":0.004500},
    {"ph":"s","id":"0xfeedfacecafef00d","cat":"flow","name":"flow","pid":2,"tid":4,"ts":0.001000},
    {"ph":"X","name":"add","pid":2,"tid":4,"ts":0.005500,"dur":0.000000},
    {"ph":"X","name":"recv","pid":2,"tid":5,"ts":0.000001,"dur":11.999999,"args":{"bytes":4096}},
    {"ph":"f","id":"0xfeedfacecafef00d","cat":"flow","name":"flow","bp":"e","pid":2,"tid":5,"ts":11.999999},
    {"ph":"C","name":"cube0.pe0/tcm (bytes)","pid":2,"ts":0.001000,"args":{"value":4096}},
    {"ph":"C","name":"cube0.pe0/tcm (bytes)","pid":2,"ts":0.005501,"args":{"value":0}},
    {"ph":"C","name":"power","pid":1,"ts":0.000000,"args":{"value":-3}}
    ]}
    "##);
}
