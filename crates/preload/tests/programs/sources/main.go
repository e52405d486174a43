// A program that no library can be preloaded into.
package main

import (
	"fmt"
	"sync"
)

func main() {
	var group sync.WaitGroup
	var mutex sync.Mutex
	sum := 0
	for n := 0; n < 8; n++ {
		group.Add(1)
		go func(n int) {
			defer group.Done()
			for i := 0; i < 1000; i++ {
				mutex.Lock()
				sum += n
				mutex.Unlock()
			}
		}(n)
	}
	group.Wait()
	fmt.Println("sum", sum)
}
