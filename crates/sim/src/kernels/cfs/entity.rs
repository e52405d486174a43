//! The scheduler's data of a thread.

use policy::{CpuId, Instant};

use super::timeline::Place;
use crate::kernels::nice::NORMAL;

/// The kernel's `sched_entity`. Virtual times are nanoseconds, comparable within one queue only. At
/// nice 0, a virtual nanosecond is a real one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entity {
    pub(super) vruntime: i64,
    /// When it last ran on this CPU, if ever (`exec_start`).
    pub(super) last_ran: Option<Instant>,
    pub(super) cpu: CpuId,
    pub(super) weight: u32,
    pub(super) place: Place,
}

impl Entity {
    pub(super) fn new(weight: u64) -> Entity {
        Entity { vruntime: 0, last_ran: None, cpu: CpuId(0), weight: weight as u32, place: Place::AWAY }
    }

    /// Converts a real time to a virtual one (`calc_delta_fair`).
    #[inline]
    pub(super) fn virtually(&self, nanos: i64) -> i64 {
        if u64::from(self.weight) == NORMAL {
            nanos
        } else {
            (i128::from(nanos) * i128::from(NORMAL) / i128::from(self.weight)) as i64
        }
    }
}
