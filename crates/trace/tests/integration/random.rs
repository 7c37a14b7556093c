//! Random timelines: what is read is what was written.

use phalanx_trace::Format;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::model::{Count, Event, Timeline};
use crate::{chrome, perfetto};

/// One step of time on a track, and what happens after it.
#[derive(Clone, Debug)]
struct Step {
    wait_ps: u64,
    opens: bool,
    name: String,
    bytes: Option<u64>,
    flows: (Option<u64>, Option<u64>),
}

fn step() -> impl Strategy<Value = Step> {
    // Short waits, often none: equal times and equal nanoseconds are where mistakes live.
    let wait = prop_oneof![Just(0), 0..2_500_u64, Just(1_000), 0..1_000_000_000_000_u64];
    (wait, any::<bool>(), ".{0,3}", any::<Option<u64>>(), any::<(Option<u64>, Option<u64>)>())
        .prop_map(|(wait_ps, opens, name, bytes, flows)| Step {
            wait_ps,
            opens,
            name,
            bytes,
            flows,
        })
}

/// Plays the steps as opening and closing brackets, which is all that nesting is.
fn play(track: usize, steps: Vec<Step>) -> Vec<Event> {
    let (mut now, mut open, mut slices) = (0, Vec::new(), Vec::<Event>::new());
    for Step { wait_ps, opens, name, bytes, flows: (flow_out, flow_in) } in steps {
        now += wait_ps;
        if opens {
            open.push(slices.len());
            let (start_ps, end_ps) = (now, now);
            slices.push(Event { track, name, start_ps, end_ps, bytes, flow_out, flow_in });
        } else if let Some(index) = open.pop() {
            slices[index].end_ps = now;
        }
    }
    for index in open {
        slices[index].end_ps = now;
    }
    slices
}

fn timeline() -> impl Strategy<Value = Timeline> {
    let track = (".{0,6}", any::<Option<prop::sample::Index>>(), vec(step(), 0..20));
    let count = (any::<prop::sample::Index>(), 0..5_000_000_u64, any::<i64>());
    (vec(track, 1..6), vec((".{0,3}", vec(count, 0..6)), 0..3)).prop_map(|(tracks, counters)| {
        let mut timeline = Timeline::default();
        for (name, parent, steps) in tracks {
            let above = timeline.tracks.len();
            let parent = parent.filter(|_| above > 0).map(|parent| parent.index(above));
            let track = timeline.track(&name, parent);
            timeline.slices.extend(play(track, steps));
        }
        let parents = timeline.tracks.len();
        for (unit, mut counts) in counters {
            counts.sort_by_key(|(_, at_ps, _)| *at_ps);
            let parent = counts.first().map(|(parent, ..)| parent.index(parents));
            let track = timeline.counter("counter", parent, &unit);
            let counts = counts.into_iter();
            timeline.counts.extend(counts.map(|(_, at_ps, value)| Count { track, at_ps, value }));
        }
        timeline
    })
}

/// The slices in an order that keeps that of each track: by time, if `by_time`.
fn told(timeline: &Timeline, by_time: bool) -> Vec<Event> {
    let mut slices = timeline.slices.clone();
    if by_time {
        slices.sort_by_key(|slice| slice.start_ps);
    }
    slices
}

proptest! {
    #[test]
    fn trc_1_perfetto_reads_back_what_was_written(timeline in timeline(), by_time: bool) {
        let bytes = timeline.write_in_order(Format::Perfetto, &told(&timeline, by_time));
        prop_assert_eq!(perfetto::decode(&bytes), timeline);
    }

    #[test]
    fn trc_1_chrome_reads_back_what_was_written(timeline in timeline(), by_time: bool) {
        let bytes = timeline.write_in_order(Format::Chrome, &told(&timeline, by_time));
        prop_assert_eq!(chrome::decode(&bytes), chrome::expected(&timeline));
    }

    #[test]
    fn trc_4_the_same_calls_make_the_same_bytes(timeline in timeline()) {
        for format in [Format::Perfetto, Format::Chrome] {
            prop_assert_eq!(timeline.write(format), timeline.write(format));
        }
    }
}
