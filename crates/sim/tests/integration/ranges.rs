//! Named ranges of kernels and hosts, reports cut to them, and reports made twice.

use crate::scenario::scenarios;
use crate::support::{bare, quad, recorded, without_data};
use phalanx_sim::kernel::View;
use phalanx_sim::machine::{Cause, Machine, Options};
use phalanx_sim::record::Owner;
use phalanx_sim::report::{RangeError, Report, Usage};
use phalanx_sim::stall::Kind;
use phalanx_sim::topology::PeId;
use phalanx_sim::value::DType;
use phalanx_sim::{Time, timeline};
use phalanx_trace::{Format, Writer};
use proptest::prelude::*;

/// Three steps of a load, a sum and a store on each SIP, in a range each.
fn steps(options: Options) -> Report {
    let mut machine = Machine::new(quad(), options);
    for sip in 0..2 {
        let region = machine.zeros(sip, 0, DType::F32, 4096).unwrap();
        machine.launch(sip, "steps", &[PeId::first(sip)], move |tl| async move {
            for step in 0..3 {
                let _range = tl.range(format!("step {step}"));
                let tile = tl.load(&View::of(&region)).await?;
                let sum = tl.add(&tile, &tile).await?;
                tl.store(&View::of(&region), &sum).await?;
                tl.compute(Time::ns(u64::from(sip) * 10)).await;
            }
            Ok(())
        });
    }
    machine.run().unwrap()
}

#[test]
fn ranges_are_added_up_by_name() {
    let report = steps(Options::default());
    let names: Vec<(&str, u64)> =
        report.ranges.iter().map(|range| (range.name.as_str(), range.count)).collect();
    assert_eq!(names, [("step 0", 2), ("step 1", 2), ("step 2", 2)]);
    let [first, second, third] = &report.ranges[..] else { panic!("three names") };
    assert_eq!(first.total, second.total);
    // The faster SIP begins the next step before the slower one has ended its own.
    assert!(
        first.to > second.from && second.to > third.from && first.total > first.to - first.from
    );
    assert!(report.range_spans.is_empty(), "a run that is not recorded keeps sums only");
    assert!(report.to_string().contains("range   times"), "{report}");
}

#[test]
fn a_cut_has_the_utilisation_stalls_and_path_of_its_range() {
    let report = steps(recorded());
    let parts: Vec<Report> =
        ["step 0", "step 1", "step 2"].map(|name| report.within(name).unwrap()).into();
    for part in &parts {
        let path = &part.critical_path;
        assert_eq!(path.spent.total(), part.simulated, "RPT-3");
        assert!(path.complete && path.end == Some(Owner::Kernel(PeId::first(1))));
        for stalls in &part.stalls {
            assert!(stalls.stack.total() <= part.simulated, "RPT-3: {stalls:?}");
        }
    }
    let add = |report: &Report| {
        let vector = report
            .utilisation
            .iter()
            .find(|usage| usage.resource.to_string().ends_with("pe0.vector"));
        vector.map(|usage| (usage.busy, usage.operations)).unwrap()
    };
    let (busy, operations) = add(&report);
    assert_eq!((add(&parts[0]).0, operations), (Time::ps(busy.as_ps() / 3), 6));
    assert!(parts[1].to_string().contains("critical path, to the end of sip1.cube0.pe0"));
    assert!(parts[1].edges.is_empty() && parts[1].advice.is_none());
}

#[test]
fn a_cut_needs_a_recorded_run_and_a_known_name() {
    assert_eq!(steps(Options::default()).within("step 1").unwrap_err(), RangeError::NotRecorded);
    let error = steps(recorded()).within("stop 1").unwrap_err();
    assert_eq!(
        error.to_string(),
        "no range named `stop 1`: did you mean `step 1`? the ranges are `step 0`, `step 1`, `step 2`"
    );
}

/// The busy resources, in order.
fn busy(report: &Report) -> Vec<Usage> {
    report.utilisation.iter().filter(|usage| usage.busy > Time::ZERO).copied().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn rpt_3_a_cut_to_the_whole_run_is_the_run(scenario in scenarios()) {
        let (mut machine, received) = scenario.build(Options { record: true, ..without_data() });
        let host = machine.host(0);
        machine.run().unwrap();
        drop(received);
        // Credits on their way home may keep the machine busy after its last kernel.
        prop_assume!(machine.now() == machine.report().simulated);
        let whole = machine.report();
        let range = host.range("all");
        range.cover(Time::ZERO, Cause::default());
        drop(range);
        let report = machine.report();
        let cut = report.within("all").unwrap();
        prop_assert_eq!(cut.simulated, whole.simulated, "RPT-3");
        prop_assert_eq!(busy(&cut), busy(&whole), "RPT-3");
        prop_assert_eq!(&cut.stalls, &whole.stalls, "RPT-3");
    }
}

#[test]
fn a_range_of_a_host_covers_its_requests() {
    let mut machine = Machine::new(bare(), recorded());
    let host = machine.host(1);
    let program = {
        let host = host.clone();
        async move {
            let range = host.range("asked");
            let inner = range.clone();
            let other = host.clone();
            let request = host.sim().spawn("request", async move {
                other.sim().sleep(Time::ns(10)).await;
                let begun = other.sim().now();
                other.sim().sleep(Time::ns(20)).await;
                inner.cover(begun, Cause::default());
            });
            range.close(Cause::default());
            drop(range);
            let empty = host.range("empty");
            host.sim().sleep(Time::ns(3)).await;
            empty.close(Cause::default());
            drop(empty);
            request.await
        }
    };
    machine.spawn(1, "program", program).detach();
    let report = machine.run().unwrap();
    let spans: Vec<(&str, Time, Time)> =
        report.ranges.iter().map(|range| (range.name.as_str(), range.from, range.to)).collect();
    assert_eq!(spans, [("empty", Time::ZERO, Time::ns(3)), ("asked", Time::ns(10), Time::ns(30))]);
    let path = report.within("asked").unwrap().critical_path;
    assert_eq!((path.end, path.spent.get(Kind::Dependency)), (Some(Owner::Host(1)), Time::ns(20)));
}

#[test]
fn rec_4_a_second_report_is_the_first() {
    let mut machine = Machine::new(bare(), recorded());
    let nap = |machine: &mut Machine| {
        machine.launch(0, "nap", &[PeId::first(0)], |tl| async move {
            let _range = tl.range("sleep");
            tl.compute(Time::ns(3)).await;
            Ok(())
        });
    };
    nap(&mut machine);
    let first = machine.run().unwrap();
    let second = machine.report();
    assert_eq!(format!("{first:?}"), format!("{second:?}"), "REC-4");
    nap(&mut machine);
    let third = machine.run().unwrap();
    assert_eq!((first.op_log().lines().count(), third.op_log().lines().count()), (2, 4), "REC-4");
    assert!(third.op_log().starts_with(&first.op_log()), "REC-4");
}

#[test]
fn traces_show_launches_and_ranges_by_their_names() {
    let report = steps(recorded());
    let mut writer = Writer::new(Vec::new(), Format::Chrome).unwrap();
    timeline::write(&report, &mut writer).unwrap();
    let text = String::from_utf8(writer.finish().unwrap()).unwrap();
    for name in ["\"steps\"", "\"step 2\"", "sip1.cube0.pe0.ranges"] {
        assert!(text.contains(name), "{name}");
    }
    assert!(!text.contains("\"kernel\""));
}

#[test]
fn ranges_that_overlap_have_tracks_of_their_own() {
    let mut machine = Machine::new(bare(), recorded());
    machine.launch(0, "knot", &[PeId::first(0)], |tl| async move {
        let first = tl.range("first");
        tl.compute(Time::ns(3)).await;
        let second = tl.range("second");
        tl.compute(Time::ns(3)).await;
        drop(first);
        tl.compute(Time::ns(3)).await;
        drop(second);
        Ok(())
    });
    let report = machine.run().unwrap();
    let mut writer = Writer::new(Vec::new(), Format::Chrome).unwrap();
    timeline::write(&report, &mut writer).unwrap();
    let text = String::from_utf8(writer.finish().unwrap()).unwrap();
    assert!(text.contains("sip0.cube0.pe0.ranges 2"), "{text}");
}
