//! Tests with real groups.

use sys::containment::{Contained, Manner, contain_in};

use super::*;
use crate::mechanisms::Mechanisms;
use crate::mechanisms::tests::state_with;
use crate::process_list::tests::list;
use crate::state::State;

type Step = fn(&mut Mechanisms, &Target<'_>) -> io::Result<()>;
const LOWER: Step = Mechanisms::lower;
const RUN: Step = Mechanisms::run;
const STOP: Step = Mechanisms::stop;

/// A job in a group with a weight.
struct Subject {
    group: Option<JobGroup>,
    state: State,
    mechanisms: Mechanisms,
}

impl Subject {
    /// `None` if groups have no weights here.
    fn new() -> Option<Subject> {
        let skip = |why| testing::skip_part("ROWLOCK_REQUIRE_GROUPS", &format!("{why}"), "run the test as root");
        let (group, by) = weighted_group(None).map_err(skip).ok()?;
        Some(Subject::of(by, group))
    }

    fn of(by: LowerBy, group: Option<JobGroup>) -> Subject {
        let mut state = state_with(None);
        let (id, _) = state.jobs().next().unwrap();
        state.set_lower_by(id, by).unwrap();
        Subject { group, state, mechanisms: Mechanisms::default() }
    }

    fn act(&mut self, step: Step) -> io::Result<()> {
        let (id, job) = self.state.jobs().next().unwrap();
        step(&mut self.mechanisms, &job.target(id, &list()))
    }

    fn group(&self) -> &JobGroup {
        self.group.as_ref().unwrap()
    }

    fn weight(&self) -> Control {
        self.group().control(SCALES[0].file).unwrap()
    }
}

#[test]
fn a_group_is_lowered_and_raised_with_the_programs_in_it() {
    let Some(mut subject) = Subject::new() else { return };
    let mut command = testing::command("sleep");
    let lifeline = contain_in(command.arg("1000"), Manner::Rank, &[subject.group()]).unwrap();
    let program = Contained::new(command.spawn().unwrap(), lifeline);
    let child = testing::processes::children(program.id().as_raw_nonzero().get().unsigned_abs())[0];
    let groups = std::fs::read_to_string(format!("/proc/{child}/cgroup")).unwrap();
    assert!(groups.contains(&format!("/{}\n", subject.group().path())), "{groups}");
    for _ in 0..2 {
        for (step, weight) in [(LOWER, "2"), (RUN, "1024"), (LOWER, "2"), (STOP, "1024")] {
            subject.act(step).unwrap();
            subject.act(step).unwrap();
            assert_eq!(subject.weight().read().unwrap(), weight);
        }
    }
}

#[test]
fn a_weight_that_a_user_has_given_to_a_group_remains() {
    let Some(mut subject) = Subject::new() else { return };
    for (before, chosen, after) in [(RUN, "512", LOWER), (LOWER, "3", RUN)] {
        subject.weight().write("1024").unwrap();
        subject.act(before).unwrap();
        subject.weight().write(chosen).unwrap();
        subject.act(after).unwrap();
        assert_eq!(subject.weight().read().unwrap(), chosen);
    }
}

#[test]
fn a_table_that_names_another_group_lowers_none() {
    let Some(Subject { group: Some(group), .. }) = Subject::new() else { return };
    let own = group.path();
    for (version, path) in [(1, format!("{own}/..")), (1, String::new()), (1, format!("../{own}")), (3, own.to_owned())]
    {
        let mut subject = Subject::of(LowerBy::Weight { version, group: path }, None);
        assert!(subject.act(LOWER).is_err());
        assert_eq!(group.control(SCALES[0].file).unwrap().read().unwrap(), "1024");
    }
}
