// SPDX-License-Identifier: Apache-2.0

package netio

import (
	"sync"
	"testing"
	"time"
)

// TestPark has several goroutines park at a socket. A datagram ends it, and so does the time.
func TestPark(t *testing.T) {
	plain := listen(t, first, Options{Plain: true})
	if plain.Park(time.Hour); plain.CanPark() {
		t.Error("a socket without Park has it")
	}
	a, b := listen(t, first, Options{}), listen(t, second, Options{})
	into := make([]Datagrams, 4)
	tr := a.NewTrain()
	for range 20 {
		var parkers sync.WaitGroup
		for range 3 {
			parkers.Go(func() {
				start := time.Now()
				b.Park(6 * patience)
				if d := time.Since(start); d > patience {
					t.Errorf("parked for %v", d)
				}
			})
		}
		time.Sleep(time.Millisecond)
		build(t, tr, b.LocalAddr(), []int{2}, []byte{1, 2})
		if err := a.Send(tr); err != nil {
			t.Fatal(err)
		}
		parkers.Wait()
		for {
			n, err := b.Recv(into)
			if err != nil {
				t.Fatal(err)
			}
			if n > 0 {
				break
			}
		}
	}

	b.Wake() // is for Wait
	const short = 5 * time.Millisecond
	slept := time.Duration(0)
	for try := 0; slept < short && try < 100; try++ { // a signal may end one
		start := time.Now()
		b.Park(short)
		slept = time.Since(start)
	}
	if slept < short {
		t.Error("nothing has arrived, and it does not sleep")
	}
	if n := testing.AllocsPerRun(100, func() { b.Park(time.Microsecond) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
