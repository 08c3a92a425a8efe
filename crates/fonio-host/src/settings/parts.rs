//! Values of several parts, which are set one after the other: a killed process can leave some of them set.

/// Whether a value is on the way from one to another: each of its parts, which blanks separate, is of one of both.
pub(super) fn is_between(now: &str, one: &str, other: &str) -> bool {
    let [now, one, other] = [now, one, other].map(|value| value.split(' ').collect::<Vec<_>>());
    now.len() == one.len()
        && now.len() == other.len()
        && now.iter().zip(one.iter().zip(&other)).all(|(now, (one, other))| now == one || now == other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_half_set_value_has_parts_of_both() {
        let (old, new) = ("vm.a_ratio=10 vm.b_ratio=20", "vm.a_bytes=1 vm.b_bytes=2");
        for (now, expected) in [
            ("vm.a_bytes=1 vm.b_ratio=20", true),
            ("vm.a_ratio=10 vm.b_bytes=2", true),
            (old, true),
            (new, true),
            ("vm.a_bytes=1 vm.b_ratio=30", false),
            ("vm.b_ratio=20 vm.a_bytes=1", false),
            ("vm.a_bytes=1", false),
            ("", false),
        ] {
            assert_eq!(is_between(now, old, new), expected, "{now}");
        }
    }
}
