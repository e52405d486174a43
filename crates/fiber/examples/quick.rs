#![allow(unsafe_code)]
use rowlock_fiber as fiber;
use std::time::Instant;
static L: fiber::Mutex<()> = fiber::Mutex::new(());
static A: fiber::Mutex<[u64; 16]> = fiber::Mutex::new([0; 16]);
static B: fiber::Mutex<[u64; 16]> = fiber::Mutex::new([0; 16]);
static TURN: fiber::Mutex<u32> = fiber::Mutex::new(0);
static TURNED: fiber::Condvar = fiber::Condvar::new();
fn seed(n: usize) -> f64 {
    let t = Instant::now();
    let mut hs: Vec<Option<fiber::JoinHandle<()>>> = Vec::with_capacity(n);
    for i in 0..n {
        let pred = if i & 15 == 15 { hs[i - 1].take() } else { None };
        hs.push(Some(fiber::spawn(move || {
            let mut memory = if i & 1 == 1 { B.lock().unwrap() } else { A.lock().unwrap() };
            for word in memory.iter_mut() {
                let word: *mut u64 = word;
                unsafe { word.write_volatile(word.read_volatile() + i as u64) };
            }
            drop(memory);
            if let Some(p) = pred {
                p.join().unwrap();
            }
        })));
    }
    for h in hs.into_iter().flatten() {
        h.join().unwrap();
    }
    t.elapsed().as_nanos() as f64 / 1e3
}
fn main() {
    let r = fiber::Runtime::new(Default::default());
    println!("size {}", 0);
    r.run(|| {
        println!("cold 2000 {}", seed(2000));
        for n in [50, 100, 500, 1000, 2000, 10000, 100000] {
            let mut v: Vec<f64> = (0..11).map(|_| seed(n)).collect();
            v.sort_by(f64::total_cmp);
            println!("{n} {}", v[5]);
        }
        for _ in 0..2 {
            let n = 5_000_000;
            let t = Instant::now();
            for _ in 0..n {
                fiber::spawn(|| ()).join().unwrap();
            }
            println!("create+join {:.1}", t.elapsed().as_nanos() as f64 / n as f64);
            let t = Instant::now();
            for _ in 0..n {
                drop(std::hint::black_box(&L).lock().unwrap());
            }
            println!("lock {:.2}", t.elapsed().as_nanos() as f64 / n as f64);
            let h = fiber::spawn(move || {
                for _ in 0..n {
                    fiber::yield_now()
                }
            });
            let t = Instant::now();
            for _ in 0..n {
                fiber::yield_now()
            }
            println!("yield {:.2}", t.elapsed().as_nanos() as f64 / n as f64 / 2.0);
            h.join().unwrap();
            let play = move |mine: u32| {
                let mut turn = TURN.lock().unwrap();
                for _ in 0..n / 5 {
                    *turn = 1 - mine;
                    TURNED.notify_one();
                    turn = TURNED.wait_while(turn, |turn| *turn != mine).unwrap();
                }
                *turn = 1 - mine;
                TURNED.notify_one();
            };
            let t = Instant::now();
            let h = fiber::spawn(move || play(1));
            play(0);
            h.join().unwrap();
            println!("hand-off {:.2}", t.elapsed().as_nanos() as f64 / (n / 5) as f64 / 2.0);
        }
    })
    .unwrap();
}
