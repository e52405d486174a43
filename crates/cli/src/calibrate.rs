//! `rowlock calibrate`: measures the costs of this machine.

use std::fmt::Write;

use host::HostCalibration;
use host::calibration::MeasuredCost;
use report::table::Table;
use report::words;

use crate::arguments::TextOrJson;
use crate::output::{print_as, print_message};
use crate::stop::{OrStop, Stop};

/// Measures, unless the figures are cached, and prints them.
pub(crate) fn calibrate(fresh: bool, format: TextOrJson) -> Result<(), Stop> {
    let calibration = load(fresh)?;
    print_as(format, || text(&calibration), &calibration, "the figures")
}

/// Returns this machine's costs. Measures them if they are not cached, and reports that on standard
/// error.
pub(crate) fn load(fresh: bool) -> Result<HostCalibration, Stop> {
    let calibration = host::load_or_measure(fresh).or_failed()?;
    if !calibration.from_cache {
        match &calibration.path {
            Some(path) => {
                print_message(format_args!("calibrated this machine; the figures are kept in {}", path.display()));
            }
            None => print_message("calibrated this machine"),
        }
    }
    Ok(calibration)
}

fn costs(calibration: &HostCalibration) -> [(&'static str, &MeasuredCost); 5] {
    [
        ("context switch on one CPU", &calibration.switch),
        ("waking a waiter that sleeps (cs)", &calibration.wake),
        ("yield without another ready thread", &calibration.lone_yield),
        ("reading the clock", &calibration.clock),
        ("tick", &calibration.tick),
    ]
}

fn text(calibration: &HostCalibration) -> String {
    let HostCalibration { machine, notes, .. } = calibration;
    let cpus = words::counted(machine.cpus.into(), "CPU");
    let mut text = format!("{}, {cpus}, Linux {}\n\n", machine.cpu_model, machine.kernel);
    let mut table = Table::new(["cost", "median", "quartiles", "", "samples"], 1);
    for (name, cost) in costs(calibration) {
        let time = |nanos| Some(words::time(nanos));
        let figures = [time(cost.median_ns), time(cost.low_ns), time(cost.high_ns), Some(cost.samples.to_string())];
        table.row(std::iter::once(Some(name.to_owned())).chain(figures));
    }
    text.push_str(&table.render(report::WIDTH));
    for note in notes {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}", words::wrap(note, report::WIDTH));
    }
    text
}
