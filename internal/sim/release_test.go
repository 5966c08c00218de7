// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"runtime"
	"testing"
	"weak"

	"github.com/ramjet-rdma/ramjet/internal/ibta"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestConversationIsReleased: thousands of conversations in one process do not add up.
func TestConversationIsReleased(t *testing.T) {
	c := func() weak.Pointer[Conversation] {
		n := New(1)
		c, err := NewConversation(n, RandomSetup(n, verbs.RC))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Run(ibta.Time(1e12)); err != nil {
			t.Fatal(err)
		}
		return weak.Make(c)
	}()
	runtime.GC()
	if c.Value() != nil {
		t.Error("a conversation that nobody has any more is still in memory")
	}
}
