//! From row timestamps to wall clock.
//!
//! Row timestamps are anchored: the wall clock read once at the start of a writer session plus monotonic time since. The wall
//! clock at a row is its timestamp plus an offset that the writer observes when it seals; `clock_offsets` keeps those
//! observations.

/// The clock observations of one source.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClockSeries {
    /// `(ts, offset_ns)`, ascending by `ts`, at most one per `ts`.
    observations: Vec<(i64, i64)>,
    /// Anchors of the writer sessions after the first, ascending: the monotonic clock restarts there, so an offset observed
    /// before one says nothing about rows after it.
    restarts: Vec<i64>,
}

impl ClockSeries {
    /// A series from observations `(ts, offset_ns)` and the anchors of all writer sessions, each in any order.
    pub fn new(mut observations: Vec<(i64, i64)>, mut anchors: Vec<i64>) -> Self {
        observations.sort_unstable();
        observations.dedup_by_key(|o| o.0);
        anchors.sort_unstable();
        anchors.dedup();
        let restarts = anchors.into_iter().skip(1).collect();
        Self { observations, restarts }
    }

    /// The observations, ascending by timestamp.
    pub fn observations(&self) -> &[(i64, i64)] {
        &self.observations
    }

    /// The offset in force at `ts`: that of the latest observation at or before it in the same writer session, else of the
    /// first one after it in that session. `None` when the session has no observation, which is not the same as no offset.
    pub fn offset_at(&self, ts: i64) -> Option<i64> {
        let session = self.restarts.partition_point(|restart| *restart <= ts);
        let start = session.checked_sub(1).and_then(|i| self.restarts.get(i)).copied();
        let end = self.restarts.get(session).copied();
        let from = start.map_or(0, |start| self.observations.partition_point(|o| o.0 < start));
        let to = end.map_or(self.observations.len(), |end| self.observations.partition_point(|o| o.0 < end));
        let within = self.observations.get(from..to)?;
        let after = within.partition_point(|o| o.0 <= ts);
        let nearest = after.checked_sub(1).and_then(|i| within.get(i)).or_else(|| within.get(after))?;
        Some(nearest.1)
    }

    /// The wall clock, in nanoseconds since the Unix epoch, at row timestamp `ts`; `None` when unknown or out of range.
    pub fn wall_ts(&self, ts: i64) -> Option<i64> {
        ts.checked_add(self.offset_at(ts)?)
    }

    /// Bounds of [`ClockSeries::wall_ts`] over row timestamps `first..=last`; `None` when some row's wall clock is unknown.
    pub fn wall_bounds(&self, first: i64, last: i64) -> Option<(i64, i64)> {
        // Between the points where the offset changes, wall time rises with row time, so its extremes are at those points.
        let mut low = self.wall_ts(first)?;
        let mut high = low;
        let within =
            self.observations.partition_point(|o| o.0 < first)..self.observations.partition_point(|o| o.0 <= last);
        let steps = self.observations.get(within).unwrap_or_default().iter().map(|o| o.0);
        let restarts = self.restarts.iter().copied().filter(|restart| (first..=last).contains(restart));
        for step in steps.chain(restarts) {
            for ts in [step.saturating_sub(1).max(first), step] {
                let wall = self.wall_ts(ts)?;
                low = low.min(wall);
                high = high.max(wall);
            }
        }
        let end = self.wall_ts(last)?;
        Some((low.min(end), high.max(end)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_observation_of_the_session_counts() {
        let series = ClockSeries::new(vec![(39, 3), (19, 1), (59, 5)], vec![0]);
        assert_eq!(series.offset_at(19), Some(1));
        assert_eq!(series.offset_at(38), Some(1));
        assert_eq!(series.offset_at(39), Some(3));
        assert_eq!(series.offset_at(1000), Some(5));
        assert_eq!(series.offset_at(i64::MIN), Some(1));
        assert_eq!(series.wall_ts(60), Some(65));
        assert_eq!(series.wall_ts(i64::MAX), None);
    }

    #[test]
    fn a_restart_cuts_the_series() {
        let series = ClockSeries::new(vec![(10, -7), (120, 2)], vec![100, 0, 200]);
        assert_eq!(series.offset_at(50), Some(-7));
        assert_eq!(series.offset_at(100), Some(2));
        assert_eq!(series.offset_at(199), Some(2));
        assert_eq!(series.offset_at(200), None);
        assert_eq!(ClockSeries::default().offset_at(0), None);
    }

    #[test]
    fn wall_bounds_cover_every_row() {
        let series = ClockSeries::new(vec![(10, -70), (20, 500), (30, -3)], vec![0, 25]);
        for first in 0..40i64 {
            for last in first..40 {
                let all: Vec<i64> = (first..=last).map(|ts| series.wall_ts(ts).unwrap()).collect();
                let bounds = series.wall_bounds(first, last).unwrap();
                assert_eq!(bounds, (*all.iter().min().unwrap(), *all.iter().max().unwrap()));
            }
        }
        assert_eq!(ClockSeries::new(vec![(5, 1)], vec![0, 25]).wall_bounds(0, 30), None);
    }
}
