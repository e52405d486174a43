// The programs of programs.rs for Boost.Fiber: boost STACKS PROGRAM NUMBER..., with STACKS `pooled`
// (64 KiB, reused) or `default`. Results go to standard output, one name and number per line.
#include <algorithm>
#include <array>
#include <boost/fiber/all.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace fibers = boost::fibers;
using Clock = std::chrono::steady_clock;

static fibers::pooled_fixedsize_stack *pool;

template <class Function> static fibers::fiber spawn(Function function) {
    if (pool) return fibers::fiber(fibers::launch::post, std::allocator_arg, *pool, std::move(function));
    return fibers::fiber(fibers::launch::post, std::move(function));
}

static double since(Clock::time_point start, double unit) {
    return std::chrono::duration<double>(Clock::now() - start).count() * unit;
}

static fibers::mutex locks[2];
static std::array<std::uint64_t, 16> words[2];

template <class Edit> static void edit(int which, Edit edit) {
    std::lock_guard<fibers::mutex> guard(locks[which]);
    edit(words[which]);
}

static double once(std::size_t threads) {
    for (auto &some : words) some.fill(0);
    auto start = Clock::now();
    std::vector<fibers::fiber> handles;
    handles.reserve(threads);
    for (std::size_t number = 0; number < threads; number++) {
        fibers::fiber before;
        if (number % 16 == 15) before = std::move(handles[number - 1]);
        handles.push_back(spawn([number, before = std::move(before)]() mutable {
            edit(number % 2, [&](auto &some) { for (auto &word : some) word += number; });
            if (before.joinable()) before.join();
        }));
    }
    for (auto &handle : handles)
        if (handle.joinable()) handle.join();
    double took = since(start, 1e6);
    for (std::size_t which = 0; which < 2; which++) {
        std::uint64_t sum = 0;
        for (std::size_t number = which; number < threads; number += 2) sum += number;
        for (auto word : words[which])
            if (word != sum) { std::fprintf(stderr, "wrong sums\n"); std::_Exit(1); }
    }
    return took;
}

template <class Run> static void sample(const char *name, std::size_t times, Run run) {
    std::vector<double> samples;
    for (int i = 0; i < 7; i++) {
        auto start = Clock::now();
        run();
        samples.push_back(since(start, 1e9) / times);
    }
    std::sort(samples.begin(), samples.end());
    std::printf("%s %.3f\n", name, samples[3]);
}

template <class Function> static void two(Function function) {
    auto one = spawn([=] { function(0); }), other = spawn([=] { function(1); });
    one.join();
    other.join();
}

static fibers::mutex turns;
static fibers::condition_variable changed;
static int turn;

static void operations(std::size_t times) {
    sample("create-join", times, [=] { for (std::size_t i = 0; i < times; i++) spawn([] {}).join(); });
    std::size_t batches = (times + 999) / 1000;
    sample("create-many", batches * 1000, [=] {
        for (std::size_t i = 0; i < batches; i++) {
            std::vector<fibers::fiber> handles;
            handles.reserve(1000);
            for (int k = 0; k < 1000; k++) handles.push_back(spawn([] {}));
            for (auto &handle : handles) handle.join();
        }
    });
    sample("yield", 2 * times, [=] { two([=](int) { for (std::size_t i = 0; i < times; i++) boost::this_fiber::yield(); }); });
    sample("lock-unlock", 10 * times, [=] {
        for (std::size_t i = 0; i < 10 * times; i++) edit(1, [](auto &some) { some[0] += 1; });
    });
    sample("condvar", 2 * times, [=] {
        two([=](int me) {
            std::unique_lock<fibers::mutex> guard(turns);
            for (std::size_t i = 0; i < times; i++) {
                while (turn != me) changed.wait(guard);
                turn = 1 - me;
                changed.notify_one();
            }
        });
    });
    sample("channel", 2 * times, [=] {
        // Two is the minimum, because one place stays empty.
        fibers::buffered_channel<std::size_t> messages(2), answers(2);
        auto other = spawn([&] { for (auto message : messages) answers.push(message); });
        for (std::size_t i = 0; i < times; i++) {
            messages.push(i);
            answers.value_pop();
        }
        messages.close();
        other.join();
    });
}

static double kilobytes(const char *path, const std::string &key) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);)
        if (line.compare(0, key.size(), key) == 0) return std::stod(line.substr(key.size()));
    return 0;
}

struct Memory {
    double free = kilobytes("/proc/meminfo", "MemFree:");
    double resident = kilobytes("/proc/self/status", "VmRSS:");
    double address_space = kilobytes("/proc/self/status", "VmSize:");

    void print(const Memory &before, std::size_t threads) const {
        std::printf("resident %.3f\n", (resident - before.resident) * 1024 / threads);
        std::printf("virtual %.3f\n", (address_space - before.address_space) * 1024 / threads);
        std::printf("machine %.3f\n", (before.free - free) * 1024 / threads);
    }
};

static void memory(std::size_t threads, bool start) {
    static std::size_t started;
    std::vector<fibers::fiber> handles(threads);
    Memory before;
    auto start_time = Clock::now();
    locks[0].lock();
    for (auto &handle : handles) handle = spawn([] { started++; edit(0, [](auto &some) { some[0] += 1; }); });
    while (start && started < threads) boost::this_fiber::yield();
    if (start) std::printf("started %.3f\n", since(start_time, 1e3));
    Memory().print(before, threads);
    locks[0].unlock();
    for (auto &handle : handles) handle.join();
}

int main(int count, char **arguments) {
    if (count < 4) return 2;
    if (std::string(arguments[1]) == "pooled") pool = new fibers::pooled_fixedsize_stack(64 << 10);
    std::string program = arguments[2];
    std::size_t number = std::stoul(arguments[3]);
    if (program == "study") {
        std::printf("cold %.3f\n", once(number));
        for (int again = std::stoi(arguments[4]); again > 0; again--) std::printf("warm %.3f\n", once(number));
    } else if (program == "operations") operations(number);
    else memory(number, program == "blocked");
    std::fflush(stdout);
    std::_Exit(0);
}
