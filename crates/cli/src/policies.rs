//! `rowlock policies`: prints the table of all policies.

use std::collections::BTreeMap;
use std::fmt::Write;

use policy::table::{GANG, PARTITION, PRIORITY, PolicyEntry, SCHEDULER, WAITING, WAKEUP};
use serde::Serialize;

use crate::arguments::TextOrJson;
use crate::output::print_as;
use crate::stop::Stop;

/// Prints the table.
pub(crate) fn policies(format: TextOrJson) -> Result<(), Stop> {
    print_as(format, text, &BTreeMap::from([("policies", all())]), "the policies")
}

fn text() -> String {
    let policies = all();
    let width = policies.iter().map(|policy| policy.form.len()).max().unwrap_or(0);
    let mut text = String::new();
    let mut decision = "";
    for policy in policies {
        // Writing to a string does not fail.
        if decision != policy.decision {
            decision = policy.decision;
            let _ = writeln!(text, "{decision}");
        }
        let _ = writeln!(text, "  {:width$}  {}", policy.form, policy.meaning);
        let _ = writeln!(text, "  {:width$}  [{}]", "", policy.source);
    }
    text
}

#[derive(Serialize)]
struct Policy {
    decision: &'static str,
    form: &'static str,
    meaning: &'static str,
    source: &'static str,
    example: String,
}

/// The policies of all decisions.
fn all() -> Vec<Policy> {
    let of_kernels = WAKEUP.iter().map(policy).chain(SCHEDULER.iter().map(policy));
    let of_cells = GANG.iter().map(policy).chain(PARTITION.iter().map(policy));
    WAITING.iter().map(policy).chain(of_kernels).chain(PRIORITY.iter().map(policy)).chain(of_cells).collect()
}

fn policy<P: std::fmt::Display>(entry: &PolicyEntry<P>) -> Policy {
    let &PolicyEntry { decision, form, meaning, source, ref example, .. } = entry;
    Policy { decision, form, meaning, source, example: example.to_string() }
}
