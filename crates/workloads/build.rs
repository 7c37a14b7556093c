//! Fingerprints the code that simulated times depend on, for results that are kept between runs.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// The crates, as directories beside this one.
const CRATES: [&str; 5] = ["engine", "sim", "torch", "device", "workloads"];

fn main() {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let mut hash = Hash::new();
    hash.add(env!("CARGO_PKG_VERSION").as_bytes());
    for name in CRATES {
        let sources = here.join("..").join(name).join("src");
        println!("cargo::rerun-if-changed={}", sources.display());
        add_directory(&mut hash, &sources);
    }
    println!("cargo::rustc-env=PHALANX_CODE={:016x}", hash.0);
}

/// Adds all files below a directory, in the order of their names. A directory that is missing adds nothing.
fn add_directory(hash: &mut Hash, directory: &Path) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            add_directory(hash, &path);
        } else if let Ok(bytes) = fs::read(&path) {
            hash.add(path.file_name().unwrap_or_default().as_encoded_bytes());
            hash.add(&bytes);
        }
    }
}

/// FNV-1a of 64 bits.
struct Hash(u64);

impl Hash {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes.iter().chain(&[0xff]) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
