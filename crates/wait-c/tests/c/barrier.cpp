// The same code with the standard library's barrier and with ours.

#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <thread>
#include <vector>

#include <rowlock/barrier.hpp>

#define CHECK(condition)                                                       \
    do {                                                                       \
        if (!(condition)) {                                                    \
            std::fprintf(stderr, "%d: false: %s\n", __LINE__, #condition);     \
            std::exit(1);                                                      \
        }                                                                      \
    } while (0)

constexpr int team = 4, phases = 200;

// Phases with a completion function, split arrivals, and a thread that leaves. `Barrier` is a
// template of barriers.
template <template <class> class Barrier>
int meet() {
    int completed = 0;
    std::vector<int> begun(team);
    auto complete = [&]() noexcept {
        for (int number = 1; number < team; ++number) {
            CHECK(begun[number] == completed + 1);
        }
        ++completed;
    };
    Barrier<decltype(complete)> barrier(team, complete);
    static_assert(Barrier<decltype(complete)>::max() >= 1024);
    static_assert(!std::is_copy_constructible_v<Barrier<decltype(complete)>>);

    std::vector<std::thread> threads;
    for (int number = 0; number < team; ++number) {
        threads.emplace_back([&, number] {
            for (int phase = 1; phase <= phases; ++phase) {
                begun[number] = phase;
                if (number == 0) {
                    barrier.arrive_and_drop();
                    return;
                } else if (number == 1) {
                    barrier.wait(barrier.arrive());
                } else {
                    barrier.arrive_and_wait();
                }
                CHECK(completed >= phase);
            }
        });
    }
    for (auto &thread : threads) {
        thread.join();
    }
    return completed;
}

// One thread arrives several times, and another one waits.
template <class Barrier>
void arrive_for_others() {
    Barrier barrier(3);
    auto both = barrier.arrive(2);
    std::thread other([&barrier, token = std::move(both)]() mutable { barrier.wait(std::move(token)); });
    typename Barrier::arrival_token last = barrier.arrive();
    last = std::move(last);
    barrier.wait(std::move(last));
    other.join();
}

template <class Call>
bool throws(Call call) {
    try {
        call();
        return false;
    } catch (const std::system_error &error) {
        return error.code() == std::errc::invalid_argument;
    }
}

int main() {
    CHECK((meet<std::barrier>() == phases));
    CHECK((meet<rowlock::barrier>() == phases));
    arrive_for_others<std::barrier<>>();
    arrive_for_others<rowlock::barrier<>>();

    CHECK(throws([] { rowlock::barrier<> barrier(-1); }));
    CHECK(throws([] { rowlock::barrier<> barrier(rowlock::barrier<>::max() + 1); }));
    CHECK(throws([] { rowlock::barrier<> barrier(2, {}, "2cs+ or so"); }));
    rowlock::barrier<> two(2, {}, "always-block");
    CHECK(throws([&] { (void)two.arrive(3); }));
    CHECK(throws([&] { (void)two.arrive(0); }));
    CHECK(two.statistics().waits == 0);
    rowlock::barrier<> empty(0);
    std::puts("done");
}
