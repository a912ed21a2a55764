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
    if nothing_measured(measures, facts).is_some() {
        return reasons;
    }
    let Verified { compared, wrong } = measures.verified;
    let Measures { cohort, flow, .. } = measures;
    if wrong > 0 {
        reasons.push(format!("{wrong} of {compared} replies that were compared are not their files"));
    } else if cohort.outcomes.of(Outcome::Reply) == 0 && flow.replies() == 0 {
        reasons.push(format!("none of {} calls was answered", cohort.issued));
    }
    if facts.verified && compared == 0 {
        reasons
            .push("no reply was compared with its file: that takes a whole reply of status 200".to_owned());
    }
    reasons
}
