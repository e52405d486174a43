// rowlock::barrier: the interface of C++20's std::barrier, with threads that wait by a rule. For
// C++17 and later.
//
// Differences: a third argument of the constructor names the rule (nullptr: "adaptive"), and errors
// (too many arrivals at once, an invalid rule) throw std::system_error instead of being undefined.
//
// Licence: Apache-2.0 OR MIT.

#ifndef ROWLOCK_BARRIER_HPP
#define ROWLOCK_BARRIER_HPP

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <system_error>
#include <type_traits>
#include <utility>

#include <rowlock_wait.h>

namespace rowlock {

namespace detail {

struct no_completion {
    void operator()() const noexcept {}
};

inline void check(int status) {
    if (status != 0) {
        throw std::system_error(status, std::generic_category(), rowlock_message());
    }
}

// The callback from C after all have arrived.
template <class CompletionFunction>
void complete(void *completion) noexcept {
    (*static_cast<CompletionFunction *>(completion))();
}

} // namespace detail

// A barrier at which threads meet repeatedly: in each phase all wait until the expected number has
// arrived. The last one to arrive calls the completion function before the others continue. It must
// not throw.
template <class CompletionFunction = detail::no_completion>
class barrier {
    static_assert(std::is_nothrow_invocable_v<CompletionFunction &>, "the completion function must be noexcept");

public:
    // An arrival in one phase, to be waited for once.
    class arrival_token {
    public:
        arrival_token(arrival_token &&) noexcept = default;
        arrival_token &operator=(arrival_token &&) noexcept = default;

    private:
        friend class barrier;
        explicit arrival_token(std::uint64_t number) noexcept : number(number) {}
        std::uint64_t number;
    };

    // The maximum expected number of threads.
    static constexpr std::ptrdiff_t max() noexcept { return ROWLOCK_BARRIER_MAX_PARTIES; }

    explicit barrier(std::ptrdiff_t expected, CompletionFunction completion = CompletionFunction(),
                     const char *rule = nullptr)
        : completion(std::move(completion)) {
        constexpr bool is_called = !std::is_same_v<CompletionFunction, detail::no_completion>;
        rowlock_barrier *made = nullptr;
        // A barrier may expect no threads, but then no thread may arrive.
        detail::check(rowlock_barrier_create_with_completion(
            &made, count(expected == 0 ? 1 : expected), rule,
            is_called ? &detail::complete<CompletionFunction> : nullptr, &this->completion));
        handle.reset(made);
    }

    barrier(const barrier &) = delete;
    barrier &operator=(const barrier &) = delete;

    // Arrives `update` times in this phase without waiting.
    [[nodiscard]] arrival_token arrive(std::ptrdiff_t update = 1) {
        std::uint64_t arrival = 0;
        detail::check(rowlock_barrier_arrive(handle.get(), count(update), &arrival));
        return arrival_token(arrival);
    }

    // Waits until the phase of the arrival is over.
    void wait(arrival_token &&arrival) const {
        detail::check(rowlock_barrier_complete(handle.get(), arrival.number, nullptr));
    }

    void arrive_and_wait() { detail::check(rowlock_barrier_wait(handle.get(), nullptr)); }

    // Arrives for the last time: later phases expect one thread less.
    void arrive_and_drop() { detail::check(rowlock_barrier_arrive_and_drop(handle.get())); }

    // The counts of all waits so far.
    rowlock_statistics statistics() const {
        rowlock_statistics statistics;
        detail::check(rowlock_barrier_statistics(handle.get(), &statistics));
        return statistics;
    }

private:
    // As a C argument. Numbers out of its range are rejected there.
    static std::uint32_t count(std::ptrdiff_t of) noexcept {
        return of < 0 || of > max() ? std::numeric_limits<std::uint32_t>::max() : static_cast<std::uint32_t>(of);
    }

    struct destroy {
        void operator()(rowlock_barrier *barrier) const noexcept { rowlock_barrier_destroy(barrier); }
    };

    CompletionFunction completion;
    std::unique_ptr<rowlock_barrier, destroy> handle;
};

} // namespace rowlock

#endif
