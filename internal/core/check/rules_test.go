// SPDX-License-Identifier: Apache-2.0

package check

import (
	"os"
	"strings"
	"testing"
)

// Reports name a section of the page.
func TestRulesAreDescribed(t *testing.T) {
	page, err := os.ReadFile("../../../docs/check.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range ruleNames() {
		if !strings.Contains(string(page), "\n### "+r+"\n") {
			t.Errorf("docs/check.md has no section %s", r)
		}
	}
}
