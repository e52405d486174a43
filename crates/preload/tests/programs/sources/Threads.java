import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.LongStream;

/** Java's synchronization objects, while the threads of the garbage collector run. */
public class Threads {
    static final int THREADS = 4, ROUNDS = 500;
    static long shared, turn;

    interface Work {
        void run(int number) throws Exception;
    }

    static void run(Work work) throws Exception {
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < THREADS; i++) {
            int number = i;
            Thread thread = new Thread(() -> {
                try {
                    work.run(number);
                } catch (Exception why) {
                    throw new IllegalStateException(why);
                }
            });
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads) thread.join();
    }

    public static void main(String[] arguments) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(THREADS);
        List<Future<Long>> futures = new ArrayList<>();
        for (int i = 0; i < ROUNDS; i++) {
            long n = i;
            futures.add(pool.submit(() -> n * n));
        }
        long sum = 0;
        for (Future<Long> future : futures) sum += future.get();
        pool.shutdown();
        System.out.println("pool " + sum + " " + pool.awaitTermination(1, TimeUnit.MINUTES));

        AtomicLong phases = new AtomicLong();
        CyclicBarrier barrier = new CyclicBarrier(THREADS, phases::incrementAndGet);
        run(number -> {
            for (int i = 0; i < ROUNDS; i++) barrier.await();
        });
        Phaser phaser = new Phaser(THREADS);
        run(number -> {
            for (int i = 0; i < ROUNDS; i++) phaser.arriveAndAwaitAdvance();
        });
        System.out.println("phases " + phases + " " + phaser.getPhase());

        Object lock = new Object();
        run(number -> {
            for (int i = 0; i < ROUNDS; i++) {
                synchronized (lock) {
                    while (turn % THREADS != number) lock.wait();
                    turn++;
                    lock.notifyAll();
                }
                synchronized (Threads.class) {
                    shared++;
                }
            }
        });
        System.out.println("turns " + turn + " " + shared);

        Semaphore places = new Semaphore(2);
        SynchronousQueue<Integer> queue = new SynchronousQueue<>();
        AtomicLong taken = new AtomicLong();
        run(number -> {
            for (int i = 0; i < ROUNDS; i++) {
                if (number % 2 == 0) queue.put(i);
                else taken.addAndGet(queue.take());
                places.acquire();
                places.release();
            }
        });
        System.out.println("taken " + taken);

        long bytes = 0;
        for (int i = 0; i < 2000; i++) bytes += new byte[50_000 + i].length;
        System.gc();
        System.out.println("bytes " + bytes + ", sum " + LongStream.range(0, 100_000).parallel().map(n -> n % 7).sum());
        StackTraceElement[] here = Thread.currentThread().getStackTrace();
        System.out.println("done " + (here.length > 0) + " " + (Thread.getAllStackTraces().size() > 1));
    }
}
