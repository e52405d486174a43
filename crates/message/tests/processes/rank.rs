//! One rank of a job, in a process of its own.

use std::io::{BufRead, Write};
use std::path::Path;

use rowlock_message::{Communicator, Error, Source, Tag, environment, memory};
use sys::process::{RequestsToEnd, end_with_this_thread};
use sys::unnamed::UnnamedFile;
use testing::Child;
use wait::{Waiting, WaitingRule};

use crate::{forked, traffic};

/// The variable that says what a rank does.
pub(crate) const PART: &str = "ROWLOCK_TEST_PART";

/// The task of this process. `None` in the test itself.
pub(crate) fn part() -> Option<String> {
    std::env::var(PART).ok()
}

/// A rank, which is killed when dropped.
pub(crate) struct Rank(Child);

impl Rank {
    fn start(part: &str, environment: &[(&str, String)]) -> Rank {
        let mut command = testing::command(std::env::current_exe().unwrap());
        command.env(PART, part).envs(environment.iter().map(|(name, value)| (name, value)));
        // Not even one that is stopped outlives its test.
        end_with_this_thread(&mut command, RequestsToEnd::Inherit);
        Rank(Child::start_piped(&mut command))
    }

    /// A rank that joins by a name.
    pub(crate) fn start_named(path: &Path, rank: u32, ranks: u32, part: &str) -> Rank {
        Rank::start(&format!("named {} {rank} {ranks} {part}", path.display()), &[])
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn read_line(&mut self) -> String {
        self.0.read_line()
    }

    pub(crate) fn write_line(&mut self, line: &str) {
        self.0.write_line(line);
    }

    /// Waits until it has ended or its time is up.
    pub(crate) fn wait_until_ended(&self) -> bool {
        self.0.wait_until_ended()
    }

    pub(crate) fn kill(&mut self) {
        self.0.process().kill().unwrap();
        self.0.process().wait().unwrap();
    }

    #[track_caller]
    pub(crate) fn expect_success(self) {
        self.0.wait().expect_success();
    }
}

/// Starts a job as `prun` does. Each rank does what `part` says.
pub(crate) fn start(ranks: u32, part: impl Fn(u32) -> String) -> (UnnamedFile, Vec<Rank>) {
    start_in(memory::create(ranks).unwrap(), ranks, &[], part)
}

/// As [`start`], in this memory and with more variables.
pub(crate) fn start_in(
    file: UnnamedFile,
    ranks: u32,
    variables: &[(&str, String)],
    part: impl Fn(u32) -> String,
) -> (UnnamedFile, Vec<Rank>) {
    let start = |rank: u32| {
        let job = [
            (environment::RANK, rank.to_string()),
            (environment::RANKS, ranks.to_string()),
            (environment::MESSAGES, file.path().to_str().unwrap().to_owned()),
        ];
        Rank::start(&part(rank), &[&job, variables].concat())
    };
    let ranks = (0..ranks).map(start).collect();
    (file, ranks)
}

pub(crate) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").unwrap();
    out.flush().unwrap();
}

/// Waits for a line of the test. Exits if the test has ended.
pub(crate) fn listen() {
    let mut line = String::new();
    if std::io::stdin().lock().read_line(&mut line).unwrap() == 0 {
        std::process::exit(0);
    }
}

pub(crate) fn run(part: &str) {
    let words: Vec<&str> = part.split(' ').collect();
    match words[..] {
        ["named", path, rank, ranks, part] => {
            let world =
                rowlock_message::join_named(path, rank.parse().unwrap(), ranks.parse().unwrap(), Waiting::default());
            match world {
                Ok(world) => act(&world, part),
                Err(why) => say(&why.to_string()),
            }
        }
        ["exchange", rule, seed, messages] => {
            let world = rowlock_message::join(Waiting::by(rule.parse().unwrap())).unwrap();
            traffic::exchange(&world, seed.parse().unwrap(), messages.parse().unwrap());
        }
        ["bound"] => bound(),
        [part] => act(&rowlock_message::join(waiting_of(part)).unwrap(), part),
        _ => panic!("{part}"),
    }
}

/// Waits on one CPU for a rank that has left. The second one says whether it has spun.
fn bound() {
    let _here = sys::cpus::pin(sys::cpus::current()).unwrap();
    let world = rowlock_message::join(Waiting::by(WaitingRule::OwnerRunning)).unwrap();
    if world.rank() == 1 {
        assert_eq!(world.receive(0, 0, &mut [0_u8]), Err(Error::Left { rank: 0 }));
        say(&(world.statistics().spins > 0).to_string());
    }
}

/// Some wait by rules that never block.
fn waiting_of(part: &str) -> Waiting {
    let rule = if part.ends_with("spinning") { "always-yield" } else { "adaptive" };
    Waiting::by(rule.parse().unwrap())
}

fn act(world: &Communicator, part: &str) {
    let (rank, ranks) = (world.rank(), world.ranks());
    let mut value = [0_u8];
    let result = match part {
        "fork" => return forked::fork(world),
        "fork-and-sleep" => return forked::fork_and_sleep(),
        // Ranks that go on until another one has died.
        "receive" | "receive-spinning" => world.receive(ranks - 1, 0, &mut value).map(drop),
        "receive-any" => world.receive(Source::Any, Tag::Any, &mut value).map(drop),
        "probe" => world.probe::<u8>(ranks - 1, 0).map(drop),
        "send" => forever(|| world.send(ranks - 1, 0, &[0_u64; 1_000])),
        "send-long" => forever(|| world.send(ranks - 1, 0, &vec![0_u64; 1 << 20])),
        "isend" => forever(|| world.isend(ranks - 1, 0, vec![0_u64; 1 << 20])?.wait().map(drop)),
        "polls-of-a-receive" => {
            let receive = world.ireceive::<u8>(ranks - 1, 0).unwrap();
            forever(|| receive.test().map(drop))
        }
        "polls-of-a-send" => {
            let send = world.isend(ranks - 1, 0, vec![0_u64; 1 << 20]).unwrap();
            forever(|| send.test().map(drop))
        }
        "iprobe" => forever(|| world.iprobe::<u8>(ranks - 1, 0).map(drop)),
        "barrier" => forever(|| world.barrier()),
        "broadcast" => forever(|| world.broadcast(ranks - 1, &mut [0_u64; 10_000])),
        "reduce" => forever(|| world.all_reduce(&mut [0_u64; 10_000], u64::wrapping_add)),
        "all-to-all" => {
            forever(|| world.all_to_all(&vec![0_u64; 5_000 * ranks as usize], &mut vec![0; 5_000 * ranks as usize]))
        }
        "split" => forever(|| world.split(Some(rank % 2), 0).map(drop)),
        // The rank that dies without taking part.
        "sleep" => {
            say("ready");
            return listen();
        }
        "overfill" => {
            let why = world.send(1, 0, &[0_u8]).unwrap_err();
            // Another attempt has the same error.
            assert_eq!(world.send(1, 0, &[0_u8]), Err(why.clone()));
            return say(&why.to_string());
        }
        // For ranks that come late.
        "tell" => {
            world.send((rank + 1) % ranks, 0, &[rank as u8]).unwrap();
            say("sent");
            listen();
            let status = world.receive(Source::Any, 0, &mut value).unwrap();
            assert_eq!(status.source, u32::from(value[0]));
            return say(&format!("got {}", value[0]));
        }
        part => panic!("{part}"),
    };
    match result {
        Err(Error::Lost { rank, pid }) => say(&format!("rank {rank} lost: {pid}")),
        result => say(&format!("{result:?}")),
    }
}

/// Repeats a call until it fails. Says when it has done it a few times.
fn forever(mut call: impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
    for times in 0_u32.. {
        if times == 20 {
            say("ready");
        }
        call()?;
    }
    Ok(())
}
