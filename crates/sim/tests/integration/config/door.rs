//! The doors to a machine: presets, files and changed values.

use phalanx_sim::config::{DEFAULT_PRESET, MachineError, parse_machine, presets, to_yaml};
use phalanx_sim::{MachineSpec, Time};
use std::path::PathBuf;

/// A file of this test process alone, removed when the value is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, text: impl AsRef<[u8]>) -> Self {
        let path = std::env::temp_dir().join(format!("phalanx-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).unwrap();
    }
}

#[test]
fn a_preset_is_the_machine_of_its_file() {
    for preset in presets() {
        let parsed = parse_machine(preset.name, preset.text).unwrap();
        assert_eq!(MachineSpec::preset(preset.name).unwrap(), parsed);
    }
    assert!(MachineSpec::preset(DEFAULT_PRESET).is_ok());
}

#[test]
fn an_unknown_preset_is_refused_with_the_list_and_a_suggestion() {
    let error = MachineSpec::preset("octoring").unwrap_err();
    assert!(matches!(error, MachineError::UnknownPreset { suggestion: Some("octo-ring"), .. }));
    let error = MachineSpec::preset("zebra").unwrap_err();
    assert_eq!(
        error.to_string(),
        "no machine named `zebra`: \
         the presets are `pair`, `quad-sip`, `octo-ring`, `torus-16`, `pod-64`, `hgx-a100`, `hgx-h100`, \
         `hgx-h200`, `hgx-b200`, `mi300x-8`, `gaudi3-8`, `tpu-v4-64`, `tpu-v5e-16`, \
         `a100-efa-16`, `a100-ib-16`, `b200-roce-16`, `h100-pod-64`, `bare`"
    );
}

#[test]
fn a_file_is_loaded_and_checked() {
    let pair = MachineSpec::preset("pair").unwrap();
    let good = Scratch::new("good.yaml", to_yaml(&pair));
    assert_eq!(MachineSpec::load(&good.0).unwrap(), pair);
    let bad = Scratch::new("bad.yaml", to_yaml(&pair).replace("count: 2", "count: two"));
    let MachineError::Invalid(errors) = MachineSpec::load(&bad.0).unwrap_err() else {
        panic!("a wrong value is an invalid machine")
    };
    let first = &errors.errors()[0];
    assert_eq!((first.file(), first.line(), first.column()), (&*bad.0.to_string_lossy(), 4, 18));
}

#[test]
fn a_file_that_is_no_text_is_refused() {
    let missing = MachineSpec::load("/no/such/machine.yaml").unwrap_err();
    assert!(missing.to_string().starts_with("cannot read `/no/such/machine.yaml`: "), "{missing}");
    let binary = Scratch::new("binary.yaml", [b'a', 0xff]);
    let error = MachineSpec::load(&binary.0).unwrap_err();
    assert!(error.to_string().ends_with("it is not UTF-8 text (byte 1)"), "{error}");
    let long = Scratch::new("long.yaml", vec![b'#'; 300 << 10]);
    let error = MachineSpec::load(&long.0).unwrap_err();
    assert!(error.to_string().ends_with("it is longer than 256 KiB"), "{error}");
}

#[test]
fn values_are_changed_one_by_one_or_together() {
    let quad = MachineSpec::preset("quad-sip").unwrap();
    let slow = quad.with("system.sips.link.latency=1us").unwrap();
    assert_eq!(slow.sips.link.latency, Time::us(1));
    assert_eq!(slow.with("system.sips.link.latency=500ns").unwrap(), quad);
    let changes = ["system.sips.topology=mesh_2d", "system.sips.rows=2", "system.sips.columns=2"];
    assert!(quad.with(changes[0]).is_err(), "a mesh needs rows and columns");
    let mesh = quad.with_all(changes).unwrap();
    assert_eq!(mesh.with("system.sips.topology=ring_1d").unwrap(), quad);
    let error = quad.with("system.sips.cuont=8").unwrap_err();
    assert!(error.to_string().contains("--set:1:13"), "{error}");
}
