//! Readers of what ranks of MPI programs write.

use cosched::pmi::{Answer, Exchange, Step, Violation, take_line};

/// The ranks of a job.
const RANKS: u32 = 3;

/// Pieces that the ranks of a job write, each after a byte that chooses the rank, and until a byte
/// of zero. An empty piece ends the rank's connection.
pub(crate) fn process_management(bytes: &[u8]) {
    let mut exchange = Exchange::new((0..RANKS).collect());
    let mut written = [const { Vec::new() }; RANKS as usize];
    for piece in bytes.split(|&byte| byte == 0) {
        let Some((&first, piece)) = piece.split_first() else { continue };
        let rank = u32::from(first) % RANKS;
        let written = &mut written[rank as usize];
        written.extend_from_slice(piece);
        let mut steps = Vec::new();
        if piece.is_empty() {
            steps.push(exchange.end(rank).map(|()| Step::Answer(vec![])));
        }
        loop {
            match take_line(written) {
                Ok(Some(line)) => {
                    assert!(!line.contains(&b'\n'), "{line:?}");
                    steps.push(exchange.handle(rank, &line));
                }
                Ok(None) => break,
                Err(why) => {
                    steps.push(Err(Violation::Malformed { rank, why }));
                    break;
                }
            }
        }
        if steps.into_iter().any(|step| is_over(rank, step)) {
            return;
        }
    }
}

/// Checks a step of a rank. Returns whether it ends the job.
fn is_over(rank: u32, step: Result<Step, Violation>) -> bool {
    match step {
        Ok(Step::Answer(answers)) => {
            let meet = answers.iter().filter(|(_, answer)| *answer == Answer::BarrierOut).count();
            assert!(meet == 0 || meet == RANKS as usize, "{answers:?}");
            for (to, answer) in answers {
                assert!(to == rank || meet > 0 && to < RANKS, "{to}");
                check(&answer);
            }
        }
        Ok(Step::Refuse(_, answer)) => check(&answer),
        Ok(Step::Abort(_)) => {}
        Err(violation) => {
            assert!(violation.rank() < RANKS);
            let text = violation.to_string();
            assert!(!text.is_empty() && !text.contains(char::is_control), "{text:?}");
            return true;
        }
    }
    false
}

/// An answer is one line, for which a library has room.
fn check(answer: &Answer) {
    let line = answer.to_string();
    assert!(line.starts_with("cmd=") && line.ends_with('\n') && line.matches('\n').count() == 1, "{line:?}");
    assert!(line.len() < 2048, "{}", line.len());
}
