//! The machine-wide limit of dirty pages above which the kernel throttles writers. Write-back begins at half
//! of this limit.

use crate::settings::kind::*;

/// The value consists of two sysctl assignments.
pub(super) struct DirtyLimit;

const FACTS: Facts = Facts {
    tag: "dirty_limits",
    title: "the machine's limits for dirty pages",
    has_parts: true,
    held: Held::Sysctl,
    fixes: &[SettingFix {
        name: "dirty-limit",
        changes: Group::Memory,
        does: "programs wait for write-back at 32 MiB of dirty pages, or at SIZE with dirty-limit=SIZE, on the whole machine",
        needs: "nothing more",
        ..SettingFix::DEFAULT
    }],
    ..Facts::OF_SYSCTL
};

/// The limits for throttling and for write-back. Each limit has a file for bytes and a file for a percentage
/// of memory; the file that is not in use contains 0.
const LIMITS: [[&str; 2]; 2] =
    [["vm.dirty_background_bytes", "vm.dirty_background_ratio"], ["vm.dirty_bytes", "vm.dirty_ratio"]];

impl Kind for DirtyLimit {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn parse(&self, _name: &str, text: Option<&str>) -> Result<Value, String> {
        value::size(text, 32 << 20, 1 << 20)
    }

    fn value(&self, wanted: &Value, _on: &Object) -> Result<String, Refusal> {
        let bytes = wanted.size().0;
        Ok(format!("vm.dirty_background_bytes={} vm.dirty_bytes={bytes}", bytes / 2))
    }

    fn current(&self, _on: &Object) -> Result<Option<String>, HostError> {
        let mut limits = Vec::new();
        for [bytes, ratio] in LIMITS {
            let in_bytes = sysctl::read(bytes)?;
            let (name, value) =
                if in_bytes == "0" { (ratio, sysctl::read(ratio)?) } else { (bytes, in_bytes) };
            limits.push(format!("{name}={value}"));
        }
        Ok(Some(limits.join(" ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_for_dirty_pages_are_two_assignments() {
        let now = DirtyLimit.current(&Object::Machine).expect("procfs").expect("every machine has them");
        let assignments = sysctl::assignments(&now);
        let names: Vec<&str> = assignments.iter().map(|(name, _)| name.as_str()).collect();
        assert!(names[0].starts_with("vm.dirty_background_") && names[1].starts_with("vm.dirty_"), "{now}");
        let wanted = value::size(Some("64MiB"), 0, 1).expect("a size");
        assert_eq!(
            DirtyLimit.value(&wanted, &Object::Machine).expect("a value"),
            "vm.dirty_background_bytes=33554432 vm.dirty_bytes=67108864"
        );
    }
}
