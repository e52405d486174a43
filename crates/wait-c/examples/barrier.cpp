// Four threads work in phases, and a fifth one leaves after the first phase. The completion
// function counts the phases.

#include <cstdio>
#include <thread>
#include <vector>

#include <rowlock/barrier.hpp>

int main() {
    constexpr int threads = 4, phases = 1000;
    int completed = 0;
    auto count = [&completed]() noexcept { ++completed; };
    rowlock::barrier meeting(threads + 1, count, "2cs+");

    std::vector<std::thread> team;
    for (int i = 0; i < threads; ++i) {
        team.emplace_back([&] {
            for (int phase = 0; phase < phases; ++phase) {
                // Arrive, do independent work, and then wait for the others.
                auto arrival = meeting.arrive();
                meeting.wait(std::move(arrival));
            }
        });
    }
    meeting.arrive_and_drop();
    for (auto &thread : team) {
        thread.join();
    }

    std::printf("%d phases\n", completed);
}
