//! Times, sizes and shares as people read them.

/// Returns a time in the largest unit that it fills, with three decimals.
pub fn time(ps: u64) -> String {
    const UNITS: [(&str, u64); 4] =
        [("s", 1_000_000_000_000), ("ms", 1_000_000_000), ("us", 1_000_000), ("ns", 1_000)];
    let unit = UNITS.into_iter().find(|(_, factor)| ps >= *factor);
    let Some((name, factor)) = unit else { return format!("{ps} ps") };
    let thousandths = ps / (factor / 1_000);
    format!("{}.{:03} {name}", thousandths / 1_000, thousandths % 1_000)
}

/// Returns a number of bytes in the largest binary unit that it fills, with one decimal if it is not whole.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = UNITS.into_iter().find(|(_, shift)| bytes >> shift > 0);
    let Some((name, shift)) = unit else { return format!("{bytes} B") };
    let (whole, rest) = (bytes >> shift, bytes & ((1 << shift) - 1));
    if rest == 0 {
        return format!("{whole} {name}");
    }
    format!("{whole}.{} {name}", (u128::from(rest) * 10) >> shift)
}

/// Returns `part` of `whole` in per cent, with one decimal.
pub fn percent(part: u64, whole: u64) -> String {
    let thousandths =
        (u128::from(part) * 2_000 + u128::from(whole)) / (u128::from(whole).max(1) * 2);
    format!("{}.{} %", thousandths / 10, thousandths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_take_the_largest_unit_they_fill() {
        assert_eq!(time(0), "0 ps");
        assert_eq!(time(999), "999 ps");
        assert_eq!(time(262_928_000), "262.928 us");
        assert_eq!(time(1_000_999), "1.000 us");
        assert_eq!(time(u64::MAX), "18446744.073 s");
    }

    #[test]
    fn bytes_take_the_largest_unit_they_fill() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(65_536), "64 KiB");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(u64::MAX), "16777215.9 TiB");
    }

    #[test]
    fn percentages_round_to_the_nearest_tenth() {
        assert_eq!(percent(0, 0), "0.0 %");
        assert_eq!(percent(1, 3), "33.3 %");
        assert_eq!(percent(2, 3), "66.7 %");
        assert_eq!(percent(u64::MAX, u64::MAX), "100.0 %");
    }
}
