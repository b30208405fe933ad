//! Pauses between attempts of a commit that lost a race.

use std::time::Duration;

/// How often a commit is tried before it gives up with a conflict. With eight writers that always collide the chance of losing them
/// all is below one in a million.
pub(crate) const MAX_ATTEMPTS: u32 = 200;

/// The pause after attempt `attempt` (0-based): 2^attempt milliseconds, at most 200, the upper half of it random so that writers
/// that collided once do not collide again in step.
pub(crate) fn pause(attempt: u32) -> Duration {
    let ceiling: u64 = 1_000 * (1 << attempt.min(8)).min(200);
    let random = uuid::Uuid::new_v4().as_u128() & u128::from(u32::MAX);
    let jitter = u64::try_from(random).unwrap_or(0) % (ceiling / 2 + 1);
    Duration::from_micros(ceiling / 2 + jitter)
}
