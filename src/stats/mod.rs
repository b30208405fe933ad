//! Statistics computed while writing: block bounds, distinct sets, token sets. Plain data in, plain data out.

pub mod block;
pub mod extent;
pub mod json;
pub mod token_set;
pub mod tokens;
