//! Layouts of shared words: one definition for both sides, and a hash to compare.

/// Defines constants, and `LAYOUT`: their names and values as text.
macro_rules! layout {
    ($($(#[$meta:meta])* $name:ident: $kind:ty = $value:literal;)*) => {
        $($(#[$meta])* pub(super) const $name: $kind = $value;)*
        /// The constants above as text, for the layout hash.
        pub(crate) const LAYOUT: &str = concat!($(stringify!($name), "=", stringify!($value), ";"),*);
    };
}
pub(crate) use layout;

/// The hash of some texts (FNV-1a).
pub(crate) const fn hash(texts: &[&str]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut text = 0;
    while text < texts.len() {
        let bytes = texts[text].as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
            at += 1;
        }
        text += 1;
    }
    hash
}
