//! Readers of what ranks of MPI programs write.

use cosched::pmi::{Answer, Exchange, Step};

/// The ranks of a job.
const RANKS: u32 = 3;

/// Lines of the ranks of a job, each after a byte that chooses the rank. An empty line ends the
/// rank's connection.
pub(crate) fn process_management(bytes: &[u8]) {
    let mut exchange = Exchange::new((0..RANKS).collect());
    for line in bytes.split(|&byte| byte == b'\n') {
        let Some((&first, line)) = line.split_first() else { continue };
        let rank = u32::from(first) % RANKS;
        let step = if line.is_empty() {
            exchange.end(rank).map(|()| Step::Answer(vec![]))
        } else {
            exchange.handle(rank, line)
        };
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
                return;
            }
        }
    }
}

/// An answer is one line, for which a library has room.
fn check(answer: &Answer) {
    let line = answer.to_string();
    assert!(line.starts_with("cmd=") && line.ends_with('\n') && line.matches('\n').count() == 1, "{line:?}");
    assert!(line.len() < 2048, "{}", line.len());
}
