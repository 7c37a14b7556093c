//! The directory for results that are kept between runs.
//!
//! `PHALANX_CACHE` names it, or is `off`; else it is `phalanx` in the user's cache directory (`XDG_CACHE_HOME`, `~/.cache`). Everything
//! in it can be computed again: removing it loses nothing but time.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The variable that names the directory, or is `off`.
pub const VARIABLE: &str = "PHALANX_CACHE";

/// Returns the directory; `None` if it is switched off, or if the user has no directory for such files.
pub fn directory(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    match set(VARIABLE) {
        Some(value) if value == "off" => None,
        Some(path) => Some(PathBuf::from(path)),
        None => {
            let user = set("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
            let user = user.or_else(|| Some(PathBuf::from(set("HOME")?).join(".cache")));
            Some(user?.join("phalanx"))
        }
    }
}

/// Returns the bytes of all files below a directory.
pub fn size(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(found) if found.is_dir() => size(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

/// Names below the directory that the program makes; nothing else is ever removed.
const OWN: [&str; 2] = ["sweeps", "trials"];

/// Removes all results that are kept.
pub fn clear(directory: &Path) -> io::Result<()> {
    for name in OWN {
        match fs::remove_dir_all(directory.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(variables: &[(&str, &str)]) -> Option<PathBuf> {
        directory(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into())
        })
    }

    #[test]
    fn the_directory_follows_the_environment() {
        assert_eq!(found(&[("HOME", "/h")]), Some("/h/.cache/phalanx".into()));
        assert_eq!(found(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/c")]), Some("/c/phalanx".into()));
        assert_eq!(
            found(&[("HOME", "/h"), ("XDG_CACHE_HOME", "c")]),
            Some("/h/.cache/phalanx".into())
        );
        assert_eq!(found(&[("HOME", "/h"), (VARIABLE, "/mine")]), Some("/mine".into()));
        assert_eq!(found(&[("HOME", "/h"), (VARIABLE, "off")]), None);
        assert_eq!(found(&[]), None);
    }
}
