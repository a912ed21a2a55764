//! Why a run is no measurement of a server, whatever its figures: nobody was answered, or not with what was
//! asked for.
//!
//! An overloaded server may fail many calls, and how many is a result. That none of them was answered is
//! none.

use super::Facts;
use super::validity::nothing_measured;
use crate::measures::{Measures, Verified};
use crate::record::Outcome;

/// In sentences; empty if the run is one.
pub fn failures(measures: &Measures, facts: &Facts) -> Vec<String> {
    let mut reasons = Vec::new();
    let Verified { compared, wrong } = measures.verified;
    if wrong > 0 {
        reasons.push(format!("{wrong} of {compared} replies that were compared are not their files"));
    } else if nothing_measured(measures, facts).is_some() {
        return reasons;
    } else if nobody_answered(measures) {
        reasons.push(format!("none of {} calls was answered", measures.cohort.issued));
    }
    if facts.verified && compared == 0 {
        reasons
            .push("no reply was compared with its file: that takes a whole reply of status 200".to_owned());
    }
    reasons
}

/// Whether calls were over, and none of them with a reply. What somebody did not wait for may have been
/// answered yet.
fn nobody_answered(Measures { cohort, flow, .. }: &Measures) -> bool {
    let cut_off = cohort.outcomes.of(Outcome::Unfinished);
    let all_cut_off = cut_off > 0 && cut_off == cohort.issued;
    cohort.outcomes.of(Outcome::Reply) == 0 && flow.replies() == 0 && !all_cut_off
}
