//! The allocator.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::sync::{Arc, Mutex};

use crate::adversary::case::{alone, hazard};

#[test]
fn vectors_strings_and_boxes_keep_their_contents() {
    alone(|| {
        hazard(|who, round| {
            let byte = (who * 31 + round) as u8;
            let all: Vec<Vec<u8>> = (0..20).map(|i| vec![byte; 16 + 37 * i]).collect();
            let mut text = String::new();
            for i in 0..30 {
                write!(text, "{byte}:{i};").unwrap();
            }
            let boxes: Vec<Box<dyn Fn() -> u64 + Send>> =
                (0..10).map(|i| Box::new(move || who + i) as Box<dyn Fn() -> u64 + Send>).collect();
            assert!(all.iter().all(|vec| vec.iter().all(|is| *is == byte)));
            assert!((0..30).zip(text.split(';')).all(|(i, part)| part == format!("{byte}:{i}")));
            assert!((0..10).zip(&boxes).all(|(i, function)| function() == who + i));
        });
    });
}

#[test]
fn vectors_that_grow_keep_their_contents() {
    alone(|| {
        hazard(|who, round| {
            let mut growing: [Vec<u64>; 3] = Default::default();
            for i in 0..200 + 100 * (round % 7) {
                growing.iter_mut().for_each(|vec| vec.push(who << 32 | i));
            }
            let mut map: HashMap<u64, String> = (0..20).map(|i| (i, format!("{who}{i}"))).collect();
            let tree: BTreeMap<_, _> = map.drain().collect();
            assert!(growing.iter().flatten().zip((0..).cycle()).all(|(value, _)| value >> 32 == who));
            assert!(growing.iter().all(|vec| vec.iter().zip(0..).all(|(value, i)| *value == who << 32 | i)));
            assert!(tree.iter().all(|(i, text)| *text == format!("{who}{i}")));
        });
    });
}

#[test]
fn a_fiber_frees_what_another_has_allocated() {
    alone(|| {
        let pool = Arc::new(Mutex::new(Vec::<Vec<u8>>::new()));
        hazard(move |who, round| {
            let size = 1 + (who * 131 + round * 67) % 3_000;
            let mine = vec![size as u8; size as usize];
            let theirs = {
                let mut pool = pool.lock().unwrap();
                pool.push(mine);
                if pool.len() > 50 { pool.swap_remove(round as usize % 50) } else { Vec::new() }
            };
            assert!(theirs.iter().all(|byte| *byte == theirs.len() as u8));
        });
    });
}

#[test]
fn large_blocks_belong_to_one_fiber() {
    alone(|| {
        hazard(|who, round| {
            let mut large = vec![0_u8; (200 << 10) + ((round as usize % 5) << 18)];
            large.iter_mut().step_by(4096).for_each(|byte| *byte = who as u8 + 1);
            let many = large.len().div_ceil(4096);
            // This may move it.
            large.reserve(1 << 20);
            assert_eq!(large.iter().step_by(4096).filter(|byte| **byte == who as u8 + 1).count(), many);
        });
    });
}
