// Sorts records of 100 bytes by their first 10 with STXXL: `sort-stxxl IN OUT MEMORY`, memory in
// bytes; `-` for OUT sorts IN in place.
//
// Its files are accessed with direct I/O. Runs are formed and merged with the parallel mode of the
// standard library, as STXXL does when it is compiled with OpenMP.

#include <cstdlib>
#include <cstring>

#include <stxxl/io>
#include <stxxl/sort>
#include <stxxl/stream>
#include <stxxl/vector>

struct record {
    unsigned char bytes[100];
};

struct earlier {
    bool operator()(const record& left, const record& right) const { return std::memcmp(left.bytes, right.bytes, 10) < 0; }

    static record filled(int byte) {
        record filled;
        std::memset(filled.bytes, byte, sizeof filled.bytes);
        return filled;
    }
    static record min_value() { return filled(0); }
    static record max_value() { return filled(255); }
};

// A multiple of a record and of a page.
constexpr unsigned block = 4 * 409600;

typedef stxxl::vector<record, 4, stxxl::lru_pager<8>, block> file_vector;

int main(int count, char** words) {
    if (count != 4)
        return 2;
    using stxxl::file;
    const stxxl::uint64 memory = std::strtoull(words[3], nullptr, 10);
    if (std::strcmp(words[2], "-") == 0) {
        stxxl::syscall_file both(words[1], file::RDWR | file::DIRECT);
        file_vector records(&both);
        stxxl::sort(records.begin(), records.end(), earlier(), memory);
        return 0;
    }
    stxxl::syscall_file input(words[1], file::RDONLY | file::DIRECT);
    stxxl::syscall_file output(words[2], file::RDWR | file::CREAT | file::TRUNC | file::DIRECT);
    const file_vector unsorted(&input);
    file_vector sorted(&output);
    sorted.resize(unsorted.size());
    auto records = stxxl::stream::streamify(unsorted.begin(), unsorted.end());
    stxxl::stream::sort<decltype(records), earlier, block> merged(records, earlier(), memory);
    stxxl::stream::materialize(merged, sorted.begin(), sorted.end());
    return 0;
}
