//! Spelling suggestions: the known word closest to a misspelt one.
//!
//! - **SPELL-1 (close only).** A word is suggested only if at most a third of the typed letters (rounded up) differ, or
//!   if the typed letters are its beginning and at least three.
//! - **SPELL-2 (stable).** Of equally close words the first candidate wins.

/// Returns the candidate closest to `word` by edits (insert, delete, replace, swap), if close enough.
///
/// ```
/// use phalanx_sim::config::suggestion;
/// assert_eq!(suggestion("bandwith", ["latency", "bandwidth"]), Some("bandwidth"));
/// assert_eq!(suggestion("zebra", ["latency", "bandwidth"]), None);
/// ```
pub fn suggestion<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    // No name is that long, and the edit distance takes quadratic time.
    if word.len() > 100 {
        return None;
    }
    let typed = letters(word);
    let allowed = typed.len().div_ceil(3);
    let score = |candidate| {
        let meant = letters(candidate);
        let edits = distance(&typed, &meant);
        let close = edits <= allowed || (typed.len() >= 3 && meant.starts_with(&typed));
        close.then_some((edits, candidate))
    };
    let closest = candidates.into_iter().filter_map(score).min_by_key(|(edits, _)| *edits);
    closest.map(|(_, candidate)| candidate)
}

/// Returns the letters of a word without the differences that cost no edit: case, and `-` or `_`.
fn letters(word: &str) -> Vec<char> {
    word.chars().flat_map(char::to_lowercase).map(|c| if c == '-' { '_' } else { c }).collect()
}

/// Returns the edit distance; a swap of neighbours is one edit. Keeps three rows of the table.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spell_1_only_close_words_are_suggested() {
        assert_eq!(suggestion("coutn", ["count", "link"]), Some("count"), "SPELL-1: a swap");
        assert_eq!(suggestion("torus2d", ["ring_1d", "torus_2d"]), Some("torus_2d"));
        assert_eq!(suggestion("Ring-1d", ["ring_1d"]), Some("ring_1d"));
        assert_eq!(
            suggestion("ring", ["ring_1d"]),
            Some("ring_1d"),
            "SPELL-1: the rest is missing"
        );
        assert_eq!(suggestion("frequency", ["count", "link"]), None, "SPELL-1");
        assert_eq!(suggestion("", ["a"]), None);
        assert_eq!(suggestion(&"a".repeat(10_000), ["a"]), None);
    }

    #[test]
    fn spell_2_the_first_of_equals_wins() {
        assert_eq!(suggestion("ab", ["ac", "ad"]), Some("ac"), "SPELL-2");
    }
}
