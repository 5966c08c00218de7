// SPDX-License-Identifier: Apache-2.0

package units

import (
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestShort(t *testing.T) {
	for _, c := range []struct {
		v    float64
		want string
	}{
		{0, "0"}, {1, "1"}, {999, "999"}, {1000, "1000"}, {9999, "9999"}, {9999.4, "9999"}, {9999.5, "10.0k"},
		{10_000, "10.0k"},
		{10_049, "10.0k"}, {10_051, "10.1k"}, {99_949, "99.9k"}, {99_951, "100k"}, {999_499, "999k"},
		{999_501, "1.00M"}, {1e6, "1.00M"}, {1e9, "1.00G"}, {1e12, "1.00T"},
		{1e15, "1.00P"}, {1e18, "1.00E"}, {1 << 30, "1.07G"}, {math.MaxUint64, "18.4E"}, {1.5, "1.50"}, {9.994, "9.99"},
		{9.996, "10.0"},
		{12.34, "12.3"}, {99.94, "99.9"}, {99.96, "100"}, {100.4, "100"}, {0.5, "0.50"}, {0.005, "0.01"},
		{0.004, "<0.01"}, {0.999, "1.00"},
		{-1, "-1"}, {-12_345, "-12.3k"}, {-0.5, "-0.50"}, {-0.001, ">-0.01"}, {-9999.5, "-10.0k"},
		{math.Copysign(0, -1), "0"},
		{math.NaN(), "-"}, {math.Inf(1), "-"}, {math.Inf(-1), "-"},
	} {
		if got := Short(c.v); got != c.want {
			t.Errorf("%v is %q, want %q", c.v, got, c.want)
		}
	}
	if got := Short(uint64(math.MaxUint64)); got != "18.4E" {
		t.Errorf("the largest counter is %q", got)
	}
}

func TestCount(t *testing.T) {
	for got, want := range map[string]string{
		Count(0): "0", Count(999): "999", Count(1000): "1,000", Count(-1234567): "-1,234,567",
		Count(int64(math.MinInt64)):   "-9,223,372,036,854,775,808",
		Count(uint64(math.MaxUint64)): "18,446,744,073,709,551,615", Count(uint32(math.MaxUint32)): "4,294,967,295",
		Plural(0, "packet"): "0 packets", Plural(1, "packet"): "1 packet", Plural(1200, "switch"): "1,200 switches",
		Plural(-1, "hop"): "-1 hops", Plural(2, "ACK"): "2 ACKs",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestUnits(t *testing.T) {
	for got, want := range map[string]string{
		Bytes(0): "0 B", Bytes(4096): "4096 B", Bytes(9999): "9999 B", Bytes(10_000): "10.0 kB",
		Bytes(uint64(1_234_567)): "1.23 MB", Bytes(-1): "-1 B",
		Rate(0): "0 B/s", Rate(590e6): "590 MB/s", Rate(999.6e6): "1.00 GB/s", Rate(2.346e9): "2.35 GB/s",
		Rate(math.NaN()): "-", Rate(math.Inf(1)): "-",
		PerSecond(0): "0/s", PerSecond(0.25): "0.25/s", PerSecond(12_345): "12.3k/s", PerSecond(math.NaN()): "-",
		Percent(0): "0%", Percent(0.0001): "<0.1%", Percent(0.004): "0.4%", Percent(0.0994): "9.9%",
		Percent(0.0996): "10%", Percent(1): "100%", Percent(1.234): "123%", PercentSet(0): "0%", PercentSet(0.07): "7%",
		PercentSet(0.0005): "0.05%",
		PercentSet(1):      "100%", Percent(-0.05): "-5.0%", Percent(math.NaN()): "-", Percent(math.Inf(-1)): "-",
		Tight(Bytes(12_345)): "12.3kB", Tight("1 min 30 s"): "1min30s",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want string
	}{
		{0, "0 s"}, {1, "1 ns"}, {27, "27 ns"}, {999, "999 ns"}, {1000, "1.00 µs"}, {9994, "9.99 µs"},
		{9996, "10.0 µs"}, {99_960, "100 µs"},
		{999_499, "999 µs"}, {999_501, "1.00 ms"}, {time.Millisecond, "1.00 ms"}, {8 * time.Millisecond, "8.00 ms"},
		{time.Second - 1, "1.00 s"},
		{time.Second, "1.00 s"}, {59_940 * time.Millisecond, "59.9 s"}, {59_960 * time.Millisecond, "1 min"},
		{time.Minute, "1 min"},
		{125_400 * time.Millisecond, "2 min 5 s"}, {1234 * time.Second, "20 min 34 s"},
		{time.Hour - time.Millisecond, "1 h"}, {time.Hour, "1 h"},
		{time.Hour - time.Second, "59 min 59 s"}, {125*time.Minute + 20*time.Second, "2 h 5 min"},
		{1234 * time.Hour, "1,234 h"},
		{math.MaxInt64, "9.22e+09 s"}, {-27, "-27 ns"}, {-time.Second, "-1.00 s"}, {-time.Hour, "-1 h"},
		{math.MinInt64, "-9.22e+09 s"},
	} {
		if got := Duration(c.d); got != c.want {
			t.Errorf("%v is %q, want %q", c.d, got, c.want)
		}
	}
	for s, want := range map[float64]string{
		0.5e-9: "0.50 ns", 1e-15: "<0.01 ns", 27.3e-9: "27.3 ns", 1e-9: "1 ns", 1e-6: "1.00 µs", 15.98e-6: "16.0 µs",
		1e-3: "1.00 ms", 1: "1.00 s", 0: "0 s", 1e200: "1e+200 s", math.NaN(): "-", math.Inf(1): "-", math.Inf(-1): "-",
	} {
		if got := Seconds(s); got != want {
			t.Errorf("%v s are %q, want %q", s, got, want)
		}
	}
}

func TestPeriod(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 s", time.Second: "1 s", 1500 * time.Millisecond: "1.5 s", 10 * time.Second: "10 s",
		250 * time.Millisecond: "250 ms", time.Microsecond: "1 µs",
		100: "100 ns", 1_234_567: "1.234567 ms", time.Minute: "1 min", 90 * time.Second: "1 min 30 s",
		90_500 * time.Millisecond: "1 min 30.5 s", time.Hour: "1 h", time.Hour + time.Second: "1 h 1 s",
		125 * time.Minute: "2 h 5 min",
		-time.Second:      "-1.00 s",
	} {
		if got := Period(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

// At powers of ten logarithms are off by a little.
func TestBorders(t *testing.T) {
	for v := 1e4; v < 1e21; v *= 10 {
		for _, near := range []float64{v, v * (1 - 1e-9), v * (1 + 1e-9), math.Nextafter(v, 0),
			math.Nextafter(v, math.Inf(1))} {
			if got := Short(near); !strings.HasPrefix(got, "1") || utf8.RuneCountInString(got) > 5 {
				t.Errorf("%v is %q", near, got)
			}
			if got, want := Bytes(-near), "-"+Bytes(near); got != want {
				t.Errorf("%v bytes are %q, want %q", -near, got, want)
			}
		}
	}
	for d := time.Duration(1); d < time.Minute && d > 0; d *= 10 {
		for _, near := range []time.Duration{d, d - d/1000, d + d/2000} {
			if got := Duration(near); strings.HasPrefix(got, "1000") || utf8.RuneCountInString(got) > 7 {
				t.Errorf("%d ns are %q", near, got)
			}
		}
	}
}

func FuzzShort(f *testing.F) {
	for _, v := range []float64{0, 0.004, 999.5, 9999.5, 999_999, 1e20, -5, math.NaN(), math.MaxFloat64,
		math.SmallestNonzeroFloat64} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, v float64) {
		for _, s := range []string{Short(v), Bytes(v), Rate(v), PerSecond(v), Percent(v), Seconds(v)} {
			if s == "" || strings.Contains(s, "NaN") || strings.Contains(s, "Inf") {
				t.Errorf("%v is %q", v, s)
			}
		}
		if s := strings.TrimPrefix(Short(v), "-"); math.Abs(v) < 9e20 && utf8.RuneCountInString(s) > 6 {
			t.Errorf("%v is %q", v, s)
		}
	})
}
