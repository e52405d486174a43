// A run with a barrier of another language: threads that work and wait, exactly as in
// `meetings.rs`.
//
// barrier THREADS ITERATIONS SECONDS prints the result as one line of JSON. It uses OpenMP's
// barrier with -fopenmp, and that of C++20 without.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <unistd.h>
#include <vector>
#ifdef _OPENMP
#include <omp.h>
#else
#include <barrier>
#endif

namespace {

using Clock = std::chrono::steady_clock;

std::uint64_t step(std::uint64_t x) {
    x ^= x << 13;
    x ^= x >> 7;
    return x ^ x << 17;
}

__attribute__((noinline)) std::uint64_t chain(std::uint64_t iterations, std::uint64_t x) {
    for (std::uint64_t i = 0; i < iterations; i++) x = step(x);
    return x;
}

struct Worker {
    std::uint64_t state;
    std::uint64_t sum = 0;

    explicit Worker(int thread) : state(0x9E3779B97F4A7C15u * (static_cast<std::uint64_t>(thread) + 1)) {}

    void work(double mean) {
        state = step(state);
        double share = 0.75 + 0.5 * (static_cast<double>(state >> 11) / 9007199254740992.0);
        sum += chain(static_cast<std::uint64_t>(mean * share), state);
        // Keeps the compiler from removing the work.
        asm volatile("" : : "r"(sum));
    }
};

std::atomic<std::uint64_t> last{UINT64_MAX};

template <class Wait>
double attend(int number, double iterations, double seconds, Wait wait) {
    Worker worker(number);
    for (int i = 0; i < 3; i++) wait();
    auto start = Clock::now();
    auto elapsed = [start] { return std::chrono::duration<double>(Clock::now() - start).count(); };
    for (std::uint64_t episode = 0;; episode++) {
        worker.work(iterations);
        if (number == 0 && last.load(std::memory_order_relaxed) == UINT64_MAX && elapsed() >= seconds)
            last.store(episode, std::memory_order_relaxed);
        wait();
        if (episode >= last.load(std::memory_order_relaxed)) break;
    }
    return elapsed();
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 4) {
        std::fputs("usage: barrier THREADS ITERATIONS SECONDS\n", stderr);
        return 2;
    }
    int threads = std::atoi(argv[1]);
    double iterations = std::atof(argv[2]), seconds = std::atof(argv[3]), took = 0;
#ifdef _OPENMP
#pragma omp parallel num_threads(threads)
    {
        int number = omp_get_thread_num();
        double own = attend(number, iterations, seconds, [] {
#pragma omp barrier
        });
        if (number == 0) took = own;
    }
#else
    std::barrier<> barrier(threads);
    auto wait = [&barrier] { barrier.arrive_and_wait(); };
    std::vector<std::thread> team;
    for (int number = 1; number < threads; number++)
        team.emplace_back([=] { attend(number, iterations, seconds, wait); });
    took = attend(0, iterations, seconds, wait);
    for (auto &thread : team) thread.join();
#endif
    std::printf("{\"count\":%llu,\"seconds\":%.9f}\n", static_cast<unsigned long long>(last.load() + 1), took);
    std::fflush(stdout);
    // Skip the cleanup of threads by the runtime, which is not measured.
    _exit(0);
}
