//! A figure of a paper with another scheduler or waiting rule than the paper's. Its bands do not
//! apply and are not judged.

use policy::waiting::WaitingRule;
use scenario::keys::PATH_SEPARATOR;
use scenario::{Arm, JobKind, Message, Scenario, Scheduler};

use super::expected::Expected;
use measure::factor;

/// The settings that replace the paper's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The kernel's scheduler, in every arm.
    pub scheduler: Option<Scheduler>,
    /// The waiting rule of every job that waits, except in the arms that others are compared with.
    pub waiting: Option<WaitingRule>,
    /// Whether it is this machine instead of the paper's.
    pub is_on_host: bool,
}

impl Changes {
    /// The changes as command-line options.
    pub fn words(&self) -> Vec<String> {
        let scheduler = self.scheduler.map(|scheduler| format!("--scheduler {}", scheduler.name()));
        let waiting = self.waiting.map(|rule| format!("--waiting {rule}"));
        let world = self.is_on_host.then(|| "--world host".to_owned());
        scheduler.into_iter().chain(waiting).chain(world).collect()
    }

    /// Applies the changes. Arms that differed only in what is changed become one.
    pub fn apply(&self, scenario: &mut Scenario, expected: &Expected) {
        let references: Vec<_> =
            expected.band.iter().map(|band| &band.against).chain([&expected.figure.against]).collect();
        for arm in &mut scenario.arms {
            if let Some(scheduler) = self.scheduler {
                arm.setting.machine.scheduler = Some(scheduler);
                set(arm, |path| path == "machine.scheduler", scheduler.name());
            }
            let is_reference = references.iter().any(|against| {
                let factors = factor::of(arm);
                let holds = |(path, value): (&String, _)| factor::value(&factors, path) == Some(value);
                against.keys().any(|path| is_waiting(path)) && against.iter().all(holds)
            });
            if let Some(rule) = self.waiting.filter(|_| !is_reference) {
                for job in &mut arm.setting.jobs {
                    if let JobKind::Barrier { waiting, .. }
                    | JobKind::Lock { waiting, .. }
                    | JobKind::Message(Message { waiting, .. }) = &mut job.kind
                    {
                        *waiting = rule;
                    }
                }
                set(arm, is_waiting, &rule.to_string());
            }
        }
        let mut known = Vec::new();
        scenario.arms.retain(|arm| {
            let is_new = !known.contains(&arm.factors);
            known.extend(is_new.then(|| arm.factors.clone()));
            is_new
        });
    }
}

fn is_waiting(path: &str) -> bool {
    path.starts_with("job.") && path.ends_with(".waiting")
}

fn set(arm: &mut Arm, which: impl Fn(&str) -> bool, to: &str) {
    for (paths, value) in &mut arm.factors {
        match value {
            // Several paths that vary together.
            toml::Value::Array(values) if paths.contains(PATH_SEPARATOR) => {
                for (_, value) in paths.split(PATH_SEPARATOR).zip(values).filter(|(path, _)| which(path)) {
                    *value = to.into();
                }
            }
            value if which(paths) => *value = to.into(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::FigureFiles;
    use crate::{PAPERS, Paper};

    fn figure(name: &str) -> FigureFiles {
        Paper::named(name).and_then(Paper::figure).unwrap()
    }

    fn changed(figure: FigureFiles, changes: Changes) -> Scenario {
        let mut scenario = figure.scenario().unwrap_or_else(|bad| panic!("{bad}"));
        changes.apply(&mut scenario, &figure.expected().unwrap());
        scenario
    }

    fn rules(scenario: &Scenario) -> Vec<String> {
        let rule = |job: &scenario::Job| match &job.kind {
            JobKind::Barrier { waiting, .. } | JobKind::Message(Message { waiting, .. }) => Some(waiting.to_string()),
            _ => None,
        };
        let mut rules: Vec<_> = scenario.arms.iter().flat_map(|arm| arm.setting.jobs.iter().filter_map(rule)).collect();
        rules.sort();
        rules.dedup();
        rules
    }

    #[test]
    fn another_rule_replaces_all_rules_except_that_of_the_reference_arms() {
        let adaptive = Changes { waiting: Some("adaptive".parse().unwrap()), ..Changes::default() };
        let fig7 = changed(figure("barrier/fig7"), adaptive);
        // Two granularities and sixteen loads, with the rule and with the reference.
        assert_eq!(
            (fig7.arms.len(), rules(&fig7)),
            (2 * 16 * 2, vec!["adaptive".to_owned(), "always-block".to_owned()])
        );
        // Figure 5 has no reference, and in section 4.3 the reference has another wakeup scheme.
        assert_eq!(rules(&changed(figure("barrier/fig5"), adaptive)), ["adaptive"]);
        assert_eq!(changed(figure("barrier/wakeup"), adaptive).arms.len(), 2 * 12 * 3);
        for arm in &fig7.arms {
            let JobKind::Barrier { waiting, .. } = arm.setting.jobs[0].kind else { panic!("another job") };
            let factor = arm.factors.iter().find(|(path, _)| path == "job.crew.waiting");
            assert_eq!(factor.and_then(|(_, value)| value.as_str()), Some(waiting.to_string().as_str()));
        }
    }

    #[test]
    fn paths_that_vary_together_with_the_rule_keep_their_values() {
        let text = r#"
            machine = { cpus = 2 }
            job = [
                { name = "crew", kind = "barrier", compute = "9 us", rounds = 2, waiting = "cs" },
                { name = "ring", kind = "message", ranks = 2, pattern = "ring", bytes = 1, rounds = 2, waiting = "cs" },
            ]
            experiment.sweep = { "job.crew.threads, job.crew.waiting" = [[2, "cs"], [3, "2cs"]] }
        "#;
        let mut scenario = scenario::read("crew.toml", text.as_bytes()).unwrap_or_else(|bad| panic!("{bad}"));
        let expected = figure("barrier/fig4").expected().unwrap();
        Changes { waiting: Some("adaptive".parse().unwrap()), ..Changes::default() }.apply(&mut scenario, &expected);
        let values: Vec<String> = scenario.arms.iter().map(|arm| arm.factors[0].1.to_string()).collect();
        assert_eq!(
            (values, rules(&scenario)),
            (vec!["[2, \"adaptive\"]".to_owned(), "[3, \"adaptive\"]".to_owned()], vec!["adaptive".to_owned()])
        );
    }

    #[test]
    fn another_scheduler_replaces_that_of_every_arm_of_every_paper() {
        for figure in PAPERS.iter().filter_map(Paper::figure) {
            let arms = changed(figure, Changes { scheduler: Some(Scheduler::Rr), ..Changes::default() }).arms;
            assert!(arms.iter().all(|arm| arm.setting.machine.scheduler == Some(Scheduler::Rr)));
            assert!(!arms.is_empty() && changed(figure, Changes::default()).arms.len() >= arms.len());
        }
    }
}
