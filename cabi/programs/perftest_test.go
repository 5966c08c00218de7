// SPDX-License-Identifier: Apache-2.0

//go:build linux && !race

package programs

import "testing"

// perftests is the matrix of perftest: each operation with bandwidth and latency, over each
// transport that it has, with and without librdmacm, polling and with events. perftest itself
// refuses UC and XRC over librdmacm, and events for WRITE, of which the target gets no completion.
func perftests() []pair {
	var all []pair
	for _, op := range []struct {
		name       string
		transports []string
		size       string // atomics have one
		events     bool
	}{
		{"send", []string{"RC", "UC", "UD", "XRC"}, " -s 1000", true},
		{"write", []string{"RC", "UC", "XRC"}, " -s 1000", false},
		{"read", []string{"RC", "XRC"}, " -s 1000", true},
		{"atomic", []string{"RC", "XRC"}, "", true},
	} {
		for _, measured := range []string{"_bw", "_lat"} {
			for _, transport := range op.transports {
				for _, cm := range []string{"", " -R"} {
					for _, events := range []string{"", " -e"} {
						if (transport == "UC" || transport == "XRC") && cm != "" || events != "" && !op.events {
							continue
						}
						args := "ib_" + op.name + measured + " -c " + transport + cm + events + op.size
						all = append(all, perftest("", args+" -n 20"))
						if transport != "XRC" {
							all = append(all, perftest("shm", args+" -n 100"))
						}
						if cm != "" && transport == "RC" && op.name != "atomic" {
							count := " -n 1000"
							if op.name == "send" && measured == "_bw" && events != "" {
								// An odd count that the receive queue has room for: then perftest's client
								// needs no credit, for which it may wait for ever (docs/c-programs.md).
								count = " -n 1001 -r 1001"
							}
							all = append(all, perftest("iwarp", args+count))
						}
					}
				}
			}
		}
	}
	// All sizes to 8 MiB, or to a datagram's, at which perftest takes its time.
	for _, args := range []string{"ib_send_bw", "ib_write_lat", "ib_read_bw -R", "ib_send_lat -c UD -e"} {
		all = append(all, perftest("", args+" -a -n 5"))
	}
	return all
}

// perftest is a run of which both sides have the same arguments. Without -F perftest gives up before a report if its
// samples of the clock's rate scatter, as they may where others use the processors.
func perftest(kind, args string) pair {
	args += " -F"
	return pair{kind: kind, server: args + " -p PORT", client: args + " -p PORT SERVER", want: table}
}

func TestPerftest(t *testing.T) {
	for _, p := range perftests() {
		t.Run(p.name(), p.run)
	}
}
