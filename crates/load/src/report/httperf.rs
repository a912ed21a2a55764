//! Results as httperf prints them, line for line, so that scripts that read its report go on working.
//!
//! Where httperf and common sense differ, this is httperf: sizes are cut to whole bytes, averages of rates
//! are those of samples of five seconds, a run shorter than that has none, and timed-out calls have no reply
//! time. Two things are better here: times are exact where httperf puts them into bins of a millisecond (the
//! median), and a lack of ports is `addrunavail`, which httperf counts as `other`.

use std::fmt::Write as _;

use super::Facts;
use crate::measures::Measures;
use crate::record::Outcome;

/// The report.
pub fn render(measures: &Measures, facts: &Facts) -> String {
    let mut text = String::new();
    // Writing to a String can't fail.
    let _ = write_all(&mut text, measures, facts);
    text
}

fn write_all(text: &mut String, measures: &Measures, facts: &Facts) -> std::fmt::Result {
    if let Some(reason) = super::validity::nothing_measured(measures, facts) {
        return writeln!(text, "{}\nINVALID: {reason}", facts.command.join(" "));
    }
    let duration = facts.measured_s();
    let ended = (facts.outcome.duration_s * 1e9) as u64;
    let Measures { flow, cohort, connections, .. } = measures;
    // As often as they were sent.
    let (requests, replies) = (flow.requests + flow.resent, flow.replies());
    writeln!(text, "{}", facts.command.join(" "))?;
    writeln!(text, "Maximum connect burst length: {}", measures.longest_burst)?;
    writeln!(text)?;
    writeln!(
        text,
        "Total: connections {} requests {requests} replies {replies} test-duration {duration:.3} s",
        connections.tried
    )?;
    writeln!(text)?;

    let rate = |count: u64| count as f64 / duration;
    let period_ms = |count: u64| if count == 0 { 0.0 } else { duration * 1e3 / count as f64 };
    writeln!(
        text,
        "Connection rate: {:.1} conn/s ({:.1} ms/conn, <={} concurrent connections)",
        rate(connections.tried),
        period_ms(connections.tried),
        measures.most_open
    )?;
    let time = &connections.time_ms;
    writeln!(
        text,
        "Connection time [ms]: min {:.1} avg {:.1} max {:.1} median {:.1} stddev {:.1}",
        time.least(),
        time.mean(),
        time.most(),
        connections.times.percentile_ms(50.0),
        time.deviation()
    )?;
    writeln!(text, "Connection time [ms]: connect {:.1}", connections.connect_times.mean_ms())?;
    writeln!(text, "Connection length [replies/conn]: {:.3}", connections.replies_of_each())?;
    writeln!(text)?;

    writeln!(text, "Request rate: {:.1} req/s ({:.1} ms/req)", rate(requests), period_ms(requests))?;
    let whole = |bytes: u64, count: u64| bytes.checked_div(count).unwrap_or(0) as f64;
    writeln!(text, "Request size [B]: {:.1}", whole(flow.request_bytes, flow.requests))?;
    writeln!(text)?;

    let samples = flow.reply_rates.per_second(ended);
    writeln!(
        text,
        "Reply rate [replies/s]: min {:.1} avg {:.1} max {:.1} stddev {:.1} ({} samples)",
        samples.least(),
        samples.mean(),
        samples.most(),
        samples.deviation(),
        samples.count()
    )?;
    writeln!(
        text,
        "Reply time [ms]: response {:.1} transfer {:.1}",
        cohort.response_times.mean_ms(),
        cohort.transfer_times.mean_ms()
    )?;
    let (head, body) = (whole(flow.head_bytes, replies), whole(flow.body_bytes, replies));
    writeln!(
        text,
        "Reply size [B]: header {head:.1} content {body:.1} footer 0.0 (total {:.1})",
        head + body
    )?;
    let [c1, c2, c3, c4, c5] = flow.statuses;
    writeln!(text, "Reply status: 1xx={c1} 2xx={c2} 3xx={c3} 4xx={c4} 5xx={c5}")?;
    writeln!(text)?;

    write_own(text, measures, facts)?;
    write_errors(text, measures)?;
    write_sessions(text, measures, duration, ended)
}

/// What the generator itself used, and what went over the network.
fn write_own(text: &mut String, measures: &Measures, facts: &Facts) -> std::fmt::Result {
    let sum = |part: fn(&(f64, f64)) -> f64| facts.outcome.cpu_s.iter().map(part).sum::<f64>();
    let (user, system) = (sum(|(user, _)| *user), sum(|(_, system)| *system));
    let share = |time: f64| time / facts.measured_s() * 100.0;
    writeln!(
        text,
        "CPU time [s]: user {user:.2} system {system:.2} (user {:.1}% system {:.1}% total {:.1}%)",
        share(user),
        share(system),
        share(user + system)
    )?;
    let bytes_per_s = measures.flow.bytes() as f64 / facts.measured_s();
    writeln!(text, "Net I/O: {:.1} KB/s ({:.1}*10^6 bps)", bytes_per_s / 1024.0, bytes_per_s * 8.0 / 1e6)?;
    writeln!(text)
}

fn write_errors(text: &mut String, measures: &Measures) -> std::fmt::Result {
    let outcomes = &measures.flow.outcomes;
    let of = |several: &[Outcome]| several.iter().map(|&outcome| outcomes.of(outcome)).sum::<u64>();
    // A connection that the server ends is an error there, even if its session goes on over another.
    let reset = of(&[Outcome::Reset, Outcome::Closed, Outcome::CutShort]) + measures.connections.lost;
    let other = of(&[
        Outcome::Unreachable,
        Outcome::TlsError,
        Outcome::WrongBytes,
        Outcome::WrongLength,
        Outcome::Malformed,
    ]);
    writeln!(
        text,
        "Errors: total {} client-timo {} socket-timo 0 connrefused {} connreset {reset}",
        outcomes.errors() + measures.connections.lost,
        outcomes.timeouts(),
        of(&[Outcome::Refused])
    )?;
    writeln!(
        text,
        "Errors: fd-unavail {} addrunavail {} ftab-full 0 other {other}",
        of(&[Outcome::NoDescriptor]),
        of(&[Outcome::NoPort])
    )?;
    writeln!(text)
}

fn write_sessions(text: &mut String, measures: &Measures, duration: f64, ended: u64) -> std::fmt::Result {
    let sessions = &measures.sessions;
    let samples = sessions.rates.per_second(ended);
    let over = sessions.completed + sessions.failed;
    writeln!(
        text,
        "Session rate [sess/s]: min {:.2} avg {:.2} max {:.2} stddev {:.2} ({}/{over})",
        samples.least(),
        sessions.completed as f64 / duration,
        samples.most(),
        samples.deviation(),
        sessions.completed
    )?;
    let connections = sessions.connections as f64 / sessions.completed.max(1) as f64;
    writeln!(text, "Session: avg {connections:.2} connections/session")?;
    writeln!(text, "Session lifetime [s]: {:.1}", sessions.lifetime_s.mean())?;
    writeln!(text, "Session failtime [s]: {:.1}", sessions.failtime_s.mean())?;
    let longest = sessions.lengths.iter().rposition(|count| *count > 0).unwrap_or(0);
    write!(text, "Session length histogram:")?;
    for count in &sessions.lengths[..=longest] {
        write!(text, " {count}")?;
    }
    writeln!(text)
}

#[cfg(test)]
mod tests {
    use crate::report::tests::sample;

    #[test]
    fn figures_stand_where_httperf_has_them() {
        let (measures, facts) = sample();
        let text = super::render(&measures, &facts);
        for line in [
            "Total: connections 100 requests 100 replies 90 test-duration 10.000 s",
            "Connection rate: 10.0 conn/s (100.0 ms/conn, <=7 concurrent connections)",
            "Connection length [replies/conn]: 1.000",
            "Request rate: 10.0 req/s (100.0 ms/req)",
            "Request size [B]: 60.0",
            "Reply rate [replies/s]: min 9.0 avg 9.0 max 9.0 stddev 0.0 (2 samples)",
            "Reply size [B]: header 200.0 content 1000.0 footer 0.0 (total 1200.0)",
            "Reply status: 1xx=0 2xx=90 3xx=0 4xx=0 5xx=0",
            "CPU time [s]: user 1.00 system 1.00 (user 10.0% system 10.0% total 20.0%)",
            "Net I/O: 11.1 KB/s (0.1*10^6 bps)",
            "Errors: total 10 client-timo 10 socket-timo 0 connrefused 0 connreset 0",
            "Errors: fd-unavail 0 addrunavail 0 ftab-full 0 other 0",
            "Session rate [sess/s]: min 9.00 avg 9.00 max 9.00 stddev 0.00 (90/100)",
            "Session: avg 1.00 connections/session",
            "Session length histogram: 10 90",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
