//! A sliding window of calls in ten buckets.

use crate::time::{Duration, Instant};

const BUCKETS: usize = 10;

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    slot: u64,
    counts: Counts,
}

/// What a window holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) calls: u32,
    failures: u32,
    pub(super) timed: u32,
    slow: u32,
}

impl Counts {
    pub(super) fn failure_share(self) -> f64 {
        share(self.failures, self.calls)
    }

    pub(super) fn slow_share(self) -> f64 {
        share(self.slow, self.timed)
    }
}

fn share(part: u32, whole: u32) -> f64 {
    if whole == 0 { 0.0 } else { f64::from(part) / f64::from(whole) }
}

/// Ten buckets of a tenth of the window each; a bucket is reused once its slot number moved on.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    width: u64,
    buckets: [Bucket; BUCKETS],
}

impl Window {
    pub(super) fn add_call(&mut self, now: Instant, window: Duration) {
        self.edit(now, window, |c| c.calls = c.calls.saturating_add(1));
    }

    pub(super) fn add_failure(&mut self, now: Instant, window: Duration) {
        self.edit(now, window, |c| c.failures = c.failures.saturating_add(1));
    }

    pub(super) fn add_timed(&mut self, now: Instant, window: Duration, slow: bool) {
        self.edit(now, window, |c| {
            c.timed = c.timed.saturating_add(1);
            c.slow = c.slow.saturating_add(u32::from(slow));
        });
    }

    pub(super) fn counts(&self, now: Instant) -> Counts {
        let newest = self.slot(now);
        let mut sum = Counts::default();
        for b in self.buckets.iter().filter(|b| b.slot.saturating_add(BUCKETS as u64) > newest) {
            sum.calls = sum.calls.saturating_add(b.counts.calls);
            sum.failures = sum.failures.saturating_add(b.counts.failures);
            sum.timed = sum.timed.saturating_add(b.counts.timed);
            sum.slow = sum.slow.saturating_add(b.counts.slow);
        }
        sum
    }

    fn slot(&self, now: Instant) -> u64 {
        // Slot numbers start at BUCKETS so that an untouched bucket (slot 0) is always outside the window.
        now.as_nanos().checked_div(self.width).unwrap_or(0).saturating_add(BUCKETS as u64)
    }

    fn edit(&mut self, now: Instant, window: Duration, change: impl FnOnce(&mut Counts)) {
        let width = (u64::try_from(window.as_nanos()).unwrap_or(u64::MAX) / BUCKETS as u64).max(1);
        if self.width != width {
            // Another window was configured: counts of other widths cannot be merged.
            *self = Self { width, ..Self::default() };
        }
        let slot = self.slot(now);
        let place = usize::try_from(slot % BUCKETS as u64).unwrap_or(0);
        if let Some(bucket) = self.buckets.get_mut(place) {
            if bucket.slot != slot {
                *bucket = Bucket { slot, counts: Counts::default() };
            }
            change(&mut bucket.counts);
        }
    }
}
