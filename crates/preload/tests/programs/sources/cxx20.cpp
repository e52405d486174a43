// The waiting facilities of C++20.
#include <atomic>
#include <barrier>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <latch>
#include <mutex>
#include <numeric>
#include <queue>
#include <semaphore>
#include <shared_mutex>
#include <stop_token>
#include <thread>
#include <vector>

#define CHECK(condition) ((condition) ? void() : (std::fprintf(stderr, "line %d: false: %s\n", __LINE__, #condition), std::_Exit(1)))

constexpr int THREADS = 4, ROUNDS = 2000;

static void run(auto work) {
    std::vector<std::jthread> threads;
    for (int number = 0; number < THREADS; number++) threads.emplace_back(work, number);
}

static void barriers() {
    long phases = 0, sum = 0;
    std::vector<long> values(THREADS);
    std::barrier barrier(THREADS, [&]() noexcept { phases++, sum += std::accumulate(values.begin(), values.end(), 0l); });
    run([&](int number) {
        for (int i = 0; i < ROUNDS; i++) values[number] = i, barrier.arrive_and_wait();
    });
    std::latch latch(THREADS);
    std::atomic<int> through = 0;
    run([&](int) { latch.arrive_and_wait(), through++; });
    std::printf("barriers: %ld phases, %ld, %d\n", phases, sum, through.load());
}

static void semaphores() {
    std::counting_semaphore<8> places(2);
    std::binary_semaphore lock(1);
    std::atomic<int> inside = 0;
    long sum = 0;
    run([&](int) {
        for (int i = 0; i < ROUNDS; i++) {
            places.acquire();
            CHECK(++inside <= 2);
            lock.acquire();
            sum += i;
            lock.release();
            inside--;
            places.release();
        }
    });
    std::printf("semaphores: %ld\n", sum);
}

static void conditions() {
    std::mutex mutex;
    std::condition_variable filled, room;
    std::queue<int> queue;
    long long total = 0;
    {
        std::jthread producer([&] {
            for (int i = 0; i < ROUNDS * 5; i++) {
                std::unique_lock lock(mutex);
                room.wait(lock, [&] { return queue.size() < 16; });
                queue.push(i);
                filled.notify_one();
            }
            std::lock_guard lock(mutex);
            for (int i = 0; i < THREADS; i++) queue.push(-1);
            filled.notify_all();
        });
        run([&](int) {
            for (;;) {
                std::unique_lock lock(mutex);
                filled.wait(lock, [&] { return !queue.empty(); });
                int next = queue.front();
                queue.pop();
                room.notify_one();
                if (next < 0) return;
                total += next;
            }
        });
    }
    std::condition_variable_any any;
    std::recursive_mutex recursive;
    int turn = 0;
    run([&](int number) {
        for (int i = 0; i < 500; i++) {
            std::unique_lock lock(recursive);
            any.wait(lock, [&] { return turn % THREADS == number; });
            turn++;
            any.notify_all();
        }
    });
    std::jthread stopped([&](std::stop_token stop) {
        std::unique_lock lock(mutex);
        std::condition_variable_any never;
        CHECK(!never.wait(lock, stop, [] { return false; }));
    });
    stopped.request_stop();
    stopped.join();
    std::printf("conditions: %lld, %d\n", total, turn);
}

static void others() {
    std::shared_mutex shared;
    long value = 0, seen = 0;
    run([&](int number) {
        for (int i = 0; i < ROUNDS; i++)
            if (i % 8 == number) {
                std::unique_lock lock(shared);
                value++;
            } else {
                std::shared_lock lock(shared);
                std::atomic_ref(seen).fetch_add(value >= 0);
            }
    });
    std::atomic<int> turn = 0;
    run([&](int number) {
        for (int i = 0; i < ROUNDS; i++) {
            for (int now; (now = turn.load()) % THREADS != number;) turn.wait(now);
            turn++;
            turn.notify_all();
        }
    });
    std::vector<std::future<long>> futures;
    for (int i = 0; i < 50; i++)
        futures.push_back(std::async(std::launch::async, [i](std::promise<long> input) {
            input.set_value(i);
            return i * 2l;
        }, std::promise<long>()));
    long sum = 0;
    for (auto &future : futures) sum += future.get();
    std::once_flag flag;
    int once = 0;
    run([&](int) { std::call_once(flag, [&] { once++; }); });
    std::printf("others: %ld, %ld, %d, %ld, %d\n", value, seen, turn.load(), sum, once);
}

int main() {
    barriers();
    semaphores();
    conditions();
    others();
}
