#![allow(unsafe_code)]
use rowlock_fiber as fiber;
use std::time::Instant;
struct N;
impl N {
    fn lock(&self) {}
    fn unlock(&self) {}
}
static L: N = N;
static A: N = N;
static B: N = N;
static mut M: [[u64; 16]; 2] = [[0; 16]; 2];
fn seed(n: usize) -> f64 {
    let t = Instant::now();
    let mut hs: Vec<Option<fiber::JoinHandle<()>>> = Vec::with_capacity(n);
    for i in 0..n {
        let pred = if i & 15 == 15 { hs[i - 1].take() } else { None };
        hs.push(Some(fiber::spawn(move || {
            unsafe {
                if i & 1 == 1 {
                    B.lock();
                    for w in 0..16 {
                        let p = &raw mut M[1][w];
                        p.write_volatile(p.read_volatile() + i as u64);
                    }
                    B.unlock();
                } else {
                    A.lock();
                    for w in 0..16 {
                        let p = &raw mut M[0][w];
                        p.write_volatile(p.read_volatile() + i as u64);
                    }
                    A.unlock();
                }
            }
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
                L.lock();
                L.unlock();
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
        }
    })
    .unwrap();
}
