//! The machines that come with the program.

/// A machine file compiled into the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// The name that `--machine` takes.
    pub name: &'static str,
    /// The file, as it stands in `machines/`.
    pub text: &'static str,
}

/// The machine taken where none is named.
pub const DEFAULT_PRESET: &str = "quad-sip";

const PRESETS: &[Preset] = &[
    Preset { name: "pair", text: include_str!("../../../../machines/pair.yaml") },
    Preset { name: "quad-sip", text: include_str!("../../../../machines/quad-sip.yaml") },
    Preset { name: "octo-ring", text: include_str!("../../../../machines/octo-ring.yaml") },
    Preset { name: "torus-16", text: include_str!("../../../../machines/torus-16.yaml") },
    Preset { name: "pod-64", text: include_str!("../../../../machines/pod-64.yaml") },
    Preset { name: "hgx-a100", text: include_str!("../../../../machines/hgx-a100.yaml") },
    Preset { name: "hgx-h100", text: include_str!("../../../../machines/hgx-h100.yaml") },
    Preset { name: "hgx-h200", text: include_str!("../../../../machines/hgx-h200.yaml") },
    Preset { name: "hgx-b200", text: include_str!("../../../../machines/hgx-b200.yaml") },
    Preset { name: "mi300x-8", text: include_str!("../../../../machines/mi300x-8.yaml") },
    Preset { name: "gaudi3-8", text: include_str!("../../../../machines/gaudi3-8.yaml") },
    Preset { name: "tpu-v4-64", text: include_str!("../../../../machines/tpu-v4-64.yaml") },
    Preset { name: "tpu-v5e-16", text: include_str!("../../../../machines/tpu-v5e-16.yaml") },
    Preset { name: "a100-efa-16", text: include_str!("../../../../machines/a100-efa-16.yaml") },
    Preset { name: "a100-ib-16", text: include_str!("../../../../machines/a100-ib-16.yaml") },
    Preset { name: "b200-roce-16", text: include_str!("../../../../machines/b200-roce-16.yaml") },
    Preset { name: "h100-pod-64", text: include_str!("../../../../machines/h100-pod-64.yaml") },
    Preset { name: "bare", text: include_str!("../../../../machines/bare.yaml") },
];

const CHIPS: &[Preset] = &[
    Preset { name: "a100-sxm", text: include_str!("../../../../machines/chips/a100-sxm.yaml") },
    Preset { name: "h100-sxm", text: include_str!("../../../../machines/chips/h100-sxm.yaml") },
    Preset { name: "b200-sxm", text: include_str!("../../../../machines/chips/b200-sxm.yaml") },
    Preset { name: "mi300x", text: include_str!("../../../../machines/chips/mi300x.yaml") },
    Preset { name: "gaudi3", text: include_str!("../../../../machines/chips/gaudi3.yaml") },
    Preset { name: "tpu-v4", text: include_str!("../../../../machines/chips/tpu-v4.yaml") },
    Preset { name: "tpu-v5e", text: include_str!("../../../../machines/chips/tpu-v5e.yaml") },
];

/// Returns every chip that comes with the program: a machine file without the parts around the chip, for `base`.
pub fn chips() -> &'static [Preset] {
    CHIPS
}

/// Returns every preset, smallest machine first and the one for checking models last.
pub fn presets() -> &'static [Preset] {
    PRESETS
}

/// Returns the preset called `name`.
pub fn preset(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}
