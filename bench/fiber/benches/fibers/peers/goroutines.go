// The programs of programs.rs in Go: goroutines PROGRAM NUMBER... Results go to standard output,
// one name and number per line. A goroutine has no handle: it closes a channel if it is joined
// individually, and a WaitGroup counts the others.
package main

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

var locks [2]sync.Mutex
var words [2][16]uint64

func editAll(which int, number uint64) {
	locks[which].Lock()
	for i := range words[which] {
		words[which][i] += number
	}
	locks[which].Unlock()
}

func once(threads int) time.Duration {
	words = [2][16]uint64{}
	start := time.Now()
	var all sync.WaitGroup
	all.Add(threads)
	var before chan struct{}
	for number := 0; number < threads; number++ {
		var mine, awaited chan struct{}
		switch number % 16 {
		case 14:
			mine = make(chan struct{})
		case 15:
			awaited = before
		}
		go func() {
			editAll(number%2, uint64(number))
			if awaited != nil {
				<-awaited
			}
			if mine != nil {
				close(mine)
			}
			all.Done()
		}()
		before = mine
	}
	all.Wait()
	took := time.Since(start)
	for which := range words {
		sum := uint64(0)
		for number := which; number < threads; number += 2 {
			sum += uint64(number)
		}
		for _, word := range words[which] {
			if word != sum {
				fmt.Fprintln(os.Stderr, "wrong sums")
				os.Exit(1)
			}
		}
	}
	return took
}

func sample(name string, times int, run func()) {
	var samples []float64
	for i := 0; i < 7; i++ {
		start := time.Now()
		run()
		samples = append(samples, float64(time.Since(start).Nanoseconds())/float64(times))
	}
	sort.Float64s(samples)
	fmt.Printf("%s %.3f\n", name, samples[3])
}

func two(function func(me int)) {
	var both sync.WaitGroup
	both.Add(2)
	for me := range 2 {
		go func() {
			function(me)
			both.Done()
		}()
	}
	both.Wait()
}

func operations(times int) {
	sample("create-join", times, func() {
		for range times {
			ended := make(chan struct{})
			go func() { close(ended) }()
			<-ended
		}
	})
	batches := (times + 999) / 1000
	sample("create-many", batches*1000, func() {
		for range batches {
			var all sync.WaitGroup
			all.Add(1000)
			for range 1000 {
				go func() { all.Done() }()
			}
			all.Wait()
		}
	})
	sample("yield", 2*times, func() {
		two(func(int) {
			for range times {
				runtime.Gosched()
			}
		})
	})
	sample("lock-unlock", 10*times, func() {
		for range 10 * times {
			locks[1].Lock()
			words[1][0]++
			locks[1].Unlock()
		}
	})
	var lock sync.Mutex
	changed := sync.NewCond(&lock)
	turn := 0
	sample("condvar", 2*times, func() {
		two(func(me int) {
			lock.Lock()
			for range times {
				for turn != me {
					changed.Wait()
				}
				turn = 1 - me
				changed.Signal()
			}
			lock.Unlock()
		})
	})
	sample("channel", 2*times, func() {
		messages, answers := make(chan int, 1), make(chan int, 1)
		go func() {
			for message := range messages {
				answers <- message
			}
		}()
		for number := range times {
			messages <- number
			<-answers
		}
		close(messages)
	})
}

// Milliseconds until so many primes are found, without the end of the goroutines.
func sieve(primes int) float64 {
	start := time.Now()
	numbers := make(chan int, 1)
	ended := make(chan struct{})
	// Sends unless nobody receives any more.
	send := func(to chan<- int, number int) bool {
		select {
		case to <- number:
			return true
		case <-ended:
			return false
		}
	}
	generate := func(to chan<- int) {
		for number := 2; number <= 8*primes && send(to, number); number++ {
		}
		close(to)
	}
	go generate(numbers)
	for range primes {
		prime := <-numbers
		from, to := numbers, make(chan int, 1)
		go func() {
			for number := range from {
				if number%prime != 0 && !send(to, number) {
					break
				}
			}
			close(to)
		}()
		numbers = to
	}
	took := time.Since(start)
	close(ended)
	return float64(took.Nanoseconds()) / 1e6
}

// Answers so many connections of the socket that is the standard input.
func echo(connections int) {
	listener, err := net.FileListener(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var all sync.WaitGroup
	for range connections {
		stream, err := listener.Accept()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		all.Add(1)
		go func() {
			bytes := make([]byte, 256)
			for {
				length, err := stream.Read(bytes)
				if err != nil {
					break
				}
				if _, err = stream.Write(bytes[:length]); err != nil {
					break
				}
			}
			stream.Close()
			all.Done()
		}()
	}
	all.Wait()
}

func kilobytes(path, key string) float64 {
	text, _ := os.ReadFile(path)
	for _, line := range strings.Split(string(text), "\n") {
		if rest, found := strings.CutPrefix(line, key); found {
			number, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return number
		}
	}
	return 0
}

func look() [3]float64 {
	return [3]float64{
		kilobytes("/proc/self/status", "VmRSS:"),
		kilobytes("/proc/self/status", "VmSize:"),
		-kilobytes("/proc/meminfo", "MemFree:"),
	}
}

func blocked(threads int) {
	var started atomic.Int64
	var all sync.WaitGroup
	all.Add(threads)
	before := look()
	start := time.Now()
	locks[0].Lock()
	for range threads {
		go func() {
			started.Add(1)
			locks[0].Lock()
			words[0][0]++
			locks[0].Unlock()
			all.Done()
		}()
	}
	for started.Load() < int64(threads) {
		runtime.Gosched()
	}
	fmt.Printf("started %.3f\n", float64(time.Since(start).Nanoseconds())/1e6)
	// The last one may not wait yet.
	time.Sleep(50 * time.Millisecond)
	after := look()
	for i, name := range []string{"resident", "virtual", "machine"} {
		fmt.Printf("%s %.3f\n", name, (after[i]-before[i])*1024/float64(threads))
	}
	locks[0].Unlock()
	all.Wait()
}

func main() {
	number, _ := strconv.Atoi(os.Args[2])
	switch os.Args[1] {
	case "study":
		fmt.Printf("cold %.3f\n", float64(once(number).Nanoseconds())/1e3)
		again, _ := strconv.Atoi(os.Args[3])
		for range again {
			fmt.Printf("warm %.3f\n", float64(once(number).Nanoseconds())/1e3)
		}
	case "operations":
		operations(number)
	case "sieve":
		again, _ := strconv.Atoi(os.Args[3])
		for range again + 1 {
			fmt.Printf("found %.3f\n", sieve(number))
		}
	case "echo":
		echo(number)
	case "blocked":
		blocked(number)
	}
}
