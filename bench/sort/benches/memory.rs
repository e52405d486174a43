//! The cost of a record in memory, step by step: `cargo bench -p rowlock-bench-sort --bench memory
//! [-- MILLIONS [RUNS]]`.
//!
//! For records of several kinds, as many as fit into a chunk: finding them, taking their prefixes,
//! sorting the entries, resolving ties, and copying the records in order. The alternatives for a
//! step run in sequence, and this is repeated. The output is the median of nanoseconds per record,
//! with the minimum in brackets. The machine should be idle otherwise.
#![allow(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::hint::black_box;
use std::time::Instant;

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rowlock_sort::chunk::{Chunk, text};
use rowlock_sort::order::FREE_BITS;
use rowlock_sort::{Format, Order, entries};

/// Records and their sort keys.
struct Load {
    name: &'static str,
    order: Order,
    bytes: Vec<u8>,
}

/// Creates one record.
type Make = dyn FnMut(&mut Xoshiro256PlusPlus, &mut Vec<u8>);

fn load(name: &'static str, format: Format, keys: &[&str], count: usize, make: &mut Make) -> anyhow::Result<Load> {
    let keys = keys.iter().map(|key| key.parse()).collect::<Result<Vec<_>, _>>()?;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut bytes = Vec::new();
    for _ in 0..count {
        make(&mut random, &mut bytes);
        if format == Format::Lines {
            bytes.push(b'\n');
        }
    }
    Ok(Load { name, order: Order::new(format, keys)?, bytes })
}

fn digits(random: &mut Xoshiro256PlusPlus, count: usize, bytes: &mut Vec<u8>) {
    bytes.extend((0..count).map(|_| b'0' + (random.next_u32() % 10) as u8));
}

/// Pads the last record.
fn filled(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(100), b'x');
}

fn loads(count: usize) -> anyhow::Result<Vec<Load>> {
    let fixed = Format::Fixed(100);
    Ok(vec![
        load("10 random bytes", fixed, &["0:10"], count, &mut |random, bytes| {
            bytes.extend_from_slice(&random.next_u64().to_le_bytes());
            bytes.extend_from_slice(&random.next_u32().to_le_bytes()[..2]);
            filled(bytes);
        })?,
        load("10 printable bytes", fixed, &["0:10"], count, &mut |random, bytes| {
            bytes.extend((0..10).map(|_| b' ' + (random.next_u32() % 95) as u8));
            filled(bytes);
        })?,
        load(
            "a float and a number",
            fixed,
            &["8:8:float-le", "40:4:unsigned-le:descending"],
            count,
            &mut |random, bytes| {
                bytes.extend_from_slice(&[0; 8]);
                bytes.extend_from_slice(&f64::from(random.next_u32()).to_le_bytes());
                filled(bytes);
            },
        )?,
        load("one of 16 keys", fixed, &["0:10"], count, &mut |random, bytes| {
            bytes.extend([random.next_u32() as u8 % 16; 10]);
            filled(bytes);
        })?,
        load("lines of 10 digits", Format::Lines, &[], count, &mut |random, bytes| digits(random, 10, bytes))?,
        load("decimals in lines", Format::Lines, &["0:decimal"], count, &mut |random, bytes| {
            let count = 1 + random.next_u32() as usize % 9;
            digits(random, count, bytes);
        })?,
        load("lines with 30 bytes shared", Format::Lines, &[], count, &mut |random, bytes| {
            bytes.extend_from_slice(b"https://www.example.com/items/");
            digits(random, 10, bytes);
        })?,
    ])
}

/// A radix sort, for comparison: divides the entries into parts in the scratch memory, recursively.
/// It needs twice the memory.
fn scatter(entries: &mut [u128], scratch: &mut [u128]) {
    const FEW: usize = 32;
    const PARTS: u32 = 10;
    let Some((&first, _)) = entries.split_first().filter(|_| entries.len() > FEW) else {
        return entries.sort_unstable();
    };
    let varying = entries.iter().fold(0, |varying, entry| varying | (entry ^ first));
    let top = u128::BITS - varying.leading_zeros();
    if top <= FREE_BITS {
        return;
    }
    let parts = (entries.len() / 8).ilog2().min(PARTS);
    let shift = top - parts.min(top);
    let part = |entry: u128| (entry >> shift) as usize & ((1 << parts) - 1);
    let mut ends = vec![0; (1 << parts) + 1];
    entries.iter().for_each(|&entry| ends[part(entry) + 1] += 1);
    (0..1 << parts).for_each(|at| ends[at + 1] += ends[at]);
    for &entry in &*entries {
        let end = &mut ends[part(entry)];
        scratch[*end] = entry;
        *end += 1;
    }
    let mut start = 0;
    for &end in &ends[..1 << parts] {
        let (entries, scratch) = (&mut entries[start..end], &mut scratch[start..end]);
        entries.copy_from_slice(scratch);
        scatter(entries, scratch);
        start = end;
    }
}

/// The number of bytes that are copied to one place. Gathered records go into blocks that are
/// written.
const BLOCK: usize = 1 << 20;

/// Copies records in their order.
fn gather(chunk: &Chunk, bytes: &[u8], format: Format, block: &mut [u8]) {
    let mut filled = 0;
    for &entry in &chunk.entries {
        let record = chunk.record(bytes, format, entry as u32);
        if filled + record.len() > block.len() {
            filled = 0;
        }
        block[filled..][..record.len()].copy_from_slice(record);
        filled += record.len();
    }
    black_box(block);
}

const STEPS: [&str; 6] = ["find", "prefixes", "sort", "by radix", "all of it", "gather"];

/// The duration of each step, in seconds.
fn run(load: &Load, scratch: &mut Vec<u128>, block: &mut [u8]) -> [f64; STEPS.len()] {
    let format = load.order.format();
    let mut seconds = [0.0; STEPS.len()];
    let mut timed = |step: usize, work: &mut dyn FnMut()| {
        let began = Instant::now();
        work();
        seconds[step] = began.elapsed().as_secs_f64();
    };
    let bytes = &load.bytes[..];
    let mut chunk = Chunk::default();
    // So that no step pays for the first access to memory.
    chunk.find(bytes, format);
    chunk.entries.resize(chunk.len(), 1);
    scratch.resize(chunk.len(), 1);
    let mut entries = vec![1; chunk.len()];
    timed(0, &mut || chunk.find(bytes, format));
    timed(1, &mut || {
        for (index, entry) in (0..).zip(&mut entries) {
            *entry = load.order.prefix(text(chunk.record(bytes, format, index), format)) | u128::from(index);
        }
    });
    let mut again = entries.clone();
    timed(2, &mut || entries.sort_unstable());
    timed(3, &mut || scatter(&mut again, scratch));
    assert!(entries == again, "both sorts agree");
    timed(4, &mut || entries::sort(&load.order, bytes, &mut chunk));
    timed(5, &mut || gather(&chunk, bytes, format, block));
    seconds
}

fn main() -> anyhow::Result<()> {
    let mut numbers = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let millions: f64 = numbers.next().map_or(Ok(1.4), |millions| millions.parse())?;
    let runs: usize = numbers.next().map_or(Ok(5), |runs| runs.parse())?;
    let loads = loads((millions * 1e6) as usize)?;
    let (mut scratch, mut block) = (Vec::new(), vec![1; BLOCK]);
    print!("{:28}", "ns per record");
    STEPS.iter().for_each(|step| print!("{step:>20}"));
    println!();
    for load in &loads {
        let mut taken = vec![Vec::new(); STEPS.len()];
        for _ in 0..runs.max(1) {
            let seconds = run(load, &mut scratch, &mut block);
            taken.iter_mut().zip(seconds).for_each(|(taken, seconds)| taken.push(seconds / millions * 1e3));
        }
        print!("{:28}", load.name);
        for mut taken in taken {
            taken.sort_by(f64::total_cmp);
            print!("{:>20}", format!("{:.1} ({:.1})", taken[taken.len() / 2], taken[0]));
        }
        println!();
    }
    Ok(())
}
