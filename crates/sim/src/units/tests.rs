//! Tests of quantities with units.

use proptest::prelude::*;

use super::*;

fn says(error: &QuantityError) -> String {
    format!("{error}; {}", error.help().unwrap_or_default())
}

#[test]
fn unit_1_decimals_are_exact() {
    assert_eq!(
        parse_rate("8.192 TFLOP/s").unwrap().as_per_second(),
        Some(8_192_000_000_000),
        "UNIT-1"
    );
    assert_eq!(parse_time("1.5 ns"), Ok(Time::ps(1_500)));
    assert_eq!(parse_time("0.000001 us"), Ok(Time::ps(1)));
    assert_eq!(parse_time("1.50000000000000000000000000000000000 ns"), Ok(Time::ps(1_500)));
    assert_eq!(parse_bytes("0.5KiB"), Ok(Bytes(512)));
    assert_eq!(
        parse_bandwidth("18446744073.709551615 GB/s").unwrap().as_per_second(),
        Some(u64::MAX)
    );
}

#[test]
fn unit_1_what_is_not_exact_is_refused() {
    let fine = parse_time("0.5 ps").unwrap_err();
    assert_eq!(
        says(&fine),
        "`0.5 ps` is not a whole number of picoseconds; the simulator counts whole picoseconds"
    );
    let fine = parse_bandwidth("1.5 B/s").unwrap_err();
    assert_eq!(fine.to_string(), "`1.5 B/s` is not a whole number of bytes a second", "UNIT-1");
    assert_eq!(parse_count("1.5").unwrap_err().to_string(), "`1.5` is not a whole number");
    let long = format!("0.{}1 s", "0".repeat(60));
    assert_eq!(
        parse_time(&long).unwrap_err().help().unwrap(),
        "at most 22 decimals; use a smaller unit"
    );
}

#[test]
fn every_unit_is_read() {
    for (text, ps) in [
        ("250 ps", 250),
        ("500ns", 500_000),
        ("1 us", 1_000_000),
        ("1 µs", 1_000_000),
        ("2 ms", 2 * GIGA),
    ] {
        assert_eq!(parse_time(text), Ok(Time::ps(ps)), "{text}");
    }
    assert_eq!(parse_time("1 μs"), parse_time("1 s").map(|_| Time::us(1)));
    for (text, bytes) in [
        ("512", 512),
        ("512 B", 512),
        ("16 KB", 16_000),
        ("64K", 65_536),
        ("2 MiB", 2 << 20),
        ("1G", 1 << 30),
    ] {
        assert_eq!(parse_bytes(text), Ok(Bytes(bytes)), "{text}");
    }
    assert_eq!(parse_bandwidth("500 MiB/s").unwrap().as_per_second(), Some(500 << 20));
    assert_eq!(parse_capacity(" unlimited "), Ok(Capacity::Unlimited));
    assert_eq!(parse_count("0"), Ok(0));
}

#[test]
fn unit_3_refusals_name_what_is_allowed() {
    let times = "allowed units: ps, ns, us, ms, s";
    assert_eq!(
        says(&parse_time("128 GB/s").unwrap_err()),
        format!("`128 GB/s` is a bandwidth, not a time; {times}")
    );
    assert_eq!(
        says(&parse_time("128").unwrap_err()),
        format!("`128` has no unit; {times}"),
        "UNIT-3"
    );
    assert_eq!(
        parse_bandwidth("128 ns").unwrap_err().to_string(),
        "`128 ns` is a time, not a bandwidth"
    );
    assert_eq!(
        parse_bandwidth("128 TFLOP/s").unwrap_err().to_string(),
        "`128 TFLOP/s` is a compute rate, not a bandwidth"
    );
    assert_eq!(parse_time("unlimited").unwrap_err().to_string(), "`unlimited` is not a time");
    assert_eq!(parse_time("").unwrap_err().to_string(), "`` is empty, not a time");
    assert_eq!(
        parse_time("soon").unwrap_err().to_string(),
        "`soon` is not a time: it does not start with a number"
    );
    assert_eq!(
        says(&parse_count("8 GB").unwrap_err()),
        "`8 GB` has a unit, `GB`, where a number alone is wanted; allowed: digits only, as in `8`"
    );
}

#[test]
fn unit_3_a_misspelt_unit_has_a_suggestion() {
    for text in [
        "128 GBps",
        "128 Gb/s",
        "128 gb/s",
        "128 GB/sec",
        "128 Gbit/s",
        "128 GB per second",
        "128GB/S",
    ] {
        let help = parse_bandwidth(text).unwrap_err().help().unwrap();
        assert!(help.starts_with("did you mean `GB/s`? "), "UNIT-3: {text}: {help}");
    }
    for (text, unit) in [("1 usec", "us"), ("1 nsec", "ns"), ("1 NS", "ns"), ("1 sec", "s")] {
        let help = parse_time(text).unwrap_err().help().unwrap();
        assert!(help.starts_with(&format!("did you mean `{unit}`? ")), "{text}: {help}");
    }
    for text in ["8 TFLOPS", "8 TFlops", "8 TFLOP", "8 tflop/s"] {
        let help = parse_rate(text).unwrap_err().help().unwrap();
        assert!(help.starts_with("did you mean `TFLOP/s`? "), "UNIT-3: {text}: {help}");
    }
}

#[test]
fn numbers_of_other_notations_are_refused() {
    for text in ["0x10", "1e3", "1E-3", "1_000", "1.2.3", "1,5", "+1", ".5", "0b1", "0o7"] {
        let error = parse_count(text).unwrap_err();
        assert_eq!(error.to_string(), format!("`{text}` is not written in plain decimal digits"));
    }
    assert_eq!(parse_time("-1 ns").unwrap_err().to_string(), "`-1 ns` is negative");
    assert_eq!(
        parse_time("-").unwrap_err().to_string(),
        "`-` is not a time: it does not start with a number"
    );
}

#[test]
fn zero_and_overflow_are_refused() {
    let zero = parse_bandwidth("0.000 GB/s").unwrap_err();
    assert_eq!(
        says(&zero),
        "`0.000 GB/s` is zero, which makes no sense for a bandwidth; use more than zero, or `unlimited` for what costs nothing"
    );
    assert!(parse_rate("0 FLOP/s").is_err() && parse_capacity("0").is_err());
    assert_eq!(parse_time("0 ns"), Ok(Time::ZERO));
    for text in ["18446744073709551616 B/s", "99999999999999999999999999999999999999999999 TB/s"] {
        assert!(parse_bandwidth(text).unwrap_err().to_string().ends_with("is too large"), "{text}");
    }
    assert_eq!(
        parse_time("18446744.073709551616 s").unwrap_err().help().unwrap(),
        "at most 18446744073709551615 picoseconds"
    );
}

#[test]
fn printing_takes_the_shortest_unit() {
    let bandwidth = |text| show_bandwidth(parse_bandwidth(text).unwrap());
    for text in ["128 GB/s", "1 TB/s", "500 MiB/s", "1 GiB/s", "1.5 GB/s", "7 B/s", "unlimited"] {
        assert_eq!(bandwidth(text), text);
    }
    assert_eq!(show_rate(parse_rate("8192 GFLOP/s").unwrap()), "8.192 TFLOP/s");
    assert_eq!(show_time(Time::us(1)), "1 us");
    assert_eq!(show_time(Time::ps(1_500)), "1.5 ns");
    assert_eq!(show_time(Time::ZERO), "0 ns");
}

fn magnitudes() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0_u32..64, 0_u32..12)
        .prop_map(|(n, shift, zeros)| (n >> shift).saturating_mul(10_u64.pow(zeros)))
}

proptest! {
    #[test]
    fn unit_2_every_quantity_reads_back(n in magnitudes()) {
        prop_assert_eq!(parse_time(&show_time(Time::ps(n))), Ok(Time::ps(n)), "UNIT-2");
        prop_assert_eq!(parse_time(&Time::ps(n).to_string()), Ok(Time::ps(n)));
        prop_assert_eq!(parse_bytes(&Bytes(n).to_string()), Ok(Bytes(n)));
        if let Some(rate) = Rate::per_second(n) {
            prop_assert_eq!(parse_bandwidth(&show_bandwidth(rate)), Ok(rate));
            prop_assert_eq!(parse_rate(&show_rate(rate)), Ok(rate));
            let capacity = Capacity::Limited(Bytes(n));
            prop_assert_eq!(parse_capacity(&show_capacity(capacity)), Ok(capacity));
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in ".{0,60}|[0-9]{0,50}[.]?[0-9]{0,50} ?[a-zA-Z/µ]{0,6}") {
        for parsed in [parse_bandwidth(&text).map(drop), parse_rate(&text).map(drop), parse_time(&text).map(drop),
            parse_bytes(&text).map(drop), parse_capacity(&text).map(drop), parse_count(&text).map(drop)] {
            if let Err(error) = parsed {
                prop_assert!(!error.to_string().is_empty() && error.help().is_some());
            }
        }
    }
}
