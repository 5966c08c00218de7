// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestEncodeJSON(t *testing.T) {
	if text, err := encodeJSON(struct {
		A string `json:"a"`
	}{"<b>"}, "x:"); err != nil || !strings.HasPrefix(string(text), `{"version":"`) || !strings.HasSuffix(string(text),
		`"devices":["x:"],"a":"<b>"}`) {
		t.Errorf("%s, %v", text, err)
	}
	if text, err := encodeJSON(struct{}{}); err != nil || !json.Valid(text) {
		t.Errorf("%s, %v", text, err)
	}
	if _, err := encodeJSON([]int{1}); err == nil {
		t.Error("a list has no header")
	}
}
