// oneTBB's parallel_pipeline with the same stages as the other pipelines of the benchmark. Prints
// its duration in seconds.
//
// tbb WORKERS ITEMS BUFFERS SLEEP_NANOSECONDS ITERATIONS
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_pipeline.h>
#include <oneapi/tbb/task_arena.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace tbb = oneapi::tbb;
// Each on its own cache line.
struct alignas(64) Buffer {
    std::uint64_t item = 0;
};
using Token = Buffer*;

static std::uint64_t items, iterations;
static std::size_t buffers;
static std::chrono::nanoseconds sleeping;

// Dependent operations, which can be neither vectorized nor skipped.
[[gnu::noinline]] static std::uint64_t chain(std::uint64_t count, std::uint64_t seed) {
    std::uint64_t x = seed | 1;
    for (std::uint64_t i = 0; i < count; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    return x;
}

static void work(int stage, Token token) {
    if (stage % 2 == 1) {
        if (iterations) {
            const std::uint64_t result = chain(iterations, stage);
            asm volatile("" : : "r"(result));
        }
    } else if (sleeping.count()) {
        std::this_thread::sleep_for(sleeping);
    }
    asm volatile("" : : "r"(token) : "memory");
}

int main(int count, char** words) {
    if (count != 6) return 2;
    const std::size_t workers = std::strtoull(words[1], nullptr, 10);
    items = std::strtoull(words[2], nullptr, 10);
    buffers = std::strtoull(words[3], nullptr, 10);
    sleeping = std::chrono::nanoseconds(std::strtoll(words[4], nullptr, 10));
    iterations = std::strtoull(words[5], nullptr, 10);

    tbb::global_control limit(tbb::global_control::max_allowed_parallelism, workers);
    tbb::task_arena arena(static_cast<int>(workers));
    std::vector<Buffer> pool(buffers);
    std::uint64_t made = 0, seen = 0;
    const auto ordered = tbb::filter_mode::serial_in_order;
    auto middle = [](int stage) {
        return tbb::make_filter<Token, Token>(ordered, [stage](Token token) { work(stage, token); return token; });
    };
    const auto began = std::chrono::steady_clock::now();
    arena.execute([&] {
        tbb::parallel_pipeline(buffers,
            tbb::make_filter<void, Token>(ordered, [&](tbb::flow_control& control) -> Token {
                if (made == items) { control.stop(); return nullptr; }
                // All stages are in order, so this buffer is free again.
                Token token = &pool[made % buffers];
                token->item = made++;
                work(0, token);
                return token;
            }) &
            middle(1) & middle(2) & middle(3) &
            tbb::make_filter<Token, void>(ordered, [&](Token token) {
                if (token->item != seen++) std::abort();
                work(4, token);
            }));
    });
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    if (seen != items) return 1;
    std::printf("%.9f\n", took.count());
}
