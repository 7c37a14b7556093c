//! Addresses in words: on a machine of levels, `sip11` is `node1.sip3`.
//!
//! Inside the simulator a device has one number, which is its rank. Reports, timelines and messages of programs name the levels.
//!
//! - **NAM-1 (levels).** Every address in a text goes by its levels, outermost first; on a machine without levels a text stays as
//!   it is. Shared NICs are `node1.nic0`, leaf switches `node1.leaf`, and the switch between nodes is `node-switch`.
//! - **NAM-2 (back).** [`Names::device`] finds the device of each name that [`Names::address`] gives.

use crate::spec::MachineSpec;
use crate::topology::{Network, StationPosition};
use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

/// The names of the devices and stations of a machine.
#[derive(Clone, Debug, Default)]
pub struct Names(Option<Arc<Levels>>);

#[derive(Debug)]
struct Levels {
    network: Network,
    sips: u32,
    devices: u32,
    /// Name, number in one group, and size of the parts of each level above the SIPs, innermost first.
    parts: Vec<(String, u32, u32)>,
}

impl Names {
    /// Returns the names of a machine.
    pub fn new(spec: &MachineSpec) -> Self {
        if spec.levels.is_empty() {
            return Self(None);
        }
        let levels = (1..).zip(&spec.levels);
        let parts =
            levels.map(|(number, level)| (level.name.clone(), level.count, spec.part_size(number)));
        Self(Some(Arc::new(Levels {
            network: Network::new(spec),
            sips: spec.sips.count,
            devices: spec.devices(),
            parts: parts.collect(),
        })))
    }

    /// Returns the name of a device: `node1.sip3`, or `sip3` on a machine without levels.
    ///
    /// ```
    /// use phalanx_sim::{MachineSpec, names::Names};
    /// let level = "system.levels=[{name: node, count: 2, topology: switch, link: {bandwidth: 50 GB/s, latency: 5 us}}]";
    /// let names = Names::new(&MachineSpec::preset("octo-ring")?.with(level)?);
    /// assert_eq!(names.address(11), "node1.sip3");
    /// assert_eq!(names.text("sip11->sip8 and sip11.cube0.pe2"), "node1.sip3->node1.sip0 and node1.sip3.cube0.pe2");
    /// assert_eq!(names.device("node1.sip3"), Some(11));
    /// # Ok::<(), phalanx_sim::config::MachineError>(())
    /// ```
    pub fn address(&self, device: u32) -> String {
        match &self.0 {
            None => format!("sip{device}"),
            Some(levels) => levels.device(device),
        }
    }

    /// Returns the device of a name, with all its levels.
    pub fn device(&self, name: &str) -> Option<u32> {
        let Some(levels) = &self.0 else { return number_after("sip", name) };
        let mut rest = name.split('.');
        let mut device = 0;
        for (level, count, part) in levels.parts.iter().rev() {
            let number = number_after(level, rest.next()?)?;
            device += (number < *count).then_some(number * part)?;
        }
        let sip = number_after("sip", rest.next()?).filter(|sip| *sip < levels.sips)?;
        rest.next().is_none().then_some(device + sip)
    }

    /// Returns a text with its addresses named by level (NAM-1).
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Some(levels) = &self.0 else { return Cow::Borrowed(text) };
        let mut named = String::with_capacity(text.len() * 2);
        let mut rest = text;
        let mut is_start = true;
        while let Some(next) = rest.chars().next() {
            if is_start && let Some((name, length)) = levels.named(rest) {
                named.push_str(&name);
                rest = &rest[length..];
                is_start = false;
                continue;
            }
            is_start = !next.is_alphanumeric() && next != '_' && next != '.';
            named.push(next);
            rest = &rest[next.len_utf8()..];
        }
        Cow::Owned(named)
    }
}

/// The number in a name such as `sip3`.
fn number_after(prefix: &str, name: &str) -> Option<u32> {
    let digits = name.strip_prefix(prefix)?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_plain = digits == "0" || !digits.starts_with('0');
    (is_number && is_plain).then(|| digits.parse().ok()).flatten()
}

impl Levels {
    /// Returns the name for the address at the start of a text, and the length of the address.
    fn named(&self, text: &str) -> Option<(String, usize)> {
        let is_switch = text.starts_with("switch");
        let prefix = if is_switch { "switch" } else { "sip" };
        let rest = text.strip_prefix(prefix)?;
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let is_over = !rest[digits..].starts_with(|c: char| c.is_alphanumeric() || c == '_');
        let number: u32 = rest[..digits].parse().ok().filter(|_| is_over)?;
        let length = prefix.len() + digits;
        if is_switch {
            let (name, ..) = self.parts.get(number.checked_sub(1)? as usize)?;
            return Some((format!("{name}-switch"), length));
        }
        if number < self.devices {
            return Some((self.device(number), length));
        }
        let (level, place) = self.network.place(number)?;
        let mut name = self.part(level, place.part());
        // Writing to a `String` does not fail.
        let _ = match place {
            StationPosition::Nic { rail, .. } => write!(name, ".nic{rail}"),
            StationPosition::Leaf { .. } => write!(name, ".leaf"),
        };
        Some((name, length))
    }

    /// Returns the name of a part of a level, counted over the machine.
    fn part(&self, level: usize, part: u32) -> String {
        let first = part * self.parts[level - 1].2;
        let outer = self.parts[level - 1..].iter().rev();
        let names: Vec<String> =
            outer.map(|(name, count, size)| format!("{name}{}", first / size % count)).collect();
        names.join(".")
    }

    fn device(&self, device: u32) -> String {
        let mut name = self.part(1, device / self.sips);
        // Writing to a `String` does not fail.
        let _ = write!(name, ".sip{}", device % self.sips);
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pod() -> MachineSpec {
        let levels = "system.levels=[\
            {name: node, count: 3, topology: switch, link: {bandwidth: 50 GB/s, latency: 5 us}, nics: 2, oversubscription: 2}, \
            {name: pod, count: 2, topology: ring_1d, link: {bandwidth: 50 GB/s, latency: 5 us}, nics: 4}]";
        MachineSpec::preset("quad-sip").unwrap().with(levels).unwrap()
    }

    proptest! {
        #[test]
        fn nam_2_every_name_leads_back(device in 0..24u32) {
            let names = Names::new(&pod());
            prop_assert_eq!(names.device(&names.address(device)), Some(device), "NAM-2");
            let text = format!("a@sip{device}.cube0.pe1 x_sip{device} sips sip{device}->sip3");
            let named = names.text(&text).into_owned();
            let address = names.address(device);
            let expected = format!("a@{address}.cube0.pe1 x_sip{device} sips {address}->pod0.node0.sip3");
            prop_assert_eq!(named, expected, "NAM-1");
        }
    }

    #[test]
    fn nam_1_stations_and_switches_go_by_their_levels() {
        let names = Names::new(&pod());
        assert_eq!(names.address(23), "pod1.node2.sip3", "NAM-1");
        // Twelve NICs of nodes, six leaf switches, eight NICs of pods.
        assert_eq!(names.text("sip24->switch1"), "pod0.node0.nic0->node-switch", "NAM-1");
        assert_eq!(names.text("sip37"), "pod0.node1.leaf");
        assert_eq!(names.text("sip49->sip5"), "pod1.nic3->pod0.node1.sip1");
        assert_eq!(names.text("sip50 switch sip3x"), "sip50 switch sip3x");
        let plain = Names::new(&MachineSpec::preset("pair").unwrap());
        assert_eq!(
            (plain.text("sip1->sip0"), plain.device("sip1")),
            ("sip1->sip0".into(), Some(1))
        );
        for wrong in [
            "sip3",
            "pod0.node3.sip0",
            "pod0.node1.sip4",
            "pod0.node1.sip1.cube0",
            "pod00.node1.sip1",
        ] {
            assert_eq!(names.device(wrong), None, "NAM-2: {wrong}");
        }
    }
}
