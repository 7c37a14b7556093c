//! What a context was told: seeds and how collectives are done.

use crate::ccl::Tuner;
use crate::ccl::config::CclConfig;
use std::rc::Rc;

/// The same for every rank.
pub(crate) struct Settings {
    pub(crate) seed: u64,
    pub(crate) ccl: CclConfig,
    pub(crate) tuner: Rc<Tuner>,
}
