//! The settings of a context: the seed and the configuration of collectives.

use crate::ccl::Tuner;
use crate::ccl::config::CclConfig;
use crate::distributed::MemberLists;
use std::rc::Rc;

/// Settings that all ranks share.
pub(crate) struct Settings {
    pub(crate) seed: u64,
    pub(crate) ccl: CclConfig,
    pub(crate) tuner: Rc<Tuner>,
    pub(crate) members: MemberLists,
}
