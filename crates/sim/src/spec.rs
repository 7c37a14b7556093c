//! A machine as numbers: what a machine file says once it has been checked.

mod collectives;
mod engines;
mod levels;

pub use collectives::{
    ChoiceName, CollectivesSpec, Generation, ProfileName, Protocol, ProtocolSpec,
};
pub use engines::{CacheSpec, DmaSpec, GemmSpec, HbmSpec, NumberType, VectorClass, VectorCosts};
pub use levels::{Efficiency, InSwitchSpec, LevelSpec, LinkSpec};

use crate::time::{Bandwidth, Capacity, Rate, Time};

/// A whole machine: packages (SIPs) of cubes of processing elements (PEs).
#[derive(Clone, Debug, PartialEq)]
pub struct MachineSpec {
    /// Its name, as `--machine` takes it.
    pub name: String,
    /// One line on what it is.
    pub description: String,
    /// The packages of one group and the wires between them.
    pub sips: SipsSpec,
    /// The levels of groups above the SIPs, from inner to outer; empty for one group alone.
    pub levels: Vec<LevelSpec>,
    /// The library that runs collectives, if the file names one.
    pub collectives: Option<CollectivesSpec>,
    /// The wire between each SIP and its host.
    pub host: WireSpec,
    /// Time that a program of the host measures around a kernel beyond the kernel. Simulated times do not have it; a measured time may.
    pub launch: Time,
    /// The cubes of a SIP, a mesh.
    pub cubes: GridSpec,
    /// The cache that the PEs of a SIP share, if there is one.
    pub cache: Option<CacheSpec>,
    /// The PEs of a cube, a mesh.
    pub pes: GridSpec,
    /// The memory stack of a cube.
    pub hbm: HbmSpec,
    /// The scratch memory of a PE.
    pub tcm: Capacity,
    /// The DMA engine of a PE.
    pub dma: DmaSpec,
    /// The matrix engine of a PE.
    pub gemm: GemmSpec,
    /// The vector engine of a PE: bytes a second, one operand counted.
    pub vector: Bandwidth,
    /// The costs of classes of vector operations.
    pub vector_costs: VectorCosts,
    /// The sources of figures, in the order of the file.
    pub sources: Vec<FigureSource>,
}

/// The source of a figure of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FigureSource {
    /// The figure, by its dotted path: `pe.dma.latency`.
    pub figure: String,
    /// Its origin.
    pub origin: Origin,
}

/// The origin of a figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Chosen so that the simulation meets measurements.
    Fitted,
    /// A document, in one line of text.
    Text(String),
}

impl Origin {
    /// The word for a fitted figure.
    pub const FITTED: &'static str = "fitted";
    /// The word that begins the source of a figure which no document or measurement gives.
    pub const ASSUMED: &'static str = "assumed";

    /// Returns the text in machine files.
    pub fn text(&self) -> &str {
        match self {
            Self::Fitted => Self::FITTED,
            Self::Text(text) => text,
        }
    }

    /// Returns the origin that a machine file describes by this text.
    pub fn from_text(text: &str) -> Self {
        if text == Self::FITTED { Self::Fitted } else { Self::Text(text.to_owned()) }
    }
}

/// A link: moves bytes at `bandwidth` and delivers them `latency` later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireSpec {
    /// Bytes a second.
    pub bandwidth: Bandwidth,
    /// From the last byte's departure to its arrival.
    pub latency: Time,
}

crate::portable!(struct WireSpec { bandwidth, latency });

impl WireSpec {
    /// A wire that costs nothing.
    pub const FREE: Self = Self { bandwidth: Rate::UNLIMITED, latency: Time::ZERO };
}

/// The SIPs of a machine, or of one of its innermost groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SipsSpec {
    /// Number of SIPs in one group; [`MachineSpec::devices`] is the number of all.
    pub count: u32,
    /// Topology of the links between SIPs.
    pub topology: Topology,
    /// Each link, in each direction.
    pub link: LinkSpec,
    /// Mode in which a SIP forwards messages of others.
    pub forwarding: Forwarding,
    /// Cost of a message that the switch copies to several receivers; `None` if the switch cannot.
    pub multicast: Option<InSwitchSpec>,
    /// Cost of a reduction inside the switch; `None` if the switch cannot.
    pub reduction: Option<InSwitchSpec>,
}

impl SipsSpec {
    /// Returns SIPs that store and forward, on a switch that neither copies nor combines messages if it is one.
    pub fn new(count: u32, topology: Topology, link: impl Into<LinkSpec>) -> Self {
        Self {
            count,
            topology,
            link: link.into(),
            forwarding: Forwarding::default(),
            multicast: None,
            reduction: None,
        }
    }
}

/// Mode in which a SIP between two others forwards messages. A switch has a mode of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Forwarding {
    /// A chunk goes on when its last byte has arrived.
    #[default]
    StoreAndForward,
    /// A message goes on when its first byte has arrived; messages are not cut into chunks.
    CutThrough,
}

impl Forwarding {
    /// All of them, in the order in which messages list them.
    pub const ALL: [Self; 2] = [Self::StoreAndForward, Self::CutThrough];

    /// Returns the name in machine files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::StoreAndForward => "store_and_forward",
            Self::CutThrough => "cut_through",
        }
    }

    /// Finds the one with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

/// Topology of the links between SIPs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// A ring: each SIP to the one before and after it.
    Ring1d,
    /// A grid without wrap-around; SIP `row * columns + column`.
    Mesh2d {
        /// Rows.
        rows: u32,
        /// Columns.
        columns: u32,
    },
    /// A grid whose rows and columns are rings.
    Torus2d {
        /// Rows.
        rows: u32,
        /// Columns.
        columns: u32,
    },
    /// Layers of grids without wrap-around; SIP `(layer * rows + row) * columns + column`.
    Mesh3d {
        /// Layers.
        layers: u32,
        /// Rows.
        rows: u32,
        /// Columns.
        columns: u32,
    },
    /// Layers of grids whose rows, columns and stacks are rings.
    Torus3d {
        /// Layers.
        layers: u32,
        /// Rows.
        rows: u32,
        /// Columns.
        columns: u32,
    },
    /// One link per ordered pair.
    FullyConnected,
    /// One full-duplex port per SIP.
    Switch,
}

impl Topology {
    /// Returns the sides of a ring or a grid, x (columns) first; `None` where every part reaches every other in one
    /// hop.
    pub fn sides(self, count: u32) -> Option<[u32; 3]> {
        match self {
            Self::Ring1d => Some([count, 1, 1]),
            Self::Mesh2d { rows, columns } | Self::Torus2d { rows, columns } => {
                Some([columns, rows, 1])
            }
            Self::Mesh3d { layers, rows, columns } | Self::Torus3d { layers, rows, columns } => {
                Some([columns, rows, layers])
            }
            Self::FullyConnected | Self::Switch => None,
        }
    }

    /// True if the lines of this ring or grid are closed.
    pub const fn wraps(self) -> bool {
        matches!(self, Self::Ring1d | Self::Torus2d { .. } | Self::Torus3d { .. })
    }

    /// Returns the name in machine files.
    pub const fn name(self) -> &'static str {
        self.kind().name()
    }

    /// Returns the kind of topology, without its size.
    pub const fn kind(self) -> TopologyKind {
        match self {
            Self::Ring1d => TopologyKind::Ring1d,
            Self::Mesh2d { .. } => TopologyKind::Mesh2d,
            Self::Torus2d { .. } => TopologyKind::Torus2d,
            Self::Mesh3d { .. } => TopologyKind::Mesh3d,
            Self::Torus3d { .. } => TopologyKind::Torus3d,
            Self::FullyConnected => TopologyKind::FullyConnected,
            Self::Switch => TopologyKind::Switch,
        }
    }
}

/// A [`Topology`] without its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopologyKind {
    /// [`Topology::Ring1d`].
    Ring1d,
    /// [`Topology::Mesh2d`].
    Mesh2d,
    /// [`Topology::Torus2d`].
    Torus2d,
    /// [`Topology::Mesh3d`].
    Mesh3d,
    /// [`Topology::Torus3d`].
    Torus3d,
    /// [`Topology::FullyConnected`].
    FullyConnected,
    /// [`Topology::Switch`].
    Switch,
}

impl TopologyKind {
    /// All of them, in the order in which messages list them.
    pub const ALL: [Self; 7] = [
        Self::Ring1d,
        Self::Mesh2d,
        Self::Torus2d,
        Self::Mesh3d,
        Self::Torus3d,
        Self::FullyConnected,
        Self::Switch,
    ];

    /// Returns the name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ring1d => "ring_1d",
            Self::Mesh2d => "mesh_2d",
            Self::Torus2d => "torus_2d",
            Self::Mesh3d => "mesh_3d",
            Self::Torus3d => "torus_3d",
            Self::FullyConnected => "fully_connected",
            Self::Switch => "switch",
        }
    }

    /// Finds the one with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A mesh of equal parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GridSpec {
    /// Rows.
    pub rows: u32,
    /// Columns.
    pub columns: u32,
    /// Each wire between neighbours, in each direction.
    pub link: WireSpec,
}

impl GridSpec {
    /// Returns the number of parts.
    pub const fn count(&self) -> u32 {
        self.rows * self.columns
    }
}
