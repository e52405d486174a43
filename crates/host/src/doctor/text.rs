//! The report as text.

use std::fmt;

use policy::Span;

use super::findings::{Capability, DoctorReport, Finding, State, Verdict};
use super::probes::Privileges;

/// The width of lines, except those with a longer word, unless the format says another one.
const WIDTH: usize = 100;
/// The column of a finding's text.
const INDENT: usize = 32;

impl fmt::Display for DoctorReport {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let DoctorReport { machine, privileges, findings } = self;
        let cpus = format!("{} of {} CPUs", machine.cpus, machine.cpus_online);
        let about = format!("{}, {cpus}, Linux {}; asked by {privileges}", machine.cpu_model, machine.kernel);
        write_line(f, "", &about)?;
        for capability in Capability::ALL {
            let (name, description) = capability.words();
            writeln!(f)?;
            write_line(f, &format!("{name}: "), description)?;
            for finding in findings.iter().filter(|finding| finding.capability == capability) {
                write_finding(f, finding)?;
            }
        }
        let count = |state| findings.iter().filter(|finding| finding.verdict.state == state).count();
        let counts = [State::No, State::Partly, State::Unknown, State::Yes].map(|state| (count(state), state.word()));
        let counts = counts.into_iter().filter(|&(count, _)| count > 0).map(|(count, word)| format!("{count} {word}"));
        writeln!(f, "\n{}", counts.collect::<Vec<_>>().join(", "))
    }
}

fn write_finding(f: &mut fmt::Formatter, finding: &Finding) -> fmt::Result {
    let Finding { name, verdict: Verdict { state, seen, costs, remedy }, .. } = finding;
    write_line(f, &indented(&format!("  {:<8}{name}", state.word())), seen)?;
    for cost in costs {
        write_line(f, &indented(&format!("            costs {}", cost.capability.words().0)), &cost.what)?;
    }
    remedy.iter().try_for_each(|remedy| write_line(f, &indented("            to get it"), remedy))
}

/// The label of a finding's text.
fn indented(label: &str) -> String {
    format!("{label:<INDENT$}")
}

/// Writes a label and a text beside it, with all lines of the text at the same column.
fn write_line(f: &mut fmt::Formatter, label: &str, text: &str) -> fmt::Result {
    let (indent, width) = (label.chars().count(), f.width().unwrap_or(WIDTH));
    let mut line = label.to_owned();
    let mut length = indent;
    for (place, word) in text.split(' ').enumerate() {
        let more = word.chars().count() + 1;
        if place > 0 && length + more > width {
            writeln!(f, "{line}")?;
            line = " ".repeat(indent);
            length = indent;
        } else if place > 0 {
            line.push(' ');
        }
        line.push_str(word);
        length += more;
    }
    writeln!(f, "{line}")
}

impl fmt::Display for Privileges {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Privileges { user, capabilities, in_a_user_namespace } = self;
        match user {
            0 => write!(f, "root")?,
            _ => write!(f, "user {user}")?,
        }
        if *in_a_user_namespace {
            write!(f, " of a user namespace")?;
        }
        match capabilities.as_slice() {
            [] => write!(f, " without capabilities"),
            some => write!(f, " with {}", some.join(", ")),
        }
    }
}

/// A span in a suitable unit: `4 ms`, `0.5 ms`.
pub(super) fn span(span: Span) -> String {
    let nanos = span.as_nanos() as f64;
    if nanos < 1e5 { format!("{} us", nanos / 1e3) } else { format!("{} ms", nanos / 1e6) }
}
