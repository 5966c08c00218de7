// SPDX-License-Identifier: Apache-2.0

package sm

import "testing"

func TestBringUp(t *testing.T) {
	for name, build := range map[string]func(s *subnet) *testNode{
		"back to back": func(s *subnet) *testNode {
			a, b := s.addAdapter(), s.addAdapter()
			s.cable(a, b)
			return a
		},
		"one switch":        func(s *subnet) *testNode { return s.star(5)[0] },
		"manager in switch": func(s *subnet) *testNode { s.star(5); return s.nodes[0] },
		"line":              func(s *subnet) *testNode { all, _ := s.line(6, false); return all[0] },
		"ring":              func(s *subnet) *testNode { all, _ := s.line(7, true); return all[5] },
		"mesh":              func(s *subnet) *testNode { return s.mesh(5, 4)[7] },
		"fat tree 16":       func(s *subnet) *testNode { all, _, _, _ := s.fatTree(4); return all[3] },
		"fat tree 128":      func(s *subnet) *testNode { all, _, _, _ := s.fatTree(8); return all[100] },
		"manager in core":   func(s *subnet) *testNode { _, _, _, cores := s.fatTree(4); return cores[1] },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSubnet(t)
			mgr := s.manage(build(s), Config{})
			s.up(mgr)
			s.check(mgr)
			requests := mgr.m.Counters.Requests
			// Nothing has changed: the next sweep sets nothing.
			mgr.m.Resweep(s.now)
			s.up(mgr)
			s.check(mgr)
			for _, b := range s.nodes {
				if d := b.agent.Deadline(); d != 0 {
					t.Errorf("node %x has a trap to send", b.node.GUID)
				}
			}
			t.Logf("%d nodes: %d requests, then %d", len(s.nodes), requests, mgr.m.Counters.Requests-requests)
		})
	}
}
