//! Tests against archives that the dendro crate wrote (`test/data/dendro`, listed in its `manifest.json`), and against the
//! crate itself.

mod fixtures;
mod live;
mod pruning;
mod refused;
mod support;
mod written;
