//! Every policy of the table runs here, and its record replays.

use policy::Span;
use policy::record::{Log, Recorder, replay};
use policy::table::WAITING;
use rowlock_sim::run_watched;
use scenario::{Compute, Job, Kind, Machine, MachineKeys, Scheduler, Setting};

use crate::timeline::cpu;

#[test]
fn every_policy_runs_under_every_scheduler_and_its_record_replays() {
    for entry in WAITING {
        for scheduler in Scheduler::ALL {
            let (mean, sd) = (Span::from_micros(20), Span::from_micros(2));
            let kind = Kind::Barrier {
                threads: 5,
                compute: Compute::Normal { mean, sd },
                rounds: 200,
                waiting: entry.example,
            };
            let jobs = vec![Job { name: "crew".into(), copies: 2, kind }, cpu("x", None)];
            let setting = Setting { machine: MachineKeys::default(), jobs, keep_running: false };
            let machine = Machine { scheduler, ..Machine::with_cpus(3) };
            let (outcome, records) = run_watched::<Log, ()>(&machine, &setting, 1, &mut ()).unwrap();
            assert_eq!(outcome.jobs[0].rounds, Some(200), "{} under {}", entry.form, scheduler.name());
            for record in &records[..2] {
                let entries = record.entries();
                // All but the last to arrive have asked at least once a round.
                assert!(entries.len() >= 4 * 200, "{} entries", entries.len());
                let mut questions = entries.iter().filter(|entry| entry.decision.is_some());
                assert!(questions.all(|entry| !entry.missing.is_empty()), "somebody is missing at every question");
                assert_eq!(replay(entry.example, machine.costs(), &entries), []);
            }
        }
    }
}
