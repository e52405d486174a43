// The programs of endless.rs in Go: preemption late LOOPS TIMES, or turns LOOPS. Results go to
// standard output, one name and number per line. With one CPU, Go runs all goroutines on one kernel
// thread.
package main

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const nap = time.Millisecond
const stall = 100_000

type span struct{ from, to int64 }

var start = time.Now()
var latest atomic.Int64
var stalls []span
var lock sync.Mutex
var left atomic.Int64

func now() int64 {
	now := time.Since(start).Nanoseconds()
	for {
		before := latest.Load()
		if now <= before {
			return now
		}
		if latest.CompareAndSwap(before, now) {
			if now > before+stall {
				lock.Lock()
				stalls = append(stalls, span{before, now})
				lock.Unlock()
			}
			return now
		}
	}
}

func endless() {
	for left.Load() > 0 {
		now()
	}
}

func late(loops, times int) {
	naps := make([]span, 0, times)
	var all sync.WaitGroup
	all.Add(loops + 1)
	for range loops {
		go func() {
			endless()
			all.Done()
		}()
	}
	go func() {
		for range times {
			due := now() + nap.Nanoseconds()
			time.Sleep(nap)
			naps = append(naps, span{due, now()})
		}
		left.Store(0)
		all.Done()
	}()
	began := time.Now()
	all.Wait()
	seconds := time.Since(began).Seconds()
	for _, nap := range naps {
		name := "late"
		for _, stall := range stalls {
			if stall.from < nap.to && nap.from < stall.to {
				name = "apart"
			}
		}
		fmt.Printf("%s %.3f\n", name, float64(nap.to-nap.from)/1e3)
	}
	fmt.Printf("stalls %.3f\n", float64(len(stalls))/seconds)
}

func turns(loops int) {
	turns := make([]int64, loops)
	var all sync.WaitGroup
	all.Add(loops)
	for i := range loops {
		go func() {
			turns[i] = now()
			left.Add(-1)
			endless()
			all.Done()
		}()
	}
	all.Wait()
	first, last := turns[0], turns[0]
	for _, turn := range turns {
		first, last = min(first, turn), max(last, turn)
	}
	name := "last"
	if len(stalls) > 0 {
		name = "apart"
	}
	fmt.Printf("%s %.3f\n", name, float64(last-first)/1e3)
}

func main() {
	loops, _ := strconv.Atoi(os.Args[2])
	latest.Store(time.Since(start).Nanoseconds())
	switch os.Args[1] {
	case "late":
		left.Store(1)
		times, _ := strconv.Atoi(os.Args[3])
		late(loops, times)
	case "turns":
		left.Store(int64(loops))
		turns(loops)
	}
}
