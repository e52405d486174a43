//! The variants of a structure, tested with real pipelines.

use measure::explore::profile::Profile;
use measure::explore::variants::{StructureChange, variants};
use pipeline::{Flow, Pipeline, Program, RunReport, StageKind, Structure};

const BUFFERS: u64 = 40;

/// Numbers the buffers, and adds up the results.
fn run(structure: &Structure) -> (RunReport, u64) {
    let (mut left, mut sum, mut before) = (BUFFERS, 0, 0);
    let report = Pipeline::<u64>::tagged("numbers")
        .buffers(4, 16384)
        .io("number", |round, buffer| {
            left -= 1;
            buffer.tag = round.number;
            Ok(if left == 0 { Flow::Last } else { Flow::Convey })
        })
        .compute("double", |_round, buffer| {
            buffer.tag *= 2;
            Ok(Flow::Convey)
        })
        .compute("increment", |_round, buffer| {
            buffer.tag += 1;
            Ok(Flow::Convey)
        })
        .fused()
        .forkable("square", StageKind::Compute, |_round, buffer| {
            buffer.tag *= buffer.tag;
            Ok(Flow::Convey)
        })
        .communicate("send", |_round, _buffer| Ok(Flow::Convey))
        .io("add", |_round, buffer| {
            assert!(before < buffer.tag, "out of order");
            before = buffer.tag;
            sum += buffer.tag;
            Ok(Flow::Convey)
        })
        .structured(structure)
        .run();
    (report.unwrap_or_else(|why| panic!("{structure}: {why}")), sum)
}

#[test]
fn every_variant_of_a_real_pipeline_computes_the_same() {
    let (report, _) = run(&Structure::default());
    let profile = Profile::read(&serde_json::to_string(&report).unwrap()).unwrap();
    let stages: Vec<(&str, bool, bool)> =
        profile.stages().map(|stage| (stage.name.as_str(), stage.can_fork, stage.is_fused)).collect();
    assert_eq!(
        stages,
        [
            ("number", false, false),
            ("double", false, false),
            ("increment", false, true),
            ("square", true, false),
            ("send", false, false),
            ("add", false, false)
        ]
    );
    assert_eq!((profile.pipelines[0].buffers, profile.pipelines[0].block), (4, 16384));
    assert_eq!(profile.kinds(), StageKind::ALL);
    let expected: u64 = (0..BUFFERS).map(|number| (2 * number + 1).pow(2)).sum();
    let made = variants(&profile, 2, &StructureChange::ALL);
    for change in StructureChange::ALL {
        let key = format!("{}=", change.name);
        assert!(made.iter().any(|variant| variant.to_string().starts_with(&key)), "no variant with {key}");
    }
    for variant in made {
        let (report, sum) = run(&variant);
        assert_eq!(sum, expected, "{variant}");
        // The engine has interpreted the structure as intended.
        let is_said = report.structure.split(' ').any(|word| word == variant.to_string());
        assert!(is_said, "{variant} is not in {}", report.structure);
    }
}

/// Merges two sorted streams of numbers, one number per buffer.
fn merge(structure: &Structure) -> (RunReport, Vec<u64>) {
    let stream = |name: &str, step: u64| {
        let read = format!("read {name}").replace(' ', "-");
        Pipeline::<u64>::tagged(name)
            .buffers(3, 4096)
            .rounds(10)
            .io(&read, move |round, buffer| {
                buffer.tag = round.number * step;
                Ok(Flow::Convey)
            })
            .join_at("merge")
            .structured(structure)
    };
    let names = ["twos", "threes"];
    let mut merged = Vec::new();
    let write = Pipeline::tagged("merged")
        .buffers(2, 4096)
        .join_at("merge")
        .compute("check", |_round, _buffer| Ok(Flow::Convey))
        .io("write", |round, buffer| {
            // The last buffer of the junction is empty.
            merged.extend((!round.is_last).then_some(buffer.tag));
            Ok(Flow::Convey)
        })
        .structured(structure);
    let program = Program::new("merge").pipeline(stream(names[0], 2)).pipeline(stream(names[1], 3)).pipeline(write);
    let report = program
        .junction("merge", |ports| {
            let mut heads = [ports.accept(names[0])?, ports.accept(names[1])?];
            loop {
                let mut values = [None; 2];
                for which in 0..2 {
                    let is_there = heads[which].is_some();
                    values[which] = if is_there { Some(ports.buffer(names[which])?.tag) } else { None };
                }
                let least = (0..2).filter(|&which| values[which].is_some()).min_by_key(|&which| values[which]);
                let Some(least) = least else { return Ok(()) };
                ports.accept("merged")?;
                ports.buffer("merged")?.tag = values[least].unwrap_or_default();
                ports.convey("merged", Flow::Convey)?;
                ports.convey(names[least], Flow::Convey)?;
                heads[least] = ports.accept(names[least])?;
            }
        })
        .run();
    (report.unwrap_or_else(|why| panic!("{structure}: {why}")), merged)
}

#[test]
fn every_variant_of_joined_pipelines_computes_the_same() {
    let (report, _) = merge(&Structure::default());
    let profile = Profile::read(&serde_json::to_string(&report).unwrap()).unwrap();
    let lengths: Vec<usize> = profile.pipelines.iter().map(|line| line.stages.len()).collect();
    assert_eq!(lengths, [2, 2, 3], "{profile:?}");
    let mut expected: Vec<u64> = (0..10).flat_map(|number| [2 * number, 3 * number]).collect();
    expected.sort_unstable();
    let made = variants(&profile, 2, &StructureChange::ALL);
    assert!(made.len() > 8, "{made:?}");
    for variant in made {
        assert_eq!(merge(&variant).1, expected, "{variant}");
    }
}
