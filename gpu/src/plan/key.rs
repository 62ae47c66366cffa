//! What a job's launches depend on: jobs with equal keys share a recording.

use quire_codec::stages::exceptions::most_listed;
use quire_codec::stages::grid::Grid;
use quire_codec::stages::plane::{announced_block_log, interpolation_kind, is_of_bit_planes};
use quire_codec::stages::predictor::Predictor;
use quire_codec::{CodingPolicy, Layout, Shape};

use crate::job::{COLUMNS_BY_PASS, COLUMNS_JOINED, COLUMNS_WHOLE, MIN_BLOCK_ROWS, ROWS_BLOCK_LOG};

/// What the launches of a job depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key<Variant> {
    pub(crate) layout: Layout,
    pub(crate) chunks: usize,
    pub(crate) variant: Variant,
}

/// What the launches that compress depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EncodeVariant {
    /// The kernel `inspect` looks at the chunks, which may be constant or on a lattice.
    pub(crate) inspected: bool,
    /// Values are interpolated; otherwise differences are coded.
    pub(crate) interpolated: bool,
    /// The grid is an absolute bound's, or a lattice.
    pub(crate) linear_grid: bool,
    /// Order or thresholds are kept on such a grid.
    pub(crate) kept: bool,
    /// Planes are coded as bit planes; otherwise as tokens.
    pub(crate) bit_planes: bool,
    /// Values are read where a caller has them in device memory.
    pub(crate) resident: bool,
}

impl EncodeVariant {
    /// For chunks in the host's memory of which nothing is known: constant ones, and those that are inspected first.
    pub(crate) fn unknown(layout: &Layout, coding: CodingPolicy) -> Self {
        Self {
            inspected: true,
            interpolated: false,
            linear_grid: layout.scalar.is_float(),
            kept: false,
            bit_planes: coding == CodingPolicy::Bitshuffle,
            resident: false,
        }
    }

    /// For chunks in the host's memory with this grid and this predictor.
    pub(crate) fn chosen(layout: &Layout, coding: CodingPolicy, grid: &Grid, predictor: Predictor, inspected: bool) -> Self {
        Self {
            inspected,
            interpolated: predictor.is_interpolation(),
            linear_grid: matches!(grid, Grid::Linear(_)),
            kept: matches!(grid, Grid::Linear(grid) if !grid.keep().is_nothing()),
            ..Self::unknown(layout, coding)
        }
    }
}

/// What the launches that decompress depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DecodeVariant {
    /// How exceptions are to be restored.
    pub(crate) exceptions: Exceptions,
    /// Whether there are several rows, and blocks hold whole rows and are short enough for shared memory.
    pub(crate) rows_in_blocks: bool,
    /// Where columns of those rows are summed.
    pub(crate) columns: Columns,
    /// Values are interpolated.
    pub(crate) interpolated: bool,
    /// The passes that undo the prediction write values: the grid is linear, and values are as long as their codes.
    pub(crate) in_place: bool,
    /// Planes may have tokens.
    pub(crate) tokens: bool,
    /// Planes may be bit planes.
    pub(crate) bit_planes: bool,
    /// The kernels fetch the stream from pinned memory.
    pub(crate) fetched: bool,
    /// Values are written where a caller wants them in device memory.
    pub(crate) resident: bool,
}

impl DecodeVariant {
    /// The variant for a stream with this number of exceptions. `plane` is the beginning of its first plane.
    pub(crate) fn new(shape: &Shape, in_place: bool, exceptions: u64, plane: &[u8]) -> Self {
        let interpolated = interpolation_kind(plane, shape).is_some();
        let block_log = announced_block_log(plane).unwrap_or(0);
        let exceptions = Exceptions::of(exceptions, shape.elements());
        let are_bit_planes = is_of_bit_planes(plane);
        // The headers of the exceptions' planes have not been read: they may have tokens or bit planes.
        let any = exceptions == Exceptions::Many;
        let rows_in_blocks = !interpolated
            && block_log <= ROWS_BLOCK_LOG
            && (1usize << block_log).is_multiple_of(shape.row())
            && shape.elements() > shape.row() as u64;
        let columns = if rows_in_blocks { Columns::of(shape, 1 << block_log) } else { Columns::ByPass };
        Self {
            exceptions,
            rows_in_blocks,
            columns,
            interpolated,
            in_place,
            tokens: any || !are_bit_planes,
            bit_planes: any || are_bit_planes,
            fetched: false,
            resident: false,
        }
    }

    /// The variant whose arrays are the longest.
    pub(crate) const LARGEST: Self = Self {
        exceptions: Exceptions::Many,
        rows_in_blocks: true,
        columns: Columns::Joined,
        interpolated: true,
        in_place: true,
        tokens: true,
        bit_planes: true,
        fetched: false,
        resident: true,
    };

    /// The variant for a batch of resident chunks. Some of its launches find nothing to do for a chunk without exceptions.
    pub(crate) fn of_batch(self) -> Self {
        let exceptions = if self.exceptions == Exceptions::None { Exceptions::Listed } else { self.exceptions };
        Self { exceptions, resident: true, ..self }
    }
}

/// How columns of codes are summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Columns {
    /// In a pass of their own.
    ByPass,
    /// Within blocks that hold parts of columns. The parts are joined afterwards.
    Joined,
    /// Within blocks that hold whole columns.
    Whole,
}

impl Columns {
    /// For blocks of `block` values that hold whole rows.
    fn of(shape: &Shape, block: usize) -> Self {
        // A thread sums a column, so that a row must have one for each thread of a warp; the pass along the third axis joins the columns.
        const MIN_ROW: usize = 32;
        match shape.extents()[..shape.dims().len()] {
            [row, columns, behind, ..] if row >= MIN_ROW && columns > 1 && behind > 1 => {
                let plane = row * columns;
                if block.is_multiple_of(plane) {
                    Self::Whole
                } else if plane.is_multiple_of(block) && block >= MIN_BLOCK_ROWS * row {
                    Self::Joined
                } else {
                    Self::ByPass
                }
            }
            _ => Self::ByPass,
        }
    }

    /// The variant as `DecodeJob::columns_in_blocks` has it.
    pub(super) fn number(self) -> u32 {
        match self {
            Self::ByPass => COLUMNS_BY_PASS,
            Self::Joined => COLUMNS_JOINED,
            Self::Whole => COLUMNS_WHOLE,
        }
    }
}

/// Which launches exceptions need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exceptions {
    None,
    /// Exceptions are in a list.
    Listed,
    /// Exceptions have planes, in some chunks of a batch at least.
    Many,
}

impl Exceptions {
    fn of(count: u64, elements: u64) -> Self {
        if count == 0 {
            Self::None
        } else if count <= most_listed(elements) {
            Self::Listed
        } else {
            Self::Many
        }
    }
}
