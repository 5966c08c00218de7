// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// Every time in JSON is a number of nanoseconds, and its name says so.
func TestJSONUnits(t *testing.T) {
	for _, v := range []any{Config{}, Result{}, Report{}, RoundTrip{}} {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(v)) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if isTime := f.Type == reflect.TypeFor[time.Duration](); isTime != strings.HasSuffix(name, "_ns") &&
				f.Type.Kind() != reflect.Float64 {
				t.Errorf("%T.%s is %v and called %q", v, f.Name, f.Type, name)
			}
		}
	}
}
