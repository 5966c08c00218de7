// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"regexp"

	"github.com/ramjet-rdma/ramjet/internal/app/explain"
)

// fits says which findings can be the cause of which entries of package explain: both are found by their texts.
var fits = []struct{ entry, finding *regexp.Regexp }{
	{regexp.MustCompile(`(?i)RLIMIT_MEMLOCK|may pin|could not be pinned`), regexp.MustCompile(`(?i)^memlock|pin `)},
	{regexp.MustCompile(`(?i)no object of this kind|rdma\.max`), regexp.MustCompile(`rdma\.max`)},
	{regexp.MustCompile(`(?i)ib_uverbs|rdma_ucm|module`), regexp.MustCompile(`modprobe`)},
	{regexp.MustCompile(`(?i)/dev/infiniband|device files`), regexp.MustCompile(`/dev/infiniband`)},
	{regexp.MustCompile(`(?i)\bGID`), regexp.MustCompile(`(?i)\bGID|RoCE v1|no address|namespace`)},
	{regexp.MustCompile(`(?i)firewall`), regexp.MustCompile(`(?i)nft |filter|4791|\bRoCEv2\b`)},
	{regexp.MustCompile(`(?i)path MTU|port's MTU`), regexp.MustCompile(`\bMTU\b|packets of`)},
	{regexp.MustCompile(`(?i)flow control|packets are lost|PFC`), regexp.MustCompile(`(?i)\bPFC\b|\bECN\b|one lane`)},
	{regexp.MustCompile(`(?i)is down|link|not reached|subnet manager`),
		regexp.MustCompile(`(?i)it is (DOWN|INIT)|\bno route\b|no way|subnet manager`)},
	{regexp.MustCompile(`(?i)15 characters`), regexp.MustCompile(`characters`)},
}

// fit marks the findings that can be the cause of the log's error.
func (d *diagnosis) fit() {
	if d.facts.Log == nil {
		return
	}
	for i := range d.found {
		d.found[i].Fits = fitting(&d.facts.Log.Entries[0], &d.found[i])
	}
}

func fitting(e *explain.Entry, f *Finding) bool {
	said := e.Means
	for _, c := range e.Causes {
		said += " " + c.What
	}
	found := f.Subject + " " + f.What
	for _, m := range f.Mend {
		found += " " + m
	}
	for _, r := range fits {
		if r.entry.MatchString(said) && r.finding.MatchString(found) {
			return true
		}
	}
	return false
}
