//! The catalogue of programs.

use rustix::process::Signal;

/// A program, and a task for it that has one result.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    /// A shell command whose first line of output contains the version.
    pub(crate) version: &'static str,
    /// A shell command that is run once before, in the folder of the sources. It builds in `$MADE`.
    pub(crate) prepare: &'static str,
    /// Shell commands, run in an empty folder. Their output and files are the behaviour of the
    /// program. `$INPUT` contains texts.
    pub(crate) script: &'static str,
    /// The names of processes that load the library, if there is one, and of those that never do.
    pub(crate) processes: &'static [&'static str],
    pub(crate) never: &'static [&'static str],
    /// For a small program that can be started many times.
    pub(crate) starts: Option<Signals>,
}

/// The signals that can be sent to a program.
pub(crate) struct Signals {
    /// Those that it handles or ignores, without a change of behaviour.
    pub(crate) that_are_handled: &'static [Signal],
    pub(crate) that_end: &'static [Signal],
}

const ENDED: &[Signal] = &[Signal::TERM, Signal::INT];
const STARTS: Option<Signals> = Some(Signals { that_are_handled: &[], that_end: ENDED });
/// For programs with the handlers of `check.h`. The shell ignores the signals until the program
/// handles them.
const HANDLES: Option<Signals> = Some(Signals { that_are_handled: &[Signal::USR2, Signal::ALARM], that_end: ENDED });

const NOTHING: Program =
    Program { name: "", version: "", prepare: "", script: "", processes: &[], never: &[], starts: None };

const GCC: &str = "gcc --version";

/// A C program of this folder.
macro_rules! in_c {
    ($name:literal) => {
        Program {
            name: concat!($name, ".c"),
            version: GCC,
            prepare: concat!("cc -Wall -Wextra -Werror -O1 -g -pthread ", $name, ".c -o $MADE/", $name),
            script: concat!("trap '' USR1 USR2 ALRM; exec $MADE/", $name),
            processes: &[$name],
            starts: HANDLES,
            ..NOTHING
        }
    };
}

macro_rules! in_openblas {
    ($build:literal) => {
        Program {
            name: concat!("numpy on openblas-", $build),
            version: concat!("dpkg-query -W python3-numpy libopenblas0-", $build, " | tr '\\n\\t' ', '"),
            script: concat!(
                "export LD_LIBRARY_PATH=$(dirname $(dpkg -L libopenblas0-",
                $build,
                " | grep /libopenblas.so.0)); export OPENBLAS_NUM_THREADS=4; unset LC_ALL; ",
                "exec /usr/bin/python3 $MADE/arrays.py"
            ),
            prepare: "cp arrays.py $MADE",
            processes: &["python3"],
            ..NOTHING
        }
    };
}

pub(crate) const PROGRAMS: &[Program] = &[
    Program {
        name: "pigz",
        version: "pigz --version",
        script: "pigz -p 4 -n -c < $INPUT/text > text.gz; pigz -p 4 -d -c text.gz | cksum",
        processes: &["pigz"],
        ..NOTHING
    },
    Program {
        name: "pigz, small input",
        version: "pigz --version",
        script: "exec pigz -p 4 -n -c $INPUT/little",
        processes: &["pigz"],
        starts: STARTS,
        ..NOTHING
    },
    Program {
        name: "pbzip2",
        version: "pbzip2 --version 2>&1",
        script: "pbzip2 -p4 -b1 -c $INPUT/text > text.bz2; pbzip2 -p4 -d -c text.bz2 | cksum",
        processes: &["pbzip2"],
        ..NOTHING
    },
    Program {
        name: "lbzip2",
        version: "lbzip2 --version",
        script: "lbzip2 -n 4 -1 -c < $INPUT/text > text.bz2; lbzip2 -n 4 -d -c < text.bz2 | cksum",
        processes: &["lbzip2"],
        ..NOTHING
    },
    Program {
        name: "xz",
        version: "xz --version",
        script: "xz -T4 -1 --block-size=300KiB -c $INPUT/text > text.xz; xz -T4 -d -c text.xz | cksum",
        processes: &["xz"],
        ..NOTHING
    },
    Program {
        name: "xz, small input",
        version: "xz --version",
        script: "exec xz -T4 -0 --block-size=16KiB -c $INPUT/little",
        processes: &["xz"],
        starts: STARTS,
        ..NOTHING
    },
    Program {
        name: "zstd",
        version: "zstd --version",
        script: "zstd -q -T4 -5 -B512K -c < $INPUT/text > text.zst; zstd -q -d -T4 -c < text.zst | cksum",
        processes: &["zstd"],
        ..NOTHING
    },
    Program {
        name: "zstd, small input",
        version: "zstd --version",
        script: "exec zstd -q -T4 -1 -c $INPUT/little",
        processes: &["zstd"],
        starts: STARTS,
        ..NOTHING
    },
    Program {
        name: "GNU sort",
        version: "sort --version",
        script: "sort --parallel=4 -S 8M -o sorted $INPUT/text; tr ' ' '\\n' < $INPUT/text | sort --parallel=4 -u | cksum",
        processes: &["sort"],
        ..NOTHING
    },
    Program {
        name: "GNU sort, small input",
        version: "sort --version",
        script: "exec sort --parallel=4 $INPUT/little",
        processes: &["sort"],
        starts: STARTS,
        ..NOTHING
    },
    Program {
        name: "ffmpeg",
        version: "ffmpeg -version",
        script: "for codec in mpeg4 libx264 ffv1; do \
                     ffmpeg -nostdin -v error -f lavfi -i testsrc2=size=320x240:rate=25:duration=2 -f lavfi -i sine=duration=2 \
                     -filter_threads 4 -threads 4 -c:v $codec -c:a aac -flags +bitexact -fflags +bitexact -flags:a +bitexact \
                     $codec.mkv; ffmpeg -nostdin -v error -threads 4 -i $codec.mkv -f framemd5 -; done",
        processes: &["ffmpeg"],
        ..NOTHING
    },
    Program {
        name: "Python's threads",
        version: "/usr/bin/python3 --version",
        prepare: "cp threads.py $MADE",
        script: "exec /usr/bin/python3 $MADE/threads.py",
        processes: &["python3"],
        // Python's behaviour when it is interrupted within its own locks is undefined.
        starts: Some(Signals { that_are_handled: &[], that_end: &[Signal::TERM] }),
        ..NOTHING
    },
    in_openblas!("pthread"),
    in_openblas!("openmp"),
    Program {
        name: "Java's threads",
        version: "java -version 2>&1",
        prepare: "javac -d $MADE Threads.java",
        script: "java -XX:ActiveProcessorCount=4 -XX:+UseG1GC -Xmx64m -cp $MADE Threads; \
                 exec java -XX:+UseParallelGC -XX:ActiveProcessorCount=4 -Xmx64m -cp $MADE Threads",
        processes: &["java"],
        ..NOTHING
    },
    Program {
        name: "Java's compiler",
        version: "java -version 2>&1",
        prepare: "cp Threads.java $MADE",
        script: "exec java $MADE/Threads.java",
        processes: &["java"],
        ..NOTHING
    },
    Program {
        name: "Java, small",
        version: "java -version 2>&1",
        prepare: "javac -d $MADE Threads.java # again",
        script: "exec java -XX:TieredStopAtLevel=1 -XX:ActiveProcessorCount=4 -Xmx64m -cp $MADE Threads",
        processes: &["java"],
        starts: STARTS,
        ..NOTHING
    },
    Program {
        name: "GraphicsMagick",
        version: "gm version",
        script: "export OMP_NUM_THREADS=4; \
                 gm convert -size 600x400 gradient:red-blue -swirl 90 -blur 0x3 -rotate 30 -resize 500x500 -sharpen 0x2 picture.ppm; \
                 gm convert picture.ppm -median 2 -edge 1 picture.png; cksum picture.ppm",
        processes: &["gm"],
        ..NOTHING
    },
    Program {
        name: "HPC Challenge on Open MPI",
        version: "dpkg-query -W hpcc openmpi-bin | tr '\\n\\t' ', '",
        script: "sed -e 's/^1000 .*Ns$/200 Ns/; s/^16.0 /16.0 /; /^1200 10000/s/1200/200/' \
                 -e 's/^2            Ps/1 Ps/' /usr/share/doc/hpcc/examples/_hpccinf.txt > hpccinf.txt; \
                 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun.openmpi --oversubscribe -np 2 hpcc; \
                 grep -E 'PASSED|Success=1' hpccoutf.txt | grep -v -c ^CPU; rm hpccoutf.txt",
        processes: &["hpcc"],
        ..NOTHING
    },
    Program {
        name: "stress-ng",
        version: "stress-ng --version",
        // The first thread of `mutex` has real-time priority. If it executes all operations and
        // stops the run before its creator runs again, the creator believes that it could create no
        // thread, and the status is 3.
        script: "for kind in mutex pthread futex vm; do \
                     status=0; stress-ng --verify --$kind 2 --$kind-ops 1000 -t 60 2> complaints || status=$?; \
                     if [ $status = 3 ] && grep -q 'mutex: could not create any pthreads' complaints; then status=0; fi; \
                     if [ $status != 0 ]; then cat complaints >&2; exit $status; fi; \
                     grep -c successful complaints; rm complaints; done",
        processes: &["stress-ng"],
        ..NOTHING
    },
    Program {
        name: "sysbench",
        version: "sysbench --version",
        script: "sysbench threads --threads=4 --thread-locks=2 --thread-yields=50 --events=400 --time=0 run | grep 'number of events:'; \
                 sysbench mutex --threads=4 --mutex-num=8 --mutex-locks=4000 --mutex-loops=200 run | grep 'number of events:'",
        processes: &["sysbench"],
        ..NOTHING
    },
    Program {
        name: "jemalloc after the library",
        version: "dpkg-query -W libjemalloc2",
        prepare: "cc -Wall -O1 -pthread allocator.c -o $MADE/allocator-1",
        script: "LD_PRELOAD=$LD_PRELOAD:libjemalloc.so.2; export LD_PRELOAD MALLOC_CONF=narenas:1,tcache:false; exec $MADE/allocator-1",
        processes: &["allocator-1"],
        starts: STARTS,
        ..NOTHING
    },
    Program {
        name: "jemalloc before the library",
        version: "dpkg-query -W libjemalloc2",
        prepare: "cc -Wall -O1 -pthread allocator.c -o $MADE/allocator-2",
        script: "LD_PRELOAD=libjemalloc.so.2:$LD_PRELOAD; export LD_PRELOAD MALLOC_CONF=narenas:1; exec $MADE/allocator-2",
        processes: &["allocator-2"],
        ..NOTHING
    },
    Program {
        name: "libnuma",
        version: "dpkg-query -W libnuma1",
        prepare: "cc -Wall -Wextra -Werror -O1 -pthread numa.c -lnuma -o $MADE/numa",
        script: "trap '' USR1 USR2 ALRM; exec $MADE/numa",
        processes: &["numa"],
        starts: HANDLES,
        ..NOTHING
    },
    Program {
        name: "C++20",
        version: "g++ --version",
        prepare: "c++ -std=c++20 -Wall -O1 -pthread cxx20.cpp -o $MADE/cxx20",
        script: "exec $MADE/cxx20",
        processes: &["cxx20"],
        starts: STARTS,
        ..NOTHING
    },
    Program {
        name: "cancelled.c as C++",
        version: "g++ --version",
        prepare: "c++ -x c++ -Wall -O1 -pthread cancelled.c -o $MADE/cancelled-cxx",
        script: "trap '' USR1 USR2 ALRM; exec $MADE/cancelled-cxx",
        processes: &["cancelled-cxx"],
        ..NOTHING
    },
    in_c!("allocator"),
    in_c!("barriers"),
    in_c!("c11"),
    in_c!("cancelled"),
    in_c!("endings"),
    in_c!("forks"),
    in_c!("handlers"),
    in_c!("kinds"),
    in_c!("pingpong"),
    in_c!("shared"),
    in_c!("timed"),
    Program {
        name: "loads.c",
        version: GCC,
        prepare: "cc -Wall -O1 -pthread -shared -fPIC plugin.c -o $MADE/plugin.so; cc -Wall -O1 -pthread loads.c -o $MADE/loads",
        script: "trap '' USR1 USR2 ALRM; exec $MADE/loads $MADE/plugin.so",
        processes: &["loads"],
        starts: HANDLES,
        ..NOTHING
    },
    Program {
        name: "constructors.c",
        version: GCC,
        prepare: "cc -Wall -O1 -pthread -shared -fPIC constructor.c -o $MADE/constructor.so; cc -Wall -O1 -pthread constructors.c -o $MADE/constructors",
        script: "exec $MADE/constructors $MADE/constructor.so",
        processes: &["constructors"],
        ..NOTHING
    },
    Program {
        name: "chains of programs, including static ones, Go and another user's",
        version: "go version",
        prepare: "cc -Wall -O1 -pthread chain.c -o $MADE/chain; cc -O1 -pthread shared.c -o $MADE/linked; \
                  cc -static -O1 -pthread c11.c -o $MADE/unlinked; \
                  CGO_ENABLED=0 GO111MODULE=off go build -o $MADE/in-go main.go; \
                  cp $MADE/linked $MADE/anothers; chmod u=rwxs,go=rx $MADE/anothers; if [ $(id -u) = 0 ]; then chown nobody $MADE/anothers; fi",
        script: "exec $MADE/chain \"$MADE/chain 'exec $MADE/in-go' $MADE/unlinked\" \"$MADE/linked; $MADE/anothers; exec $MADE/linked\" \
                 \"env -i PATH=$PATH $MADE/linked\"",
        processes: &["chain", "linked", "sh"],
        never: &["in-go", "unlinked"],
        ..NOTHING
    },
];
