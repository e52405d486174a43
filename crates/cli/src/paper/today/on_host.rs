//! `rowlock paper barrier/today --world host`: waiting rules in some cells of this machine.

use std::time::{Duration, Instant};

use anyhow::anyhow;
use host::HostCalibration;
use host::doctor::{DoctorReport, examine};
use measure::manifest::Manifest;
use measure::two_worlds::TwoWorlds;
use papers::Paper;
use papers::today::conclusions::{Conclusions, GridReport};
use papers::today::grid::Grid;
use papers::today::on_host::{self, FILE, Measured, Settings, Submission};
use papers::today::runs::{Plan, Runs, Step};
use policy::waiting::WaitingRule;
use report::words;
use scenario::result::World;

use super::{Study, check_numbers, chosen, rules, seed, show};
use crate::arguments::paper::Paper as Arguments;
use crate::output::{print_message, print_notes};
use crate::signals::Signals;
use crate::stop::{OrStop, Stop};
use crate::{calibrate, progress};

/// Measures the cells and prints the conclusions.
pub(super) fn run(paper: &Paper, arguments: &Arguments) -> Result<(), Stop> {
    if arguments.today.grid.is_some() {
        return Err(Stop::Input(anyhow!(
            "--grid is for simulated machines; this machine has {} cells",
            on_host::CELLS
        )));
    }
    // The folder is untouched if there is no such cell.
    check_numbers(arguments, on_host::CELLS as usize)?;
    let plan = |calibration: &HostCalibration, rules, repeat| {
        let cells = chosen(on_host::cells(calibration), arguments)?;
        Ok::<_, Stop>(Plan { cells, rules, repeat, repeat_undecided: repeat, seed: seed(arguments) })
    };
    if arguments.scenario {
        return show(&plan(&calibrate::load(false)?, rules(arguments), 1)?, paper.name);
    }
    let signals = Signals::catch()?;
    let earlier_study = arguments.results.append.then(|| Study::open(paper, arguments)).transpose()?;
    let earlier: Option<Settings> = match &earlier_study {
        Some(study) => study.folder.earlier_settings()?,
        None => None,
    };
    // The cells and their work depend on the costs.
    let calibration = match &earlier {
        Some(earlier) => earlier.calibration.clone(),
        None => calibrate::load(false)?,
    };
    print_notes(&calibration.notes);
    // The file to send in names no folder of the user.
    let calibration = HostCalibration { path: None, notes: Vec::new(), ..calibration };
    let rules = rules_of(arguments, earlier.as_ref())?;
    let mut plan = plan(&calibration, rules, 1)?;
    let worlds = TwoWorlds::new(Some(crate::run::host(calibration.clone())?), arguments.workers);
    let first = |cell| Step { cell, rule: plan.rules[0], repeat: 0, seed: plan.seed };
    plan.cells.iter().try_for_each(|cell| worlds.check(&first(cell).scenario(), &[World::Host]))?;
    let doctor = examine().or_failed()?;
    let each = warm_up(&plan, &worlds, &signals)?;
    // Earlier results are removed only now that the cells are known to run.
    let mut study = match earlier_study {
        Some(study) => study,
        None => Study::open(paper, arguments)?,
    };
    let repeat = arguments.repeat.or(earlier.map(|earlier| earlier.repeat));
    plan.repeat = repeat.unwrap_or_else(|| on_host::rounds(on_host::runs_of_round(&plan), each));
    plan.repeat_undecided = plan.repeat;
    let settings =
        Settings { rules: plan.rules.iter().map(WaitingRule::to_string).collect(), repeat: plan.repeat, calibration };
    study.manifest.settings = serde_json::to_value(&settings).ok();
    study.begin(&plan);
    announce(&plan, &study, each);
    let made = measure(&plan, &worlds, &signals, &mut study);
    let measured = Measured::new(&settings.calibration, &study.runs);
    let grids = conclusions(&plan, &study.runs);
    let report = study.report(paper, &plan, &made, Some(measured), grids);
    let Study { folder, runs, manifest } = &mut study;
    folder.write(FILE, &submission(runs, manifest, &settings, &doctor, &report));
    let (file, count) = (study.folder.path().join(FILE), report.runs);
    study.conclude(arguments, &report, made)?;
    print_message(format_args!(
        "to share the measurement, send in {}: it has the processor, the kernel and the limits of this machine as \
         `rowlock doctor` shows them, its costs, the cells, all {count} runs and the judgement; of names it has only \
         those in the folders of control groups and of the table of jobs",
        file.display()
    ));
    Ok(())
}

/// The rules beside the fixed ones: those of the earlier command, if there was one.
fn rules_of(arguments: &Arguments, earlier: Option<&Settings>) -> Result<Vec<WaitingRule>, Stop> {
    let wanted = rules(arguments);
    let Some(earlier) = earlier else { return Ok(wanted) };
    let words: Vec<String> = wanted.iter().map(WaitingRule::to_string).collect();
    if !arguments.today.rule.is_empty() && words != earlier.rules {
        let earlier = earlier.rules.join(", ");
        return Err(Stop::Input(anyhow!(
            "--append: all rules take part in each round, and the runs in the folder are with {earlier}; use another folder"
        )));
    }
    earlier.rules.iter().map(|rule| rule.parse::<WaitingRule>().map_err(|why| Stop::Input(anyhow!("{why}")))).collect()
}

/// Makes one run that does not count. Returns how long it takes, which few exceed: its threads leave
/// the CPUs to no other.
fn warm_up(plan: &Plan, worlds: &TwoWorlds, signals: &Signals) -> Result<Duration, Stop> {
    let Some(cell) = on_host::slowest_to_start(&plan.cells) else { return Ok(Duration::ZERO) };
    let begun = Instant::now();
    let step = Step { cell, rule: WaitingRule::AlwaysSpin, repeat: 0, seed: plan.seed };
    step.make(worlds, signals.cancel()).map_err(|why| signals.stop_for(why))?;
    Ok(begun.elapsed())
}

/// Says how long the rest takes.
fn announce(plan: &Plan, study: &Study, each: Duration) {
    let of_round = on_host::runs_of_round(plan);
    let rest = u64::from(of_round * plan.repeat).saturating_sub(study.runs.len() as u64);
    let cells = words::counted(plan.cells.len() as u64, "cell");
    let rounds = words::counted(plan.repeat.into(), "round");
    print_message(format_args!(
        "{cells}, {rounds} of {of_round} runs: about {}; other programs should rest meanwhile. After an interruption, \
         the same command with --out {} --append continues",
        in_minutes(each.as_secs_f64() * rest as f64),
        study.folder.path().display()
    ));
}

fn in_minutes(seconds: f64) -> String {
    if seconds < 90.0 { format!("{seconds:.0} s") } else { format!("{:.0} minutes", seconds / 60.0) }
}

/// Makes all missing runs, round by round.
fn measure(plan: &Plan, worlds: &TwoWorlds, signals: &Signals, study: &mut Study) -> Result<(), Stop> {
    let bar = progress::bar(Some(u64::from(on_host::runs_of_round(plan) * plan.repeat)));
    for number in 0..=plan.repeat {
        let steps = match number < plan.repeat {
            true => on_host::round(plan, &study.runs, number),
            false => on_host::last_round(plan, &study.runs),
        };
        for step in steps {
            // Drawn between runs: a run has the machine to itself.
            bar.set_message(format!("cell {}, {}", step.cell.number, step.rule));
            bar.set_position(study.runs.len() as u64);
            study.keep(step.make(worlds, signals.cancel()).map_err(|why| signals.stop_for(why))?);
        }
    }
    Ok(())
}

/// The conclusions from all complete rounds.
fn conclusions(plan: &Plan, runs: &Runs) -> Vec<Conclusions> {
    let repeat = on_host::complete_rounds(plan, runs).max(1);
    let plan = Plan { repeat, repeat_undecided: repeat, ..plan.clone() };
    vec![Conclusions::new(Grid::Host, &plan, runs)]
}

/// The file to send in.
fn submission<'a>(
    runs: &'a Runs,
    manifest: &'a Manifest,
    settings: &'a Settings,
    doctor: &'a DoctorReport,
    report: &'a GridReport<'a>,
) -> Submission<'a> {
    Submission {
        rowlock_version: manifest.rowlock_version,
        program_sha256: manifest.program_sha256.as_deref(),
        started: &manifest.started,
        settings,
        doctor,
        report,
        runs: runs.iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{calibration, with_runs};
    use super::*;
    use crate::output::tests::assert_documented;
    use measure::timestamp::Timestamp;
    use serde_json::Value;

    #[test]
    fn all_fields_of_the_file_to_send_in_are_documented() {
        let (plan, runs) = with_runs(on_host::cells(&calibration()).remove(0));
        let paper = Paper::named("barrier/today").unwrap();
        let manifest = Manifest::begin(paper.name, &[World::Host], Timestamp::of(std::time::UNIX_EPOCH));
        let settings = Settings { rules: vec!["adaptive".to_owned()], repeat: plan.repeat, calibration: calibration() };
        let grids = conclusions(&plan, &runs);
        assert_eq!((grids[0].cells.len(), grids[0].incomplete), (1, 0));
        let report = GridReport { paper, complete: true, runs: runs.len(), planned_runs: 1, host: None, grids };
        let doctor = examine().unwrap();
        let json = report::json::render(&submission(&runs, &manifest, &settings, &doctor, &report)).unwrap();
        let mut json: Value = serde_json::from_str(&json).unwrap();
        // They are documented elsewhere.
        for part in ["/settings/calibration", "/doctor", "/report"] {
            *json.pointer_mut(part).unwrap() = Value::Null;
        }
        assert_documented(&json, "\n## `barrier-today-host.json`\n");
    }
}
