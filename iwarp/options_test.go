// SPDX-License-Identifier: Apache-2.0

package iwarp

import (
	"strings"
	"testing"
)

// TestNameOptions reads the options of devices' names, which override the program's.
func TestNameOptions(t *testing.T) {
	for query, want := range map[string]Options{
		"":                               {Congestion: "reno", FPDU: 1000, Markers: true},
		"congestion=cubic":               {Congestion: "cubic", FPDU: 1000, Markers: true},
		"fpdu=1460&markers=off":          {Congestion: "reno", FPDU: 1460},
		"crc=off":                        {Congestion: "reno", FPDU: 1000, Markers: true, NoCRC: true},
		"crc=off&crc=on&fpdu=0":          {Congestion: "reno", Markers: true},
		"congestion=&fpdu=128&crc=off&&": {FPDU: 128, Markers: true, NoCRC: true},
	} {
		o, err := (&Options{Congestion: "reno", FPDU: 1000, Markers: true}).parse(query)
		if err != nil {
			t.Errorf("%q: %v", query, err)
		} else if o.Congestion != want.Congestion || o.FPDU != want.FPDU || o.Markers != want.Markers ||
			o.NoCRC != want.NoCRC {
			t.Errorf("%q: %+v", query, o)
		}
	}
	for query, want := range map[string]string{
		"fpdu=":              "bytes",
		"fpdu=1k":            "bytes",
		"crc":                "on or off",
		"markers=yes":        "on or off",
		"congestions=cubic":  "there are congestion, fpdu, crc and markers",
		"crc=on?markers=off": "on or off",
	} {
		o, err := new(Options).parse(query)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "strconv") {
			t.Errorf("%q: %+v, %v", query, o, err)
		}
	}
}
