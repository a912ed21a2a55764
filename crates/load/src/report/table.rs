//! Results for people.

use std::fmt::Write as _;

use machine::queue_drops::CAUSES;
use results::load::{AskedOfTls, AtListener, Dropped, Facts, Outcome as RunOutcome};

use super::chart::{Bars, write_chart};
use super::facts;
use crate::measures::{Cohort, Handshakes, Measures, OfClientClass, SizeClass, Times, Waits};
use crate::record::{Agreed, Outcome};

/// A few lines on what happened, then a table of times, and how they are distributed.
pub fn render(measures: &Measures, facts: &Facts, bars: Bars) -> String {
    let mut text = String::new();
    // Writing to a String can't fail.
    let _ = write_all(&mut text, measures, facts, bars);
    text
}

fn write_all(text: &mut String, measures: &Measures, facts: &Facts, bars: Bars) -> std::fmt::Result {
    if let Some(reason) = super::validity::nothing_measured(measures, facts) {
        writeln!(text, "{} to {}", facts.model, facts.targets.join(", "))?;
        return writeln!(text, "INVALID: {reason}");
    }
    let seconds = facts.measured_s();
    let per_s = |count: u64| count as f64 / seconds;
    let RunOutcome { interrupted, .. } = &facts.outcome;
    let Measures { flow, cohort, connections, sessions, .. } = measures;
    writeln!(text, "{} to {}", facts.model, facts.targets.join(", "))?;
    let warm_up = if facts.warm_up_s > 0.0 {
        format!(" after {} s of warm-up", facts.warm_up_s)
    } else {
        String::new()
    };
    let end = if *interrupted { ", interrupted" } else { "" };
    writeln!(text, "{seconds:.2} s measured{warm_up}{end}\n")?;

    // A run of random arrivals has a few more or fewer than its rate says.
    let random = if facts.arrivals.as_deref() == Some("exponential") { " on average" } else { "" };
    let asked =
        |rate: Option<f64>| rate.map_or_else(String::new, |rate| format!(", {rate:.2}/s asked{random}"));
    let of_sessions = facts::unit(facts) == "sessions";
    if of_sessions {
        writeln!(
            text,
            "sessions     {} arrived ({:.2}/s{}): {} completed, {} failed, {} still going on at the end",
            sessions.arrived,
            per_s(sessions.arrived),
            asked(facts.asked_sessions_per_s),
            sessions.completed,
            sessions.failed,
            sessions.unfinished
        )?;
    }
    let lost = some(connections.lost, "ended by the server under way");
    writeln!(
        text,
        "connections  {} tried ({:.2}/s), {} connected{lost}",
        connections.tried,
        per_s(connections.tried),
        connections.connected
    )?;
    if let Some(tls) = &facts.tls {
        write_handshakes(text, &measures.handshakes, tls)?;
    }
    let resent = some(flow.resent, "sent again over other connections");
    let asked = if of_sessions { String::new() } else { asked(facts.asked_requests_per_s) };
    writeln!(text, "requests     {} sent ({:.2}/s{asked}){resent}", flow.requests, per_s(flow.requests))?;
    let mbps = flow.body_bytes as f64 * 8.0 / 1e6 / seconds;
    writeln!(
        text,
        "replies      {} ({:.2}/s), {mbps:.2} Mbps of bodies",
        flow.replies(),
        per_s(flow.replies())
    )?;
    for (class, count) in flow.statuses.iter().enumerate().filter(|(class, count)| **count > 0 && *class != 1)
    {
        writeln!(text, "  {}xx        {count}", class + 1)?;
    }
    write_errors(text, cohort)?;
    for (class, of) in facts.classes.iter().zip(cohort.by_class.each()) {
        if class.handshakes_only {
            write_handshakes_only(text, &class.name, of, seconds)?;
        }
    }

    if facts.verified {
        let verified = measures.verified;
        writeln!(text, "verified     {} replies compared, {} wrong", verified.compared, verified.wrong)?;
    }
    if let Some(dropped) = &facts.outcome.queue_drops {
        write_drops(text, dropped)?;
    }

    write_times(text, measures, facts)?;
    let (name, times) = match facts.model.as_str() {
        "closed" => ("reply time", &cohort.reply_times),
        _ => ("reply time from intended start", &cohort.corrected_times),
    };
    write_chart(text, name, times, bars)?;
    write_generator(text, measures, facts)
}

/// How many handshakes there were, what they agreed on, and why TLS failed.
fn write_handshakes(text: &mut String, handshakes: &Handshakes, asked: &AskedOfTls) -> std::fmt::Result {
    let Handshakes { full, resumed, hello_retries, failed, unfinished, .. } = *handshakes;
    let retried = some(hello_retries, "with a second ClientHello");
    let unfinished = some(unfinished, "cut off by the end of the run");
    let verified = if asked.roots == "none" { "; certificates were not verified" } else { "" };
    writeln!(
        text,
        "TLS          {full} full handshakes{retried}, {resumed} resumed, {failed} \
         failed{unfinished}{verified}"
    )?;
    for (Agreed { version, cipher, group }, count) in handshakes.agreed() {
        let group = group.unwrap_or("no key exchange");
        writeln!(text, "  {version:<10} {count} with {cipher}, {group}")?;
    }
    for (reason, connections) in handshakes.reasons() {
        writeln!(text, "  {:<10} {connections}: {reason}", "errors")?;
    }
    Ok(())
}

/// What came of a class that only makes handshakes. These are in no line about requests.
fn write_handshakes_only(
    text: &mut String,
    name: &str,
    OfClientClass { outcomes, .. }: &OfClientClass,
    seconds: f64,
) -> std::fmt::Result {
    let made = outcomes.of(Outcome::Handshake);
    let per_s = made as f64 / seconds;
    writeln!(text, "handshakes   {made} made ({per_s:.2}/s), {} failed, by {name}", outcomes.errors())?;
    for outcome in Outcome::ALL.into_iter().filter(|outcome| *outcome != Outcome::Handshake) {
        let count = outcomes.of(outcome);
        if count > 0 {
            writeln!(text, "  {:<16} {count}: {}", outcome.name(), outcome.told())?;
        }
    }
    Ok(())
}

/// Who has no errors is told so, too.
fn write_errors(text: &mut String, cohort: &Cohort) -> std::fmt::Result {
    let part = |count: u64| count as f64 / cohort.issued.max(1) as f64 * 100.0;
    match cohort.outcomes.errors() {
        0 => writeln!(text, "errors       none")?,
        count => writeln!(text, "errors       {count} ({:.2}% of the requests)", part(count))?,
    }
    for outcome in Outcome::ALL.into_iter().filter(|outcome| *outcome != Outcome::Reply) {
        let count = cohort.outcomes.of(outcome);
        if count > 0 {
            let (name, percent, told) = (outcome.name(), part(count), outcome.told());
            writeln!(text, "  {name:<16} {count} ({percent:.2}%): {told}")?;
        }
    }
    Ok(())
}

fn write_times(text: &mut String, measures: &Measures, facts: &Facts) -> std::fmt::Result {
    let Measures { cohort, connections, handshakes, .. } = measures;
    writeln!(text, "\n{:<NAME$}{}", "ms", COLUMNS.map(|column| format!("{column:>10}")).concat())?;
    row(text, "reply time", &cohort.reply_times)?;
    if facts.model != "closed" {
        row(text, "  from intended start", &cohort.corrected_times)?;
    }
    if cohort.waits.bounds() > 0 {
        row_of_waits(text, "  with the unanswered", &cohort.waits)?;
    }
    row(text, "  until the first byte", &cohort.response_times)?;
    row(text, "  first to last byte", &cohort.transfer_times)?;
    row(text, "connecting", &connections.connect_times)?;
    row(text, "TLS handshake, full", &handshakes.full_times)?;
    row(text, "TLS handshake, resumed", &handshakes.resumed_times)?;
    row(text, "given up after", &cohort.timeout_times)?;
    let sizes: Vec<_> =
        SizeClass::ALL.into_iter().filter(|class| cohort.by_size.of(*class).calls > 0).collect();
    if sizes.len() > 1 {
        for class in sizes {
            let of = cohort.by_size.of(class);
            let share = of.timeouts as f64 / of.calls as f64 * 100.0;
            row(text, &timed_out(class.name(), share), cohort.by_size.times(class))?;
        }
    }

    for (class, of) in facts.classes.iter().zip(cohort.by_class.each()) {
        let share = of.outcomes.timeouts() as f64 / of.outcomes.all().max(1) as f64 * 100.0;
        let times = if class.handshakes_only { &of.handshake_times } else { &of.reply_times };
        row(text, &timed_out(&class.name, share), times)?;
    }
    if cohort.by_kind.each().count() > 1 {
        for (kind, of) in cohort.by_kind.each().filter(|(_, of)| of.calls > 0) {
            let made = if kind.dynamic { "dynamic" } else { "static" };
            row(text, &format!("{} {made}", kind.method.name()), &of.times)?;
        }
    }

    Ok(())
}

/// A row of those of whom so many percent were given up.
fn timed_out(name: &str, percent: f64) -> String {
    if percent > 0.0 { format!("{name}, {percent:.1}% given up") } else { name.to_owned() }
}

/// What the generator itself used, and whether it was up to it.
fn write_generator(text: &mut String, measures: &Measures, facts: &Facts) -> std::fmt::Result {
    let busy = facts::busy(facts) * 100.0;
    let per_reply = facts::cpu_us_per(facts, measures.flow.replies());
    let late = measures.lateness.percentile_ms(99.9);
    let late = if facts.model == "closed" {
        String::new()
    } else {
        format!(", 99.9% of the {} came at most {late:.2} ms late", facts::unit(facts))
    };
    let cpus = facts.cpus.len();
    let waited = measures.pressure.waited_part() * 100.0;
    writeln!(
        text,
        "\ngenerator    {busy:.0}% of {cpus} CPU, {per_reply:.2} us per reply, waited for it {waited:.1}% \
         of the time, other virtual machines had it for {:.2} s{late}",
        facts.outcome.stolen_s
    )?;
    for remark in super::remarks_on(measures, facts) {
        writeln!(text, "NOTE: {remark}")?;
    }
    for reason in super::reasons_against(measures, facts) {
        writeln!(text, "INVALID: {reason}")?;
    }
    for reason in super::failures(measures, facts) {
        writeln!(text, "FAILED: {reason}")?;
    }
    if let Some(answer) = super::answer::answer(measures, facts) {
        writeln!(text, "ANSWER: {answer}")?;
    }
    Ok(())
}

/// What is not worth a word where there is none.
fn some(count: u64, what: &str) -> String {
    if count == 0 { String::new() } else { format!(", {count} {what}") }
}

/// What there was of drops, and the sum even if there was none.
fn write_drops(text: &mut String, dropped: &Dropped) -> std::fmt::Result {
    let at = dropped.server_pid.map_or_else(String::new, |pid| format!(" at process {pid}"));
    let numbers = dropped.counts.each().into_iter().zip(dropped.per_s.each());
    for (cause, (count, per_s)) in CAUSES.iter().zip(numbers) {
        let Some((count, per_s)) = count.zip(per_s) else { continue };
        if cause.name == "listen_drops" {
            let what = "connections that the kernel rejected because the server was slow to accept them";
            match count {
                0 => writeln!(text, "queue drops{at:<2}none ({what})")?,
                _ => writeln!(text, "queue drops{at:<2}{count} ({per_s:.2}/s), {what}:")?,
            }
        } else if count > 0 {
            writeln!(text, "  {:<22} {count} ({per_s:.2}/s)", cause.name)?;
        }
    }
    for AtListener { address, drops, per_s } in dropped.listeners.iter().filter(|at| at.drops > 0) {
        writeln!(text, "  at {:<19} {drops} ({per_s:.2}/s)", address.to_string())?;
    }
    Ok(())
}

/// Letters of a row's name.
const NAME: usize = 28;
const COLUMNS: [&str; 7] = ["count", "mean", "p50", "p90", "p99", "p99.9", "max"];
/// Of the columns behind the mean.
const PERCENTS: [f64; 5] = [50.0, 90.0, 99.0, 99.9, 100.0];

/// Nothing, where there is nothing.
fn row(text: &mut String, name: &str, times: &Times) -> std::fmt::Result {
    if times.count() == 0 {
        return Ok(());
    }
    write!(text, "{name:<NAME$}{:>10}", times.count())?;
    let percentiles = PERCENTS.map(|percent| times.percentile_ms(percent));
    for ms in [times.mean_ms()].into_iter().chain(percentiles) {
        write!(text, "{ms:>10.3}")?;
    }
    writeln!(text)
}

/// Times of which some are lower bounds only: these are marked.
fn row_of_waits(text: &mut String, name: &str, waits: &Waits) -> std::fmt::Result {
    write!(text, "{name:<NAME$}{:>10}", waits.count())?;
    let percentiles = PERCENTS.map(|percent| waits.percentile(percent));
    for found in [waits.mean()].into_iter().chain(percentiles).flatten() {
        let mark = if found.is_bound { ">" } else { "" };
        write!(text, "{:>10}", format!("{mark}{:.3}", found.ms))?;
    }
    writeln!(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{sample, tls};

    #[test]
    fn who_asks_for_requests_is_told_of_requests() {
        let (measures, mut facts) = sample();
        facts.model = "open".into();
        for (unit, told) in
            [("requests", "of the requests came at most"), ("connections", "of the connections came at most")]
        {
            facts.unit = unit.into();
            let text = render(&measures, &facts, Bars::Ascii);
            assert!(!text.contains("session"), "{text}");
            assert!(text.contains("requests     100 sent (10.00/s, 10.00/s asked on average)\n"), "{text}");
            assert!(text.contains(told), "{text}");
        }
    }

    #[test]
    fn handshakes_are_shown_where_a_target_speaks_tls() {
        let (mut measures, mut facts) = sample();
        assert!(!render(&measures, &facts, Bars::Ascii).contains("TLS"));
        (measures.handshakes, facts.tls) = tls();
        let text = render(&measures, &facts, Bars::Ascii);
        for words in [
            "TLS          2 full handshakes, 1 with a second ClientHello, 1 resumed, 1 failed\n",
            "  1.3        2 with TLS_AES_128_GCM_SHA256, x25519\n",
            "  1.2        1 with TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, no key exchange\n",
            "  errors     1: the server sent the alert unknown_ca\n",
            "\nTLS handshake, full                  2     3.0",
            "\nTLS handshake, resumed               1     1.000",
        ] {
            assert!(text.contains(words), "{words}\n{text}");
        }
    }

    #[test]
    fn what_is_empty_is_left_out() {
        let (mut measures, facts) = sample();
        let has = |measures: &Measures| render(measures, &facts, Bars::Ascii).contains("\nconnecting  ");
        assert!(has(&measures));
        measures.connections.connect_times = Times::new();
        assert!(!has(&measures));
    }

    #[test]
    fn people_find_what_they_look_for() {
        let (measures, facts) = sample();
        let text = render(&measures, &facts, Bars::Ascii);
        for words in [
            "10.00 s measured",
            "100 arrived (10.00/s, 10.00/s asked on average): 90 completed, 10 failed",
            "90 (9.00/s)",
            "errors       10 (10.00% of the requests)",
            "reply_timeout    10 (10.00%): ",
            "queue drops  9 (3.00/s), connections that the kernel rejected",
            "listen_overflows       9 (3.00/s)",
            "at 127.0.0.1:80        9 (3.00/s)",
            "reply time                          90     1.000",
            "  until the first byte  ",
            "  first to last byte  ",
            "given up after  ",
            "generator    20% of 1 CPU",
            "reply time from intended start, ms\n        1 to 1.1              1   1.11%  #\n",
            "        2 to 2.2             89  98.89%  ####",
        ] {
            assert!(text.contains(words), "{words}\n{text}");
        }
        assert!(!text.contains("INVALID"), "{text}");
    }
}
