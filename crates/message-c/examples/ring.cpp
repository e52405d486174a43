// Ranks that are threads of one process: a token goes around, and each rank counts it.

#include <cstdio>
#include <stdexcept>
#include <thread>
#include <vector>

#include <rowlock_message.h>

constexpr int ranks = 4, rounds = 1000;

static void check(int status) {
    if (status != 0) {
        throw std::runtime_error(rowlock_message_error_text());
    }
}

static void pass_on(rowlock_communicator *world) {
    int rank, token = 0;
    check(rowlock_communicator_rank(world, &rank));
    for (int round = 0; round < rounds; ++round) {
        if (rank == 0) {
            check(rowlock_communicator_send(world, 1, 0, &token, sizeof token));
        }
        int before = (rank + ranks - 1) % ranks;
        check(rowlock_communicator_receive(world, before, 0, &token, sizeof token, nullptr));
        ++token;
        if (rank != 0) {
            check(rowlock_communicator_send(world, (rank + 1) % ranks, 0, &token, sizeof token));
        }
    }
    if (rank == 0) {
        std::printf("the token was counted %d times\n", token);
    }
    rowlock_communicator_free(&world);
}

int main() {
    rowlock_communicator *worlds[ranks];
    check(rowlock_message_threads(worlds, ranks, "adaptive"));
    std::vector<std::thread> team;
    for (rowlock_communicator *world : worlds) {
        team.emplace_back(pass_on, world);
    }
    for (auto &thread : team) {
        thread.join();
    }
}
